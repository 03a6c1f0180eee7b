// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"context"
	"path/filepath"

	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/internal/program"
	"github.com/csccm/csccm/test/plane"
)

// Helm returns the path of the helm program in the version of release/tools/helm. The first call on a machine builds it.
func Helm(ctx context.Context, report func(program.Progress)) (_ string, err error) {
	defer must.Return(&err)
	source := filepath.Join(filepath.Dir(must.Get(plane.ModuleDir())), "release", "tools", "helm")
	helm := program.Program{
		What: "helm", Takes: "some minutes", Name: "helm", Folder: "helm", Release: "v3",
		Source: source, Package: "helm.sh/helm/v3/cmd/helm", LDFlags: "-s -w",
	}
	return helm.Ensure(ctx, report)
}
