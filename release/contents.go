// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/csccm/csccm/release/verify"
)

// contentsFile describes the release. `release make` writes it and `release publish` reads it.
const contentsFile = "release.json"

// unchecked means that govulncheck was not run or failed.
const unchecked = "not checked"

// releaseContents lists what a release in a directory consists of.
type releaseContents struct {
	SchemaVersion int               `json:"schemaVersion"`
	Version       string            `json:"version"`
	Tag           string            `json:"tag"`
	Commit        string            `json:"commit"`
	Go            string            `json:"go"`
	Kubernetes    kubernetes        `json:"kubernetes"`
	Vulnerability string            `json:"vulnerabilities"`
	Images        []releasedImage   `json:"images"`
	Chart         string            `json:"chart"`
	Archives      []releasedArchive `json:"archives"`
	// files are the names of all files; only readContents sets it.
	files []string
}

// releasedImage is an image in an OCI archive.
type releasedImage struct {
	Name string `json:"name"`
	File string `json:"file"`
	// Digest is the digest of the image index, as sha256:HEX.
	Digest    string             `json:"digest"`
	Platforms []releasedPlatform `json:"platforms"`
}

type releasedPlatform struct {
	Platform string `json:"platform"`
	Digest   string `json:"digest"`
	SBOM     string `json:"sbom"`
}

type releasedArchive struct {
	Name     string `json:"name"`
	Platform string `json:"platform"`
	File     string `json:"file"`
	SBOM     string `json:"sbom"`
}

func (m *releaseContents) write(dir string) error {
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return writePublic(filepath.Join(dir, contentsFile), append(data, '\n'))
}

// readContents reads a release and verifies that its files match SHA256SUMS.
func readContents(dir string) (*releaseContents, error) {
	data, err := os.ReadFile(filepath.Join(dir, contentsFile))
	if err != nil {
		return nil, fmt.Errorf("no release found (release make creates one): %w", err)
	}
	var m releaseContents
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("%s: %w", contentsFile, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, verify.SumsFile))
	if err != nil {
		return nil, err
	}
	sums, err := verify.ParseSums(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", verify.SumsFile, err)
	}
	for name, want := range sums {
		have, err := verify.Digest(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		if have != want {
			return nil, fmt.Errorf("%s does not match %s: run release make again", name, verify.SumsFile)
		}
		m.files = append(m.files, name)
	}
	for _, name := range attestationFiles {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			m.files = append(m.files, name)
		}
	}
	slices.Sort(m.files)
	return &m, nil
}

// attestationFiles are the files with checksums, signatures and provenance of the other files.
var attestationFiles = []string{verify.SumsFile, verify.SumsSignature, verify.SumsBundle, verify.ProvenanceFile}

// sums returns the digests of all files of a release, sorted by name, and the content of SHA256SUMS with the same
// digests.
func sums(dir string) (subjects []verify.Subject, text []byte, err error) {
	entries, err := os.ReadDir(dir) // sorted
	if err != nil {
		return nil, nil, err
	}
	var out strings.Builder
	for _, entry := range entries {
		if !entry.Type().IsRegular() || slices.Contains(attestationFiles, entry.Name()) {
			continue
		}
		digest, err := verify.Digest(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, nil, err
		}
		subjects = append(subjects, verify.Subject{Name: entry.Name(), Digest: map[string]string{"sha256": digest}})
		fmt.Fprintf(&out, "%s  %s\n", digest, entry.Name())
	}
	return subjects, []byte(out.String()), nil
}
