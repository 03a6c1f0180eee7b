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

// world makes random desired states and random things that others left.
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
		r.Name, r.Protocol, r.Algorithm, r.CIDRs = RuleName(testLB, protocol, r.PublicPort), protocol, algorithm, d.Ranges
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
		// One of them is something else.
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
		d.Members = nil // that is what keeps everybody out
	case len(d.Members) == 0:
		d.Members = []string{"vm0"} // access is asked for where there is somebody to reach
	}
	if len(d.Serving) == 0 {
		d.Serving = d.Members
	}
	return d
}

// aclAccess is who the ACL lists let in to which port.
func aclAccess(a Actual) map[string]bool {
	out := map[string]bool{}
	for _, l := range a.ACLs {
		for _, i := range l.Items {
			for port := i.StartPort; port <= i.EndPort && i.Owner == Owned; port++ {
				for who, probe := range probes {
					if access.Contain(i.CIDRs, []string{probe}) {
						out[fmt.Sprintf("acl %s:%d/%s %s", l.ListID, port, i.Protocol, who)] = true
					}
				}
			}
		}
	}
	return out
}

// through is access by all filters together: an ACL alone lets nobody in.
func through(a Actual) map[string]bool {
	out := reached(a)
	maps.Copy(out, aclAccess(a))
	return out
}

// litter adds what others may have put beside ours.
func (w world) litter(a Actual) Actual {
	a = a.Clone()
	for i := range a.Addresses {
		x := &a.Addresses[i]
		if w.IntN(3) == 0 {
			x.Rules = append(x.Rules, ActualRule{Rule: Rule{Name: "other-tcp-7000", PublicPort: 7000}, ID: "foreign-rule", Owner: Foreign})
			x.Firewall = append(x.Firewall, access.Rule{Range: span("tcp", 7000, 7000, annotation.Anyone), ID: "foreign-fw"})
		}
		if w.IntN(3) == 0 {
			x.Firewall = append(x.Firewall, access.Rule{Range: span("tcp", 1, 65535, "198.51.100.0/24"), ID: "foreign-wide"})
		}
		if w.IntN(3) == 0 {
			x.Allocated = false
		}
		// drift of our own
		if w.IntN(3) == 0 && len(x.Rules) > 0 {
			x.Rules[0].Members = nil
		}
		if w.IntN(3) == 0 && len(x.Firewall) > 0 {
			x.Firewall = x.Firewall[1:]
		}
		if w.IntN(4) == 0 && len(x.Firewall) > 0 { // a deletion that failed, of one that may have a successor
			f := x.Firewall[0]
			f.ID, f.Deleting = f.ID+"-going", true
			if w.IntN(2) == 0 {
				x.Firewall = x.Firewall[1:]
			}
			x.Firewall = append(x.Firewall, f)
		}
		if w.IntN(3) == 0 {
			x.Forwards = append(x.Forwards, Forward{ID: "foreign-forward", Protocol: ProtocolUDP, StartPort: 7001, EndPort: 7001, VM: "db"})
		}
		if own := x.OwnForwards(); len(own) > 0 && w.IntN(2) == 0 {
			at := slices.IndexFunc(x.Forwards, func(f Forward) bool { return f.ID == own[w.IntN(len(own))].ID })
			f := &x.Forwards[max(at, 0)]
			switch w.IntN(5) {
			case 0:
				x.Forwards = slices.Delete(x.Forwards, max(at, 0), max(at, 0)+1)
			case 1:
				f.Member = "vm9"
			case 2:
				f.State = StateDeleting
			case 3:
				f.PrivatePort++
			case 4:
				f.Tagged = false
			}
		}
	}
	return a
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
	return d, a
}

var probes = map[string]string{"everybody": "203.0.113.1/32", "ten": "10.2.0.1/32", "ten-one": "10.1.0.1/32", "home": "192.168.0.1/32"}

// reached is who reaches which port of which address through rules of ours.
func reached(a Actual) map[string]bool {
	out := map[string]bool{}
	for i := range a.Addresses {
		x := &a.Addresses[i]
		for _, r := range x.OwnRules() {
			for who, probe := range probes {
				byRule := len(r.CIDRs) == 0 || access.Contain(r.CIDRs, []string{probe})
				byFirewall := x.VPCID != "" && len(r.Members) > 0 || slices.ContainsFunc(x.Firewall, func(f access.Rule) bool {
					return f.Protocol == transport(r.Protocol) && f.StartPort <= r.PublicPort && r.PublicPort <= f.EndPort && access.Contain(f.CIDRs, []string{probe})
				})
				if byRule && byFirewall {
					out[fmt.Sprintf("%s:%d %s", x.IP, r.PublicPort, who)] = true
				}
			}
		}
		for _, f := range x.OwnForwards() {
			for who, probe := range probes {
				open := x.VPCID != "" && access.Contain(f.sources(), []string{probe}) || x.VPCID == "" && slices.ContainsFunc(x.Firewall, func(r access.Rule) bool {
					return r.Protocol == f.Protocol && r.StartPort <= f.StartPort && f.StartPort <= r.EndPort && access.Contain(r.CIDRs, []string{probe})
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

// touchesForeign names an action that takes away what is not ours.
func touchesForeign(before Actual, plan []Step) string {
	for _, s := range plan {
		on, _ := s.OnRule()
		if r, ok := s.Action.(interface{ removes() string }); ok && strings.HasPrefix(r.removes(), "foreign-") || on.RuleID == "foreign-rule" {
			return s.Label()
		}
		act, ok := s.Action.(ReleaseAddress)
		if !ok {
			continue
		}
		x := before.Find(act.AddressID)
		foreign := slices.ContainsFunc(x.Rules, func(r ActualRule) bool { return r.Owner != Owned }) ||
			slices.ContainsFunc(x.Firewall, func(f access.Rule) bool { return strings.HasPrefix(f.ID, "foreign-") }) ||
			slices.ContainsFunc(x.Forwards, func(f Forward) bool { return f.Owner != Owned })
		if foreign || !x.Allocated {
			return s.Label()
		}
	}
	return ""
}

func TestPropertiesOfPlans(t *testing.T) {
	for seed := range uint64(1000) {
		w := world{rand.New(rand.NewPCG(seed, 1))}
		limits := Limits{NoTags: w.IntN(4) == 0, NoCIDRUpdate: w.IntN(4) == 0, CIDRsProven: true}
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

		// Order of inputs does not matter.
		d2, a2 := w.shuffle(want, before)
		if got := planOf(d2, a2, limits); !slices.Equal(lines(got), lines(plan)) {
			t.Fatalf("seed %d: the plan depends on the order of its inputs:\n%v\n%v", seed, lines(got), lines(plan))
		}

		// The plan leads to its fixpoint.
		after := run(before, plan)
		after = run(after, planOf(want, after, limits)) // the tag of a new address
		if rest := planOf(want, after, limits); len(rest) > 0 {
			t.Fatalf("seed %d: not a fixpoint: %v", seed, lines(rest))
		}
		checkForwards(t, seed, after, want, true)
		if label := touchesForeign(before, plan); label != "" {
			t.Fatalf("seed %d: %q touches what is not ours", seed, label)
		}

		if label := firewallFirst(plan); label != "" {
			t.Fatalf("seed %d: %q comes after a firewall rule of its wave", seed, label)
		}

		// Every prefix is safe.
		old, final := through(before), through(after)
		state := before.Clone()
		replaced := map[int]bool{}
		for _, act := range plan {
			if del, ok := act.Action.(DeleteRule); ok {
				replaced[del.Port] = true
			}
		}
		for i, act := range plan {
			state = act.Effect(state, outcomeFor(act, i))
			now := through(state)
			checkForwards(t, seed, state, want, false)
			for who := range now {
				if !old[who] && !final[who] {
					t.Fatalf("seed %d: after %q %s has access, which neither before nor after has", seed, act.Label(), who)
				}
			}
			// Nobody who may come before and after is shut out meanwhile, but for rules that are replaced.
			for who := range old {
				if final[who] && !now[who] && !replaces(plan, who) {
					t.Fatalf("seed %d: after %q %s is shut out, who has access before and after", seed, act.Label(), who)
				}
			}
			checkMembers(t, seed, before, state, want, replaced, act)
		}
	}
}

// firewallFirst names an action on a load balancer rule that is submitted while the creation of a firewall rule on the
// same address may still run; see the order of waves.
func firewallFirst(plan []Step) string {
	opened := map[string]bool{}
	for _, s := range plan {
		on, _ := s.OnAddress()
		at := fmt.Sprint(s.Wave, " ", on.AddressID)
		switch s.Action.(type) {
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

// replaces reports whether a plan deletes the rule that gives an access, or has to close its port for a moment.
func replaces(plan []Step, who string) bool {
	for _, s := range plan {
		on, _ := s.OnRule()
		here := strings.HasPrefix(who, fmt.Sprintf("%s:%d ", on.IP, on.Port))
		switch act := s.Action.(type) {
		case DeleteForward, UpdateForward:
			// Sources that change from one forwarding to another find the port closed meanwhile.
			on, _ := s.OnForward()
			if strings.HasPrefix(who, fmt.Sprintf("%s:%d", on.IP, on.Port)) {
				return true
			}
		case UpdateRule: // from TCP to UDP or back
			if (act.Rule.Protocol == ProtocolUDP || closesUDP(plan, act.Port)) && here {
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
		var f access.Range
		switch act := s.Action.(type) {
		case CloseFirewall:
			f = act.Firewall
		case CloseACL:
			f = act.Firewall
		}
		return f.Protocol == ProtocolUDP && f.StartPort <= port && port <= f.EndPort
	})
}

// checkMembers: a rule that had members and shall have some always has some.
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
			if len(r.Members) == 0 || replaced[r.PublicPort] {
				continue
			}
			for _, n := range now.OwnRules() {
				if n.ID == r.ID && len(n.Members) == 0 {
					t.Fatalf("seed %d: after %q the rule of port %d has no members", seed, act.Label(), r.PublicPort)
				}
			}
		}
	}
}
