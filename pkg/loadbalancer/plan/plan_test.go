// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer/plan/access"
)

const testLB = "a0123456789abcdef0123456789abcde"

func desired(ports []int, change ...func(*Desired)) Desired {
	d := Desired{NetworkID: "net", Firewall: true, Ranges: []string{annotation.Anyone}, Members: []string{"vm1", "vm2"}}
	for _, p := range ports {
		d.Rules = append(d.Rules, rule(p))
	}
	for _, c := range change {
		c(&d)
	}
	return d
}

func rule(port int) Rule {
	return Rule{
		Name:        RuleName(testLB, ProtocolTCP, port),
		Protocol:    ProtocolTCP,
		Algorithm:   "roundrobin",
		PublicPort:  port,
		PrivatePort: 30000 + port,
		CIDRs:       []string{annotation.Anyone},
	}
}

// found returns an existing rule of the Service that equals the desired rule.
func found(id string, want Rule, members ...string) Item {
	item := Step{Kind: CreateRule, Port: want.PublicPort, Rule: want}.created(Outcome{ID: id})
	item.State, item.Members = StateActive, members
	return item
}

func ranges(r ...string) func(*Desired) {
	return func(d *Desired) {
		d.Ranges = r
		for i := range d.Rules {
			d.Rules[i].CIDRs = r
		}
	}
}

// run applies actions to a model, like a server that executes all of them.
func run(a Actual, steps []Step) Actual {
	a = a.Clone()
	for i, s := range steps {
		s.Effect(&a, outcomeFor(s, i))
	}
	return a
}

func planOf(d Desired, a Actual, limits Limits) []Step {
	steps, _ := Plan(d, a, limits)
	return steps
}

var serial atomic.Int64

func outcomeFor(s Step, i int) Outcome {
	o := Outcome{ID: fmt.Sprintf("%s-%d-%d", s.Kind, i, serial.Add(1))}
	if s.Kind == AllocateAddress {
		o.IP = cmp.Or(s.IP, "203.0.113.50")
	}
	return o
}

func built(d Desired) Actual {
	return run(Actual{}, planOf(d, Actual{}, Limits{}))
}

// lines returns the JSON of steps as lines of text.
func lines(steps []Step) []string {
	out := []string{}
	for _, s := range steps {
		var a struct {
			Port     int          `json:"port"`
			Firewall access.Range `json:"firewall"`
			Members  []string     `json:"members"`
		}

		data, err := json.Marshal(s)
		if err = errors.Join(err, json.Unmarshal(data, &a)); err != nil {
			panic(err)
		}

		k := s.Kind
		if a.Port != 0 {
			k += fmt.Sprintf(" %d", a.Port)
		}

		if a.Firewall.Protocol != "" {
			k += fmt.Sprintf(" %d-%d %v", a.Firewall.StartPort, a.Firewall.EndPort, a.Firewall.CIDRs)
		}

		if len(a.Members) > 0 {
			k += fmt.Sprintf(" %v", a.Members)
		}

		out = append(out, k)
	}

	return out
}

// stranger adds a firewall rule of unknown origin.
func stranger(a Actual, port int) Actual {
	a.Addresses[0].Firewall = append(a.Addresses[0].Firewall,
		Item{Rule: access.Rule{Range: span("tcp", port, port, "0.0.0.0/0"), ID: "left"}})
	return a
}

// left adds a firewall rule of unknown origin on a port that the Service's record names.
func left(a Actual, port int) Actual {
	a.Addresses[0].RecordedPorts = a.Addresses[0].RecordedPorts.Union(annotation.PortSet{"tcp": {port}})
	return stranger(a, port)
}

func TestPlan(t *testing.T) {
	base := desired([]int{80, 81})
	one := desired([]int{80})
	foreign := Item{Rule: onPort("f", "tcp", 9000), Name: "mine", Mark: Mark{Owner: Foreign}}
	recorded := func(ports ...int) func(*Address) {
		return func(a *Address) { a.Recorded, a.Tagged, a.RecordedPorts = true, true, annotation.PortSet{"tcp": ports} }
	}
	upstream := func(change ...func(*Address)) Actual {
		addr := Address{
			ID: "ip", IP: "203.0.113.9", NetworkID: "net", Owner: Unknown, InStatus: true, Allocated: true,
			Rules: []Item{
				found("r80", rule(80), "vm1", "vm2"),
				found("r81", rule(81), "vm1", "vm2"),
			},
			Firewall: []Item{
				{Rule: access.Rule{Range: span("tcp", 81, 81, "0.0.0.0/0"), ID: "f81"}},
				{Rule: access.Rule{Range: span("tcp", 80, 80, "0.0.0.0/0"), ID: "f80"}},
			},
		}
		for _, c := range change {
			c(&addr)
		}
		return Actual{Addresses: []Address{addr}}
	}

	tests := []struct {
		name   string
		d      Desired
		a      Actual
		limits Limits
		want   []string
	}{
		{
			name: "create", d: base, a: Actual{},
			want: []string{"allocate-address", "tag-address", "create-rule 80", "add-members 80 [vm1 vm2]",
				"create-rule 81", "add-members 81 [vm1 vm2]", "tag-rules", "open-firewall 80-81 [0.0.0.0/0]",
				"tag-firewall"},
		},
		{
			name: "create with gaps between ports", d: desired([]int{80, 443, 444}), a: Actual{},
			want: []string{"allocate-address", "tag-address", "create-rule 80", "add-members 80 [vm1 vm2]",
				"create-rule 443", "add-members 443 [vm1 vm2]", "create-rule 444", "add-members 444 [vm1 vm2]",
				"tag-rules", "open-firewall 80-80 [0.0.0.0/0]", "open-firewall 443-444 [0.0.0.0/0]", "tag-firewall"},
		},
		{
			name: "create without nodes", d: desired([]int{80}, func(d *Desired) { d.Members = nil }), a: Actual{},
			want: []string{"allocate-address", "tag-address", "create-rule 80", "tag-rules",
				"open-firewall 80-80 [0.0.0.0/0]", "tag-firewall"},
		},
		{
			name: "deny all opens nothing",
			d:    desired([]int{80}, ranges()),
			a:    Actual{},
			want: []string{"allocate-address", "tag-address", "create-rule 80", "add-members 80 [vm1 vm2]",
				"tag-rules"},
		},
		{name: "nothing to do", d: base, a: built(base), want: []string{}},
		{
			name: "adopt what upstream made: nothing but tags",
			d:    base,
			a:    upstream(),
			want: []string{"tag-address", "tag-rules", "tag-firewall"},
		},
		{name: "adopt without tags", d: base, a: upstream(), limits: Limits{NoTags: true}, want: []string{}},
		{
			name: "legacy names and no protocol are left alone", d: base, a: upstream(func(a *Address) {
				for i := range a.Rules {
					a.Rules[i].Name, a.Rules[i].Protocol, a.Rules[i].CIDRs = fmt.Sprintf("%s-%d", testLB,
						a.Rules[i].StartPort), "", nil
				}
			}), want: []string{"tag-address", "tag-rules", "tag-firewall"},
		},
		{
			name: "port added",
			d:    base,
			a:    built(one),
			want: []string{"create-rule 81", "add-members 81 [vm1 vm2]", "tag-rules", "open-firewall 81-81 [0.0.0.0/0]",
				"tag-firewall"},
		},
		{
			name: "nobody is served any more comes first",
			d:    desired([]int{80, 81}, func(d *Desired) { d.Members = nil }),
			a:    built(one),
			want: []string{"remove-members 80 [vm1 vm2]", "create-rule 81", "tag-rules",
				"open-firewall 81-81 [0.0.0.0/0]", "tag-firewall"},
		},
		{
			name:   "port removed closes first",
			d:      one,
			a:      upstream(),
			limits: Limits{NoTags: true},
			want:   []string{"close-firewall 81-81 [0.0.0.0/0]", "delete-rule 81"},
		},
		{
			name: "port removed from a range",
			d:    one,
			a:    built(base),
			want: []string{"open-firewall 80-80 [0.0.0.0/1 128.0.0.0/1]", "close-firewall 80-81 [0.0.0.0/0]",
				"delete-rule 81", "tag-firewall"},
		},
		{
			name: "node port changed",
			d:    desired([]int{80}, func(d *Desired) { d.Rules[0].PrivatePort = 31000 }),
			a:    built(one),
			want: []string{"delete-rule 80", "create-rule 80", "add-members 80 [vm1 vm2]", "tag-rules"},
		},
		{
			name: "proxy protocol in place", d: desired([]int{80}, func(d *Desired) {
				d.Rules[0].Protocol, d.Rules[0].Name = ProtocolTCPProxy, RuleName(testLB, ProtocolTCPProxy, 80)
			}), a: built(one), limits: Limits{InPlace: true}, want: []string{"update-rule 80"},
		},
		{
			name: "proxy protocol by way of another algorithm",
			d:    desired([]int{80}, func(d *Desired) { d.Rules[0].Protocol = ProtocolTCPProxy }),
			a:    built(one),
			want: []string{"update-rule 80", "update-rule 80"},
		},
		{
			name: "proxy protocol with another algorithm",
			d: desired([]int{80},
				func(d *Desired) { d.Rules[0].Protocol, d.Rules[0].Algorithm = ProtocolTCPProxy, "source" }),
			a:    built(one),
			want: []string{"update-rule 80"},
		},
		{
			name: "algorithm in place",
			d:    desired([]int{80}, func(d *Desired) { d.Rules[0].Algorithm = "source" }),
			a:    built(one),
			want: []string{"update-rule 80"},
		},
		{
			name:   "tightened to one range",
			d:      desired([]int{80}, ranges("10.0.0.0/8")),
			a:      built(one),
			limits: Limits{InPlace: true},
			want: []string{"open-firewall 80-80 [10.0.0.0/8]", "close-firewall 80-80 [0.0.0.0/0]", "update-rule 80",
				"tag-firewall"},
		},
		{
			name: "tightened to two ranges",
			d:    desired([]int{80}, ranges("10.0.0.0/8", "172.16.0.0/12")),
			a:    built(one),
			want: []string{"open-firewall 80-80 [10.0.0.0/8 172.16.0.0/12]", "close-firewall 80-80 [0.0.0.0/0]",
				"delete-rule 80", "create-rule 80", "add-members 80 [vm1 vm2]", "tag-rules", "tag-firewall"},
		},
		{
			name: "tightened where rules are not known to change in place",
			d:    desired([]int{80}, ranges("10.0.0.0/8")),
			a:    built(one),
			want: []string{"open-firewall 80-80 [10.0.0.0/8]", "close-firewall 80-80 [0.0.0.0/0]", "delete-rule 80",
				"create-rule 80", "add-members 80 [vm1 vm2]", "tag-rules", "tag-firewall"},
		},
		{
			name:   "widened opens before it closes",
			d:      one,
			a:      built(desired([]int{80}, ranges("10.0.0.0/8"))),
			limits: Limits{InPlace: true},
			want: []string{"update-rule 80", "open-firewall 80-80 [0.0.0.0/0]", "tag-firewall",
				"close-firewall 80-80 [10.0.0.0/8]"},
		},
		{
			name: "a range more is opened beside",
			d:    desired([]int{80}, ranges("10.0.0.0/8", "172.16.0.0/12")),
			a:    built(desired([]int{80}, ranges("10.0.0.0/8"))),
			want: []string{"delete-rule 80", "create-rule 80", "add-members 80 [vm1 vm2]", "tag-rules",
				"open-firewall 80-80 [172.16.0.0/12]", "tag-firewall"},
		},
		{
			name: "denied to all",
			d:    desired([]int{80}, ranges()),
			a:    built(one),
			want: []string{"close-firewall 80-80 [0.0.0.0/0]"},
		},
		{
			name: "nodes swapped: add before remove",
			d:    desired([]int{80}, func(d *Desired) { d.Members = []string{"vm3"} }),
			a:    built(one),
			want: []string{"add-members 80 [vm3]", "remove-members 80 [vm1 vm2]"},
		},
		{
			name: "nodes gone",
			d:    desired([]int{80}, func(d *Desired) { d.Members = nil }),
			a:    built(one),
			want: []string{"remove-members 80 [vm1 vm2]"},
		},
		{
			name: "a firewall rule removed by hand comes back",
			d:    one,
			a:    upstream(recorded(80), func(a *Address) { a.Rules, a.Firewall = a.Rules[:1], nil }),
			want: []string{"tag-rules", "open-firewall 80-80 [0.0.0.0/0]", "tag-firewall"},
		},
		{
			name: "a wider range added by hand to our port goes",
			d:    desired([]int{80}, ranges("10.0.0.0/8")),
			a: upstream(recorded(80), func(a *Address) {
				a.Rules = a.Rules[:1]
				a.Rules[0].CIDRs = []string{"10.0.0.0/8"}
				a.Firewall = []Item{
					{Rule: access.Rule{Range: span("tcp", 80, 80, "10.0.0.0/8"), ID: "a"}},
					{Rule: access.Rule{Range: span("tcp", 80, 80, "0.0.0.0/0"), ID: "b"}},
				}
			}), want: []string{"close-firewall 80-80 [0.0.0.0/0]", "tag-rules", "tag-firewall"},
		},
		{
			name: "foreign items are left alone", d: base, a: upstream(recorded(80, 81), func(a *Address) {
				a.Rules = append(a.Rules, foreign)
				a.Firewall = append(a.Firewall,
					Item{Rule: access.Rule{Range: span("tcp", 1, 65535, "10.9.0.0/16"), ID: "x"}},
					Item{Rule: access.Rule{Range: span("udp", 80, 80, "0.0.0.0/0"), ID: "u"}})
			}), want: []string{"tag-rules", "tag-firewall"},
		},
		{
			name: "a firewall rule left by a creation without an answer, its port and rule gone since",
			d:    one,
			a:    left(built(one), 443),
			want: []string{"close-firewall 443-443 [0.0.0.0/0]"},
		},
		{
			name: "delete with such a one",
			d:    Desired{Absent: true},
			a:    left(built(one), 443),
			want: []string{"release-address"},
		},
		{
			name: "a firewall rule of somebody else's keeps the address",
			d:    Desired{Absent: true},
			a:    stranger(built(one), 443),
			want: []string{"close-firewall 80-80 [0.0.0.0/0]", "delete-rule 80", "forget-address"},
		},
		{
			name: "delete what is wholly ours",
			d:    Desired{Absent: true},
			a:    built(base),
			want: []string{"release-address"},
		},
		{
			name: "delete beside a foreign rule keeps the address",
			d:    Desired{Absent: true},
			a:    upstream(func(a *Address) { a.Recorded = true; a.Rules = append(a.Rules, foreign) }),
			want: []string{"close-firewall 80-80 [0.0.0.0/0]", "close-firewall 81-81 [0.0.0.0/0]", "delete-rule 80",
				"delete-rule 81", "forget-address"},
		},
		{
			name: "delete on an address that is not ours to release",
			d:    Desired{Absent: true},
			a:    upstream(func(a *Address) { a.Recorded, a.Allocated = true, false }),
			want: []string{"close-firewall 80-80 [0.0.0.0/0]", "close-firewall 81-81 [0.0.0.0/0]", "delete-rule 80",
				"delete-rule 81", "forget-address"},
		},
		{
			name: "delete and keep",
			d:    Desired{Absent: true, KeepAddress: true},
			a:    built(one),
			want: []string{"close-firewall 80-80 [0.0.0.0/0]", "delete-rule 80", "forget-address"},
		},
		{name: "delete nothing", d: Desired{Absent: true}, a: Actual{}, want: []string{}},
		{
			name: "another address: the old one goes last",
			d:    desired([]int{80}, func(d *Desired) { d.Address = "203.0.113.77" }),
			a:    built(one),
			want: []string{"allocate-address", "tag-address", "create-rule 80", "add-members 80 [vm1 vm2]", "tag-rules",
				"open-firewall 80-80 [0.0.0.0/0]", "tag-firewall", "release-address"},
		},
		{
			name: "a rule whose deletion got stuck", d: one, a: upstream(recorded(80), func(a *Address) {
				a.Rules, a.Firewall = a.Rules[:1], a.Firewall[1:]
				a.Rules[0].Deleting = true
			}),
			want: []string{"delete-rule 80", "create-rule 80", "add-members 80 [vm1 vm2]", "tag-rules", "tag-firewall"},
		},
	}

	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got := planOf(tc.d, tc.a, tc.limits)
			assert.Equal(t, tc.want, lines(got))
			after := run(tc.a, got)
			assert.Empty(t, lines(planOf(tc.d, run(after, planOf(tc.d, after, tc.limits)), tc.limits)),
				"nothing is left to do")
			for _, a := range got {
				assert.NotEmpty(t, a.Label())
			}
		})
	}
}

func TestPolicies(t *testing.T) {
	changed := desired([]int{80},
		func(d *Desired) { d.Rules[0].PrivatePort = 31000; d.Members = []string{"vm1", "vm3"} })
	plan := planOf(changed, built(desired([]int{80, 81})), Limits{})
	assert.Empty(t, PolicyDryRun.Filter(plan))
	assert.Equal(t, plan, PolicyApply.Filter(plan))
	for _, a := range PolicyNoDelete.Filter(plan) {
		assert.False(t, a.Destructive(), a.Label())
		assert.NotEqual(t, "create-rule", a.Kind, "the rule it replaces stays")
	}
}

func TestRuleNames(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct {
		name, lb, protocol string
		port               int
		legacy, ok         bool
	}{
		{testLB + "-tcp-80", testLB, "tcp", 80, false, true},
		{testLB + "-tcp-proxy-443", testLB, "tcp-proxy", 443, false, true},
		{testLB + "-udp-53", testLB, "udp", 53, false, true},
		{testLB + "-8080", testLB, "", 8080, true, true},
		{testLB + "-tcp-080", "", "", 0, false, false},
		{testLB + "-tcp-70000", "", "", 0, false, false},
		{testLB + "-sctp-80", "", "", 0, false, false},
		{testLB + "x-tcp-80", "", "", 0, false, false},
		{"mine-tcp-80", "", "", 0, false, false},
		{"K8s_svc_kubernetes_default_web-tcp-80", "", "", 0, false, false},
		{testLB, "", "", 0, false, false},
		{"", "", "", 0, false, false},
	} {
		lb, protocol, port, legacy, ok := ParseRuleName(tc.name)
		assert.Equal(t, []any{tc.lb, tc.protocol, tc.port, tc.legacy, tc.ok}, []any{lb, protocol, port, legacy, ok},
			tc.name)
		if ok && !legacy {
			assert.Equal(t, tc.name, RuleName(lb, protocol, port))
		}
	}
}

// A change counts as a repair of drift if the plan for the previous desired state would make the change as well.
func TestRepairs(t *testing.T) {
	t.Parallel()
	before := desired([]int{80, 443})
	at := On{AddressID: "address", IP: built(before).Addresses[0].IP}
	without := func(port int) func(*Actual) {
		return func(a *Actual) {
			a.Addresses[0].Rules = slices.DeleteFunc(a.Addresses[0].Rules,
				func(r Item) bool { return r.StartPort == port })
		}
	}

	nodes := func(names ...string) func(*Desired) { return func(d *Desired) { d.Members = names } }
	algorithm := func(d *Desired) { d.Rules[1].Algorithm = "source" }
	nodePort := func(d *Desired) { d.Rules[1].PrivatePort++ }
	change := func(f func(*Item)) func(*Actual) {
		return func(a *Actual) { f(a.Addresses[0].Rule("", 443)) }
	}
	closed := func(a *Actual) { a.Addresses[0].Firewall = a.Addresses[0].Firewall[:1] }
	for name, c := range map[string]struct {
		now   func(*Desired)
		drift func(*Actual)
		tried []Step
		want  []string
	}{
		"nothing":               {},
		"nodes changed":         {now: nodes("vm1", "vm3")},
		"the algorithm changed": {now: algorithm},
		"a rule was removed":    {drift: without(443), want: []string{"create-rule", "add-members"}},
		"and nodes changed": {
			now:   nodes("vm1", "vm3"),
			drift: without(443),
			want:  []string{"create-rule", "add-members"},
		},
		"and no node stayed": {now: nodes("vm3"), drift: without(443), want: []string{"create-rule"}},
		"and the algorithm changed": {
			now:   algorithm,
			drift: without(443),
			want:  []string{"create-rule", "add-members"},
		},
		"a rule that is not wanted any more": {now: func(d *Desired) { d.Rules = d.Rules[:1] }, drift: without(443)},
		"a rule that was not wanted before":  {now: func(d *Desired) { d.Rules = append(d.Rules, rule(8443)) }},
		"a VM was destroyed, its Node leaves": {
			now:   nodes("vm1", "vm3"),
			drift: change(func(r *Item) { r.Members = []string{"vm1"} }),
		},
		"a member was removed, another Node joins": {
			now:   nodes("vm1", "vm2", "vm3"),
			drift: change(func(r *Item) { r.Members = []string{"vm1"} }),
			want:  []string{"add-members"},
		},
		"an algorithm was changed, another is wanted": {
			now: algorithm, drift: change(func(r *Item) { r.Algorithm = "leastconn" }), want: []string{"update-rule"},
		},
		"the firewall was closed":                        {drift: closed, want: []string{"open-firewall"}},
		"the firewall was closed, which others pass now": {now: ranges("192.0.2.0/24"), drift: closed},
		"we failed to replace a rule": {
			now: nodePort, drift: without(443), tried: []Step{
				{Kind: DeleteRule, On: at, Port: 443}, {Kind: CreateRule, On: at, Port: 443},
				{Kind: AddMembers, On: at, Port: 443, Members: before.Members},
			},
		},
		"we failed to remove a member of a rule that is gone": {
			now: nodes("vm1"), drift: without(443), want: []string{"create-rule", "add-members"},
			tried: []Step{{Kind: RemoveMembers, On: at, Port: 443, Members: []string{"vm2"}}},
		},
		"we failed to change who passes the firewall": {
			drift: closed,
			tried: []Step{{Kind: CloseFirewall, On: at, Access: built(before).Addresses[0].Firewall[1].Range}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			actual := built(before)
			actual.Addresses[0].ID = "address"
			if c.drift != nil {
				c.drift(&actual)
			}
			d := desired([]int{80, 443})
			if c.now != nil {
				c.now(&d)
			}
			tried := Changed{}
			tried.Add(c.tried)
			var kinds []string
			for _, s := range Repairs(planOf(d, actual, Limits{}), planOf(before, actual, Limits{}), tried) {
				kinds = append(kinds, s.Kind)
			}
			assert.Equal(t, c.want, kinds)
		})
	}
}

func TestOpenedPorts(t *testing.T) {
	t.Parallel()
	a := Desired{
		Rules: []Rule{
			{Protocol: ProtocolTCP, PublicPort: 443},
			{Protocol: ProtocolTCPProxy, PublicPort: 80},
			{Protocol: "udp", PublicPort: 53},
		},
	}.Opened()
	assert.Equal(t, "tcp:80,443 udp:53", a.String())
	assert.Equal(t, a, annotation.ParsePorts(a.String()))
	assert.Equal(t, "tcp:80,443,8080 udp:53", a.Union(annotation.PortSet{"tcp": {8080, 80}}).String())
	assert.Empty(t, annotation.PortSet(nil).String())
	assert.Nil(t, annotation.ParsePorts(""))
	assert.Equal(t, "tcp:80", annotation.ParsePorts("tcp:80,x").String(), "what cannot be read proves nothing")
}

func TestTextsCount(t *testing.T) {
	t.Parallel()
	one := Step{Kind: TagFirewall, Items: 1}
	assert.Equal(t, "1 action: tag 1 firewall rule", Text([]Step{one}))
	assert.Equal(t, "2 actions, the first: tag 1 firewall rule", Text([]Step{one, one}))
	assert.Equal(t, "tag 2 items in ACL l", Step{Kind: TagACL, On: On{ACLID: "l"}, Items: 2}.Label())
	assert.Equal(t, "remove 2 members from the rule of port 80",
		Step{Kind: RemoveMembers, Port: 80, Members: []string{"a", "b"}}.Label())
}

// Scripts read the JSON of csccm plan -o json, so kinds, labels and fields must not change.
func TestActionsAsJSON(t *testing.T) {
	t.Parallel()

	on := On{AddressID: "ip", IP: "203.0.113.50"}
	tls := rule(80)
	tls.Certificate, tls.Stickiness = "c1", &annotation.Stickiness{Method: "SourceBased"}
	f := span("tcp", 80, 81, "10.0.0.0/8")
	const ruleJSON = `{"name":"a0123456789abcdef0123456789abcde-tcp-80","protocol":"tcp","algorithm":"roundrobin","publicPort":80,"privatePort":30080,"cidrs":["0.0.0.0/0"]}`
	const tlsJSON = `{"name":"a0123456789abcdef0123456789abcde-tcp-80","protocol":"tcp","algorithm":"roundrobin","publicPort":80,"privatePort":30080,"cidrs":["0.0.0.0/0"],"stickiness":{"method":"SourceBased"},"certificate":"c1"}`
	for _, tc := range []struct {
		s    Step
		want string
	}{
		{Step{Kind: AllocateAddress, On: On{IP: "203.0.113.60"}, NetworkID: "net", VPCID: "vpc"},
			`"kind":"allocate-address","label":"acquire address 203.0.113.60 in VPC vpc","ip":"203.0.113.60","networkID":"net","vpcID":"vpc"`},
		{Step{Kind: TagAddress, On: on},
			`"kind":"tag-address","label":"tag address 203.0.113.50","addressID":"ip","ip":"203.0.113.50"`},
		{Step{Kind: ReleaseAddress, On: on},
			`"kind":"release-address","label":"release address 203.0.113.50","addressID":"ip","ip":"203.0.113.50"`},
		{Step{Kind: DisownAddress, On: on, Allocated: true, Keep: true, Note: "why"},
			`"kind":"forget-address","label":"leave address 203.0.113.50: why","addressID":"ip","ip":"203.0.113.50","allocated":true,"keep":true,"note":"why"`},
		{Step{Kind: CreateRule, On: on, Port: 80, Rule: rule(80)},
			`"kind":"create-rule","label":"create rule a0123456789abcdef0123456789abcde-tcp-80 on 203.0.113.50 (80 to node port 30080, tcp, roundrobin)","addressID":"ip","ip":"203.0.113.50","port":80,"rule":` + ruleJSON},
		{Step{Kind: UpdateRule, On: on, ItemID: "r80", Port: 80, Rule: rule(80)},
			`"kind":"update-rule","label":"update rule of port 80 on 203.0.113.50 (tcp, roundrobin)","addressID":"ip","ip":"203.0.113.50","itemID":"r80","port":80,"rule":` + ruleJSON},
		{Step{Kind: DeleteRule, On: on, ItemID: "r80", Port: 80, Internal: true, Note: "why"},
			`"kind":"delete-rule","label":"delete rule of port 80 on 203.0.113.50: why","addressID":"ip","ip":"203.0.113.50","internal":true,"itemID":"r80","port":80,"note":"why"`},
		{Step{Kind: TagRules, On: on, Items: 1},
			`"kind":"tag-rules","label":"tag 1 rule on 203.0.113.50","addressID":"ip","ip":"203.0.113.50","items":1`},
		{Step{Kind: AddMembers, On: on, Port: 80, Members: []string{"vm1"}},
			`"kind":"add-members","label":"add 1 member to the rule of port 80 on 203.0.113.50","addressID":"ip","ip":"203.0.113.50","port":80,"members":["vm1"]`},
		{Step{Kind: RemoveMembers, On: on, ItemID: "r80", Port: 80, Members: []string{"vm1"}},
			`"kind":"remove-members","label":"remove 1 member from the rule of port 80 on 203.0.113.50","addressID":"ip","ip":"203.0.113.50","itemID":"r80","port":80,"members":["vm1"]`},
		{Step{Kind: SetStickiness, On: on, Port: 80, Rule: tls},
			`"kind":"set-stickiness","label":"set stickiness SourceBased of port 80 on 203.0.113.50","addressID":"ip","ip":"203.0.113.50","port":80,"rule":` + tlsJSON},
		{Step{Kind: DeleteStickiness, On: on, ItemID: "r80", Port: 80, PolicyID: "p"},
			`"kind":"drop-stickiness","label":"remove stickiness of port 80 on 203.0.113.50","addressID":"ip","ip":"203.0.113.50","itemID":"r80","port":80,"policyID":"p"`},
		{Step{Kind: BindCertificate, On: on, ItemID: "r80", Port: 80, Rule: tls},
			`"kind":"bind-certificate","label":"bind certificate c1 to port 80 on 203.0.113.50","addressID":"ip","ip":"203.0.113.50","itemID":"r80","port":80,"rule":` + tlsJSON},
		{Step{Kind: CreateForward, On: on, Protocol: "udp", Port: 53, PrivatePort: 30053, Member: "vm1"},
			`"kind":"create-forward","label":"forward port 53/udp on 203.0.113.50 to node port 30053 of vm1","addressID":"ip","ip":"203.0.113.50","protocol":"udp","port":53,"privatePort":30053,"member":"vm1"`},
		{Step{Kind: UpdateForward, On: on, ItemID: "f53", Protocol: "udp", Port: 53, Member: "vm2", From: "vm1"},
			`"kind":"update-forward","label":"change the forwarding of port 53/udp on 203.0.113.50 to vm2","addressID":"ip","ip":"203.0.113.50","itemID":"f53","protocol":"udp","port":53,"member":"vm2","from":"vm1"`},
		{Step{Kind: DeleteForward, On: on, ItemID: "f53", Protocol: "udp", Port: 53},
			`"kind":"delete-forward","label":"delete the forwarding of port 53/udp on 203.0.113.50","addressID":"ip","ip":"203.0.113.50","itemID":"f53","protocol":"udp","port":53`},
		{Step{Kind: OpenFirewall, On: on, Access: f},
			`"kind":"open-firewall","label":"open ports 80-81 on 203.0.113.50 to 10.0.0.0/8","addressID":"ip","ip":"203.0.113.50","firewall":{"protocol":"tcp","startPort":80,"endPort":81,"cidrs":["10.0.0.0/8"]}`},
		{Step{Kind: CloseFirewall, On: on, ItemID: "f", Access: f},
			`"kind":"close-firewall","label":"close ports 80-81 on 203.0.113.50 for 10.0.0.0/8","addressID":"ip","ip":"203.0.113.50","itemID":"f","firewall":{"protocol":"tcp","startPort":80,"endPort":81,"cidrs":["10.0.0.0/8"]}`},
		{Step{Kind: OpenACL, On: On{ACLID: "acl"}, Access: f},
			`"kind":"open-acl","label":"open ports 80-81 in ACL acl to 10.0.0.0/8","aclID":"acl","firewall":{"protocol":"tcp","startPort":80,"endPort":81,"cidrs":["10.0.0.0/8"]}`},
		{Step{Kind: CloseACL, On: On{ACLID: "acl"}, ItemID: "i", Access: f},
			`"kind":"close-acl","label":"close ports 80-81 in ACL acl for 10.0.0.0/8","aclID":"acl","itemID":"i","firewall":{"protocol":"tcp","startPort":80,"endPort":81,"cidrs":["10.0.0.0/8"]}`},
	} {
		tc.s.Wave, tc.s.Replaces = 6, []string{"old"}

		got, err := json.Marshal(tc.s)
		require.NoError(t, err)
		assert.JSONEq(t, `{"wave":6,"replaces":["old"],`+tc.want+`}`, string(got))
	}
}
