// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whose an address is decides before a rule is made on it; rules that stand are served on.
func TestFitsTenants(t *testing.T) {
	t.Parallel()
	const ip = "203.0.113.7"
	foreign := func(change ...func(*ActualRule)) ActualRule {
		r := ActualRule{Rule: Rule{Name: "x", PublicPort: 443}, ID: "r", Owner: Foreign}
		for _, c := range change {
			c(&r)
		}
		return r
	}
	of := func(service string, admits bool) func(*ActualRule) {
		return func(r *ActualRule) { r.Service, r.Admits, r.Sibling = service, admits, true }
	}
	for _, tc := range []struct {
		name    string
		change  func(*Address)
		grants  Grants
		reason  Reason
		serving bool // our rule is there already
	}{
		{name: "an idle address of the account", change: func(*Address) {}},
		{name: "of a Service that shares", change: func(a *Address) { a.Holder, a.Admits = "shop/web", true }},
		{name: "of a Service that does not", change: func(a *Address) { a.Holder = "shop/web" }, grants: AllGrants(), reason: ReasonNotAllowed},
		{name: "of a Service that does not any more", change: func(a *Address) { a.Holder = "shop/web" }, serving: true},
		{name: "kept for another namespace", change: func(a *Address) { a.Holder, a.Kept = "shop/web", true }, grants: AllGrants(), reason: ReasonNotAllowed},
		{name: "kept for this namespace", change: func(a *Address) { a.Holder, a.Kept, a.Admits = "default/old", true, true }},
		{name: "rules of a Service that shares", change: func(a *Address) { a.Rules = []ActualRule{foreign(of("shop/web", true))} }},
		{name: "rules of a Service that does not", change: func(a *Address) { a.Rules = []ActualRule{foreign(of("shop/web", false))} }, grants: AllGrants(), reason: ReasonNotAllowed},
		{
			name: "rules of a Service that does not, on an address of one that does", reason: "",
			change: func(a *Address) {
				a.Holder, a.Admits, a.Rules = "shop/a", true, []ActualRule{foreign(of("shop/b", false))}
			},
		},
		{name: "rules of a Service that does not, on our address", change: func(a *Address) { a.Owner, a.Rules = Owned, []ActualRule{foreign(of("shop/b", false))} }},
		{name: "rules of nobody here", change: func(a *Address) { a.Rules = []ActualRule{foreign()} }, reason: ReasonNotAllowed},
		{name: "rules of nobody here, granted", change: func(a *Address) { a.Rules = []ActualRule{foreign()} }, grants: AllGrants()},
		{name: "rules of nobody here, on our address", change: func(a *Address) { a.Allocated, a.Rules = true, []ActualRule{foreign()} }},
		{name: "another port is forwarded", change: func(a *Address) { a.Forwards = []Forward{{ID: "f", StartPort: 2200, EndPort: 2299}} }, reason: ReasonNotAllowed},
		{name: "another port is forwarded, granted", change: func(a *Address) { a.Forwards = []Forward{{ID: "f", StartPort: 2200, EndPort: 2299}} }, grants: AllGrants()},
		{name: "the port is forwarded", change: func(a *Address) { a.Forwards = []Forward{{ID: "f", StartPort: 79, EndPort: 80}} }, grants: AllGrants(), reason: ReasonPortTaken},
		{name: "the port is forwarded on our address", change: func(a *Address) { a.Owner, a.Forwards = Owned, []Forward{{ID: "f", StartPort: 80, EndPort: 80}} }, reason: ReasonPortTaken},
		{name: "source NAT", change: func(a *Address) { a.SourceNAT = true }, reason: ReasonNotAllowed},
		{name: "source NAT, granted", change: func(a *Address) { a.SourceNAT = true }, grants: AllGrants()},
		{name: "source NAT that serves", change: func(a *Address) { a.SourceNAT = true }, serving: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := Address{ID: "ip", IP: ip, NetworkID: "net", Known: true, Owner: Unknown}
			tc.change(&a)
			if tc.serving {
				a.Rules = append(a.Rules, ActualRule{Rule: rule(80), ID: "own", Owner: Owned})
			}
			d := desired([]int{80}, func(d *Desired) { d.Address = ip })
			refusal := Fits(d, Target(d, Actual{Addresses: []Address{a}}), isolated(), tc.grants)
			if tc.reason == "" {
				assert.Nil(t, refusal)
				return
			}
			require.NotNil(t, refusal)
			assert.Equal(t, tc.reason, refusal.Reason)
			assert.NotEmpty(t, refusal.Remedy)
			assert.NotContains(t, refusal.Error(), "shop/", "the names of others are not told")
		})
	}
}

// A firewall rule of unknown origin on a wanted port changes only after our own rule has the port, which has no member
// until access is as wanted.
func TestClaims(t *testing.T) {
	t.Parallel()
	idle := func(change ...func(*Address)) Actual {
		a := Address{ID: "ip", IP: "203.0.113.7", NetworkID: "net", Known: true, Owner: Unknown}
		for _, c := range change {
			c(&a)
		}
		return stranger(Actual{Addresses: []Address{a}}, 80)
	}
	d := desired([]int{80}, ranges("10.0.0.0/8"), func(d *Desired) { d.Address = "203.0.113.7" })
	for _, tc := range []struct {
		name   string
		a      Actual
		limits Limits
		want   []string
	}{
		{"an address of the account", idle(), Limits{NoTags: true}, []string{
			"remember-address", "create-rule 80", "remember-address", "open-firewall 80-80 [10.0.0.0/8]", "close-firewall 80-80 [0.0.0.0/0]", "add-members 80 [vm1 vm2]",
		}},
		{"an address of ours", idle(func(a *Address) { a.Owner, a.Allocated, a.Tagged, a.Recorded = Owned, true, true, true }), Limits{NoTags: true}, []string{
			"create-rule 80", "remember-address", "open-firewall 80-80 [10.0.0.0/8]", "close-firewall 80-80 [0.0.0.0/0]", "add-members 80 [vm1 vm2]",
		}},
		{"the record names the port", idle(func(a *Address) { a.FirewallPorts = PortSet{"tcp": {80}} }), Limits{NoTags: true}, []string{
			"remember-address", "open-firewall 80-80 [10.0.0.0/8]", "close-firewall 80-80 [0.0.0.0/0]", "create-rule 80", "add-members 80 [vm1 vm2]",
		}},
		{"without the guard", idle(), Limits{NoTags: true, Unclaimed: true}, []string{
			"remember-address", "open-firewall 80-80 [10.0.0.0/8]", "close-firewall 80-80 [0.0.0.0/0]", "create-rule 80", "add-members 80 [vm1 vm2]",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			plan := planOf(d, tc.a, tc.limits)
			assert.Equal(t, tc.want, lines(plan))
			assert.Empty(t, lines(planOf(d, run(tc.a, plan), tc.limits)), "the plan leads to its fixpoint")
		})
	}
}
