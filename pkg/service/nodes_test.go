// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// TestNodesThatHaveJustBecomeReady simulates syncs, one second apart, each with the nodes that have ready endpoints.
func TestNodesThatHaveJustBecomeReady(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, syncs, unhealthy, want string }{
		{name: "at the first sync any may have been ready for long", syncs: "w1 w2"},
		{name: "one after another", syncs: "w1,w1 w2,w1 w2 w3", want: "w2 w3"},
		{name: "the only one", syncs: "w1,w2"},
		{name: "two at once, and no other", syncs: "w1,w2 w3"},
		{name: "the longest of those that are new", syncs: "w1,w2,w2 w3", want: "w3"},
		{name: "after a while", syncs: "w1,w1 w2,w1 w2,w1 w2,w1 w2,w1 w2,w1 w2"},
		{name: "one that was away counts from its return", syncs: "w1 w2,w1,w1 w2", want: "w2"},
		{name: "the other is unhealthy", syncs: "w1,w1 w2,w1 w2 w3", unhealthy: "w1", want: "w3"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			now, since := time.Unix(1e9, 0), map[string]time.Time(nil)
			for sync := range strings.SplitSeq(tc.syncs, ",") {
				var nodes []*corev1.Node
				for name := range strings.FieldsSeq(sync) {
					n := &corev1.Node{}
					n.Name = name
					nodes = append(nodes, n)
				}

				now = now.Add(time.Second)
				since = readySince(since, nodes, now)
			}

			got := justReady(since, map[string]plan.Problem{tc.unhealthy: {Text: "not ready"}}, now)
			slices.Sort(got)
			assert.Equal(t, tc.want, strings.Join(got, " "))
		})
	}
}
