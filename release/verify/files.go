// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Names of the files with checksums, signatures and provenance of a release's other files.
const (
	SumsFile       = "SHA256SUMS"
	SumsSignature  = "SHA256SUMS.sig"
	SumsBundle     = "SHA256SUMS.sigstore.json"
	ProvenanceFile = "provenance.sigstore.json"
)

// ErrContent means that a file is not the one that was signed.
var ErrContent = errors.New("not the file that was signed")

// ErrUnsigned means that there is no signature file for a file.
var ErrUnsigned = errors.New("no signature")

// FileReport is the result of verifying downloaded files.
type FileReport struct {
	// Sums is the file with the digests, which is signed by the key.
	Sums string `json:"sums"`
	// Files are the results for the verified files.
	Files []FileResult `json:"files"`
}

// FileResult is the result for one verified file.
type FileResult struct {
	Name string `json:"name"`
	// Digest is sha256:HEX.
	Digest string `json:"digest"`
	// Provenance is true if the signed provenance contains this file's name and digest.
	Provenance bool `json:"provenance"`
}

// Files verifies downloaded files of a release. sums is the path of SHA256SUMS. Its signature (SHA256SUMS.sigstore.json
// or SHA256SUMS.sig) must be in the same directory; provenance.sigstore.json is optional. Each file must be listed in
// sums under its own name. Without files, Files verifies all listed files in the directory of sums, of which there must
// be at least one.
func Files(sums string, files []string, key *Key) (*FileReport, error) {
	if key == nil {
		return nil, errors.New("no key to verify with")
	}
	text, err := os.ReadFile(sums)
	if err != nil {
		return nil, err
	}
	if err := signedBeside(sums, text, key); err != nil {
		return nil, err
	}
	digests, err := ParseSums(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", sums, err)
	}
	dir := filepath.Dir(sums)
	if len(files) == 0 {
		for name := range digests {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				files = append(files, filepath.Join(dir, name))
			}
		}
		slices.Sort(files)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: none of its files is in %s", sums, dir)
	}
	statement, err := provenanceBeside(dir, key)
	if err != nil {
		return nil, err
	}
	report := &FileReport{Sums: sums}
	for _, file := range files {
		result, err := checkFile(file, digests, statement)
		if err != nil {
			return report, err
		}
		report.Files = append(report.Files, *result)
	}
	return report, nil
}

func checkFile(file string, digests map[string]string, statement *Statement) (*FileResult, error) {
	name := filepath.Base(file)
	want, ok := digests[name]
	if !ok {
		return nil, fmt.Errorf("%s: %w: the signed sums have no file %s", file, ErrContent, name)
	}
	have, err := Digest(file)
	if err != nil {
		return nil, err
	}
	if have != want {
		return nil, fmt.Errorf("%s: %w: it has SHA-256 %s, and the signed sums say %s", file, ErrContent, have, want)
	}
	result := &FileResult{Name: name, Digest: "sha256:" + have}
	if statement != nil {
		result.Provenance = slices.ContainsFunc(statement.Subject, func(s Subject) bool {
			return s.Name == name && s.Digest["sha256"] == have
		})
	}
	return result, nil
}

// Digest returns the SHA-256 of a file in hex.
func Digest(file string) (digest string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// signedBeside verifies text with the signature files next to file. At least one must exist, and all existing ones must
// be valid.
func signedBeside(file string, text []byte, key *Key) error {
	checked := 0
	for _, kind := range []struct {
		end   string
		check func(text, signature []byte, key *Key) error
	}{
		{".sigstore.json", Blob},
		{".sig", bare},
	} {
		signature, err := os.ReadFile(file + kind.end)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := kind.check(text, signature, key); err != nil {
			return fmt.Errorf("%s: %w", file+kind.end, err)
		}
		checked++
	}
	if checked == 0 {
		return fmt.Errorf("%s: %w beside it (%s.sigstore.json or %s.sig)", file, ErrUnsigned, filepath.Base(file), filepath.Base(file))
	}
	return nil
}

func bare(text, signature []byte, key *Key) error {
	decoded, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(signature)))
	if err != nil {
		return errors.New("not base64")
	}
	return key.Verify(text, decoded)
}

// Blob verifies the signature of data in a Sigstore bundle.
func Blob(data, bundle []byte, key *Key) error {
	var b Bundle
	if err := json.Unmarshal(bundle, &b); err != nil {
		return fmt.Errorf("not a Sigstore bundle: %w", err)
	}
	if b.MessageSignature == nil {
		return errors.New("the bundle holds no signature of a file")
	}
	return key.Verify(data, b.MessageSignature.Signature)
}

// provenanceBeside returns the verified provenance in dir, or nil if it was not downloaded.
func provenanceBeside(dir string, key *Key) (*Statement, error) {
	file := filepath.Join(dir, ProvenanceFile)
	raw, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil //nolint:nilnil // the provenance is optional
	}
	if err != nil {
		return nil, err
	}
	var bundle Bundle
	if err := json.Unmarshal(raw, &bundle); err != nil {
		return nil, fmt.Errorf("%s: not a Sigstore bundle: %w", file, err)
	}
	statement, err := bundle.Statement(key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if statement.PredicateType != PredicateProvenance {
		return nil, fmt.Errorf("%s: predicate type is %s, want %s", file, statement.PredicateType, PredicateProvenance)
	}
	return statement, nil
}

// ParseSums parses the output of sha256sum and returns digests by name. Each line has a digest in hex, two spaces and
// a name without a directory.
func ParseSums(text []byte) (map[string]string, error) {
	digests := map[string]string{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			continue
		}
		digest, name, ok := strings.Cut(line, "  ")
		raw, err := hex.DecodeString(digest)
		if !ok || err != nil || len(raw) != sha256.Size || name == "" || name != filepath.Base(name) {
			return nil, fmt.Errorf("line %q: want SHA-256, two spaces and a name", line)
		}
		if _, twice := digests[name]; twice {
			return nil, fmt.Errorf("%s is listed twice", name)
		}
		digests[name] = digest
	}
	return digests, nil
}
