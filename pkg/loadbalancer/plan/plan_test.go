// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

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
	return Rule{Name: RuleName(testLB, ProtocolTCP, port), Protocol: ProtocolTCP, Algorithm: "roundrobin", PublicPort: port, PrivatePort: 30000 + port, CIDRs: []string{annotation.Anyone}}
}

func ranges(r ...string) func(*Desired) {
	return func(d *Desired) {
		d.Ranges = r
		for i := range d.Rules {
			d.Rules[i].CIDRs = r
		}
	}
}

// run applies actions to a model as a server that does everything.
func run(a Actual, steps []Step) Actual {
	for i, s := range steps {
		a = s.Effect(a, outcomeFor(s, i))
	}
	return a
}

func planOf(d Desired, a Actual, limits Limits) []Step {
	steps, _ := Plan(d, a, limits)
	return steps
}

var serial atomic.Int64

func outcomeFor(s Step, i int) Outcome {
	o := Outcome{ID: fmt.Sprintf("%s-%d-%d", s.Kind(), i, serial.Add(1))}
	if a, ok := s.Action.(AllocateAddress); ok {
		o.IP = cmp.Or(a.IP, "203.0.113.50")
	}
	return o
}

func built(d Desired) Actual {
	a := run(Actual{}, planOf(d, Actual{}, Limits{}))
	return run(a, planOf(d, a, Limits{})) // the tag of a new address
}

// lines writes down what the JSON of steps says.
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
		k := s.Kind()
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

// stranger adds a firewall rule that nothing proves ours; left one that the Service's record names.
func stranger(a Actual, port int) Actual {
	a.Addresses[0].Firewall = append(a.Addresses[0].Firewall, access.Rule{Range: span("tcp", port, port, "0.0.0.0/0"), ID: "left"})
	return a
}

func left(a Actual, port int) Actual {
	a.Addresses[0].FirewallPorts = a.Addresses[0].FirewallPorts.union(PortSet{"tcp": {port}})
	return stranger(a, port)
}

func quiet(a Actual) Actual {
	a.Addresses[0].Settled = true
	return a
}

func TestPlan(t *testing.T) {
	base := desired([]int{80, 81})
	one := desired([]int{80})
	foreign := ActualRule{Rule: Rule{Name: "mine", PublicPort: 9000}, ID: "f", Owner: Foreign}
	upstream := func(change ...func(*Address)) Actual {
		addr := Address{
			ID: "ip", IP: "203.0.113.9", NetworkID: "net", Owner: Unknown, Known: true, InStatus: true, Allocated: true,
			Rules: []ActualRule{
				{Rule: rule(80), ID: "r80", State: "Active", Owner: Owned, Members: []string{"vm1", "vm2"}},
				{Rule: rule(81), ID: "r81", State: "Active", Owner: Owned, Members: []string{"vm1", "vm2"}},
			},
			Firewall: []access.Rule{
				{Range: span("tcp", 81, 81, "0.0.0.0/0"), ID: "f81"},
				{Range: span("tcp", 80, 80, "0.0.0.0/0"), ID: "f80"},
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
			want: []string{"allocate-address", "create-rule 80", "add-members 80 [vm1 vm2]", "create-rule 81", "add-members 81 [vm1 vm2]", "tag-rules", "open-firewall 80-81 [0.0.0.0/0]"},
		},
		{
			name: "create with gaps between ports", d: desired([]int{80, 443, 444}), a: Actual{},
			want: []string{"allocate-address", "create-rule 80", "add-members 80 [vm1 vm2]", "create-rule 443", "add-members 443 [vm1 vm2]", "create-rule 444", "add-members 444 [vm1 vm2]", "tag-rules", "open-firewall 80-80 [0.0.0.0/0]", "open-firewall 443-444 [0.0.0.0/0]"},
		},
		{
			name: "create without nodes", d: desired([]int{80}, func(d *Desired) { d.Members = nil }), a: Actual{},
			want: []string{"allocate-address", "create-rule 80", "tag-rules", "open-firewall 80-80 [0.0.0.0/0]"},
		},
		{name: "deny all opens nothing", d: desired([]int{80}, ranges(), func(d *Desired) { d.Rules[0].CIDRs = nil }), a: Actual{}, want: []string{"allocate-address", "create-rule 80", "add-members 80 [vm1 vm2]", "tag-rules"}},
		{name: "nothing to do", d: base, a: built(base), want: []string{}},
		{name: "adopt what upstream made: nothing but records", d: base, a: upstream(), want: []string{"remember-address", "tag-address", "tag-rules"}},
		{name: "adopt without tags", d: base, a: upstream(), limits: Limits{NoTags: true}, want: []string{"remember-address"}},
		{
			name: "legacy names and no protocol are left alone", d: base, a: upstream(func(a *Address) {
				for i := range a.Rules {
					a.Rules[i].Name, a.Rules[i].Protocol, a.Rules[i].CIDRs = fmt.Sprintf("%s-%d", testLB, a.Rules[i].PublicPort), "", nil
				}
			}), want: []string{"remember-address", "tag-address", "tag-rules"},
		},
		{name: "port added", d: base, a: built(one), want: []string{"remember-address", "create-rule 81", "add-members 81 [vm1 vm2]", "tag-rules", "open-firewall 81-81 [0.0.0.0/0]"}},
		{name: "port removed closes first", d: one, a: upstream(), limits: Limits{NoTags: true}, want: []string{"remember-address", "close-firewall 81-81 [0.0.0.0/0]", "delete-rule 81"}},
		{name: "port removed from a range", d: one, a: built(base), want: []string{"open-firewall 80-80 [0.0.0.0/1 128.0.0.0/1]", "close-firewall 80-81 [0.0.0.0/0]", "delete-rule 81"}},
		{
			name: "port removed with nothing on its way: the record follows", d: one, a: quiet(built(base)),
			want: []string{"open-firewall 80-80 [0.0.0.0/1 128.0.0.0/1]", "close-firewall 80-81 [0.0.0.0/0]", "delete-rule 81", "remember-address"},
		},
		{
			name: "node port changed", d: desired([]int{80}, func(d *Desired) { d.Rules[0].PrivatePort = 31000 }), a: built(one),
			want: []string{"delete-rule 80", "create-rule 80", "add-members 80 [vm1 vm2]", "tag-rules"},
		},
		{
			name: "proxy protocol in place", d: desired([]int{80}, func(d *Desired) {
				d.Rules[0].Protocol, d.Rules[0].Name = ProtocolTCPProxy, RuleName(testLB, ProtocolTCPProxy, 80)
			}), a: built(one), want: []string{"update-rule 80"},
		},
		{name: "algorithm in place", d: desired([]int{80}, func(d *Desired) { d.Rules[0].Algorithm = "source" }), a: built(one), want: []string{"update-rule 80"}},
		{name: "tightened to one range", d: desired([]int{80}, ranges("10.0.0.0/8")), a: built(one), want: []string{"open-firewall 80-80 [10.0.0.0/8]", "close-firewall 80-80 [0.0.0.0/0]", "update-rule 80"}},
		{
			name: "tightened to two ranges", d: desired([]int{80}, ranges("10.0.0.0/8", "172.16.0.0/12")), a: built(one),
			want: []string{"open-firewall 80-80 [10.0.0.0/8 172.16.0.0/12]", "close-firewall 80-80 [0.0.0.0/0]", "delete-rule 80", "create-rule 80", "add-members 80 [vm1 vm2]", "tag-rules"},
		},
		{
			name: "server without cidrlist in update", d: desired([]int{80}, ranges("10.0.0.0/8")), a: built(one), limits: Limits{NoCIDRUpdate: true},
			want: []string{"open-firewall 80-80 [10.0.0.0/8]", "close-firewall 80-80 [0.0.0.0/0]", "delete-rule 80", "create-rule 80", "add-members 80 [vm1 vm2]", "tag-rules"},
		},
		{name: "widened opens before it closes", d: one, a: built(desired([]int{80}, ranges("10.0.0.0/8"))), want: []string{"update-rule 80", "open-firewall 80-80 [0.0.0.0/0]", "close-firewall 80-80 [10.0.0.0/8]"}},
		{
			name: "a range more is opened beside", d: desired([]int{80}, ranges("10.0.0.0/8", "172.16.0.0/12")), a: built(desired([]int{80}, ranges("10.0.0.0/8"))),
			want: []string{"delete-rule 80", "create-rule 80", "add-members 80 [vm1 vm2]", "tag-rules", "open-firewall 80-80 [172.16.0.0/12]"},
		},
		{
			name: "denied to all", d: desired([]int{80}, ranges(), func(d *Desired) { d.Rules[0].CIDRs = nil }), a: built(one),
			want: []string{"close-firewall 80-80 [0.0.0.0/0]"},
		},
		{name: "nodes swapped: add before remove", d: desired([]int{80}, func(d *Desired) { d.Members = []string{"vm3"} }), a: built(one), want: []string{"add-members 80 [vm3]", "remove-members 80 [vm1 vm2]"}},
		{name: "nodes gone", d: desired([]int{80}, func(d *Desired) { d.Members = nil }), a: built(one), want: []string{"remove-members 80 [vm1 vm2]"}},
		{
			name: "a firewall rule removed by hand comes back", d: one, a: upstream(func(a *Address) {
				a.Recorded, a.Tagged, a.FirewallPorts = true, true, PortSet{"tcp": {80}}
				a.Rules = a.Rules[:1]
				a.Firewall = nil
			}),
			want: []string{"tag-rules", "open-firewall 80-80 [0.0.0.0/0]"},
		},
		{
			name: "a wider range added by hand to our port goes", d: desired([]int{80}, ranges("10.0.0.0/8")), a: upstream(func(a *Address) {
				a.Recorded, a.Tagged, a.FirewallPorts = true, true, PortSet{"tcp": {80}}
				a.Rules = a.Rules[:1]
				a.Rules[0].CIDRs = []string{"10.0.0.0/8"}
				a.Firewall = []access.Rule{{Range: span("tcp", 80, 80, "10.0.0.0/8"), ID: "a"}, {Range: span("tcp", 80, 80, "0.0.0.0/0"), ID: "b"}}
			}), want: []string{"close-firewall 80-80 [0.0.0.0/0]", "tag-rules"},
		},
		{
			name: "foreign items are left alone", d: base, a: upstream(func(a *Address) {
				a.Recorded, a.Tagged, a.FirewallPorts = true, true, PortSet{"tcp": {80, 81}}
				a.Rules = append(a.Rules, foreign)
				a.Firewall = append(a.Firewall, access.Rule{Range: span("tcp", 1, 65535, "10.9.0.0/16"), ID: "x"}, access.Rule{Range: span("udp", 80, 80, "0.0.0.0/0"), ID: "u"})
			}), want: []string{"tag-rules"},
		},
		{
			name: "a firewall rule left by a creation without an answer, its port and rule gone since", d: one, a: left(built(one), 443),
			want: []string{"close-firewall 443-443 [0.0.0.0/0]"},
		},
		{name: "delete with such a one", d: Desired{Absent: true}, a: left(built(one), 443), want: []string{"release-address"}},
		{
			name: "a firewall rule of somebody else's keeps the address", d: Desired{Absent: true}, a: stranger(built(one), 443),
			want: []string{"close-firewall 80-80 [0.0.0.0/0]", "delete-rule 80", "forget-address"},
		},
		{name: "delete what is wholly ours", d: Desired{Absent: true}, a: built(base), want: []string{"release-address"}},
		{
			name: "delete beside a foreign rule keeps the address", d: Desired{Absent: true}, a: upstream(func(a *Address) { a.Recorded = true; a.Rules = append(a.Rules, foreign) }),
			want: []string{"close-firewall 80-80 [0.0.0.0/0]", "close-firewall 81-81 [0.0.0.0/0]", "delete-rule 80", "delete-rule 81", "forget-address"},
		},
		{
			name: "delete on an address that is not ours to release", d: Desired{Absent: true}, a: upstream(func(a *Address) { a.Recorded, a.Allocated = true, false }),
			want: []string{"close-firewall 80-80 [0.0.0.0/0]", "close-firewall 81-81 [0.0.0.0/0]", "delete-rule 80", "delete-rule 81", "forget-address"},
		},
		{name: "delete and keep", d: Desired{Absent: true, KeepAddress: true}, a: built(one), want: []string{"close-firewall 80-80 [0.0.0.0/0]", "delete-rule 80", "forget-address"}},
		{name: "delete nothing", d: Desired{Absent: true}, a: Actual{}, want: []string{}},
		{
			name: "another address: the old one goes last", d: desired([]int{80}, func(d *Desired) { d.Address = "203.0.113.77" }), a: built(one),
			want: []string{"allocate-address", "create-rule 80", "add-members 80 [vm1 vm2]", "tag-rules", "open-firewall 80-80 [0.0.0.0/0]", "release-address"},
		},
		{
			name: "a rule whose deletion got stuck", d: one, a: upstream(func(a *Address) {
				a.Recorded, a.Tagged, a.FirewallPorts = true, true, PortSet{"tcp": {80}}
				a.Rules, a.Firewall = a.Rules[:1], a.Firewall[1:]
				a.Rules[0].State = "Deleting"
			}), want: []string{"delete-rule 80", "create-rule 80", "add-members 80 [vm1 vm2]", "tag-rules"},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got := planOf(tc.d, tc.a, tc.limits)
			assert.Equal(t, tc.want, lines(got))
			after := run(tc.a, got)
			assert.Empty(t, lines(planOf(tc.d, run(after, planOf(tc.d, after, tc.limits)), tc.limits)), "nothing is left to do")
			for _, a := range got {
				assert.NotEmpty(t, a.Label())
			}
		})
	}
}

func TestPolicies(t *testing.T) {
	changed := desired([]int{80}, func(d *Desired) { d.Rules[0].PrivatePort = 31000; d.Members = []string{"vm1", "vm3"} })
	plan := planOf(changed, built(desired([]int{80, 81})), Limits{})
	assert.Empty(t, PolicyDryRun.Filter(plan))
	assert.Equal(t, plan, PolicyApply.Filter(plan))
	for _, a := range PolicyNoDelete.Filter(plan) {
		assert.False(t, a.Destructive(), a.Label())
		assert.NotEqual(t, "create-rule", a.Kind(), "the rule it replaces stays")
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
		assert.Equal(t, []any{tc.lb, tc.protocol, tc.port, tc.legacy, tc.ok}, []any{lb, protocol, port, legacy, ok}, tc.name)
		if ok && !legacy {
			assert.Equal(t, tc.name, RuleName(lb, protocol, port))
		}
	}
}
