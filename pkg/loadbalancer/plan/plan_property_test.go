// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer/plan/access"
)

// world generates random desired states and random items that belong to others.
type world struct{ *rand.Rand }

var somePorts = []int{22, 80, 81, 82, 443, 444, 8443}

var someRanges = [][]string{
	{annotation.Anyone}, {"10.0.0.0/8"}, {"10.1.0.0/16"}, {"10.0.0.0/8", "192.168.0.0/16"}, {"192.168.0.0/16"}, {},
}

func (w world) desired() Desired {
	var ports []int
	for _, p := range somePorts {
		if w.IntN(2) == 0 {
			ports = append(ports, p)
		}
	}

	if len(ports) == 0 {
		ports = []int{80}
	}

	d := desired(ports)
	d.Ranges = someRanges[w.IntN(len(someRanges))]
	protocol, algorithm, shift := ProtocolTCP, "roundrobin", 0
	if w.IntN(3) == 0 {
		protocol = ProtocolTCPProxy
	}

	if w.IntN(3) == 0 {
		algorithm = "source"
	}

	if w.IntN(3) == 0 {
		shift = 1
	}

	for i := range d.Rules {
		r := &d.Rules[i]
		r.Name, r.Protocol, r.Algorithm, r.CIDRs = RuleName(testLB, protocol,
			r.PublicPort), protocol, algorithm, d.Ranges
		r.PrivatePort += shift
		if len(d.Ranges) == 0 {
			r.CIDRs = nil
		}
	}

	d.Members = nil
	for i := range 4 {
		if w.IntN(2) == 0 {
			d.Members = append(d.Members, fmt.Sprintf("vm%d", i))
		}
	}

	d.KeepAddress = w.IntN(4) == 0
	if w.IntN(4) == 0 {
		d.Address = fmt.Sprintf("203.0.113.%d", 60+w.IntN(2))
	}

	if w.IntN(4) == 0 {
		d.Rules[0].Stickiness = &annotation.Stickiness{Method: annotation.SourceBased}
	}

	if i := w.IntN(2 * len(d.Rules)); i < len(d.Rules) && protocol == ProtocolTCP {
		// Change one of the rules.
		r := &d.Rules[i]
		r.Protocol = []string{ProtocolUDP, ProtocolSSL}[w.IntN(2)]
		r.Name = RuleName(testLB, r.Protocol, r.PublicPort)
		if r.Protocol == ProtocolSSL {
			r.Certificate = fmt.Sprintf("cert%d", w.IntN(2))
		}
	}

	if w.IntN(2) == 0 {
		w.forward(&d)
	}

	return d
}

// tier moves a desired state to a VPC tier, where rules and an ACL list filter.
func tier(d Desired) Desired {
	d.VPCID, d.Firewall, d.ACLID, d.CIDRsDecide = "vpc", false, "acl", true
	switch {
	case len(d.Ranges) == 0:
		d.Members = nil // without members, nobody has access
	case len(d.Members) == 0:
		d.Members = []string{"vm0"} // access matters only with a member
	}
	if len(d.Serving) == 0 {
		d.Serving = d.Members
	}
	return d
}

// aclAccess returns which sources may reach which ports through the ACL lists.
func aclAccess(a Actual) map[string]bool {
	out := map[string]bool{}
	for _, l := range a.ACLs {
		for _, i := range l.Items {
			for port := i.StartPort; port <= i.EndPort && i.Owner == Owned; port++ {
				for who, probe := range probes {
					if annotation.Contain(i.CIDRs, []string{probe}) {
						out[fmt.Sprintf("acl %s:%d/%s %s", l.ListID, port, i.Protocol, who)] = true
					}
				}
			}
		}
	}
	return out
}

// through returns the access through the Service's rules and, in separate entries, the access through ACL lists.
func through(a Actual) map[string]bool {
	out := reached(a)
	maps.Copy(out, aclAccess(a))
	return out
}

// litter adds items that others may have created in addition to ours.
func (w world) litter(a Actual) Actual {
	a = a.Clone()
	for i := range a.Addresses {
		x := &a.Addresses[i]
		if w.IntN(3) == 0 {
			x.Rules = append(x.Rules,
				Item{Rule: onPort("foreign-rule", "tcp", 7000), Name: "other-tcp-7000", Mark: Mark{Owner: Foreign}})
			x.Firewall = append(x.Firewall,
				Item{Rule: access.Rule{Range: span("tcp", 7000, 7000, annotation.Anyone), ID: "foreign-fw"}})
		}

		if w.IntN(3) == 0 {
			x.Firewall = append(x.Firewall,
				Item{Rule: access.Rule{Range: span("tcp", 1, 65535, "198.51.100.0/24"), ID: "foreign-wide"}})
		}

		if w.IntN(3) == 0 {
			x.Allocated = false
		}

		// drift of our own items
		if w.IntN(3) == 0 && len(x.Rules) > 0 {
			x.Rules[0].Members = nil
		}

		if w.IntN(3) == 0 && len(x.Firewall) > 0 {
			x.Firewall = x.Firewall[1:]
		}

		if w.IntN(4) == 0 && len(x.Firewall) > 0 { // a failed deletion of a rule that may have a replacement
			f := x.Firewall[0]
			f.ID, f.Deleting = f.ID+"-going", true
			if w.IntN(2) == 0 {
				x.Firewall = x.Firewall[1:]
			}
			x.Firewall = append(x.Firewall, f)
		}

		if w.IntN(3) == 0 {
			x.Forwards = append(x.Forwards, Item{Rule: onPort("foreign-forward", ProtocolUDP, 7001), VM: "db"})
		}

		for k := range x.Firewall { // tags that are missing, or name a former id of the cluster
			if f := &x.Firewall[k]; f.Owner == Owned {
				switch w.IntN(4) {
				case 0:
					f.Mark = Mark{Owner: Unknown}
				case 1:
					f.Former = true
				}
			}
		}

		if w.IntN(3) == 0 { // a rule with the tags of others, on a port that may be ours
			port := somePorts[w.IntN(len(somePorts))]
			x.Firewall = append(x.Firewall,
				Item{
					Rule: access.Rule{Range: span("tcp", port, port, "198.51.100.0/24"), ID: "foreign-tagged"},
					Mark: Mark{Owner: Foreign},
				})
		}

		if own := x.OwnForwards(); len(own) > 0 && w.IntN(2) == 0 {
			at := slices.IndexFunc(x.Forwards, func(f Item) bool { return f.ID == own[w.IntN(len(own))].ID })
			f := &x.Forwards[max(at, 0)]
			switch w.IntN(5) {
			case 0:
				x.Forwards = slices.Delete(x.Forwards, max(at, 0), max(at, 0)+1)
			case 1:
				f.Member = "vm9"
			case 2:
				f.Deleting = true
			case 3:
				f.PrivatePort++
			case 4:
				f.Tagged = false
			}
		}
	}

	for i := range a.ACLs {
		w.litterACL(&a.ACLs[i])
	}

	return a
}

// litterACL is like litter, for a network ACL list.
func (w world) litterACL(l *ACL) {
	for k := range l.Items {
		switch item := &l.Items[k]; w.IntN(4) {
		case 0:
			item.Tagged = false // the item's reason still proves the owner
		case 1:
			item.Former = true
		}
	}

	if len(l.Items) > 0 && w.IntN(3) == 0 {
		l.Items = l.Items[1:]
	}

	if w.IntN(2) == 0 {
		port := somePorts[w.IntN(len(somePorts))]
		l.Items = append(l.Items,
			Item{
				Rule:    access.Rule{Range: span("tcp", port, port, annotation.Anyone), ID: "foreign-item"},
				Ingress: true,
				Allow:   true,
				Mark:    Mark{Owner: Foreign},
			})
	}
}

func (w world) shuffle(d Desired, a Actual) (Desired, Actual) {
	a = a.Clone()
	d.Rules, d.Members = slices.Clone(d.Rules), slices.Clone(d.Members)
	d.Forwards, d.Serving = slices.Clone(d.Forwards), slices.Clone(d.Serving)
	w.Shuffle(len(d.Forwards), func(i, j int) { d.Forwards[i], d.Forwards[j] = d.Forwards[j], d.Forwards[i] })
	w.Shuffle(len(d.Serving), func(i, j int) { d.Serving[i], d.Serving[j] = d.Serving[j], d.Serving[i] })
	w.Shuffle(len(d.Rules), func(i, j int) { d.Rules[i], d.Rules[j] = d.Rules[j], d.Rules[i] })
	w.Shuffle(len(a.Addresses), func(i, j int) { a.Addresses[i], a.Addresses[j] = a.Addresses[j], a.Addresses[i] })
	for k := range a.Addresses {
		x := &a.Addresses[k]
		w.Shuffle(len(x.Rules), func(i, j int) { x.Rules[i], x.Rules[j] = x.Rules[j], x.Rules[i] })
		w.Shuffle(len(x.Forwards), func(i, j int) { x.Forwards[i], x.Forwards[j] = x.Forwards[j], x.Forwards[i] })
		w.Shuffle(len(x.Firewall), func(i, j int) { x.Firewall[i], x.Firewall[j] = x.Firewall[j], x.Firewall[i] })
	}

	w.Shuffle(len(a.ACLs), func(i, j int) { a.ACLs[i], a.ACLs[j] = a.ACLs[j], a.ACLs[i] })
	for _, l := range a.ACLs {
		w.Shuffle(len(l.Items), func(i, j int) { l.Items[i], l.Items[j] = l.Items[j], l.Items[i] })
	}

	return d, a
}

var probes = map[string]string{
	"everybody": "203.0.113.1/32",
	"ten":       "10.2.0.1/32",
	"ten-one":   "10.1.0.1/32",
	"home":      "192.168.0.1/32",
}

// reached returns which sources reach which port of which address through the Service's rules.
func reached(a Actual) map[string]bool {
	out := map[string]bool{}
	for i := range a.Addresses {
		x := &a.Addresses[i]
		for _, r := range x.OwnRules() {
			for who, probe := range probes {
				byRule := len(r.CIDRs) == 0 || annotation.Contain(r.CIDRs, []string{probe})
				byFirewall := x.VPCID != "" && len(r.Members) > 0 || slices.ContainsFunc(x.Firewall, func(f Item) bool {
					return f.Protocol == transport(r.Protocol) &&
						f.StartPort <= r.StartPort &&
						r.StartPort <= f.EndPort &&
						annotation.Contain(f.CIDRs, []string{probe})
				})
				if byRule && byFirewall {
					out[fmt.Sprintf("%s:%d %s", x.IP, r.StartPort, who)] = true
				}
			}
		}

		for _, f := range x.OwnForwards() {
			for who, probe := range probes {
				open := x.VPCID != "" && annotation.Contain(f.sources(), []string{probe}) ||
					x.VPCID == "" && slices.ContainsFunc(x.Firewall, func(r Item) bool {
						return r.Protocol == f.Protocol &&
							r.StartPort <= f.StartPort &&
							f.StartPort <= r.EndPort &&
							annotation.Contain(r.CIDRs, []string{probe})
					})
				if port := fmt.Sprint(f.StartPort); open {
					if f.Protocol == ProtocolUDP {
						port += "/udp"
					}
					out[fmt.Sprintf("%s:%s %s", x.IP, port, who)] = true
				}
			}
		}
	}

	return out
}

// touchesForeign returns the name of an action that removes an object of others; empty if there is none.
func touchesForeign(before Actual, plan []Step) string {
	for _, s := range plan {
		if strings.HasPrefix(s.ItemID, "foreign-") {
			return s.Label()
		}
		if s.Kind != ReleaseAddress {
			continue
		}
		x := before.Find(s.AddressID)
		foreign := slices.ContainsFunc(x.Rules, func(r Item) bool { return r.Owner != Owned }) ||
			slices.ContainsFunc(x.Firewall, func(f Item) bool { return strings.HasPrefix(f.ID, "foreign-") }) ||
			slices.ContainsFunc(x.Forwards, func(f Item) bool { return f.Owner != Owned })
		if foreign || !x.Allocated {
			return s.Label()
		}
	}
	return ""
}

func TestPropertiesOfPlans(t *testing.T) {
	for seed := range uint64(1000) {
		w := world{rand.New(rand.NewPCG(seed, 1))}
		limits := Limits{NoTags: w.IntN(4) == 0, InPlace: w.IntN(4) != 0}
		first, want := w.desired(), w.desired()
		if w.IntN(3) == 0 {
			first, want = tier(first), tier(want)
		} else {
			first, want = inIsolated(first), inIsolated(want)
		}
		before := w.litter(built(first))
		if w.IntN(5) == 0 {
			want = Desired{Absent: true, KeepAddress: w.IntN(2) == 0}
		}
		plan := planOf(want, before, limits)

		// The order of inputs does not matter.
		d2, a2 := w.shuffle(want, before)
		if got := planOf(d2, a2, limits); !slices.Equal(lines(got), lines(plan)) {
			t.Fatalf("seed %d: the plan depends on the order of its inputs:\n%v\n%v", seed, lines(got), lines(plan))
		}

		// The plan leads to a state whose plan is empty. A second plan may be needed for firewall rules of unknown
		// origin on ports that have our own rules only after the first plan.
		after := run(before, plan)
		after = run(after, planOf(want, after, limits))
		if rest := planOf(want, after, limits); len(rest) > 0 {
			t.Fatalf("seed %d: not a fixpoint: %v", seed, lines(rest))
		}
		checkForwards(t, seed, after, want, true)
		if !limits.NoTags && !want.Absent {
			if id := untagged(after, Target(want, after)); id != "" {
				t.Fatalf("seed %d: %s is the Service's and lacks its tags", seed, id)
			}
		}
		if label := touchesForeign(before, plan); label != "" {
			t.Fatalf("seed %d: %q touches what is not ours", seed, label)
		}

		if label := firewallFirst(plan); label != "" {
			t.Fatalf("seed %d: %q comes after a firewall rule of its wave", seed, label)
		}

		// Every prefix of the plan is safe.
		old, final := through(before), through(after)
		state := before.Clone()
		replaced := map[int]bool{}
		for _, act := range plan {
			if act.Kind == DeleteRule {
				replaced[act.Port] = true
			}
		}
		for i, act := range plan {
			act.Effect(&state, outcomeFor(act, i))
			now := through(state)
			checkForwards(t, seed, state, want, false)
			for who := range now {
				if !old[who] && !final[who] {
					t.Fatalf("seed %d: after %q %s has access, which neither before nor after has", seed, act.Label(),
						who)
				}
			}
			// A source that is allowed before and after is not shut out in between, except while rules are replaced.
			for who := range old {
				if final[who] && !now[who] && !replaces(plan, who) {
					t.Fatalf("seed %d: after %q %s is shut out, who has access before and after", seed, act.Label(),
						who)
				}
			}
			checkMembers(t, seed, before, state, want, replaced, act)
		}
	}
}

// untagged returns the name of an item of the Service without its tags, or with those of a former id; empty if there is
// none.
func untagged(a Actual, target *Address) (name string) {
	var own []*Item
	for _, resource := range []string{ResourceRule, ResourceForward, ResourceFirewall} {
		own = append(own, a.Own(target.on(), resource)...)
	}
	for _, l := range a.ACLs {
		own = append(own, a.Own(On{ACLID: l.ListID}, ResourceACLItem)...)
	}
	for _, item := range own {
		if !item.Deleting && (!item.Tagged || item.Former) {
			name = item.ID
		}
	}
	return name
}

// firewallFirst returns the name of an action on a load balancer rule that is submitted while the creation of a
// firewall rule on the same address may still be running; empty if there is none.
func firewallFirst(plan []Step) string {
	opened := map[string]bool{}
	for _, s := range plan {
		at := fmt.Sprint(s.Wave, " ", s.AddressID)
		switch s.Kind {
		case OpenFirewall:
			opened[at] = true
		case CreateRule, UpdateRule, AddMembers, SetStickiness:
			if opened[at] {
				return s.Label()
			}
		}
	}
	return ""
}

// replaces reports whether a plan deletes the rule through which a source reaches a port, or has to close that port for
// a moment.
func replaces(plan []Step, who string) bool {
	for _, s := range plan {
		here := strings.HasPrefix(who, fmt.Sprintf("%s:%d ", s.IP, s.Port))
		switch s.Kind {
		case DeleteForward, UpdateForward:
			// While a source moves from one port forwarding to another, the port is closed to this source.
			if strings.HasPrefix(who, fmt.Sprintf("%s:%d", s.IP, s.Port)) {
				return true
			}
		case UpdateRule: // from TCP to UDP or back
			if (s.Rule.Protocol == ProtocolUDP || closesUDP(plan, s.Port)) && here {
				return true
			}
		case DeleteRule:
			if here {
				return true
			}
		case OpenFirewall, OpenACL:
			if len(s.Replaces) > 0 {
				return true
			}
		}
	}

	return false
}

func closesUDP(plan []Step, port int) bool {
	return slices.ContainsFunc(plan, func(s Step) bool {
		f := s.Access
		return s.Kind == CloseFirewall && f.Protocol == ProtocolUDP && f.StartPort <= port && port <= f.EndPort
	})
}

// checkMembers checks that a rule that had members and should have some always has at least one.
func checkMembers(t *testing.T, seed uint64, before, state Actual, want Desired, replaced map[int]bool, act Step) {
	t.Helper()
	if len(want.Members) == 0 || want.Absent {
		return
	}

	for _, x := range before.Addresses {
		now := state.Find(x.ID)
		if now == nil {
			continue
		}
		for _, r := range x.OwnRules() {
			if len(r.Members) == 0 || replaced[r.StartPort] {
				continue
			}
			for _, n := range now.OwnRules() {
				if n.ID == r.ID && len(n.Members) == 0 {
					t.Fatalf("seed %d: after %q the rule of port %d has no members", seed, act.Label(), r.StartPort)
				}
			}
		}
	}
}

// forward turns some of the TCP ports into port forwardings, and adds a UDP port forwarding to some of them.
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

// some returns one or more of the members, if there are any.
func (w world) some(members []string) []string {
	out := slices.DeleteFunc(slices.Clone(members), func(string) bool { return w.IntN(3) == 0 })
	if len(out) == 0 {
		return members
	}
	return out
}

// inIsolated moves a desired state to an isolated network, where port forwardings have no source ranges.
func inIsolated(d Desired) Desired {
	d.Buckets = 0
	return d
}

// checkForwards checks that the port forwardings of a port in a VPC never have a source in common. With covered, it
// checks that together they have all desired sources.
func checkForwards(t *testing.T, seed uint64, a Actual, want Desired, covered bool) {
	t.Helper()
	for i := range a.Addresses {
		x := &a.Addresses[i]
		byPort := map[string][]Item{}
		for _, f := range x.OwnForwards() {
			key := portText(f.Protocol, f.StartPort)
			for _, o := range byPort[key] {
				if x.VPCID == "" || len(annotation.Common(o.sources(), f.sources())) > 0 {
					t.Fatalf("seed %d: two forwardings of port %s have sources in common: %v %v", seed, key, o.CIDRs,
						f.CIDRs)
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
					t.Fatalf("seed %d: port %s leads to %s port %d", seed, portText(p.Protocol, p.PublicPort), f.Member,
						f.PrivatePort)
				}
			}

			if !annotation.SameRanges(all, want.Ranges) {
				t.Fatalf("seed %d: the forwardings of port %d let in %v, not %v", seed, p.PublicPort, all, want.Ranges)
			}
		}
	}
}

// Clone returns a deep copy, except for the lists of members, which may be long and are replaced instead of changed.
func (a Actual) Clone() Actual {
	out := a
	out.Addresses, out.ACLs = slices.Clone(a.Addresses), slices.Clone(a.ACLs)
	for i := range out.Addresses {
		addr := &out.Addresses[i]
		addr.OwnTags = slices.Clone(addr.OwnTags)
		addr.RecordedPorts = addr.RecordedPorts.Union(nil)
		addr.ForwardPorts, addr.ForwardTargets = addr.ForwardPorts.Union(nil), addr.ForwardTargets.Union(nil)
		addr.Forwards = slices.Clone(addr.Forwards)
		addr.Rules = slices.Clone(addr.Rules)
		addr.Firewall = slices.Clone(addr.Firewall)
	}
	for i := range out.ACLs {
		out.ACLs[i].Items = slices.Clone(out.ACLs[i].Items)
	}
	return out
}
