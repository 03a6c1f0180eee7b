// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	"github.com/csccm/csccm/installer/commands/migrate"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/provider"
)

const (
	// enoughReads is how many calls the members of all rules may cost before a sample is read instead.
	enoughReads = 16
	// sampleOf is how many rules, and how many VMs, make a sample.
	sampleOf = 8
	// rulesPerPage is how many rules CloudStack lists at once.
	rulesPerPage = 500
)

// MemberFacts is what is known before the members of rules are read. CloudStack lists the members of one rule, or the
// rules of one VM, and nothing else.
type MemberFacts struct {
	Nodes    []corev1.Node
	VMs      *inventory.VMSnapshot // nil where they could not be read
	Services []corev1.Service
	Rules    []cloudstack.LoadBalancerRule // whose names any provider for Kubernetes gives
	// All asks for the members of every rule.
	All bool
	Now time.Time // each run takes another sample
}

// Balancers are the public load balancer rules that providers for Kubernetes name, with their members.
type Balancers struct {
	Rules   []cloudstack.LoadBalancerRule
	Members map[string][]cloudstack.LoadBalancerMember // by rule id
	// Unread are the ids of rules of whose members only a sample was read.
	Unread map[string]bool
}

// VMRead asks for the rules of a VM: of one network, or of all for "".
type VMRead struct{ VM, Name, Network string }

// MemberReads are the lists that show the members.
type MemberReads struct {
	Rules []cloudstack.LoadBalancerRule // whose members are listed
	VMs   []VMRead                      // whose rules are listed
	// Sampled means that the VMs are a sample: of the rules that are not among Rules not all members are known.
	Sampled bool
	settled []cloudstack.LoadBalancerRule // see MemberFacts; of a sample
}

// PlanMembers chooses the lists to read. For each network, rules or VMs are asked, whichever are fewer. Where that is still
// many calls, eight rules and eight VMs are asked, which shows a rule that lacks many nodes and a node that is missing in
// many rules; every rule is asked that is not settled.
func PlanMembers(in *MemberFacts) MemberReads {
	byNetwork := map[string][]cloudstack.LoadBalancerRule{}
	for _, r := range in.Rules {
		byNetwork[r.NetworkID] = append(byNetwork[r.NetworkID], r)
	}
	var exact MemberReads
	for _, network := range slices.Sorted(maps.Keys(byNetwork)) {
		rules := byNetwork[network]
		vms := in.on(network)
		if pages := (len(rules) + rulesPerPage - 1) / rulesPerPage; len(vms) > 0 && len(vms)*pages < len(rules) {
			exact.VMs = append(exact.VMs, vms...)
			continue
		}
		exact.Rules = append(exact.Rules, rules...)
	}
	if in.All || in.VMs == nil || exact.calls() <= enoughReads {
		return exact
	}
	settled, others := in.settled()
	sample := MemberReads{Rules: append(others, turn(settled, in.Now)...), Sampled: true, settled: settled}
	for _, vm := range turn(in.nodeVMs(), in.Now) {
		sample.VMs = append(sample.VMs, VMRead{VM: vm.ID, Name: vm.Name})
	}
	if exact.calls() <= sample.calls() {
		return exact
	}
	return sample
}

func (m *MemberReads) calls() int { return len(m.Rules) + len(m.VMs) }

// on are the VMs with a NIC in a network.
func (in *MemberFacts) on(network string) []VMRead {
	if in.VMs == nil || network == "" {
		return nil
	}
	var out []VMRead
	all := in.VMs.All()
	for i := range all {
		if onNetwork(&all[i], network) {
			out = append(out, VMRead{VM: all[i].ID, Name: all[i].Name, Network: network})
		}
	}
	return out
}

func (in *MemberFacts) nodeVMs() []cloudstack.VirtualMachine {
	var out []cloudstack.VirtualMachine
	for i := range in.Nodes {
		if vm, err := node.Match(in.VMs, &in.Nodes[i]); in.VMs != nil && err == nil {
			out = append(out, vm)
		}
	}
	slices.SortFunc(out, func(a, b cloudstack.VirtualMachine) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// settled are the active rules that are the only ones of their port of a Service that the controller calls Ready: only
// LB-001 needs their members. The others' members say whose they are.
func (in *MemberFacts) settled() (settled, others []cloudstack.LoadBalancerRule) {
	ready := map[string]bool{}
	for i := range in.Services {
		s := &in.Services[i]
		ready[s.Namespace+"/"+s.Name] = apimeta.IsStatusConditionTrue(s.Status.Conditions, provider.ConditionReady)
	}
	facts := BalanceFacts{Services: in.Services, Balancers: Balancers{Rules: in.Rules}}
	p := facts.Plan()
	service := map[string]string{}
	for i := range p.Items {
		if it := &p.Items[i]; it.Verdict == migrate.VerdictCurrent && ready[it.Service] {
			service[it.RuleID] = it.Service
		}
	}
	for _, r := range in.Rules {
		if service[r.ID] != "" && r.State == ruleActive {
			settled = append(settled, r)
		} else {
			others = append(others, r)
		}
	}
	return settled, others
}

// turn takes a sample from all over the list, another one at another time.
func turn[T any](list []T, now time.Time) []T {
	if len(list) <= sampleOf {
		return list
	}
	var out []T
	first := int(now.Unix() % int64(len(list)))
	for i := range sampleOf {
		out = append(out, list[(first+i*len(list)/sampleOf)%len(list)])
	}
	return out
}

// Collect makes the members of what was read: ofRule are the members by rule, ofVM the ids of the rules in the order
// of the VMs that were asked. ok is false where a sample does not show what the nodes let expect: then all is to be read.
func (m *MemberReads) Collect(in *MemberFacts, ofRule map[string][]cloudstack.LoadBalancerMember, ofVM [][]string) (b Balancers, ok bool) {
	b = Balancers{Rules: in.Rules, Members: ofRule, Unread: map[string]bool{}}
	if m.Sampled {
		for _, r := range in.Rules {
			if _, read := ofRule[r.ID]; !read {
				b.Unread[r.ID] = true
			}
		}
		return b, m.asExpected(in, &b, ofVM)
	}
	for i, vm := range m.VMs {
		for _, rule := range ofVM[i] {
			b.Members[rule] = append(b.Members[rule], cloudstack.LoadBalancerMember{VMID: vm.VM, Name: vm.Name})
		}
	}
	return b, true
}

func (m *MemberReads) asExpected(in *MemberFacts, b *Balancers, ofVM [][]string) bool {
	eligible := eligibleVMs(in.Nodes, in.VMs)
	for i := range m.settled {
		if r := &m.settled[i]; !b.Unread[r.ID] {
			if missing, extra := compareMembers(r, b.Members[r.ID], eligible); len(missing)+len(extra) > 0 {
				return false
			}
		}
	}
	for i, vm := range m.VMs {
		at := slices.IndexFunc(eligible, func(e cloudstack.VirtualMachine) bool { return e.ID == vm.VM })
		for j := range m.settled {
			r := &m.settled[j]
			if slices.Contains(ofVM[i], r.ID) != (at >= 0 && onNetwork(&eligible[at], r.NetworkID)) {
				return false
			}
		}
	}
	return true
}

// compareMembers returns the names of the eligible VMs that a rule lacks, and of its members that are not eligible.
func compareMembers(r *cloudstack.LoadBalancerRule, members []cloudstack.LoadBalancerMember, eligible []cloudstack.VirtualMachine) (missing, extra []string) {
	want := map[string]string{} // name by id
	for i := range eligible {
		if onNetwork(&eligible[i], r.NetworkID) {
			want[eligible[i].ID] = eligible[i].Name
		}
	}
	for i := range members {
		if _, wanted := want[members[i].VMID]; !wanted {
			extra = append(extra, members[i].Name)
		}
		delete(want, members[i].VMID)
	}
	slices.Sort(extra)
	return slices.Sorted(maps.Values(want)), extra
}
