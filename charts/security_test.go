// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/csccm/csccm/pkg/provider"
)

// docs/security.md lists exactly the permissions of the chart.
func TestPageOfSecurityIsTrue(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../docs/security.md")
	require.NoError(t, err)
	page := string(raw)

	_, table, ok := strings.Cut(page, "### The controller\n")
	require.True(t, ok)
	table, _, _ = strings.Cut(table, "Role in the namespace")
	var documented, granted []string
	for line := range strings.Lines(table) {
		cells := strings.Split(line, " | ")
		if len(cells) != 4 || strings.HasPrefix(line, "| resource") {
			continue
		}
		for verb := range strings.SplitSeq(cells[1], ", ") {
			documented = append(documented, strings.TrimPrefix(cells[0], "| ")+" "+verb)
		}
	}
	for _, rule := range find[*rbacv1.ClusterRole](t, objects(t, render(t, nil))).Rules {
		for _, p := range flat(rule) {
			granted = append(granted, strings.TrimSpace(p))
		}
	}
	assert.ElementsMatch(t, granted, documented)

	_, table, ok = strings.Cut(page, "## Permissions in CloudStack\n")
	require.True(t, ok)
	var want strings.Builder
	for _, name := range provider.RequiredCommands {
		optional, without := "", provider.Losses[name]
		if without != "" {
			optional = "optional"
		}
		fmt.Fprintf(&want, "| `%s` | %s | %s |\n", name, optional, without)
	}
	assert.Contains(t, table, want.String(), "want these lines")
	assert.Equal(t, len(provider.RequiredCommands), strings.Count(table, "| `"))
}
