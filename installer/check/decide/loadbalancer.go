// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/commands/migrate"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/plural"
	"github.com/csccm/csccm/pkg/provider/failover"
)

// BalanceFacts is what the checks of load balancers are decided by.
type BalanceFacts struct {
	Nodes     []corev1.Node
	VMs       *inventory.VMSnapshot
	Services  []corev1.Service
	Balancers Balancers
	// Forwarding is read where a Service may have ports that are forwarded.
	Forwarding Forwarding
	Events     []corev1.Event
	Next       map[string]time.Time // when the controller tries a Service again, by namespace/name
	Now        time.Time
}

// Plan returns what csccm migrate-rules would do.
func (in *BalanceFacts) Plan() migrate.Plan {
	inv := migrate.Inventory{Services: in.Services, NodeVMs: map[string]bool{}}
	for i := range in.Nodes {
		if vm, err := node.Match(in.VMs, &in.Nodes[i]); err == nil {
			inv.NodeVMs[vm.ID] = true
		}
	}
	for _, r := range in.Balancers.Rules {
		inv.Rules = append(inv.Rules, migrate.Rule{LoadBalancerRule: r, Members: in.Balancers.Members[r.ID]})
	}
	return migrate.MakePlan(inv, migrate.Selection{})
}

func ruleObject(i *migrate.Item, message string) Object {
	return Object{Kind: "LoadBalancerRule", Name: i.Name, Message: fmt.Sprintf("%s:%d, %s", i.PublicIP, i.Port, message)}
}

// OldNames decides LB-002.
func OldNames(p migrate.Plan) Finding {
	var objects []Object
	for i := range p.Items {
		it := &p.Items[i]
		switch {
		case it.Verdict == migrate.VerdictRename:
			objects = append(objects, ruleObject(it, "Service "+it.Service))
		case it.Verdict == migrate.VerdictOrphan && it.Family == migrate.FamilyLegacy:
			objects = append(objects, ruleObject(it, "its Service is gone, its members are nodes of this cluster"))
		}
	}
	return Passf("none").Unless(objects, "rule", "%s")
}

// Duplicates decides LB-004.
func Duplicates(p migrate.Plan) Finding {
	var objects []Object
	for i := range p.Items {
		it := &p.Items[i]
		if it.Verdict == migrate.VerdictSurplus || it.Verdict == migrate.VerdictDuplicate && (it.Service != "" || it.OurNodes) {
			objects = append(objects, ruleObject(it, it.Reason))
		}
	}
	return Passf("none").Unless(objects, "rule", "%s too many for a port")
}

// Orphans decides LB-003.
func Orphans(in BalanceFacts, addresses []cloudstack.PublicIP, clusterID string) Finding {
	p := in.Plan()
	var objects []Object
	for i := range p.Items {
		it := &p.Items[i]
		if it.Service == "" && it.OurNodes && it.Family != migrate.FamilyForeign {
			objects = append(objects, ruleObject(it, "all its members are nodes of this cluster"))
		}
	}
	living := map[string]bool{}
	for i := range in.Services {
		living[string(in.Services[i].UID)] = true
	}
	for i := range addresses {
		a := &addresses[i]
		uid := a.Tags[plan.TagServiceUID]
		if uid != "" && a.Tags[plan.TagCluster] == clusterID && !living[uid] {
			objects = append(objects, Object{Kind: "PublicIpAddress", Name: a.Address, Message: fmt.Sprintf(
				"tagged as of Service %s of cluster %q, which is not here", a.Tags[plan.TagService], clusterID)})
		}
	}
	return Passf("none").Unless(objects, "object", "%s without a Service")
}

// Services compares each Service with its rules.
func Services(in BalanceFacts) Finding {
	// Rules by Service and port, those with names of older providers too: they serve all the same.
	p := in.Plan()
	whose := map[string]string{}
	for i := range p.Items {
		whose[p.Items[i].RuleID] = p.Items[i].Service
	}
	rules := map[string][]cloudstack.LoadBalancerRule{}
	for _, r := range in.Balancers.Rules {
		if service := whose[r.ID]; service != "" {
			key := fmt.Sprintf("%s:%d", service, r.PublicPort)
			rules[key] = append(rules[key], r)
		}
	}
	eligible := eligibleVMs(in.Nodes, in.VMs)
	var objects []Object
	checked, pending := 0, 0
	for i := range in.Services {
		s := &in.Services[i]
		if !balanced(s) {
			continue
		}
		if len(s.Status.LoadBalancer.Ingress) == 0 && in.Now.Sub(s.CreationTimestamp.Time) < patience {
			pending++
			continue
		}
		checked++
		if problems := in.problems(s, rules, eligible); len(problems) > 0 {
			if at := in.Next[s.Namespace+"/"+s.Name]; at.After(in.Now) {
				problems = append(problems, fmt.Sprintf("next try at %s, in %s", at.UTC().Format("15:04:05Z"), at.Sub(in.Now).Round(time.Second)))
			}
			objects = append(objects, Object{Kind: "Service", Namespace: s.Namespace, Name: s.Name, Message: strings.Join(problems, "; ")})
		}
	}
	switch {
	case len(objects) > 0:
		return Problemf("something is missing or wrong for %d of %s", len(objects), plural.Count(checked, "Service")).About(objects...)
	case checked == 0 && pending == 0:
		return Passf("no Services of type LoadBalancer")
	case pending > 0:
		return Passf("%s, %d more being set up%s", plural.Count(checked, "Service"), pending, in.sampled())
	}
	return Passf("%s%s", plural.Count(checked, "Service"), in.sampled())
}

// sampled says of how many rules not all members were read.
func (in *BalanceFacts) sampled() string {
	if n := len(in.Balancers.Unread); n > 0 {
		return fmt.Sprintf("; of %d of %s only some members were read, --only LB reads all", n, plural.Count(len(in.Balancers.Rules), "rule"))
	}
	return ""
}

func (in *BalanceFacts) problems(s *corev1.Service, rules map[string][]cloudstack.LoadBalancerRule, eligible []cloudstack.VirtualMachine) []string {
	if len(s.Status.LoadBalancer.Ingress) == 0 {
		text := fmt.Sprintf("has no address since %s", in.Now.Sub(s.CreationTimestamp.Time).Round(time.Second))
		if why := lastWarning(in.Events, s); why != "" {
			text += ": " + why
		}
		return []string{text}
	}
	var out []string
	forwarded, _ := in.forwarded(s)
	for _, p := range s.Spec.Ports {
		if p.NodePort == 0 {
			continue // allocateLoadBalancerNodePorts: false; the controller says what it makes of it
		}
		if slices.ContainsFunc(forwarded, func(f plan.ForwardPort) bool { return f.PublicPort == int(p.Port) }) {
			continue // LB-005
		}
		found := rules[fmt.Sprintf("%s/%s:%d", s.Namespace, s.Name, p.Port)]
		switch len(found) {
		case 0:
			out = append(out, fmt.Sprintf("port %d has no rule", p.Port))
		case 1:
			for _, problem := range in.ruleProblems(s, &found[0], int(p.NodePort), eligible) {
				out = append(out, fmt.Sprintf("port %d: %s", p.Port, problem))
			}
		default: // LB-004 says it
		}
	}
	return out
}

func (in *BalanceFacts) ruleProblems(s *corev1.Service, r *cloudstack.LoadBalancerRule, nodePort int, eligible []cloudstack.VirtualMachine) []string {
	var out []string
	var ips []string
	for _, i := range s.Status.LoadBalancer.Ingress {
		if i.IP != "" {
			ips = append(ips, i.IP)
		}
	}
	if len(ips) > 0 && !slices.Contains(ips, r.PublicIP) {
		out = append(out, fmt.Sprintf("its rule is on %s, the Service shows %s", r.PublicIP, strings.Join(ips, ", ")))
	}
	if r.PrivatePort != nodePort {
		out = append(out, fmt.Sprintf("its rule goes to port %d, the node port is %d", r.PrivatePort, nodePort))
	}
	if in.Balancers.Unread[r.ID] {
		return out
	}
	members := in.Balancers.Members[r.ID]
	if r.State != ruleActive && len(members) > 0 {
		out = append(out, fmt.Sprintf("its rule is in state %s", r.State))
	}
	missing, extra := compareMembers(r, members, eligible)
	if len(missing) > 0 {
		out = append(out, "members missing: "+strings.Join(missing, ", "))
	}
	if len(extra) > 0 {
		out = append(out, "members that are no eligible nodes: "+strings.Join(extra, ", "))
	}
	return out
}

// ruleActive is the state of a rule that serves.
const ruleActive = "Active"

func onNetwork(vm *cloudstack.VirtualMachine, network string) bool {
	return network == "" || slices.ContainsFunc(vm.NICs, func(n cloudstack.NIC) bool { return n.NetworkID == network })
}

// eligibleVMs are the VMs of the nodes that the service controller hands to a load balancer: those
// without the label for exclusion, without the autoscaler's taint, and not being deleted.
func eligibleVMs(nodes []corev1.Node, vms *inventory.VMSnapshot) []cloudstack.VirtualMachine {
	var out []cloudstack.VirtualMachine
	for i := range nodes {
		n := &nodes[i]
		if failover.ExcludedByLabel(n) || failover.Leaving(n) {
			continue
		}
		if vm, err := node.Match(vms, n); err == nil {
			out = append(out, vm)
		}
	}
	return out
}

func lastWarning(events []corev1.Event, s *corev1.Service) string {
	var last *corev1.Event
	for i := range events {
		e := &events[i]
		if e.Type == corev1.EventTypeWarning && e.InvolvedObject.UID == s.UID && e.InvolvedObject.Kind == "Service" &&
			(last == nil || eventTime(e).After(eventTime(last))) {
			last = e
		}
	}
	if last == nil {
		return ""
	}
	return OneLine(last.Message)
}
