// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Digest returns a digest of the chart's content, which does not depend on how the chart was packed: a folder, the
// archive that `helm package` makes of it, and an archive of another day have the same digest. It is the SHA-256 of a
// list with a line for each file, sorted: the SHA-256 of the file's bytes, and its path. `helm package` writes Chart.yaml
// again from what it has read, so Chart.yaml counts as its parsed fields in JSON.
func (c *Chart) Digest() (string, error) {
	metadata, err := canonical(c.chart.Metadata)
	if err != nil {
		return "", fmt.Errorf("chart %s: %w", c.Name(), err)
	}
	lines := make([]string, 0, len(c.chart.Raw))
	for _, f := range c.chart.Raw { // not a map: a file that is there twice counts twice
		data := f.Data
		if f.Name == "Chart.yaml" {
			data = metadata
		}
		lines = append(lines, fmt.Sprintf("%x  %q\n", sha256.Sum256(data), f.Name))
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "")))
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// canonical returns a value as JSON with sorted names: the order of fields differs between Helm's versions.
func canonical(value any) ([]byte, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	return json.Marshal(fields)
}
