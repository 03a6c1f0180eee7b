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

// Index returns the index.yaml of a chart repository: the entries of an existing index, and a new entry for a package.
// existing is the file of that index, which may be missing. baseURL is the prefix of the package's URL; if it is empty,
// the URL is relative to index.yaml. when is the time of the new entry. A published version must not change: a different
// digest for it is an error.
func Index(file, baseURL, existing string, when time.Time) ([]byte, error) {
	index, err := repo.LoadIndexFile(existing)
	if errors.Is(err, fs.ErrNotExist) {
		index, err = repo.NewIndexFile(), nil
		index.Generated = time.Time{}
	}
	if err != nil {
		return nil, err
	}
	if err := add(index, file, baseURL, when); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	index.SortEntries()
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
	if when.After(index.Generated) { // an index without changes is the same file
		index.Generated = when
	}
	return nil
}
