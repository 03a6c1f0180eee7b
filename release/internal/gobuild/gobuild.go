// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gobuild builds the product's binaries reproducibly for any platform.
package gobuild

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/csccm/csccm/release/internal/source"
)

const versionPackage = "github.com/csccm/csccm/pkg/version"

// Platform is an operating system and an architecture, with Go's names.
type Platform struct{ OS, Arch string }

func (p Platform) String() string { return p.OS + "/" + p.Arch }

// ParsePlatform parses a platform such as linux/amd64.
func ParsePlatform(s string) (Platform, error) {
	system, arch, ok := strings.Cut(s, "/")
	if !ok || system == "" || arch == "" || strings.Contains(arch, "/") {
		return Platform{}, fmt.Errorf("platform %q: want OS/ARCH such as linux/amd64", s)
	}
	return Platform{system, arch}, nil
}

// Flags returns the arguments of go build for reproducible binaries. They are those of the
// Makefile and the Dockerfile, plus an empty build ID.
func Flags(tree source.Tree) []string {
	set := []string{
		"-X " + versionPackage + ".Version=" + tree.Stamp,
		"-X " + versionPackage + ".Commit=" + tree.Commit,
		"-X " + versionPackage + ".Date=" + tree.Date(),
	}
	return []string{"-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid= " + strings.Join(set, " ")}
}

// Environment returns the environment variables, other than the platform, that must not depend on the machine. GOFLAGS
// is set to Go's default, because an empty value would not override a value set by `go env -w`.
func Environment() []string {
	return []string{"CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off"}
}

// Build builds a main package (./cmd/cloudstack-ccm) of the module in dir for a platform into the file out.
func Build(ctx context.Context, dir, pkg string, platform Platform, tree source.Tree, out string, tags ...string) error {
	args := append([]string{"build"}, Flags(tree)...)
	cmd := exec.CommandContext(ctx, "go", append(args, "-tags="+strings.Join(tags, ","), "-o", out, pkg)...) //nolint:gosec // a build tool runs the compiler
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), Environment()...), "GOOS="+platform.OS, "GOARCH="+platform.Arch)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build %s for %s: %w\n%s", pkg, platform, err, strings.TrimSpace(said.String()))
	}
	return nil
}
