// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/internal/program"
)

// ModuleDir returns the folder of the test module: it looks in the working directory and its parents.
func ModuleDir() (_ string, err error) {
	defer must.Return(&err)
	wd := must.Get(os.Getwd())
	for dir := wd; ; dir = filepath.Dir(dir) {
		for _, module := range []string{dir, filepath.Join(dir, "test")} {
			if _, err := os.Stat(filepath.Join(module, "plane", "minor.go")); err == nil {
				return module, nil
			}
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not inside a checkout of csccm: no test/plane here or above", wd)
		}
	}
}

// Cached returns the folder of a minor's programs and reports whether they exist. The folder depends on the sources
// and the Go version of this checkout.
func Cached(ctx context.Context, minor Minor) (folder string, there bool, err error) {
	defer must.Return(&err)
	path, there := must.Get2(must.Get(Program(minor)).Cached(ctx))
	return filepath.Dir(path), there, nil
}

// Ensure returns the folder of the programs of a minor's control plane: etcd, kube-apiserver, kube-controller-manager,
// kube-scheduler and kubectl. It fetches or builds them if they do not exist (see program.Ensure).
func Ensure(ctx context.Context, minor Minor, out io.Writer) (folder string, err error) {
	defer must.Return(&err)
	return filepath.Dir(must.Get(must.Get(Program(minor)).Ensure(ctx, out))), nil
}

// EnsureNode is like Ensure, for the programs of a minor's nodes: kubelet and kube-proxy.
func EnsureNode(ctx context.Context, minor Minor, out io.Writer) (folder string, err error) {
	defer must.Return(&err)
	p := must.Get(Program(minor))
	if !p.OwnCache {
		p.What = "kubelet and kube-proxy " + minor.Release()
		p.Name, p.Folder, p.Packages, p.Links = "kubelet", "node", []string{"./node"}, nodeLinks
		p.Released = official.fetcher(minor, "kubelet", "kube-proxy")
	}
	return filepath.Dir(must.Get(p.Ensure(ctx, out))), nil
}

// nodeLinks are the links to the program of package node, which acts according to its name.
var nodeLinks = map[string]string{"kubelet": "node", "kube-proxy": "node"}

// Program returns the programs of a minor's control plane. The newest minor uses packages and versions of the
// product's go.mod, so compiled packages are shared. An older minor compiles everything, so it also contains the
// node's programs.
func Program(minor Minor) (_ program.Program, err error) {
	defer must.Return(&err)
	module := must.Get(ModuleDir())
	p := program.Program{
		What: fmt.Sprintf("the control plane (etcd and Kubernetes %s)", minor.Release()), Takes: "3 to 12 minutes",
		Name: "kube-apiserver", Folder: "plane", Release: minor.Release(),
		Source: filepath.Join(module, "plane", minor.Folder()), Packages: []string{"."}, LDFlags: ldflags(minor),
		Links: map[string]string{}, OwnCache: minor != Newest,
	}

	for _, name := range append([]string{"etcd"}, controlPlane...) {
		p.Links[name] = minor.Folder()
	}

	released := controlPlane
	if p.OwnCache {
		p.Packages = append(p.Packages, "./node")
		maps.Copy(p.Links, nodeLinks)
		released = append(released, slices.Collect(maps.Keys(nodeLinks))...)
	}

	p.Released = official.fetcher(minor, append([]string{"etcd"}, released...)...)
	return p, nil
}

// ldflags returns linker flags that set the release. Without them the programs report a development version, which
// charts with a kubeVersion refuse.
func ldflags(minor Minor) string {
	_, number, _ := strings.Cut(string(minor), ".")
	var b strings.Builder
	b.WriteString("-s -w")
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, v := range [][2]string{
			{"gitVersion", minor.Release()}, {"gitMajor", "1"}, {"gitMinor", number}, {"gitTreeState", "archive"},
			{"gitCommit", "module-proxy"}, {"buildDate", "1970-01-01T00:00:00Z"},
		} {
			_, _ = fmt.Fprintf(&b, " -X %s.%s=%s", pkg, v[0], v[1])
		}
	}
	return b.String()
}
