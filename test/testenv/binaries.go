// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package testenv is the environment of the demo and the end-to-end tests: the product's programs, the simulator, and
// a cluster with a real control plane and process nodes.
package testenv

import (
	"cmp"
	"context"
	"io"
	"os"
	"path/filepath"

	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/internal/program"
	"github.com/csccm/csccm/test/plane"
)

// ControllerImage is the repository of the controller's image. Process nodes run this machine's build of the
// controller in its place.
const ControllerImage = "ghcr.io/csccm/cloudstack-ccm"

// Binaries are the paths of the product's programs.
type Binaries struct{ Controller, CLI, Simulator string }

// Build returns the product's programs. If CSCCM_BIN_DIR names a folder, they are those in it. Otherwise Build builds
// them with the linker flags CSCCM_LDFLAGS, and writes the progress to out. They are linked statically,
// so that they run in an otherwise empty root directory.
func Build(ctx context.Context, out io.Writer) (_ Binaries, err error) {
	defer must.Return(&err)
	root, given := filepath.Dir(must.Get(plane.ModuleDir())), os.Getenv("CSCCM_BIN_DIR")
	bin := os.Getenv("BIN") // make sets BIN if the checkout is not writable
	if !filepath.IsAbs(bin) {
		bin = filepath.Join(root, "bin")
	}
	dir := must.Get(filepath.Abs(cmp.Or(given, filepath.Join(bin, "test")))) // programs are started in other folders

	b := Binaries{
		Controller: filepath.Join(dir, "cloudstack-ccm"),
		CLI:        filepath.Join(dir, "csccm"),
		Simulator:  filepath.Join(dir, "cloudstack-sim"),
	}
	if given != "" {
		return b, nil
	}
	// Packages are tested in parallel: no process may write a program while another process starts it.
	must.OK(os.MkdirAll(dir, 0o750))
	unlock := must.Get(program.Lock(ctx, dir+".lock", func() {}))
	defer unlock()
	// One build for all three: while one program is linked, which takes one core, others are compiled.
	programs := program.Program{
		What:     "csccm's programs",
		Source:   root,
		Packages: []string{"./cmd/cloudstack-ccm", "./cmd/csccm", "./cmd/cloudstack-sim"},
		LDFlags:  os.Getenv("CSCCM_LDFLAGS"),
	}
	must.OK(programs.Compile(ctx, dir, out))
	return b, nil
}

// Helm returns the path of the helm program, in the version of release/tools/helm. The first call on a machine builds
// it.
func Helm(ctx context.Context, out io.Writer) (_ string, err error) {
	defer must.Return(&err)
	source := filepath.Join(filepath.Dir(must.Get(plane.ModuleDir())), "release", "tools", "helm")
	helm := program.Program{
		What: "helm", Takes: "a minute", Name: "helm", Folder: "helm", Release: "v3",
		Source: source, Packages: []string{"helm.sh/helm/v3/cmd/helm"}, LDFlags: "-s -w",
	}
	return helm.Ensure(ctx, out)
}
