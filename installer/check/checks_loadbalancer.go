// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/commands/migrate"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	lbplan "github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/node"
)

const catLB = "Load balancers"

func loadBalancerChecks() []Check {
	needs := []string{"K8S-001", "CS-004"}
	return []Check{
		{
			Code: "LB-001", Category: catLB, Title: "Services have what they ask for", Severity: SeverityError, Phases: []Phase{PhaseInstalled}, Needs: needs,
			What:   "Each Service of type LoadBalancer has an address, each of its ports a rule on that address to the right node port, and each rule the eligible nodes as members.",
			Why:    "A port without a rule, or a rule without the right members, loses traffic.",
			Remedy: "look at the Events of the named Services (kubectl describe service {service}); the controller tries again at the time that is named, or within ten minutes, and repairs rules and members within its drift period; to have it try now: " + restart,
			Run: func(ctx context.Context, e *Env) Finding {
				return judge(ctx, e.facts.balance, func(in balanceFacts) Finding {
					in.events, _ = e.facts.events.get(ctx) // only explain
					logs, _ := e.facts.logs.get(ctx)
					in.next = nextTries(logs)
					return decideServices(in)
				})
			},
		},
		{
			Code: "LB-002", Category: catLB, Title: "No rules with old names", Severity: SeverityWarning, Phases: both(), Needs: needs,
			What:   "No rule of this cluster has a name of an older provider: LB-PORT without a protocol, or K8s_svc_...",
			Why:    "The controller knows its rules by name: it would make a second rule for the port, which CloudStack refuses.",
			Remedy: "run `csccm migrate-rules`: it shows what it would do, and renames in place, without loss of traffic",
			Run:    runPlan(decideOldNames),
		},
		{
			Code: "LB-003", Category: catLB, Title: "No rules without a Service", Severity: SeverityWarning, Phases: both(), Needs: needs,
			What:   "No rule whose members are all nodes of this cluster, and no address tagged as this cluster's, is without a Service.",
			Why:    "Orphans hold addresses and ports, cost money, and keep ports of Services that are gone open.",
			Remedy: "find out who uses them: a rule that still serves can stay; where nobody does, `csccm migrate-rules --delete-orphans` deletes the rules after it has shown them; addresses without rules are released in CloudStack",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge3(ctx, e.facts.balance, e.facts.addresses, e.facts.clusterID, decideOrphans)
			},
		},
		{
			Code: "LB-004", Category: catLB, Title: "No two rules for one port", Severity: SeverityError, Phases: both(), Needs: needs,
			What:   "No port of a load balancer has two rules, for example under an old and a new name.",
			Why:    "Two controllers, or an upgrade without a migration, made them; traffic reaches one of them only.",
			Remedy: "run `csccm migrate-rules`: it keeps the rule whose address the Service shows and deletes the surplus one; of two that it cannot choose between it says why",
			Run:    runPlan(decideDuplicates),
		},
	}
}

// balanceFacts is what checks of load balancers decide by.
type balanceFacts struct {
	nodes     []corev1.Node
	vms       *inventory.VMSnapshot
	services  []corev1.Service
	balancers balancers
	events    []corev1.Event
	next      map[string]time.Time // when the controller tries a Service again, by namespace/name
	now       time.Time
}

func (e *Env) readBalance(ctx context.Context) (in balanceFacts, err error) {
	in.now = e.Clock.Now()
	// All at once: the rules' members are most of what a run waits for.
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) { in.nodes, err = e.facts.nodes.get(gctx); return err })
	group.Go(func() (err error) { in.vms, err = e.facts.vms.get(gctx); return err })
	group.Go(func() (err error) { in.services, err = e.facts.services.get(gctx); return err })
	group.Go(func() (err error) { in.balancers, err = e.facts.balancers.get(gctx); return err })
	return in, group.Wait()
}

// plan is what migrate-rules would say.
func (in *balanceFacts) plan() migrate.Plan {
	inv := migrate.Inventory{Services: in.services, NodeVMs: map[string]bool{}}
	for i := range in.nodes {
		if vm, err := node.Match(in.vms, &in.nodes[i]); err == nil {
			inv.NodeVMs[vm.ID] = true
		}
	}
	for _, r := range in.balancers.rules {
		inv.Rules = append(inv.Rules, migrate.Rule{LoadBalancerRule: r, Members: in.balancers.members[r.ID]})
	}
	return migrate.MakePlan(inv, migrate.Selection{})
}

func runPlan(decide func(p migrate.Plan) Finding) func(context.Context, *Env) Finding {
	return func(ctx context.Context, e *Env) Finding {
		return judge(ctx, e.facts.balance, func(in balanceFacts) Finding { return decide(in.plan()) })
	}
}

func ruleObject(i *migrate.Item, message string) Object {
	return Object{Kind: "LoadBalancerRule", Name: i.Name, Message: fmt.Sprintf("%s:%d, %s", i.PublicIP, i.Port, message)}
}

func decideOldNames(p migrate.Plan) Finding {
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
	if len(objects) > 0 {
		return bad("%s", count(len(objects), "rule")).about(objects...)
	}
	return ok("none")
}

func decideDuplicates(p migrate.Plan) Finding {
	var objects []Object
	for i := range p.Items {
		it := &p.Items[i]
		if it.Verdict == migrate.VerdictSurplus || it.Verdict == migrate.VerdictDuplicate && (it.Service != "" || it.OurNodes) {
			objects = append(objects, ruleObject(it, it.Reason))
		}
	}
	if len(objects) > 0 {
		return bad("%s too many for a port", count(len(objects), "rule")).about(objects...)
	}
	return ok("none")
}

func decideOrphans(in balanceFacts, addresses []cloudstack.PublicIP, clusterID string) Finding {
	p := in.plan()
	var objects []Object
	for i := range p.Items {
		it := &p.Items[i]
		if it.Service == "" && it.OurNodes && it.Family != migrate.FamilyForeign {
			objects = append(objects, ruleObject(it, "all its members are nodes of this cluster"))
		}
	}
	living := map[string]bool{}
	for i := range in.services {
		living[string(in.services[i].UID)] = true
	}
	for i := range addresses {
		a := &addresses[i]
		uid := a.Tags[lbplan.TagServiceUID]
		if uid != "" && a.Tags[lbplan.TagCluster] == clusterID && !living[uid] {
			objects = append(objects, Object{Kind: "PublicIpAddress", Name: a.Address, Message: fmt.Sprintf(
				"tagged as of Service %s of cluster %q, which is not here", a.Tags[lbplan.TagService], clusterID)})
		}
	}
	if len(objects) > 0 {
		return bad("%s without a Service", count(len(objects), "object")).about(objects...)
	}
	return ok("none")
}

// decideServices compares each Service with its rules.
func decideServices(in balanceFacts) Finding {
	// Rules by Service and port, those with names of older providers too: they serve all the same.
	p := in.plan()
	whose := map[string]string{}
	for i := range p.Items {
		whose[p.Items[i].RuleID] = p.Items[i].Service
	}
	rules := map[string][]cloudstack.LoadBalancerRule{}
	for _, r := range in.balancers.rules {
		if service := whose[r.ID]; service != "" {
			key := fmt.Sprintf("%s:%d", service, r.PublicPort)
			rules[key] = append(rules[key], r)
		}
	}
	eligible := eligibleVMs(in.nodes, in.vms)
	var objects []Object
	checked, pending := 0, 0
	for i := range in.services {
		s := &in.services[i]
		if s.Spec.Type != corev1.ServiceTypeLoadBalancer || s.Spec.LoadBalancerClass != nil || s.DeletionTimestamp != nil {
			continue
		}
		if len(s.Status.LoadBalancer.Ingress) == 0 && in.now.Sub(s.CreationTimestamp.Time) < patience {
			pending++
			continue
		}
		checked++
		if problems := in.problems(s, rules, eligible); len(problems) > 0 {
			if at := in.next[s.Namespace+"/"+s.Name]; at.After(in.now) {
				problems = append(problems, fmt.Sprintf("next try at %s, in %s", at.UTC().Format("15:04:05Z"), at.Sub(in.now).Round(time.Second)))
			}
			objects = append(objects, Object{Kind: "Service", Namespace: s.Namespace, Name: s.Name, Message: strings.Join(problems, "; ")})
		}
	}
	switch {
	case len(objects) > 0:
		return bad("something is missing or wrong for %d of %s", len(objects), count(checked, "Service")).about(objects...)
	case checked == 0 && pending == 0:
		return ok("no Services of type LoadBalancer")
	case pending > 0:
		return ok("%s, %d more being set up", count(checked, "Service"), pending)
	}
	return ok("%s", count(checked, "Service"))
}

func (in *balanceFacts) problems(s *corev1.Service, rules map[string][]cloudstack.LoadBalancerRule, eligible []cloudstack.VirtualMachine) []string {
	if len(s.Status.LoadBalancer.Ingress) == 0 {
		text := fmt.Sprintf("has no address since %s", in.now.Sub(s.CreationTimestamp.Time).Round(time.Second))
		if why := lastWarning(in.events, s); why != "" {
			text += ": " + why
		}
		return []string{text}
	}
	var out []string
	for _, p := range s.Spec.Ports {
		if p.NodePort == 0 {
			continue // allocateLoadBalancerNodePorts: false; the controller says what it makes of it
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

func (in *balanceFacts) ruleProblems(s *corev1.Service, r *cloudstack.LoadBalancerRule, nodePort int, eligible []cloudstack.VirtualMachine) []string {
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
	members := in.balancers.members[r.ID]
	if r.State != "Active" && len(members) > 0 {
		out = append(out, fmt.Sprintf("its rule is in state %s", r.State))
	}
	want := map[string]string{} // name by id
	for i := range eligible {
		if onNetwork(&eligible[i], r.NetworkID) {
			want[eligible[i].ID] = eligible[i].Name
		}
	}
	var extra []string
	for i := range members {
		if _, wanted := want[members[i].VMID]; !wanted {
			extra = append(extra, members[i].Name)
		}
		delete(want, members[i].VMID)
	}
	if len(want) > 0 {
		var missing []string
		for _, id := range sortedKeys(want) {
			missing = append(missing, want[id])
		}
		slices.Sort(missing)
		out = append(out, "members missing: "+strings.Join(missing, ", "))
	}
	if len(extra) > 0 {
		slices.Sort(extra)
		out = append(out, "members that are no eligible nodes: "+strings.Join(extra, ", "))
	}
	return out
}

func onNetwork(vm *cloudstack.VirtualMachine, network string) bool {
	return network == "" || slices.ContainsFunc(vm.NICs, func(n cloudstack.NIC) bool { return n.NetworkID == network })
}

// toBeDeleted is the cluster autoscaler's taint on nodes that it removes.
const toBeDeleted = "ToBeDeletedByClusterAutoscaler"

// eligibleVMs are the VMs of the nodes that the service controller hands to a load balancer: those
// without the label for exclusion, without the autoscaler's taint, and not being deleted.
func eligibleVMs(nodes []corev1.Node, vms *inventory.VMSnapshot) []cloudstack.VirtualMachine {
	var out []cloudstack.VirtualMachine
	for i := range nodes {
		n := &nodes[i]
		if v, labelled := n.Labels[corev1.LabelNodeExcludeBalancers]; labelled {
			if exclude, err := strconv.ParseBool(v); err != nil || exclude {
				continue
			}
		}
		if n.DeletionTimestamp != nil || slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == toBeDeleted }) {
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
	return oneLine(last.Message)
}
