// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/node"
)

// Rule is a load balancer rule with its members.
type Rule struct {
	cloudstack.LoadBalancerRule
	Members []cloudstack.LoadBalancerMember
}

// Inventory is what Plan decides by.
type Inventory struct {
	Rules    []Rule
	Services []corev1.Service // all of the cluster
	// NodeVMs are the ids of the VMs that are Nodes of the cluster; nil when not known.
	NodeVMs map[string]bool
}

// NodeVMs returns the ids of the VMs that are Nodes.
func NodeVMs(nodes []corev1.Node, vms *inventory.VMSnapshot) map[string]bool {
	out := map[string]bool{}
	for i := range nodes {
		if vm, err := node.Match(vms, &nodes[i]); err == nil {
			out[vm.ID] = true
		}
	}
	return out
}

// Selection says which rules a plan may touch beyond those of the cluster's Services.
type Selection struct {
	// LoadBalancers are names of load balancers whose rules are renamed although no Service of the
	// cluster owns them.
	LoadBalancers []string
	// IncludeUnattributed renames all rules with a legacy name.
	IncludeUnattributed bool
	// DeleteOrphans deletes rules whose Service is gone and whose members are all Nodes of the cluster.
	DeleteOrphans bool
}

// Verdict is what a plan says about a rule.
type Verdict string

// Verdicts on rules.
const (
	VerdictRename       Verdict = "rename"       // a Step renames it
	VerdictCurrent      Verdict = "current"      // has csccm's name
	VerdictDuplicate    Verdict = "duplicate"    // another rule serves the same port of the same load balancer
	VerdictSurplus      Verdict = "surplus"      // a duplicate that a Step deletes, once the better one serves
	VerdictOrphan       Verdict = "orphan"       // its Service is gone and its members are Nodes of this cluster
	VerdictUnattributed Verdict = "unattributed" // no Service of this cluster owns it: left alone
	VerdictForeign      Verdict = "foreign"      // not named by a provider: left alone
)

// Item is a rule and what becomes of it.
type Item struct {
	RuleID   string  `json:"ruleId"`
	Name     string  `json:"name"`
	Family   Family  `json:"family"`
	Verdict  Verdict `json:"verdict"`
	PublicIP string  `json:"publicIp"`
	Port     int     `json:"port"`
	// Service is namespace/name of the Service of this cluster that the rule belongs to, if any.
	Service string `json:"service,omitempty"`
	NewName string `json:"newName,omitempty"` // with VerdictRename
	// Action is what a Step does to it; "" where nothing is done.
	Action Action `json:"action,omitempty"`
	// Reason says why, for people.
	Reason  string `json:"reason"`
	Members int    `json:"members"`
	// OurNodes: there are members, and all are Nodes of this cluster.
	OurNodes bool `json:"membersAreNodes"`
}

// Action is what a Step does.
type Action string

// Actions.
const (
	ActionRename Action = "rename" // in place: id, members and traffic stay
	ActionDelete Action = "delete" // of a surplus or an orphan
	ActionCreate Action = "create" // undoes a deletion; the rule gets a new id
)

// Step changes one rule.
type Step struct {
	Action Action `json:"action"`
	RuleID string `json:"ruleId"`
	From   string `json:"from"`
	To     string `json:"to,omitempty"` // of ActionRename
	// Keeper is the rule that must serve the port before a surplus one may go.
	Keeper string `json:"keeper,omitempty"`
	// Rule is what ActionCreate makes, and ActionDelete has deleted.
	Rule *Deleted `json:"rule,omitempty"`
	// Protocol is always sent: an update without it ends in a server error for rules that were
	// created without one.
	Protocol string `json:"protocol"`
	// Algorithm is the one that stands; it is sent so that the update cannot change it.
	Algorithm string `json:"algorithm"`
	PublicIP  string `json:"publicIp"`
	Port      int    `json:"port"`
	Service   string `json:"service,omitempty"`
}

// Plan is what is there and what would be done.
type Plan struct {
	Items []Item `json:"rules"`
	Steps []Step `json:"steps"`
	// UnknownLoadBalancers were selected, and no rule is of theirs.
	UnknownLoadBalancers []string `json:"-"`
}

// Count is the number of rules of a verdict.
func (p *Plan) Count(v Verdict) int {
	n := 0
	for i := range p.Items {
		if p.Items[i].Verdict == v {
			n++
		}
	}
	return n
}

// MakePlan decides about every rule. The order of its input does not matter.
func MakePlan(inv Inventory, sel Selection) Plan {
	rules := slices.Clone(inv.Rules)
	slices.SortFunc(rules, func(a, b Rule) int { return strings.Compare(a.Name+"\x00"+a.ID, b.Name+"\x00"+b.ID) })
	owners := newOwners(inv.Services)
	targets := make([]target, len(rules))
	served := map[string][]int{} // the rules of a load balancer's port
	for i := range rules {
		targets[i] = resolve(&rules[i], owners)
		if key := targets[i].key(); key != "" {
			served[key] = append(served[key], i)
		}
	}
	keepers := chooseKeepers(rules, targets, served, owners, inv.NodeVMs)
	p := Plan{Items: []Item{}, Steps: []Step{}}
	for _, lb := range sel.LoadBalancers {
		if !slices.ContainsFunc(targets, func(t target) bool { return t.lb == lb }) {
			p.UnknownLoadBalancers = append(p.UnknownLoadBalancers, lb)
		}
	}
	var deletions []Step // last: what stays is in order by then
	for i := range rules {
		item, step := decide(&rules[i], targets[i], keepers[i], inv.NodeVMs, sel)
		if step != nil {
			item.Action = step.Action
		}
		p.Items = append(p.Items, item)
		switch {
		case step == nil:
		case step.Action == ActionDelete:
			deletions = append(deletions, *step)
		default:
			p.Steps = append(p.Steps, *step)
		}
	}
	p.Steps = append(p.Steps, deletions...)
	return p
}

// target is where a rule belongs.
type target struct {
	name    Name
	lb      string // load balancer, for Leaseweb's names that of the Service
	service string // namespace/name in this cluster, or ""
}

func (t target) key() string {
	if t.lb == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d", t.lb, t.name.Port)
}

// owners finds Services by load balancer name and by namespace/name.
type owners struct {
	byLB   map[string]*corev1.Service
	byName map[string]*corev1.Service
}

func newOwners(services []corev1.Service) owners {
	o := owners{map[string]*corev1.Service{}, map[string]*corev1.Service{}}
	for i := range services {
		s := &services[i]
		o.byLB[cloudprovider.DefaultLoadBalancerName(s)] = s
		o.byName[s.Namespace+"/"+s.Name] = s
	}
	return o
}

// resolve attributes a rule. A load balancer name holds the Service's UID and so is proof; a
// Leaseweb name holds only names, which another cluster of the account may use too, so there the
// rule's address must be the Service's.
func resolve(r *Rule, o owners) target {
	t := target{name: ParseName(r.Name)}
	t.lb = t.name.LB
	if s := o.byLB[t.lb]; s != nil && t.lb != "" {
		t.service = s.Namespace + "/" + s.Name
	}
	if t.name.Family == FamilyLeaseweb {
		key := t.name.Namespace + "/" + t.name.Service
		if s := o.byName[key]; s != nil && hasAddress(s, r.PublicIP) {
			t.service, t.lb = key, cloudprovider.DefaultLoadBalancerName(s)
		}
	}
	return t
}

func hasStatus(s *corev1.Service) bool {
	return slices.ContainsFunc(s.Status.LoadBalancer.Ingress, func(i corev1.LoadBalancerIngress) bool { return i.IP != "" })
}

// hasAddress reports whether the Service is known to have an address: by its status, or by the record
// that Leaseweb's provider or csccm's wrote, since a hostname hides the address in the status.
func hasAddress(s *corev1.Service, ip string) bool {
	if ip == "" {
		return false
	}
	if slices.ContainsFunc(s.Status.LoadBalancer.Ingress, func(i corev1.LoadBalancerIngress) bool { return i.IP == ip }) {
		return true
	}
	records, err := annotation.ParseRecords(s.Annotations)
	return s.Annotations[annotation.Address] == ip ||
		err == nil && slices.ContainsFunc(records.Addresses, func(a annotation.AddressRecord) bool { return a.IP == ip })
}

func decide(r *Rule, t target, k keeping, nodeVMs map[string]bool, sel Selection) (Item, *Step) {
	item := Item{
		RuleID: r.ID, Name: r.Name, Family: t.name.Family, PublicIP: r.PublicIP, Port: r.PublicPort,
		Service: t.service, Members: len(r.Members),
	}
	ours := ourMembers(r, nodeVMs)
	item.OurNodes = ours > 0 && ours == len(r.Members)
	step := &Step{
		Action: ActionRename, RuleID: r.ID, From: r.Name, Protocol: cmp.Or(r.Protocol, plan.ProtocolTCP), // what a rule without a protocol does
		Algorithm: r.Algorithm, PublicIP: r.PublicIP, Port: r.PublicPort, Service: t.service,
	}
	named := t.lb != "" && slices.Contains(sel.LoadBalancers, t.lb)
	switch {
	case t.name.Family == FamilyForeign:
		item.Verdict, item.Reason = VerdictForeign, "not named by a cloud provider for Kubernetes"
		return item, nil
	case k.state == surplus:
		item.Verdict, item.Reason = VerdictSurplus, k.reason
		step.Action, step.Keeper = ActionDelete, k.keeper
		return item, step
	case k.state == undecided:
		item.Verdict, item.Reason = VerdictDuplicate, k.reason
		return item, nil
	case t.service == "" && !named && item.OurNodes && sel.DeleteOrphans:
		item.Verdict, item.Reason = VerdictOrphan, "its Service is gone and all its members are nodes of this cluster"
		step.Action = ActionDelete
		return item, step
	case t.service == "" && !named && item.OurNodes && !sel.IncludeUnattributed:
		item.Verdict = VerdictOrphan
		item.Reason = "no Service of this cluster has it" + hint(t, ours, len(r.Members), nodeVMs != nil) + "; --delete-orphans deletes it"
		return item, nil
	case t.name.Family == FamilyUpstream && (t.service != "" || named || sel.IncludeUnattributed):
		item.Verdict, item.Reason = VerdictCurrent, cmp.Or(k.reason, "has the current name")
		return item, nil
	case t.service != "":
		item.Reason = "of Service " + t.service
	case named:
		item.Reason = "named with --lb"
	case t.lb != "" && sel.IncludeUnattributed:
		item.Reason = "no Service of this cluster, taken with --include-unattributed"
	default:
		item.Verdict, item.Reason = VerdictUnattributed, "no Service of this cluster has it"+hint(t, ours, len(r.Members), nodeVMs != nil)
		return item, nil
	}
	step.To = plan.RuleName(t.lb, step.Protocol, r.PublicPort)
	item.Verdict, item.NewName = VerdictRename, step.To
	return item, step
}

func ourMembers(r *Rule, nodeVMs map[string]bool) int {
	n := 0
	for i := range r.Members {
		if nodeVMs[r.Members[i].VMID] {
			n++
		}
	}
	return n
}

// hint says what speaks for or against an unattributed rule being of this cluster.
func hint(t target, ours, members int, nodesKnown bool) string {
	how := ""
	if t.lb != "" {
		how = "; --lb " + t.lb + " renames it all the same"
		if t.name.Family == FamilyUpstream {
			how = "" // it has the current name
		}
	}
	switch {
	case !nodesKnown || members == 0:
		return how
	case ours == members:
		return "; all its members are nodes of this cluster, so its Service is gone" + how
	case ours == 0:
		return "; none of its members is a node of this cluster"
	}
	return fmt.Sprintf("; %d of its %s %s of this cluster", ours, english.Plural(members, "member", ""), english.PluralWord(ours, "is a node", "are nodes")) + how
}

// Address is a public address that carries no load balancer rule once the steps are done.
type Address struct {
	ID string `json:"id"`
	IP string `json:"ip"`
}

// Emptied returns the addresses that lose their last rule by the steps.
func Emptied(rules []Rule, steps []Step) (out []Address) {
	gone, stays := map[string]bool{}, map[Address]bool{}
	for i := range steps {
		gone[steps[i].RuleID] = steps[i].Action == ActionDelete
	}
	for i := range rules {
		a := Address{ID: rules[i].PublicIPID, IP: rules[i].PublicIP}
		stays[a] = stays[a] || !gone[rules[i].ID]
	}
	for a, stays := range stays {
		if !stays {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b Address) int { return cmp.Compare(a.IP, b.IP) })
	return out
}

// Describe says what to do about the address.
func (a Address) Describe() string {
	return fmt.Sprintf("address %s has no load balancer rule any more and stays acquired: release it in CloudStack (id %s) unless something else uses it", a.IP, a.ID)
}
