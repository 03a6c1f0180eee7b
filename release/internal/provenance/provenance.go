// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package provenance says how artefacts were built, in the form of SLSA (version 1).
package provenance

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/csccm/csccm/release/internal/gobuild"
	"github.com/csccm/csccm/release/internal/source"
)

const (
	repository = "https://github.com/csccm/csccm"
	// BuildType names what the parameters mean; docs/release.md says it.
	BuildType = repository + "/blob/main/docs/release.md#build-type"
	// DefaultBuilder is this program on a maintainer's machine.
	DefaultBuilder = repository + "/tree/main/release"
)

// Predicate is SLSA's.
type Predicate struct {
	BuildDefinition Definition `json:"buildDefinition"`
	RunDetails      Run        `json:"runDetails"`
}

// Definition is what was asked for, of what.
type Definition struct {
	BuildType            string            `json:"buildType"`
	ExternalParameters   map[string]string `json:"externalParameters"`
	InternalParameters   map[string]any    `json:"internalParameters"`
	ResolvedDependencies []Resource        `json:"resolvedDependencies"`
}

// Resource is something that went into the build.
type Resource struct {
	URI    string            `json:"uri"`
	Digest map[string]string `json:"digest,omitempty"`
}

// Run is who built. It has no times: made again, it is the same.
type Run struct {
	Builder struct {
		ID      string            `json:"id"`
		Version map[string]string `json:"version"`
	} `json:"builder"`
}

// Of describes the build of a tree, in dir, by a builder (a URI).
func Of(dir string, tree source.Tree, builder string) (*Predicate, error) {
	revision := Resource{URI: "git+" + repository + "@refs/tags/" + tree.Tag()}
	if tree.Revision != "" {
		revision.Digest = map[string]string{"gitCommit": tree.Revision}
	}
	p := &Predicate{BuildDefinition: Definition{
		BuildType:          BuildType,
		ExternalParameters: map[string]string{"repository": repository, "ref": "refs/tags/" + tree.Tag(), "version": tree.Version},
		InternalParameters: map[string]any{
			"flags":           gobuild.Flags(tree),
			"environment":     gobuild.Environment(),
			"sourceDateEpoch": strconv.FormatInt(tree.Time.Unix(), 10),
		},
		ResolvedDependencies: []Resource{revision},
	}}
	// The modules that were linked are those whose sums are in this file.
	sums, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	switch {
	case errors.Is(err, fs.ErrNotExist): // a module without dependencies
	case err != nil:
		return nil, err
	default:
		digest := sha256.Sum256(sums)
		p.BuildDefinition.ResolvedDependencies = append(p.BuildDefinition.ResolvedDependencies,
			Resource{"git+" + repository + "@refs/tags/" + tree.Tag() + "#go.sum", map[string]string{"sha256": hex.EncodeToString(digest[:])}})
	}
	p.BuildDefinition.ResolvedDependencies = append(p.BuildDefinition.ResolvedDependencies,
		Resource{URI: "pkg:golang/std@" + runtime.Version()[len("go"):]})
	p.RunDetails.Builder.ID = builder
	p.RunDetails.Builder.Version = map[string]string{"go": runtime.Version(), "csccm-release": tree.Tag()}
	return p, nil
}
