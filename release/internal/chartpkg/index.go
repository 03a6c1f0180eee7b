// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package chartpkg

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/repo"
	"sigs.k8s.io/yaml"
)

// Index returns the index.yaml of a chart repository: the entries of an existing index, and new entries for packages
// (file names). existing is the file of that index; it may be "" or missing. baseURL is the prefix of the packages'
// URLs; if it is empty, URLs are relative to index.yaml. when is the time of new entries. A published version must not
// change: a different digest for it is an error.
func Index(packages []string, baseURL, existing string, when time.Time) ([]byte, error) {
	index := repo.NewIndexFile()
	if existing != "" {
		old, err := repo.LoadIndexFile(existing)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		default:
			index = old
		}
	}
	for _, file := range packages {
		if err := add(index, file, baseURL, when); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	index.SortEntries()
	index.Generated = newest(index, when)
	return yaml.Marshal(index)
}

func add(index *repo.IndexFile, file, baseURL string, when time.Time) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	loaded, err := loader.LoadArchive(bytes.NewReader(data))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	digest := hex.EncodeToString(sum[:])
	meta := loaded.Metadata
	for _, entry := range index.Entries[meta.Name] {
		if entry.Version != meta.Version {
			continue
		}
		if entry.Digest != digest {
			return fmt.Errorf("%s %s is in the index with digest %s and this file has %s: a published version does not change",
				meta.Name, meta.Version, entry.Digest, digest)
		}
		return nil
	}
	location := filepath.Base(file)
	if baseURL != "" {
		location = strings.TrimSuffix(baseURL, "/") + "/" + location
	}
	index.Entries[meta.Name] = append(index.Entries[meta.Name], &repo.ChartVersion{
		Metadata: meta,
		URLs:     []string{location},
		Digest:   digest,
		Created:  when,
	})
	return nil
}

// newest returns the time of the latest entry. Index uses it as the time of the index, so that an index without
// changes is the same file.
func newest(index *repo.IndexFile, when time.Time) time.Time {
	var latest time.Time
	for _, versions := range index.Entries {
		for _, v := range versions {
			if v.Created.After(latest) {
				latest = v.Created
			}
		}
	}
	if latest.IsZero() {
		return when
	}
	return latest
}
