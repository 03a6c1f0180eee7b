// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io/fs"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/csccm/csccm/pkg/version"
	"github.com/csccm/csccm/release/internal/source"
	"github.com/csccm/csccm/release/verify"
)

const (
	repository = version.Repository
	// buildType identifies the meaning of the parameters, which docs/release.md documents.
	buildType = version.Pages + "docs/release.md#build-type"
	// defaultBuilder identifies this program on a maintainer's machine.
	defaultBuilder = repository + "/tree/main/release"
)

// slsaProvenance returns the SLSA provenance (version 1) of a build of the tree in dir by a builder (a URI). It has no
// times, so that it is reproducible.
func slsaProvenance(dir string, tree source.Tree, builder string) (map[string]any, error) {
	ref := "refs/tags/" + tree.Tag()
	uri := "git+" + repository + "@" + ref
	revision := map[string]any{"uri": uri}
	if tree.Revision != "" {
		revision["digest"] = map[string]string{"gitCommit": tree.Revision}
	}
	dependencies := []any{revision}
	// go.sum contains the checksums of the linked modules.
	switch sums, err := verify.Digest(filepath.Join(dir, "go.sum")); {
	case err == nil:
		dependencies = append(dependencies, map[string]any{"uri": uri + "#go.sum", "digest": map[string]string{"sha256": sums}})
	case !errors.Is(err, fs.ErrNotExist): // a module without dependencies has none
		return nil, err
	}
	dependencies = append(dependencies, map[string]any{"uri": "pkg:golang/std@" + strings.TrimPrefix(runtime.Version(), "go")})
	return map[string]any{
		"buildDefinition": map[string]any{
			"buildType":          buildType,
			"externalParameters": map[string]string{"repository": repository, "ref": ref, "version": tree.Version},
			"internalParameters": map[string]any{
				"flags":           source.Flags(tree),
				"environment":     source.Environment(),
				"sourceDateEpoch": strconv.FormatInt(tree.Time.Unix(), 10),
			},
			"resolvedDependencies": dependencies,
		},
		"runDetails": map[string]any{"builder": map[string]any{
			"id": builder, "version": map[string]string{"go": runtime.Version(), "csccm-release": tree.Tag()},
		}},
	}, nil
}
