// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/csccm/csccm/release/verify"
)

// madeFile says what `release make` made; `release publish` reads it.
const madeFile = "release.json"

// unchecked says that govulncheck was not asked, or could not answer.
const unchecked = "not checked"

// made is a release in a folder.
type made struct {
	SchemaVersion int           `json:"schemaVersion"`
	Version       string        `json:"version"`
	Tag           string        `json:"tag"`
	Commit        string        `json:"commit"`
	Go            string        `json:"go"`
	Kubernetes    kubernetes    `json:"kubernetes"`
	Vulnerability string        `json:"vulnerabilities"`
	Images        []madeImage   `json:"images"`
	Chart         string        `json:"chart"`
	Archives      []madeArchive `json:"archives"`
	// files are all of it, by name; only those that were read are known.
	files []string
}

// madeImage is an OCI archive.
type madeImage struct {
	Name string `json:"name"`
	File string `json:"file"`
	// Digest is sha256:HEX of the index.
	Digest    string         `json:"digest"`
	Platforms []madePlatform `json:"platforms"`
}

type madePlatform struct {
	Platform string `json:"platform"`
	Digest   string `json:"digest"`
	SBOM     string `json:"sbom"`
}

type madeArchive struct {
	Name     string `json:"name"`
	Platform string `json:"platform"`
	File     string `json:"file"`
	SBOM     string `json:"sbom"`
}

func (m *made) write(dir string) error {
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return writePublic(filepath.Join(dir, madeFile), append(data, '\n'))
}

// readMade reads a release and makes sure that its files are those that were made.
func readMade(dir string) (*made, error) {
	data, err := os.ReadFile(filepath.Join(dir, madeFile))
	if err != nil {
		return nil, fmt.Errorf("no release (release make makes one): %w", err)
	}
	var m made
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("%s: %w", madeFile, err)
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
		have, err := digestOf(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		if have != want {
			return nil, fmt.Errorf("%s is not the file that was made: make the release again", name)
		}
		m.files = append(m.files, name)
	}
	for _, name := range vouching {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			m.files = append(m.files, name)
		}
	}
	slices.Sort(m.files)
	return &m, nil
}

func digestOf(file string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// vouching are the files that speak of the others.
var vouching = []string{verify.SumsFile, verify.SumsSignature, verify.SumsBundle, verify.ProvenanceFile}

// sums returns the digests of all files of a release, by name, and SHA256SUMS, which has them too.
func sums(dir string) (subjects []verify.Subject, text []byte, err error) {
	entries, err := os.ReadDir(dir) // sorted
	if err != nil {
		return nil, nil, err
	}
	var out strings.Builder
	for _, entry := range entries {
		if !entry.Type().IsRegular() || slices.Contains(vouching, entry.Name()) {
			continue
		}
		digest, err := digestOf(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, nil, err
		}
		subjects = append(subjects, verify.Subject{Name: entry.Name(), Digest: map[string]string{"sha256": digest}})
		fmt.Fprintf(&out, "%s  %s\n", digest, entry.Name())
	}
	return subjects, []byte(out.String()), nil
}
