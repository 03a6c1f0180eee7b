// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/docs/pages"
)

var updateDocs = flag.Bool("update-docs", false, "write the table of Events into docs/troubleshooting.md")

// TestEventsOfTheDocs: docs/troubleshooting.md lists the controller's Events on Services.
func TestEventsOfTheDocs(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("| reason | type | means |\n|---|---|---|\n")
	for _, e := range ServiceEvents {
		kind := "Normal"
		if e.Warning {
			kind = "Warning"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", e.Reason, kind, e.Means)
	}
	stale, err := pages.Refresh(filepath.Join("..", "..", "docs", "troubleshooting.md"), []pages.Part{{Name: "events", Want: b.String()}}, *updateDocs)
	require.NoError(t, err)
	require.Empty(t, stale, "go test ./pkg/provider -run EventsOfTheDocs -update-docs")
}
