// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package conformance builds Kubernetes' own end-to-end tests of load balancers, and lists which of them can pass with
// a CloudStack. Command real-nodes runs them.
package conformance

import (
	"context"
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

// Programs are the programs that are built from the sources of a Kubernetes release.
type Programs struct {
	// Suite runs the tests. Agnhost is the program that they run in Pods.
	Suite, Agnhost string
	// Image is the name of the image that contains Agnhost.
	Image string
}

// Ensure returns the programs of a minor. It builds them if they do not exist (see program.Ensure).
func Ensure(ctx context.Context, minor plane.Minor, out io.Writer) (built Programs, err error) {
	defer must.Return(&err)
	p := must.Get(plane.Program(minor))
	p.What = fmt.Sprintf("the end-to-end tests of Kubernetes %s", minor.Release())
	p.Name, p.Folder, p.LDFlags = "suite", "conformance", "-s -w"
	p.Packages, p.Links, p.Released = []string{".", agnhost}, nil, nil
	p.Source = program.Module(ctx, p.Folder, minor.Release(), module(ctx, p.Source), p.Packages...)

	built.Suite = must.Get(p.Ensure(ctx, out))
	built.Agnhost = filepath.Join(filepath.Dir(built.Suite), filepath.Base(agnhost))
	image := must.Get(exec.CommandContext(ctx, built.Suite, "image").Output()) // #nosec G204 -- just built
	built.Image = strings.TrimSpace(string(image))
	return built, nil
}

// module returns the files of the programs' module: the module of the control plane of the same minor, with the
// additional sums in Kubernetes' own go.sum. The control plane's go.sum has the sum of that file's module.
func module(ctx context.Context, control string) map[string][]byte {
	kubernetes := must.Get(program.Go(ctx, control, "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes"))
	read := func(dir, name string) []byte {
		return must.Get(os.ReadFile(filepath.Join(dir, name))) // #nosec G304 -- of this checkout or a module
	}
	return map[string][]byte{
		"go.mod": moduleLine.ReplaceAll(read(control, "go.mod"),
			[]byte("module github.com/csccm/csccm/test/conformance/suite")),
		"go.sum":  append(read(control, "go.sum"), read(strings.TrimSpace(kubernetes), "go.sum")...),
		"main.go": source,
	}
}
