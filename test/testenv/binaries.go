// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package testenv is the environment that the demo and the end-to-end tests share: the
// product's programs, the simulator, and a cluster of a real control plane and process
// nodes.
package testenv

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/internal/program"
	"github.com/csccm/csccm/test/plane"
)

// ControllerImage is the repository of the controller's image. Process nodes run the
// controller's program of this machine in its place.
const ControllerImage = "ghcr.io/csccm/cloudstack-ccm"

// Binaries are the paths of the product's programs.
type Binaries struct{ Controller, CLI, Simulator string }

// BuildOptions configures Build.
type BuildOptions struct {
	// Dir is a folder with programs that are already built; empty means that Build builds them.
	Dir string
	// LDFlags are flags of the linker, which set the version.
	LDFlags string
	// Building is called before each program that is built; may be nil.
	Building func(name string)
}

// Build returns the product's programs and builds them unless BuildOptions.Dir is set.
// They are linked statically, so that they run in an otherwise empty root directory.
func Build(ctx context.Context, o BuildOptions) (_ Binaries, err error) {
	defer must.Return(&err)
	dir := must.Get(filepath.Abs(o.Dir)) // programs are started in other folders
	root := filepath.Dir(must.Get(plane.ModuleDir()))
	if o.Dir == "" {
		dir = filepath.Join(root, "bin", "test") // so that unchanged programs are not linked again
		must.OK(os.MkdirAll(dir, 0o750))
		// Packages are tested in parallel: no process may write a program while another starts it.
		unlock := must.Get(program.Lock(ctx, dir+".lock", func() {}))
		defer unlock()
	}
	b := Binaries{
		Controller: filepath.Join(dir, "cloudstack-ccm"),
		CLI:        filepath.Join(dir, "csccm"),
		Simulator:  filepath.Join(dir, "cloudstack-sim"),
	}
	for _, path := range []string{b.Controller, b.CLI, b.Simulator} {
		name := filepath.Base(path)
		if o.Dir != "" {
			if _, err := os.Stat(path); err != nil {
				return b, fmt.Errorf("program %s is not in the folder %s: %w", name, o.Dir, err)
			}
			continue
		}
		if o.Building != nil {
			o.Building(name)
		}
		must.Get(program.Go(ctx, root, "build", "-trimpath", "-buildvcs=false", "-ldflags", o.LDFlags, "-o", path, "./cmd/"+name))
	}
	return b, nil
}

// Helm returns the path of the helm program in the version of release/tools/helm. The first call on a machine builds it.
func Helm(ctx context.Context, out io.Writer) (_ string, err error) {
	defer must.Return(&err)
	source := filepath.Join(filepath.Dir(must.Get(plane.ModuleDir())), "release", "tools", "helm")
	helm := program.Program{
		What: "helm", Takes: "some minutes", Name: "helm", Folder: "helm", Release: "v3",
		Source: source, Package: "helm.sh/helm/v3/cmd/helm", LDFlags: "-s -w",
	}
	return helm.Ensure(ctx, out)
}
