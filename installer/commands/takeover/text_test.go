// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/engine/report"
)

// The plan names the other controller, or the command says that there is none; never both.
func TestOtherControllerIsNamedOrNot(t *testing.T) {
	t.Parallel()
	old := Predecessor{Family: Apache, Kind: "Deployment", Namespace: "kube-system", Name: "old", Image: "i", Wanted: 1, Lease: &DefaultLease}
	stranger := old
	stranger.Family, stranger.Name = Other, "stranger"
	for name, tt := range map[string]struct {
		found []Predecessor
		says  []string
		not   []string
	}{
		"none":     {nil, nil, []string{"controller", "Order"}},
		"Apache's": {[]Predecessor{old}, []string{"Other controller: Deployment kube-system/old", "Order: csccm's controller starts before the old one ends: both use lease"}, []string{"no other", "ours-first"}},
		"unknown":  {[]Predecessor{stranger}, []string{"Other controller: Deployment kube-system/stranger", "that csccm does not know"}, []string{"no other", "Order"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b strings.Builder
			p := NewPlan(&Facts{Predecessors: tt.found, Own: Own{Lease: DefaultLease}})
			require.NoError(t, p.WriteText(&b, report.Style{}))
			for _, s := range tt.says {
				require.Contains(t, b.String(), s)
			}
			for _, s := range tt.not {
				require.NotContains(t, b.String(), s)
			}
		})
	}
}
