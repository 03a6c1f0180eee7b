// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
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

// Cached returns the path of a minor's binary, which depends on the sources and the
// Go version of this checkout, and reports whether it exists.
func Cached(ctx context.Context, minor Minor) (path string, there bool, err error) {
	defer must.Return(&err)
	return must.Get(Program(minor)).Cached(ctx)
}

// Ensure returns the path of a minor's binary and builds it when it does not exist, as program.Ensure does.
func Ensure(ctx context.Context, minor Minor, out io.Writer) (_ string, err error) {
	defer must.Return(&err)
	return must.Get(Program(minor)).Ensure(ctx, out)
}

// Program returns the program of a minor.
func Program(minor Minor) (_ program.Program, err error) {
	defer must.Return(&err)
	module := must.Get(ModuleDir())
	return program.Program{
		What: fmt.Sprintf("the control plane (etcd and Kubernetes %s)", minor.Release()), Takes: "3 to 12 minutes",
		Name: "plane", Folder: "plane", Release: minor.Release(),
		Source: filepath.Join(module, "plane", minor.Folder()), Package: ".", LDFlags: ldflags(minor),
		OwnCache: minor != Newest, // the newest minor has the packages, and their versions, of the product's go.mod
	}, nil
}

// ldflags returns linker flags that set the release: without them the programs report
// a development version, which charts with a kubeVersion refuse.
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
