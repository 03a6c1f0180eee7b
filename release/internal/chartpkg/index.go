// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package chartpkg

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/installer/kube/helm"
)

// Index returns the index.yaml of a chart repository: the entries of an existing index, and a new entry for a package.
// existing is the file of that index, which may be missing. baseURL is the prefix of the package's URL; if it is empty,
// the URL is relative to index.yaml. when is the time of the new entry. A published version must not change: a different
// digest for it is an error.
func Index(file, baseURL, existing string, when time.Time) ([]byte, error) {
	index, err := helm.LoadIndex(existing)
	if errors.Is(err, fs.ErrNotExist) {
		index, err = helm.NewIndex(), nil
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

func add(index *helm.IndexFile, file, baseURL string, when time.Time) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	chart, err := helm.LoadArchive(data)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	digest := hex.EncodeToString(sum[:])
	for _, entry := range index.Entries[chart.Name()] {
		if entry.Version != chart.Version() {
			continue
		}
		if entry.Digest != digest {
			return fmt.Errorf("%s %s is in the index with digest %s and this file has %s: a published version does not change",
				chart.Name(), chart.Version(), entry.Digest, digest)
		}
		return nil
	}
	location := filepath.Base(file)
	if baseURL != "" {
		location = strings.TrimSuffix(baseURL, "/") + "/" + location
	}
	index.Entries[chart.Name()] = append(index.Entries[chart.Name()], chart.IndexEntry(location, digest, when))
	if when.After(index.Generated) { // an index without changes is the same file
		index.Generated = when
	}
	return nil
}
