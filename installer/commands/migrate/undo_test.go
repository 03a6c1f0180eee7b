// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/cloudstack"
)

func ruleOn(id, name, address string, port int, vms ...string) Rule {
	r := Rule{LoadBalancerRule: cloudstack.LoadBalancerRule{ID: id, Name: name, PublicIPID: address, PublicIP: address, PublicPort: port}}
	for _, vm := range vms {
		r.Members = append(r.Members, cloudstack.LoadBalancerMember{VMID: vm})
	}
	return r
}

func TestRemaining(t *testing.T) {
	t.Parallel()
	rename := Step{Action: ActionRename, RuleID: "1", From: "new", To: "old", PublicIP: "a", Port: 80}
	again := Step{Action: ActionCreate, RuleID: "2", From: "gone", PublicIP: "a", Port: 81, Rule: &Deleted{PublicIPID: "a", Members: []string{"x", "y"}}}
	for name, tc := range map[string]struct {
		rules []Rule
		todo  []Step
		notes int
	}{
		"all":                   {[]Rule{ruleOn("1", "new", "a", 80)}, []Step{rename, again}, 0},
		"nothing":               {[]Rule{ruleOn("1", "old", "a", 80), ruleOn("3", "gone", "a", 81, "y", "x")}, []Step{}, 0},
		"a member is missing":   {[]Rule{ruleOn("1", "old", "a", 80), ruleOn("3", "gone", "a", 81, "y")}, []Step{again}, 0},
		"on another address":    {[]Rule{ruleOn("1", "old", "a", 80), ruleOn("3", "gone", "b", 81, "y", "x")}, []Step{again}, 0},
		"the rule is not there": {[]Rule{ruleOn("3", "gone", "a", 81, "y", "x")}, []Step{}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			todo, notes := Remaining([]Step{rename, again}, tc.rules)
			require.Equal(t, tc.todo, todo)
			require.Len(t, notes, tc.notes)
		})
	}
}

func TestEmptied(t *testing.T) {
	t.Parallel()
	rules := []Rule{
		ruleOn("1", "x", "a", 80), ruleOn("2", "x", "a", 81), ruleOn("3", "x", "b", 80), ruleOn("4", "foreign", "b", 82), ruleOn("5", "x", "c", 80),
		ruleOn("6", "x", "d", 80), ruleOn("7", "x", "e", 80),
	}
	var steps []Step
	for _, id := range []string{"1", "2", "3", "6", "7"} {
		steps = append(steps, Step{Action: ActionDelete, RuleID: id})
	}
	steps = append(steps, Step{Action: ActionRename, RuleID: "5"})
	got := Emptied(rules, steps)
	Used(got, []cloudstack.PublicIP{{ID: "a"}, {ID: "d", SourceNAT: true}}, []cloudstack.PortForwarding{{PublicIPID: "e"}})
	require.Equal(t, []Address{
		{ID: "a", IP: "a"}, {ID: "d", IP: "d", UsedBy: "source NAT of its network"}, {ID: "e", IP: "e", UsedBy: "port forwarding"},
	}, got)
	require.Contains(t, got[0].Describe(), "release it in CloudStack (id a)")
	require.Contains(t, got[1].Describe(), "stays")
}
