// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"bytes"
	"net/http"
	"time"
)

// What the program that makes releases uses of Helm, so that no other package imports Helm. Both major versions have these types.
type (
	// IndexFile is the index.yaml of a chart repository.
	IndexFile = indexFile
	// IndexEntry is one version of a chart in an IndexFile.
	IndexEntry = indexEntry
	// Signatory is a PGP key that signs charts.
	Signatory = signatory
)

// LoadArchive loads a packaged chart.
func LoadArchive(data []byte) (*Chart, error) {
	loaded, err := loadArchive(bytes.NewReader(data))
	if err == nil {
		err = validate(loaded)
	}
	if err != nil {
		return nil, err
	}
	return &Chart{chart: loaded, Source: "archive"}, nil
}

// LoadIndex reads an index.yaml.
func LoadIndex(file string) (*IndexFile, error) { return loadIndex(file) }

// NewIndex returns an index without charts.
func NewIndex() *IndexFile { return newIndex() }

// IndexEntry returns the chart's entry in an index.
func (c *Chart) IndexEntry(url, digest string, created time.Time) *IndexEntry {
	return &indexEntry{Metadata: c.chart.Metadata, URLs: []string{url}, Digest: digest, Created: created}
}

// OpenKeyring returns the key of an identity (a part of its user ID) in a keyring in binary format.
func OpenKeyring(keyring, identity string) (*Signatory, error) { return openKeyring(keyring, identity) }

// ClearSign returns the provenance file of a packaged chart, for helm verify.
func ClearSign(key *Signatory, file string) (string, error) { return clearSign(key, file) }

// Push pushes a packaged chart by web, with its provenance file unless that is empty.
func Push(web *http.Client, reference string, data, signed []byte, when time.Time) error {
	client, err := newRegistryClient(RegistryConfig(), false, web)
	if err != nil {
		return err
	}
	return pushTo(client, reference, data, signed, when)
}
