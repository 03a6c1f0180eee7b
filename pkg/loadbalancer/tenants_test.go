// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/cloudstack"
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
		{name: "rules of a Service that does not, on our address", change: func(a *Address) { a.Owner, a.Rules = Mine, []ActualRule{foreign(of("shop/b", false))} }},
		{name: "rules of nobody here", change: func(a *Address) { a.Rules = []ActualRule{foreign()} }, reason: ReasonNotAllowed},
		{name: "rules of nobody here, granted", change: func(a *Address) { a.Rules = []ActualRule{foreign()} }, grants: AllGrants()},
		{name: "rules of nobody here, on our address", change: func(a *Address) { a.Allocated, a.Rules = true, []ActualRule{foreign()} }},
		{name: "another port is forwarded", change: func(a *Address) { a.Forwards = []Forward{{ID: "f", StartPort: 2200, EndPort: 2299}} }, reason: ReasonNotAllowed},
		{name: "another port is forwarded, granted", change: func(a *Address) { a.Forwards = []Forward{{ID: "f", StartPort: 2200, EndPort: 2299}} }, grants: AllGrants()},
		{name: "the port is forwarded", change: func(a *Address) { a.Forwards = []Forward{{ID: "f", StartPort: 79, EndPort: 80}} }, grants: AllGrants(), reason: ReasonPortTaken},
		{name: "the port is forwarded on our address", change: func(a *Address) { a.Owner, a.Forwards = Mine, []Forward{{ID: "f", StartPort: 80, EndPort: 80}} }, reason: ReasonPortTaken},
		{name: "source NAT", change: func(a *Address) { a.SourceNAT = true }, reason: ReasonNotAllowed},
		{name: "source NAT, granted", change: func(a *Address) { a.SourceNAT = true }, grants: AllGrants()},
		{name: "source NAT that serves", change: func(a *Address) { a.SourceNAT = true }, serving: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := Address{ID: "ip", IP: ip, NetworkID: "net", Known: true, Owner: Unknown}
			tc.change(&a)
			if tc.serving {
				a.Rules = append(a.Rules, ActualRule{Rule: rule(80), ID: "own", Owner: Mine})
			}
			refusal := Fits(desired([]int{80}, func(d *Desired) { d.Address = ip }), Actual{Addresses: []Address{a}}, isolated(), tc.grants)
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
		{"an address of ours", idle(func(a *Address) { a.Owner, a.Allocated, a.Tagged, a.Recorded = Mine, true, true, true }), Limits{NoTags: true}, []string{
			"create-rule 80", "remember-address", "open-firewall 80-80 [10.0.0.0/8]", "close-firewall 80-80 [0.0.0.0/0]", "add-members 80 [vm1 vm2]",
		}},
		{"the record names the port", idle(func(a *Address) { a.Opened = OpenedPorts{"tcp": {80}} }), Limits{NoTags: true}, []string{
			"remember-address", "open-firewall 80-80 [10.0.0.0/8]", "close-firewall 80-80 [0.0.0.0/0]", "create-rule 80", "add-members 80 [vm1 vm2]",
		}},
		{"without the guard", idle(), Limits{NoTags: true, unclaimed: true}, []string{
			"remember-address", "open-firewall 80-80 [10.0.0.0/8]", "close-firewall 80-80 [0.0.0.0/0]", "create-rule 80", "add-members 80 [vm1 vm2]",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			plan := Plan(d, tc.a, tc.limits)
			assert.Equal(t, tc.want, kinds(plan))
			assert.Empty(t, kinds(Plan(d, run(tc.a, plan), tc.limits)), "the plan leads to its fixpoint")
		})
	}
}

func TestUsageOf(t *testing.T) {
	t.Parallel()
	ip := func(address string, tags ...string) cloudstack.PublicIP {
		out := cloudstack.PublicIP{Address: address, Tags: map[string]string{TagCluster: "c1"}}
		for i := 0; i < len(tags); i += 2 {
			out.Tags[tags[i]] = tags[i+1]
		}
		return out
	}
	ips := []cloudstack.PublicIP{
		ip("1", TagAllocatedBy, ManagedBy, TagService, "shop/web"),
		ip("2", TagKeptBy, "shop/old"),
		ip("3", TagAllocatedBy, ManagedBy, TagService, "shopping/web"),
		ip("4", TagKeptBy, "shop/older", TagCluster, "c2"),
		ip("5", TagCluster, "c0", TagKeptBy, "shop/oldest"),
		{Address: "6"},
	}
	services := []Neighbour{{Namespace: "shop", Addresses: []string{"1", "7"}}, {Namespace: "blog", Addresses: []string{"8"}}}
	assert.Equal(t, usage{held: 4, kept: 2}, usageOf("shop", []string{"c1", "c0"}, ips, services))
	assert.Equal(t, usage{held: 1}, usageOf("blog", []string{"c1"}, ips, services))
}

func TestNeighboursOfRules(t *testing.T) {
	t.Parallel()
	const uid = "7c3e1b52-0000-4000-8000-00000000abcd"
	n := indexNeighbours([]Neighbour{{UID: uid, Namespace: "shop", Name: "web", ShareWith: []string{"blog"}}})
	for name, tc := range map[string]struct {
		rule string
		tags map[string]string
		want bool
	}{
		"by its tags":               {rule: "renamed", tags: map[string]string{TagServiceUID: uid}, want: true},
		"by its name":               {rule: lbNameOf(uid) + "-tcp-80", want: true},
		"by an older name":          {rule: lbNameOf(uid) + "-80", want: true},
		"by Leaseweb's name":        {rule: "K8s_svc_kubernetes_shop_web-tcp-80", want: true},
		"of another cluster's name": {rule: "K8s_svc_other_shop_web-tcp-80"},
		"tags before the name":      {rule: lbNameOf(uid) + "-tcp-80", tags: map[string]string{TagServiceUID: "other"}},
		"by hand":                   {rule: "web-tcp-80"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tc.want, n.ofRule(tc.rule, "kubernetes", tc.tags) != nil)
		})
	}
	assert.True(t, n.list[0].admits("shop"))
	assert.True(t, n.list[0].admits("blog"))
	assert.False(t, n.list[0].admits("other"))
}
