// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package conformance builds Kubernetes' own end-to-end tests of load balancers and says which of them a CloudStack can
// pass. Command real-nodes runs them.
package conformance

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/internal/program"
	"github.com/csccm/csccm/test/plane"
)

// agnhost is the program of the only image that the tests use.
const agnhost = "k8s.io/kubernetes/test/images/agnhost"

//go:embed suite.go.tmpl
var source []byte

var moduleLine = regexp.MustCompile(`(?m)^module .*`)

// Programs are built from the sources of a Kubernetes release.
type Programs struct {
	// Suite runs the tests, Agnhost is what they run in Pods.
	Suite, Agnhost string
	// Image is the name of the image that contains Agnhost.
	Image string
}

// Ensure returns the programs of a minor. It builds them when they do not exist, as program.Ensure does.
func Ensure(ctx context.Context, minor plane.Minor, out io.Writer) (built Programs, err error) {
	defer must.Return(&err)
	p := must.Get(plane.Program(minor))
	p.Source = module(ctx, p.Source, minor)
	p.What = fmt.Sprintf("the end-to-end tests of Kubernetes %s", minor.Release())
	p.Name, p.Folder, p.LDFlags = "suite", "conformance", "-s -w"
	p.Packages, p.Links, p.Released = []string{".", agnhost}, nil, nil

	built.Suite = must.Get(p.Ensure(ctx, out))
	built.Agnhost = filepath.Join(filepath.Dir(built.Suite), filepath.Base(agnhost))
	image := must.Get(exec.CommandContext(ctx, built.Suite, "image").Output()) // #nosec G204 -- just built
	built.Image = strings.TrimSpace(string(image))
	return built, nil
}

// module writes the module of the programs and returns its folder. It is that of the control plane of the same minor
// with what the tests import besides. Its sums come from Kubernetes' own go.sum, whose sum is in the control plane's.
func module(ctx context.Context, control string, minor plane.Minor) string {
	goMod := must.Get(os.ReadFile(filepath.Join(control, "go.mod"))) // #nosec G304 -- of this checkout
	goSum := must.Get(os.ReadFile(filepath.Join(control, "go.sum"))) // #nosec G304 -- of this checkout
	base := filepath.Join(must.Get(os.UserCacheDir()), "csccm", "conformance")
	must.OK(os.MkdirAll(base, 0o750))

	key := sha256.Sum256(bytes.Join([][]byte{goMod, goSum, source}, nil))
	dir := filepath.Join(base, fmt.Sprintf("module-%s-%x", minor.Release(), key[:6]))
	if _, err := os.Stat(dir); err == nil {
		return dir
	}

	kubernetes := must.Get(program.Go(ctx, control, "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes"))
	theirs := must.Get(os.ReadFile(filepath.Join(strings.TrimSpace(kubernetes), "go.sum"))) // #nosec G304 -- of a module
	work := must.Get(os.MkdirTemp(base, "module-"))
	for name, content := range map[string][]byte{
		"go.mod":  moduleLine.ReplaceAll(goMod, []byte("module github.com/csccm/csccm/test/conformance/suite")),
		"go.sum":  append(goSum, theirs...),
		"main.go": source,
	} {
		must.OK(os.WriteFile(filepath.Join(work, name), content, 0o600))
	}
	must.Get(program.Go(ctx, work, "list", "-mod=mod", "-deps", ".", agnhost)) // adds to go.mod what the tests import
	must.OK(os.Rename(work, dir))
	return dir
}
