// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rules attributes the load balancer rules of CloudStack to Services by their names, whichever provider gave
// them, and moves them to the names that csccm uses, in place: the rule keeps its id, members and traffic.
package rules

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/node"
)

// Family says which provider named a rule.
type Family string

// Families of rule names.
const (
	FamilyLegacy   Family = "legacy"   // LB-PORT, without a protocol: the in-tree provider and its heirs
	FamilyUpstream Family = "upstream" // LB-PROTOCOL-PORT, as csccm names them
	FamilyLeaseweb Family = "leaseweb" // K8s_svc_CLUSTER_NAMESPACE_NAME-PROTOCOL-PORT
	FamilyForeign  Family = "foreign"  // not named by a provider for Kubernetes
)

// Name is a rule's name, taken apart.
type Name struct {
	Family Family
	// LB is the load balancer's name, "a" and 31 hex digits of the Service's UID. It and Port are zero for
	// FamilyLeaseweb and FamilyForeign.
	LB                 string
	Port               int
	Namespace, Service string // for FamilyLeaseweb only
}

// ParseName takes a rule's name apart. What fits no provider's form is FamilyForeign.
func ParseName(s string) Name {
	if lb, _, port, legacy, ok := plan.ParseRuleName(s); ok {
		if legacy {
			return Name{Family: FamilyLegacy, LB: lb, Port: port}
		}
		return Name{Family: FamilyUpstream, LB: lb, Port: port}
	}
	if _, namespace, service, ok := plan.ParseLeasewebName(s); ok {
		return Name{Family: FamilyLeaseweb, Namespace: namespace, Service: service}
	}
	return Name{Family: FamilyForeign}
}

// NodeVMs returns the ids of the VMs that are Nodes.
func NodeVMs(nodes []corev1.Node, vms *inventory.VMSnapshot) map[string]bool {
	out := map[string]bool{}
	for _, n := range nodes {
		if vm, err := node.Match(vms, &n); err == nil {
			out[vm.ID] = true
		}
	}
	return out
}

// Verdict is what a plan says about a rule.
type Verdict string

// Verdicts on rules.
const (
	VerdictRename       Verdict = "rename"       // in place: id, members and traffic stay
	VerdictCurrent      Verdict = "current"      // has csccm's name
	VerdictDuplicate    Verdict = "duplicate"    // another rule serves the same port of the same load balancer
	VerdictSurplus      Verdict = "surplus"      // a duplicate that is not on the Service's address
	VerdictOrphan       Verdict = "orphan"       // its Service is gone and its members are Nodes of this cluster
	VerdictUnattributed Verdict = "unattributed" // no Service of this cluster owns it: left alone
	VerdictForeign      Verdict = "foreign"      // not named by a provider: left alone
)

// Step renames one rule, if NewName is set.
type Step struct {
	RuleID   string `json:"ruleId"`
	Name     string `json:"name"`
	NewName  string `json:"newName,omitempty"`
	PublicIP string `json:"publicIp"`
	Port     int    `json:"port"`
	// Service is namespace/name of the Service of this cluster that the rule belongs to, if any.
	Service string `json:"service,omitempty"`
}

// Describe says in words what the step does.
func (s *Step) Describe() string { return s.Name + " -> " + s.NewName }

// Item is a rule and what becomes of it.
type Item struct {
	Step
	Family  Family  `json:"family"`
	Verdict Verdict `json:"verdict"`
	Reason  string  `json:"reason"` // for people
	Members int     `json:"members"`
	// OurNodes: there are members, and all are Nodes of this cluster.
	OurNodes bool `json:"membersAreNodes"`
}

// Plan is what is there and what would be done.
type Plan struct {
	Items []Item
	Steps []Step
}

// candidate is a rule, and whose it is.
type candidate struct {
	*cloudstack.LoadBalancerRule
	name          Name
	lb            string          // load balancer, for Leaseweb's names that of the Service
	service       *corev1.Service // of this cluster, or nil
	members, ours int             // all, and those that are Nodes of the cluster
}

// MakePlan decides about every rule, by all Services of the cluster. members and nodeVMs may be nil: then no rule
// without a Service is called an orphan. The order of its input does not matter.
func MakePlan(
	have []cloudstack.LoadBalancerRule, services []corev1.Service, members Members, nodeVMs map[string]bool,
) (p Plan) {
	byLB, byName := map[string]*corev1.Service{}, map[string]*corev1.Service{}
	for _, s := range services {
		byLB[cloudprovider.DefaultLoadBalancerName(&s)], byName[key(&s)] = &s, &s
	}

	ports := map[string][]*candidate{} // by load balancer and port; a rule of no load balancer alone
	for _, rule := range have {
		c := attribute(&rule, byLB, byName)
		for _, m := range members[c.ID] {
			if c.members++; nodeVMs[m.VMID] {
				c.ours++
			}
		}
		port := c.ID
		if c.lb != "" {
			port = fmt.Sprintf("%s:%d", c.lb, cmp.Or(c.name.Port, c.PublicPort))
		}
		ports[port] = append(ports[port], c)
	}

	for _, same := range ports {
		keeper, why := chooseKeeper(same)
		for _, c := range same {
			p.Items = append(p.Items, c.decide(keeper, why))
		}
	}

	slices.SortFunc(p.Items,
		func(a, b Item) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.RuleID, b.RuleID)) })
	for _, it := range p.Items {
		if it.NewName != "" {
			p.Steps = append(p.Steps, it.Step)
		}
	}

	return p
}

func key(s *corev1.Service) string { return s.Namespace + "/" + s.Name }

// attribute finds the Service of a rule. A load balancer name holds the Service's UID and so is proof; a
// Leaseweb name holds only names, which another cluster of the account may use too, so there the
// rule's address must be the Service's.
func attribute(r *cloudstack.LoadBalancerRule, byLB, byName map[string]*corev1.Service) *candidate {
	c := &candidate{LoadBalancerRule: r, name: ParseName(r.Name)}
	if c.name.Family != FamilyLeaseweb {
		c.lb = c.name.LB
		c.service = byLB[c.lb]
	} else if s := byName[c.name.Namespace+"/"+c.name.Service]; s != nil && hasAddress(s, r.PublicIP) {
		c.service, c.lb = s, cloudprovider.DefaultLoadBalancerName(s)
	}
	return c
}

// hasAddress reports whether the Service is known to have an address: by its status, or by the record
// that Leaseweb's provider or csccm's wrote, since a hostname hides the address in the status.
func hasAddress(s *corev1.Service, ip string) bool {
	if ip == "" {
		return false
	}
	if slices.ContainsFunc(s.Status.LoadBalancer.Ingress, func(i corev1.LoadBalancerIngress) bool {
		return i.IP == ip
	}) {
		return true
	}
	records, err := annotation.ParseRecords(s.Annotations)
	return s.Annotations[annotation.Address] == ip ||
		err == nil &&
			slices.ContainsFunc(records.Addresses, func(a annotation.AddressRecord) bool { return a.IP == ip })
}

// decide judges a rule; keeper and why are what chooseKeeper says of its port.
func (c *candidate) decide(keeper *candidate, why string) Item {
	item := Item{
		Step:   Step{RuleID: c.ID, Name: c.Name, PublicIP: c.PublicIP, Port: c.PublicPort},
		Family: c.name.Family, Members: c.members, OurNodes: c.ours > 0 && c.ours == c.members,
	}

	if c.service != nil {
		item.Service = key(c.service)
	}

	switch {
	case c.name.Family == FamilyForeign:
		item.Verdict, item.Reason = VerdictForeign, "not named by a cloud provider for Kubernetes"
	case keeper == nil:
		item.Verdict, item.Reason = VerdictDuplicate, "another rule serves the same port of the same load balancer; "+
			why
	case keeper != c:
		item.Verdict = VerdictSurplus
		item.Reason = fmt.Sprintf("%s on %s serves the same port, and counts: %s; delete this one: cmk delete "+
			"loadbalancerrule id=%s",
			keeper.Name, keeper.PublicIP, why, c.ID)

	case c.service == nil && item.OurNodes:
		item.Verdict = VerdictOrphan
		item.Reason = "its Service is gone, and all its members are nodes of this cluster; if nobody uses it: cmk " +
			"delete loadbalancerrule id=" + c.ID

	case c.service == nil:
		item.Verdict, item.Reason = VerdictUnattributed, fmt.Sprintf("no Service of this cluster has it, and %d of "+
			"its members are nodes of it", c.ours)
	case c.name.Family == FamilyUpstream:
		item.Verdict, item.Reason = VerdictCurrent, "has the current name"
	default:
		item.Verdict, item.NewName = VerdictRename, plan.RuleName(c.lb, protocolOf(c.LoadBalancerRule), c.PublicPort)
		item.Reason = "becomes " + item.NewName
	}

	return item
}

// protocolOf is what a rule does; one that was created without a protocol does TCP.
func protocolOf(r *cloudstack.LoadBalancerRule) string { return cmp.Or(r.Protocol, plan.ProtocolTCP) }

// chooseKeeper decides about a port that several rules serve on different addresses, which older providers leave behind
// when an address or a name changed. Clients come to the address in the Service's status: the rule there counts.
func chooseKeeper(same []*candidate) (keeper *candidate, why string) {
	s := same[0].service
	switch {
	case len(same) == 1:
		return same[0], ""
	case s == nil:
		return nil, "no Service of this cluster tells which of them counts"
	}

	for _, c := range same {
		if hasAddress(s, c.PublicIP) {
			if keeper != nil {
				return nil, "both are on addresses of the Service"
			}
			keeper = c
		}
	}

	if keeper == nil {
		return nil, "none is on the address of Service " + key(s)
	}

	return keeper, "its address is the Service's"
}
