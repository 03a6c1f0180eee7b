// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A drift round with one Service reads each list once, and the members in the cheaper of two ways.
func TestDriftBudgetOfOneService(t *testing.T) {
	t.Parallel()
	twoVMs := withWorld(func(w string) string {
		return regexp.MustCompile(`(?m)^  - .name: w[345],.*\n`).ReplaceAllString(w, "")
	})
	for _, c := range []struct {
		ports   []int
		members string // how they are read
		reads   int
	}{
		{[]int{80}, "listLoadBalancerRuleInstances", 1},
		{[]int{80, 81, 443}, "listLoadBalancerRules", 2},
		{someOrTen(10), "listLoadBalancerRules", 2},
	} {
		t.Run(fmt.Sprintf("%d ports", len(c.ports)), func(t *testing.T) {
			t.Parallel()
			b := newBed(t, twoVMs)
			b.service(c.ports)
			b.mustSync("w1", "w2")
			b.lb.driftRound(t.Context()) // with the sweep of tags
			b.clock.SetTime(b.clock.Now().Add(5 * time.Minute))
			b.reset()
			b.lb.driftRound(t.Context())
			want := []string{"listLoadBalancerRules", "listFirewallRules", "listPublicIpAddresses"}
			for range c.reads {
				want = append(want, c.members)
			}
			assert.ElementsMatch(t, want, without(b.calls(), snapshots...))
		})
	}
}
