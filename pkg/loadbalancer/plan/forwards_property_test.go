// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"testing"

	"github.com/csccm/csccm/pkg/loadbalancer/internal/spread"
	"github.com/csccm/csccm/pkg/loadbalancer/plan/access"
)

// forward makes some of the TCP ports port forwardings, and lets some have UDP as well.
func (w world) forward(d *Desired) {
	var rules []Rule
	for _, r := range d.Rules {
		if w.IntN(2) == 0 || transport(r.Protocol) != ProtocolTCP {
			rules = append(rules, r)
			continue
		}
		d.Forwards = append(d.Forwards, ForwardPort{ProtocolTCP, r.PublicPort, r.PrivatePort})
		if w.IntN(2) == 0 {
			d.Forwards = append(d.Forwards, ForwardPort{ProtocolUDP, r.PublicPort, r.PrivatePort + 1000})
		}
	}
	d.Rules, d.UID, d.Buckets = rules, "uid", 1<<w.IntN(4)
	d.Serving = w.some(d.Members)
}

// some are one or more of the members, if there is any.
func (w world) some(members []string) []string {
	out := slices.DeleteFunc(slices.Clone(members), func(string) bool { return w.IntN(3) == 0 })
	if len(out) == 0 {
		return members
	}
	return out
}

// inIsolated moves a desired state to an isolated network, where port forwardings cannot tell sources apart.
func inIsolated(d Desired) Desired {
	d.Buckets = 0
	return d
}

// checkForwards: port forwardings of a port in a VPC never have a source in common; where covered is set, they have the
// wanted ones together.
func checkForwards(t *testing.T, seed uint64, a Actual, want Desired, covered bool) {
	t.Helper()
	for i := range a.Addresses {
		x := &a.Addresses[i]
		byPort := map[string][]Forward{}
		for _, f := range x.OwnForwards() {
			key := portText(f.Protocol, f.StartPort)
			for _, o := range byPort[key] {
				if x.VPCID == "" || len(spread.Common(o.sources(), f.sources())) > 0 {
					t.Fatalf("seed %d: two forwardings of port %s have sources in common: %v %v", seed, key, o.CIDRs, f.CIDRs)
				}
			}
			byPort[key] = append(byPort[key], f)
		}
		if !covered || want.Absent || len(want.Members) == 0 || x.VPCID == "" || Target(want, a).ID != x.ID {
			continue
		}
		for _, p := range want.Forwards {
			var all []string
			for _, f := range byPort[portText(p.Protocol, p.PublicPort)] {
				all = append(all, f.CIDRs...)
				if !slices.Contains(want.Serving, f.Member) || f.PrivatePort != p.PrivatePort {
					t.Fatalf("seed %d: port %s leads to %s port %d", seed, portText(p.Protocol, p.PublicPort), f.Member, f.PrivatePort)
				}
			}
			if !access.Same(all, want.Ranges) {
				t.Fatalf("seed %d: the forwardings of port %d let in %v, not %v", seed, p.PublicPort, all, want.Ranges)
			}
		}
	}
}
