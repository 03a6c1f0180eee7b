// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/evidence"
	"github.com/csccm/csccm/pkg/loadbalancer/plan/access"
	"github.com/csccm/csccm/pkg/testenv/cases"
)

// The limit counts what is created in CloudStack: a forwarded port of a VPC has one port forwarding for each bucket of
// sources.
func TestCheckPorts(t *testing.T) {
	t.Parallel()
	forwarded := func(ports, buckets int) Desired {
		d := Desired{Ranges: []string{annotation.Anyone}, Members: []string{"vm1", "vm2"}, Buckets: buckets}
		for p := range ports {
			d.Forwards = append(d.Forwards, ForwardPort{ProtocolUDP, 1000 + p, 31000 + p})
		}
		return d
	}

	mixed := forwarded(2, 4)
	mixed.Rules = []Rule{rule(80)}
	idle := forwarded(3, 4)
	idle.Members = nil
	for _, tc := range []struct {
		name string
		d    Desired
		want int
	}{
		{"nothing", Desired{Absent: true}, 0},
		{"rules", desired([]int{80, 81, 443}), 3},
		{"forwards of an isolated network", forwarded(3, 0), 3},
		{"forwards of a VPC", forwarded(3, 4), 12},
		{"a spread of 32", forwarded(100, 32), 3200},
		{"both", mixed, 9},
		{"forwards without nodes", idle, 3},
	} {
		for limit, refused := range map[int]bool{
			-1:                false,
			tc.want:           false,
			tc.want + 1:       false,
			max(tc.want-1, 0): tc.want > 0,
		} {
			refusal := CheckPorts(tc.d, Grants{MaxPorts: limit})
			if !refused {
				assert.Nil(t, refusal, "%s, limit %d", tc.name, limit)
				continue
			}
			require.NotNil(t, refusal, "%s, limit %d", tc.name, limit)
			assert.Equal(t, ReasonNotAllowed, refusal.Reason, tc.name)
			assert.Contains(t, refusal.Message, fmt.Sprintf("%d rules and port forwardings", tc.want), tc.name)
			assert.Contains(t, refusal.Remedy, annotation.DirectSpread, tc.name)
		}
	}
}

// Items with a former id of the cluster are tagged again, and nothing else changes.
func TestFormerIDsAreReplaced(t *testing.T) {
	t.Parallel()
	public, inVPC := desired([]int{80, 81}), tier(desired([]int{80, 81}))
	inVPC.Forwards = []ForwardPort{{ProtocolUDP, 53, 30053}}
	for name, d := range map[string]Desired{"public": public, "VPC tier": inVPC} {
		limits := Limits{}
		a := run(Actual{}, planOf(d, Actual{}, limits))
		a = run(a, planOf(d, a, limits))
		want := []string{"tag-address", "tag-rules", "tag-firewall"}
		x := &a.Addresses[0]
		x.FormerCluster = true
		for i := range x.Rules {
			x.Rules[i].Former = true
		}

		for i := range x.Firewall {
			x.Firewall[i].Former = true
		}

		for i := range x.Forwards {
			x.Forwards[i].Former = true
		}

		for i := range a.ACLs {
			want = []string{"tag-address", "tag-rules", "tag-forwards", "tag-acl"}
			for k := range a.ACLs[i].Items {
				a.ACLs[i].Items[k].Former = true
			}
		}

		steps := planOf(d, a, limits)
		assert.Equal(t, want, lines(steps), name)
		assert.Empty(t, lines(planOf(d, run(a, steps), limits)), name)
		limits.NoTags = true
		assert.Empty(t, lines(planOf(d, a, limits)), "%s: the role may not tag", name)
	}
}

// The owner of an address decides before a rule is created on it. Existing rules stay served. A refusal says what is
// taken, and names the other Service only if that Service is in the same namespace.
func TestSecurityFitsTenants(t *testing.T) {
	const ip, nearby = "203.0.113.7", "Service default/other"
	taken := func(port int, by string) func(*Address) {
		return func(a *Address) {
			a.Rules = []Item{{Rule: onPort("canary", "tcp", port), Name: "canary", Mark: Mark{Owner: Foreign, By: by}}}
		}
	}
	forward := func(from, to int) func(*Address) {
		return func(a *Address) {
			a.Forwards = []Item{{Rule: access.Rule{ID: "canary", Range: span("", from, to)}, VM: "canary"}}
		}
	}
	inVPC := func(id, network string) func(*Address) {
		return func(a *Address) { a.VPCID, a.NetworkID = id, network }
	}
	recorded := func(a *Address) { a.RecordedPorts = annotation.PortSet{"tcp": {80}} }
	addresses := map[string]func(*Address){
		"of a Service that shares": func(a *Address) { a.Holder, a.Known = "shop/web", true },
		"of a Service that does not share": func(a *Address) {
			a.Holder, a.Refusal = "shop/web", Refuse(ReasonNotAllowed, "another's", "no")
		},
		"our Service has it":                      func(a *Address) { recorded(a); a.Has = true },
		"the record says that our Service has it": recorded,
		"tagged and acquired by us":               func(a *Address) { a.Owner, a.Allocated = Owned, true },
		"acquired by us":                          func(a *Address) { a.Allocated = true },
		"443 by another namespace":                taken(443, "a Service of another namespace"),
		"443 by nobody here":                      taken(443, ""),
		"80 by another namespace":                 taken(80, "a Service of another namespace"),
		"80 by nobody here":                       taken(80, ""),
		"80 by the namespace":                     taken(80, nearby),
		"forwards 79-80":                          forward(79, 80),
		"forwards 80":                             forward(80, 80),
		"forwards 2200-2299":                      forward(2200, 2299),
		"of another cluster":                      func(a *Address) { a.ForeignCluster = true },
		"of another network":                      func(a *Address) { a.NetworkID = "canary" },
		"of the VPC":                              inVPC("vpc", ""),
		"of another VPC":                          inVPC("canary", "net"),
		"of another VPC without a network":        inVPC("canary", ""),
		"of another tier":                         inVPC("vpc", "canary"),
		"source NAT":                              func(a *Address) { a.SourceNAT = true },
		"static NAT":                              func(a *Address) { a.StaticNAT = true },
	}
	wants := map[string]func(*Desired){
		"":                func(*Desired) {},
		"nothing":         func(d *Desired) { *d = Desired{Absent: true} },
		"port 53":         func(d *Desired) { d.Rules = []Rule{rule(53)} },
		"ports 80 and 81": func(d *Desired) { d.Rules = []Rule{rule(80), rule(81)} },
		"a tier":          func(d *Desired) { d.VPCID, d.Firewall, d.CIDRsDecide, d.ACLID = "vpc", false, true, "acl" },
	}

	cases.Run(t, "testdata/fits.yaml", func(t *testing.T, _ string, c struct {
		Wants            string
		Address          []string
		Granted, Serving bool
		Reason           Reason
		Near             string
	}) {
		a := Address{ID: "ip", IP: ip, NetworkID: "net", Owner: Unknown}
		for _, name := range c.Address {
			require.Contains(t, addresses, name)
			addresses[name](&a)
		}
		if c.Serving {
			a.Rules = append(a.Rules, found("own", rule(80)))
		}
		require.Contains(t, wants, c.Wants)
		d := desired([]int{80}, func(d *Desired) { d.Address = ip }, wants[c.Wants])
		var grants Grants
		if c.Granted {
			grants = AllGrants()
		}

		refusal := Fits(d, Target(d, Actual{Addresses: []Address{a}}), isolated(), grants)
		if c.Reason == "" {
			assert.Nil(t, refusal)
			return
		}
		require.NotNil(t, refusal)
		assert.Equal(t, c.Reason, refusal.Reason)
		assert.NotEmpty(t, refusal.Remedy)
		assert.NotRegexp(t, "shop/|canary", refusal.Error(), "the names and ids of others are not told")
		assert.Contains(t, refusal.Error(), c.Near)
	})
}

func TestFitsWithoutAnAddress(t *testing.T) {
	t.Parallel()
	assert.Nil(t, Fits(desired([]int{80}), nil, isolated(), Grants{}), "an address that is not there yet is acquired")
	assert.Equal(t, ReasonNoNodes, Fits(Desired{}, nil, isolated(), Grants{}).Reason)
}

// Everyone who can edit a Service reads its Events. They must not contain names or IDs of other users' objects
// on the address.
func TestSecurityNoticesNameNobodyElse(t *testing.T) {
	t.Parallel()
	ours := Address{ID: "ip", IP: "203.0.113.7", Owner: Owned}
	withRule, withFirewall := ours, ours
	withRule.Rules = []Item{{Rule: onPort("canary", "tcp", 81), Name: "canary", Mark: Mark{Owner: Foreign}}}
	withFirewall.Firewall = []Item{
		{
			Rule: access.Rule{
				ID:    "canary",
				Range: access.Range{Protocol: "tcp", StartPort: 1, EndPort: 99, CIDRs: []string{annotation.Anyone}},
			},
			Mark: Mark{Owner: Foreign},
		},
	}

	for _, a := range []Address{withRule, withFirewall} {
		assert.NotEmpty(t, a.foreign())
		assert.NotContains(t, a.foreign(), "canary")
	}

	notices := foreignAccess(desired([]int{80}, ranges("10.0.0.0/8"), func(d *Desired) { d.Firewall = true }),
		&withFirewall)
	require.Len(t, notices, 1)
	assert.NotContains(t, notices[0].Message, "canary")
	assert.Contains(t, notices[0].Message, "lets others reach port 80")
}

// A firewall rule of unknown origin on a desired port changes only after our own rule opens
// the port.
func TestFirewallRuleOfUnknownOrigin(t *testing.T) {
	t.Parallel()
	idle := func(change ...func(*Address)) Actual {
		a := Address{ID: "ip", IP: "203.0.113.7", NetworkID: "net", Owner: Unknown}
		for _, c := range change {
			c(&a)
		}
		return stranger(Actual{Addresses: []Address{a}}, 80)
	}

	d := desired([]int{80}, ranges("10.0.0.0/8"), func(d *Desired) { d.Address = "203.0.113.7" })
	create := []string{"create-rule 80", "add-members 80 [vm1 vm2]", "open-firewall 80-80 [10.0.0.0/8]"}
	for _, tc := range []struct {
		name  string
		a     Actual
		first []string
	}{
		{"an address of the account", idle(), create},
		{"the record names the port", idle(func(a *Address) { a.RecordedPorts = annotation.PortSet{"tcp": {80}} }),
			create},
		{"an address of ours",
			idle(func(a *Address) { a.Owner, a.Allocated, a.Tagged, a.Recorded = Owned, true, true, true }), create},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			limits := Limits{NoTags: true}
			plan := planOf(d, tc.a, limits)
			assert.Equal(t, tc.first, lines(plan))
			after := run(tc.a, plan)
			plan = planOf(d, after, limits)
			assert.Equal(t, []string{"close-firewall 80-80 [0.0.0.0/0]"}, lines(plan))
			assert.Empty(t, lines(planOf(d, run(after, plan), limits)), "the plan leads to its fixpoint")
		})
	}
}

// someBook is an address book with a fixed answer for each address.
type someBook struct {
	Book
	claims map[string]AddressUse
}

func (b someBook) Use(address string, _ evidence.Instant, _ string) AddressUse {
	return b.claims[address]
}

// The tags and the address book decide who owns an address, and who may use it.
func TestConsultAddressBook(t *testing.T) {
	const ip = "203.0.113.7"
	self := Service{UID: "self", Namespace: "shop", Name: "web"}
	near := Holder{UID: "near", Namespace: "shop", Name: "api", Proven: true}
	other := Holder{UID: "other", Namespace: "blog", Name: "post", ShareWith: []string{"*"}, Proven: true}
	guest := func(h Holder, of string) Holder { h.GuestOf = of; return h }
	holders := map[string]Holder{
		"near": near, "near as guest of bank": guest(near, "bank"),
		"other": other, "other as guest of bank": guest(other, "bank"), "other as guest of shop": guest(other, "shop"),
		"own":       {UID: "self", Namespace: "shop", Name: "web", Proven: true},
		"far":       {UID: "far", Namespace: "bank", Name: "ledger", Proven: true},
		"leaving":   {UID: "far", Namespace: "bank", Name: "ledger", Leaving: true, Proven: true},
		"open":      {UID: "open", Namespace: "bank", Name: "public", ShareWith: []string{"shop"}, Proven: true},
		"everybody": {UID: "all", Namespace: "bank", Name: "public", ShareWith: []string{"*"}, Proven: true},
	}

	cases.Run(t, "testdata/consult.yaml", func(t *testing.T, _ string, c struct {
		Owner                            Ownership
		ForeignCluster                   bool
		TaggedUID, TaggedService, Keeper string
		Holders                          []string
		Reserved                         *string
		Holder, GuestOf                  string
		Refused, Shared                  bool
	}) {
		var claim AddressUse
		for _, name := range c.Holders {
			require.Contains(t, holders, name)
			claim.Holders = append(claim.Holders, holders[name])
		}
		if c.Reserved != nil {
			claim.Reserved, claim.ReservedFor = 5*time.Minute, *c.Reserved
		}
		address := Address{
			IP: ip, Owner: cmp.Or(c.Owner, Unknown), ForeignCluster: c.ForeignCluster,
			TaggedUID: c.TaggedUID, TaggedService: c.TaggedService, Keeper: c.Keeper,
			// Consult must replace these values.
			Holder: "bank/ledger", GuestOf: "bank", Shared: true, Refusal: &RefusalError{},
		}

		a := Actual{Addresses: []Address{address}}
		a.Consult(someBook{claims: map[string]AddressUse{ip: claim}}, self)

		got := a.Addresses[0]
		assert.Equal(t, []any{c.Holder, c.GuestOf, c.Shared}, []any{got.Holder, got.GuestOf, got.Shared})
		require.Equal(t, c.Refused, got.Refusal != nil)
		if c.Refused {
			assert.NotRegexp(t, "bank|blog", got.Refusal.Error(), "nobody is named")
			assert.Equal(t, c.Reserved != nil, got.Refusal.After > 0)
		}
	})
}
