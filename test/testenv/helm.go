// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/plane"
)

// Helm returns the path of the helm program. The first call on a machine builds it, in some minutes, from its Go module
// in the version of release/tools/helm.
func Helm(ctx context.Context, building func()) (_ string, err error) {
	defer must.Return(&err)
	module := must.Get(plane.ModuleDir())
	root := filepath.Dir(module)
	pins := filepath.Join(root, "release", "tools", "helm", "go.mod")
	text, err := os.ReadFile(pins) // #nosec G304 -- a file of this checkout
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache folder for helm: %w", err)
	}
	sum := sha256.Sum256(append(text, runtime.Version()...))
	path := filepath.Join(cache, "csccm", "helm", fmt.Sprintf("%x", sum[:6]), "helm")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if building != nil {
		building()
	}
	must.OK(os.MkdirAll(filepath.Dir(path), 0o750))
	// Each process builds in its own folder and renames the result, so that parallel builds do not interfere.
	work := must.Get(os.MkdirTemp(filepath.Dir(path), "build-"))
	defer func() { _ = os.RemoveAll(work) }()
	built := filepath.Join(work, "helm")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-modfile="+pins, "-ldflags=-s -w", "-o", built, "helm.sh/helm/v3/cmd/helm") // #nosec G204 -- fixed arguments
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build helm: %w\n%s", err, out)
	}
	return path, os.Rename(built, path)
}
