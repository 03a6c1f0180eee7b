// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package provenance describes how artefacts were built, in the format of SLSA provenance (version 1).
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
	// BuildType identifies the meaning of the parameters, which docs/release.md documents.
	BuildType = repository + "/blob/main/docs/release.md#build-type"
	// DefaultBuilder identifies this program on a maintainer's machine.
	DefaultBuilder = repository + "/tree/main/release"
)

// Predicate is the SLSA provenance predicate.
type Predicate struct {
	BuildDefinition Definition `json:"buildDefinition"`
	RunDetails      Run        `json:"runDetails"`
}

// Definition contains the inputs of the build: parameters and dependencies.
type Definition struct {
	BuildType            string            `json:"buildType"`
	ExternalParameters   map[string]string `json:"externalParameters"`
	InternalParameters   map[string]any    `json:"internalParameters"`
	ResolvedDependencies []Resource        `json:"resolvedDependencies"`
}

// Resource is a dependency of the build.
type Resource struct {
	URI    string            `json:"uri"`
	Digest map[string]string `json:"digest,omitempty"`
}

// Run identifies the builder. It has no times, so that the provenance is reproducible.
type Run struct {
	Builder struct {
		ID      string            `json:"id"`
		Version map[string]string `json:"version"`
	} `json:"builder"`
}

// Of returns the provenance of a build of the tree in dir by a builder (a URI).
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
	// go.sum contains the checksums of the linked modules.
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
