// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer/plan/access"
)

// The limit counts what is made in CloudStack: a forwarded port of a VPC is one port forwarding for each part of the sources.
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
		for limit, refused := range map[int]bool{-1: false, tc.want: false, tc.want + 1: false, max(tc.want-1, 0): tc.want > 0} {
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

// What carries a former id of the cluster is tagged again, and nothing else is done to it.
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

// Whose an address is decides before a rule is made on it; rules that stand are served on. Refusals say what is taken, and by
// whom only if that is a Service of the same namespace.
func TestSecurityFitsTenants(t *testing.T) {
	t.Parallel()
	const ip, elsewhere, nearby = "203.0.113.7", "a Service of another namespace", "Service default/other"
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
	with := func(change func(*Address), more func(*Address)) func(*Address) {
		return func(a *Address) { change(a); more(a) }
	}
	ours := func(a *Address) { a.Owner, a.Allocated = Owned, true }
	refused := func(a *Address) { a.Holder, a.Refusal = "shop/web", Refuse(ReasonNotAllowed, "another's", "no") }
	recordedOnly := func(a *Address) { a.RecordedPorts = annotation.PortSet{"tcp": {80}} }
	had := func(a *Address) { recordedOnly(a); a.Has = true }
	more := func(d *Desired) { d.Rules = []Rule{rule(80), rule(81)} }
	sourceNAT := func(a *Address) { a.SourceNAT = true }
	staticNAT := func(a *Address) { a.StaticNAT = true }
	inVPC := func(id, network string) func(*Address) {
		return func(a *Address) { a.VPCID, a.NetworkID = id, network }
	}
	onTier := func(d *Desired) { d.VPCID, d.Firewall, d.CIDRsDecide, d.ACLID = "vpc", false, true, "acl" }
	dns := func(d *Desired) { d.Rules = []Rule{rule(53)} }
	for _, tc := range []struct {
		name    string
		desire  func(*Desired)
		change  func(*Address)
		grants  Grants
		reason  Reason
		serving bool   // our rule is there already
		near    string // what is named
	}{
		{name: "an idle address of the account"},
		{name: "of a Service that shares", change: func(a *Address) { a.Holder, a.Known = "shop/web", true }},
		{name: "of a Service that does not", change: refused, grants: AllGrants(), reason: ReasonNotAllowed},
		{name: "of a Service that does not any more", change: refused, serving: true},
		{name: "of a Service that does not any more, whose rule of ours is gone", change: with(refused, had), serving: false},
		{name: "of a Service that does not any more, a port more", change: with(refused, had), desire: more, reason: ReasonNotAllowed},
		{name: "of a Service that does not, and a record alone says that ours has it", change: with(refused, recordedOnly), reason: ReasonNotAllowed},
		{name: "rules of a Service, on an address that the book gives to nobody", change: taken(443, elsewhere)},
		{
			name:   "rules of a Service that does not, on an address of one that does",
			change: with(taken(443, elsewhere), func(a *Address) { a.Holder, a.Known = "shop/a", true }),
		},
		{name: "rules of a Service that does not, on our address", change: with(taken(443, elsewhere), ours)},
		{name: "rules of nobody here", change: taken(443, ""), reason: ReasonNotAllowed},
		{name: "rules of nobody here, granted", change: taken(443, ""), grants: AllGrants()},
		{name: "rules of nobody here, on our address", change: with(taken(443, ""), func(a *Address) { a.Allocated = true })},
		{name: "another port is forwarded", change: forward(2200, 2299), reason: ReasonNotAllowed},
		{name: "another port is forwarded, granted", change: forward(2200, 2299), grants: AllGrants()},
		{name: "the port is forwarded", change: forward(79, 80), grants: AllGrants(), reason: ReasonPortTaken},
		{name: "the port is forwarded on our address", change: with(forward(80, 80), ours), reason: ReasonPortTaken},
		{name: "the port has a rule of nobody here", change: taken(80, ""), reason: ReasonPortTaken},
		{name: "the port has a rule of another namespace", change: taken(80, elsewhere), reason: ReasonPortTaken},
		{name: "the port has a rule of the same namespace", change: taken(80, nearby), reason: ReasonPortTaken, near: nearby},
		{name: "of another cluster", change: func(a *Address) { a.ForeignCluster = true }, reason: ReasonAddressUnavailable},
		{name: "of another network", change: func(a *Address) { a.NetworkID = "canary" }, reason: ReasonAddressUnavailable},
		{name: "of a VPC", change: inVPC("canary", "net"), reason: ReasonAddressUnavailable},
		{name: "of the nodes' VPC", desire: onTier, change: inVPC("vpc", "")},
		{name: "of another VPC", desire: onTier, change: inVPC("canary", ""), reason: ReasonAddressUnavailable},
		{name: "of no VPC", desire: onTier, reason: ReasonAddressUnavailable},
		{name: "of another tier", desire: onTier, change: inVPC("vpc", "canary"), reason: ReasonAddressUnavailable},
		{name: "source NAT of the VPC", desire: onTier, change: with(inVPC("vpc", ""), sourceNAT), reason: ReasonAddressUnavailable},
		{name: "static NAT", change: staticNAT, reason: ReasonAddressUnavailable},
		{name: "source NAT", change: sourceNAT, reason: ReasonNotAllowed},
		{name: "source NAT, granted", change: sourceNAT, grants: AllGrants()},
		{name: "source NAT that serves", change: sourceNAT, serving: true},
		{name: "DNS on source NAT", desire: dns, change: sourceNAT, grants: AllGrants(), reason: ReasonReservedPort},
		{name: "DNS elsewhere", desire: dns},
		{name: "nothing is wanted of it", desire: func(d *Desired) { *d = Desired{Absent: true} }, change: staticNAT},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := Address{ID: "ip", IP: ip, NetworkID: "net", Owner: Unknown}
			if tc.change != nil {
				tc.change(&a)
			}
			if tc.serving {
				a.Rules = append(a.Rules, found("own", rule(80)))
			}
			d := desired([]int{80}, func(d *Desired) { d.Address = ip })
			if tc.desire != nil {
				tc.desire(&d)
			}
			refusal := Fits(d, Target(d, Actual{Addresses: []Address{a}}), isolated(), tc.grants)
			if tc.reason == "" {
				assert.Nil(t, refusal)
				return
			}
			require.NotNil(t, refusal)
			assert.Equal(t, tc.reason, refusal.Reason)
			assert.NotEmpty(t, refusal.Remedy)
			assert.NotRegexp(t, "shop/|canary", refusal.Error(), "the names and ids of others are not told")
			assert.Contains(t, refusal.Error(), tc.near)
		})
	}
	assert.Nil(t, Fits(desired([]int{80}), nil, isolated(), Grants{}), "an address that is not there yet is acquired")
	assert.Equal(t, ReasonNoNodes, Fits(Desired{}, nil, isolated(), Grants{}).Reason)
}

// Who may write a Service reads what goes on on its own address: no name and no id of what others have there.
func TestSecurityNoticesNameNobodyElse(t *testing.T) {
	t.Parallel()
	ours := Address{ID: "ip", IP: "203.0.113.7", Owner: Owned}
	withRule, withFirewall := ours, ours
	withRule.Rules = []Item{{Rule: onPort("canary", "tcp", 81), Name: "canary", Mark: Mark{Owner: Foreign}}}
	withFirewall.Firewall = []Item{{Rule: access.Rule{ID: "canary", Range: access.Range{Protocol: "tcp", StartPort: 1, EndPort: 99, CIDRs: []string{annotation.Anyone}}}, Mark: Mark{Owner: Foreign}}}
	for _, a := range []Address{withRule, withFirewall} {
		assert.NotEmpty(t, a.foreign())
		assert.NotContains(t, a.foreign(), "canary")
	}
	notices := foreignAccess(desired([]int{80}, ranges("10.0.0.0/8"), func(d *Desired) { d.Firewall = true }), &withFirewall)
	require.Len(t, notices, 1)
	assert.NotContains(t, notices[0].Message, "canary")
	assert.Contains(t, notices[0].Message, "lets others reach port 80")
}

// A firewall rule of unknown origin on a wanted port changes only after our own rule has the port.
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
		{"the record names the port", idle(func(a *Address) { a.RecordedPorts = annotation.PortSet{"tcp": {80}} }), create},
		{"an address of ours", idle(func(a *Address) { a.Owner, a.Allocated, a.Tagged, a.Recorded = Owned, true, true, true }), create},
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

// someBook is an address book: what it says of each address.
type someBook struct {
	Book
	claims map[string]Claim
}

func (b someBook) Claim(address, _ string) Claim { return b.claims[address] }

// Whose an address is, and who may use it, by its tags and the address book.
func TestConsultAddressBook(t *testing.T) {
	t.Parallel()
	const ip, minutes = "203.0.113.7", 5 * time.Minute
	self := Service{UID: "self", Namespace: "shop", Name: "web"}
	own := Holder{UID: "self", Namespace: "shop", Name: "web", Proven: true}
	near := Holder{UID: "near", Namespace: "shop", Name: "api", Proven: true}
	far := Holder{UID: "far", Namespace: "bank", Name: "ledger", Proven: true}
	open := Holder{UID: "open", Namespace: "bank", Name: "public", ShareWith: []string{"shop"}, Proven: true}
	everybody := Holder{UID: "all", Namespace: "bank", Name: "public", ShareWith: []string{"*"}, Proven: true}
	leaving := Holder{UID: "far", Namespace: "bank", Name: "ledger", Leaving: true, Proven: true}
	guest := func(h Holder, of string) Holder { h.GuestOf = of; return h }
	other := Holder{UID: "other", Namespace: "blog", Name: "post", ShareWith: []string{"*"}, Proven: true}

	untagged := Address{IP: ip, Owner: Unknown}
	tagged := func(uid, service string) Address {
		return Address{IP: ip, Owner: Foreign, TaggedUID: uid, TaggedService: service}
	}
	mine := Address{IP: ip, Owner: Owned, TaggedUID: "self", TaggedService: "shop/web"}
	kept := func(by string) Address { return Address{IP: ip, Owner: Foreign, Keeper: by} }
	for name, tc := range map[string]struct {
		address Address
		claim   Claim
		holder  string
		guestOf string
		refused bool
		shared  bool
	}{
		"nobody has it":                                 {address: untagged},
		"only the Service has it":                       {address: untagged, claim: Claim{Holders: []Holder{own}}},
		"the same namespace":                            {address: untagged, claim: Claim{Holders: []Holder{near}}, holder: "shop/api", shared: true},
		"another namespace":                             {address: untagged, claim: Claim{Holders: []Holder{far}}, holder: "bank/ledger", guestOf: "bank", refused: true, shared: true},
		"shared with the namespace":                     {address: untagged, claim: Claim{Holders: []Holder{open}}, holder: "bank/public", guestOf: "bank", shared: true},
		"shared with all":                               {address: untagged, claim: Claim{Holders: []Holder{everybody}}, holder: "bank/public", guestOf: "bank", shared: true},
		"the first one decides":                         {address: untagged, claim: Claim{Holders: []Holder{far, open, own}}, holder: "bank/ledger", guestOf: "bank", refused: true, shared: true},
		"the Service is the first":                      {address: untagged, claim: Claim{Holders: []Holder{own, far}}, shared: true},
		"the tags decide between those of a namespace":  {address: tagged("far", "bank/ledger"), claim: Claim{Holders: []Holder{open, far, own}}, holder: "bank/ledger", guestOf: "bank", refused: true, shared: true},
		"the tags come before who is first in the book": {address: tagged("far", "bank/ledger"), claim: Claim{Holders: []Holder{own, far}}, holder: "bank/ledger", guestOf: "bank", refused: true, shared: true},
		"the tags name a Service by its UID alone":      {address: tagged("far", ""), claim: Claim{Holders: []Holder{own, far}}, holder: "bank/ledger", guestOf: "bank", refused: true, shared: true},
		"the Service's tags, others share it":           {address: mine, claim: Claim{Holders: []Holder{far}}, shared: true},
		"tags of a Service that is gone":                {address: tagged("gone", "bank/old"), holder: "bank/old", guestOf: "bank", refused: true},
		"tags of one that is gone, same namespace":      {address: tagged("gone", "shop/old"), holder: "shop/old"},
		"tags of one that is gone, its guest is there":  {address: tagged("gone", "bank/old"), claim: Claim{Holders: []Holder{guest(near, "bank")}}, holder: "bank/old", guestOf: "bank", refused: true, shared: true},
		"left to guests":                                {address: tagged("", "bank/old"), claim: Claim{Holders: []Holder{guest(near, "bank")}}, guestOf: "bank", refused: true, shared: true},
		"left to guests, the owner comes back":          {address: tagged("", "shop/web"), claim: Claim{Holders: []Holder{guest(other, "shop")}}, shared: true},
		"left to guests, who are gone":                  {address: tagged("", "bank/old")},
		"guests by their records alone":                 {address: untagged, claim: Claim{Holders: []Holder{guest(near, "bank")}}, guestOf: "bank", refused: true, shared: true},
		"guests by records, the owner comes back":       {address: untagged, claim: Claim{Holders: []Holder{guest(other, "shop")}}, shared: true},
		"a guest's sharing counts for nothing":          {address: untagged, claim: Claim{Holders: []Holder{guest(other, "bank")}}, guestOf: "bank", refused: true, shared: true},
		"tags of another cluster":                       {address: Address{IP: ip, ForeignCluster: true, TaggedUID: "gone", TaggedService: "bank/old"}},
		"kept for another namespace":                    {address: kept("bank/old"), guestOf: "bank", refused: true},
		"kept for the namespace":                        {address: kept("shop/old")},
		"kept for the namespace, a guest has it":        {address: kept("shop/old"), claim: Claim{Holders: []Holder{other}}, shared: true},
		"kept, and in use since":                        {address: kept("bank/old"), claim: Claim{Holders: []Holder{open}}, holder: "bank/public", guestOf: "bank", shared: true},
		"reserved for another namespace":                {address: untagged, claim: Claim{Reserved: minutes, ReservedFor: "bank"}, guestOf: "bank", refused: true},
		"reserved for the namespace":                    {address: untagged, claim: Claim{Reserved: minutes, ReservedFor: "shop"}},
		"reserved before a restart":                     {address: untagged, claim: Claim{Reserved: minutes}, refused: true},
		"reserved, and in use since":                    {address: untagged, claim: Claim{Reserved: minutes, ReservedFor: "bank", Holders: []Holder{near}}, holder: "shop/api", shared: true},
		"reserved, and kept":                            {address: kept("shop/old"), claim: Claim{Reserved: minutes}},
		"used only by one that leaves":                  {address: mine, claim: Claim{Holders: []Holder{own, leaving}}},
		"owned by one that leaves":                      {address: untagged, claim: Claim{Holders: []Holder{leaving}}, holder: "bank/ledger", guestOf: "bank", refused: true},
		"what was known before is replaced":             {address: Address{IP: ip, Owner: Unknown, Holder: "bank/ledger", GuestOf: "bank", Shared: true, Refusal: &RefusalError{}}},
	} {
		a := Actual{Addresses: []Address{tc.address}}
		a.Consult(someBook{claims: map[string]Claim{ip: tc.claim}}, self)
		got := a.Addresses[0]
		assert.Equal(t, tc.holder, got.Holder, name)
		assert.Equal(t, tc.guestOf, got.GuestOf, name)
		assert.Equal(t, tc.refused, got.Refusal != nil, name)
		assert.Equal(t, tc.shared, got.Shared, name)
		if tc.refused {
			assert.NotRegexp(t, "bank|blog", got.Refusal.Error(), "%s: nobody is named", name)
			assert.Equal(t, tc.claim.Reserved > 0, got.Refusal.After > 0, name)
		}
	}
}
