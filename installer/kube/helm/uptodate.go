// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"bytes"
	"encoding/json"
	"strings"
)

// UpToDate reports whether applying the chart with these values, which render to the manifest, would change nothing.
func (r *Release) UpToDate(c *Chart, values map[string]any, manifest string) bool {
	return r.Deployed() && r.ChartVersion == c.Version() && r.AppVersion == c.AppVersion() &&
		strings.HasPrefix(manifest, strings.TrimSpace(r.Manifest)) && sameValues(r.Values, values)
}

// sameValues compares values as JSON: numbers of flags and of a stored release have different Go types.
func sameValues(a, b map[string]any) bool {
	was, err := json.Marshal(a)
	is, ierr := json.Marshal(b)
	return err == nil && ierr == nil && (len(a)+len(b) == 0 || bytes.Equal(was, is))
}
