// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rules finds the Services of CloudStack's load balancer rules by the rules' names, whichever provider chose
// them, and plans to rename the rules to csccm's names. A renamed rule keeps its id, members and traffic.
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

// Family is the provider that chose a rule's name.
type Family string

// Families of rule names.
const (
	FamilyLegacy   Family = "legacy"   // LB-PORT, without a protocol: the in-tree provider and its successors
	FamilyUpstream Family = "upstream" // LB-PROTOCOL-PORT, as csccm names them
	FamilyLeaseweb Family = "leaseweb" // K8s_svc_CLUSTER_NAMESPACE_NAME-PROTOCOL-PORT
	FamilyForeign  Family = "foreign"  // not named by a provider for Kubernetes
)

// Name is a parsed name of a rule.
type Name struct {
	Family Family
	// LB is the load balancer's name: "a" and 31 hex digits of the Service's UID. LB and Port are zero for
	// FamilyLeaseweb and FamilyForeign.
	LB                 string
	Port               int
	Namespace, Service string // for FamilyLeaseweb only
}

// ParseName parses a rule's name. A name in no provider's form is FamilyForeign.
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

// NodeVMs returns the ids of the VMs on which Nodes run.
func NodeVMs(nodes []corev1.Node, vms *inventory.VMSnapshot) map[string]bool {
	out := map[string]bool{}
	for _, n := range nodes {
		if vm, err := node.Match(vms, &n); err == nil {
			out[vm.ID] = true
		}
	}
	return out
}

// Verdict is the plan's decision about a rule.
type Verdict string

// Verdicts.
const (
	VerdictRename       Verdict = "rename"       // rename in place: id, members and traffic stay
	VerdictCurrent      Verdict = "current"      // already has csccm's name
	VerdictDuplicate    Verdict = "duplicate"    // another rule serves the same port of the same load balancer
	VerdictSurplus      Verdict = "surplus"      // a duplicate that is not on the Service's address
	VerdictUnserved     Verdict = "unserved"     // the controller does not serve its Service: left alone
	VerdictOrphan       Verdict = "orphan"       // its Service is deleted, its members are Nodes of this cluster
	VerdictUnattributed Verdict = "unattributed" // no Service of this cluster owns it: left alone
	VerdictForeign      Verdict = "foreign"      // not named by a provider: left alone
)

// Step is one rule of the plan; it is renamed if NewName is set.
type Step struct {
	RuleID   string `json:"ruleId"`
	Name     string `json:"name"`
	NewName  string `json:"newName,omitempty"`
	PublicIP string `json:"publicIp"`
	Port     int    `json:"port"`
	// Service is namespace/name of the Service of this cluster that the rule belongs to, if any.
	Service string `json:"service,omitempty"`
}

// Describe returns the step as text.
func (s *Step) Describe() string { return s.Name + " -> " + s.NewName }

// Item is a rule and the decision about it.
type Item struct {
	Step
	Family  Family  `json:"family"`
	Verdict Verdict `json:"verdict"`
	Reason  string  `json:"reason"` // for people
	Members int     `json:"members"`
	// OurNodes reports whether the rule has members and all are Nodes of this cluster.
	OurNodes bool `json:"membersAreNodes"`
}

// Plan has all rules, and the steps that rename some of them.
type Plan struct {
	Items []Item
	Steps []Step
}

// candidate is a rule with its Service.
type candidate struct {
	*cloudstack.LoadBalancerRule
	name          Name
	lb            string          // name of the load balancer; for a Leaseweb name that of the Service
	service       *corev1.Service // Service of this cluster, or nil
	unserved      bool            // the controller does not serve the Service
	members, ours int             // number of all members, and of those that are Nodes of the cluster
}

// MakePlan decides about every rule. services are all Services of the cluster; handled reports whether the controller
// serves a Service, and nil means all of them. members and nodeVMs may be nil: then no rule without a Service is
// VerdictOrphan. The order of the input does not matter.
func MakePlan(
	have []cloudstack.LoadBalancerRule, services []corev1.Service, handled func(*corev1.Service) bool,
	members Members, nodeVMs map[string]bool,
) (p Plan) {
	byLB, byName := map[string]*corev1.Service{}, map[string]*corev1.Service{}
	for _, s := range services {
		byLB[cloudprovider.DefaultLoadBalancerName(&s)], byName[Key(&s)] = &s, &s
	}

	ports := map[string][]*candidate{} // by load balancer and port, or by rule id without a load balancer
	for _, rule := range have {
		c := attribute(&rule, byLB, byName)
		c.unserved = c.service != nil && handled != nil && !handled(c.service)
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

// Key returns namespace and name of a Service.
func Key(s *corev1.Service) string { return s.Namespace + "/" + s.Name }

// attribute finds the Service of a rule. A load balancer name contains the Service's UID, which is proof. A Leaseweb
// name contains only names, which another cluster of the account may use too, so the rule's address must also be the
// Service's.
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

// hasAddress reports whether a Service has an address: in its status, or, because a hostname can hide the address
// there, in an annotation that Leaseweb's provider or csccm wrote.
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

// decide returns the item for a rule; keeper and why are the results of chooseKeeper for the rule's port.
func (c *candidate) decide(keeper *candidate, why string) Item {
	item := Item{
		Step:     Step{RuleID: c.ID, Name: c.Name, PublicIP: c.PublicIP, Port: c.PublicPort},
		Family:   c.name.Family,
		Members:  c.members,
		OurNodes: c.ours > 0 && c.ours == c.members,
	}

	if c.service != nil {
		item.Service = Key(c.service)
	}

	switch {
	case c.name.Family == FamilyForeign:
		item.Verdict, item.Reason = VerdictForeign, "not named by a cloud provider for Kubernetes"
	case c.unserved:
		item.Verdict, item.Reason = VerdictUnserved, "the controller does not serve the Service: "+
			"its type or its loadBalancerClass is for another one"
	case keeper == nil:
		item.Verdict, item.Reason = VerdictDuplicate, "another rule serves the same port of the same load balancer; "+
			why
	case keeper != c:
		item.Verdict = VerdictSurplus
		item.Reason = fmt.Sprintf("%s on %s serves the same port and is kept: %s; delete this one: cmk delete "+
			"loadbalancerrule id=%s",
			keeper.Name, keeper.PublicIP, why, c.ID)

	case c.service == nil && item.OurNodes:
		item.Verdict = VerdictOrphan
		item.Reason = "its Service no longer exists, and all its members are nodes of this cluster; if nobody uses " +
			"it: cmk delete loadbalancerrule id=" + c.ID

	case c.service == nil:
		item.Verdict, item.Reason = VerdictUnattributed, fmt.Sprintf("no Service of this cluster has it, and %d of "+
			"its members are nodes of this cluster", c.ours)
	case c.name.Family == FamilyUpstream:
		item.Verdict, item.Reason = VerdictCurrent, "has the current name"
	default:
		item.Verdict, item.NewName = VerdictRename, plan.RuleName(c.lb, protocolOf(c.LoadBalancerRule), c.PublicPort)
		item.Reason = "becomes " + item.NewName
	}

	return item
}

// protocolOf returns the protocol of a rule; a rule that was created without one uses TCP.
func protocolOf(r *cloudstack.LoadBalancerRule) string { return cmp.Or(r.Protocol, plan.ProtocolTCP) }

// chooseKeeper decides about a port that several rules serve on different addresses. Older providers leave such rules
// behind when an address or a name changes. Clients use the address in the Service's status, so the rule on that
// address is kept.
func chooseKeeper(same []*candidate) (keeper *candidate, why string) {
	s := same[0].service
	switch {
	case len(same) == 1:
		return same[0], ""
	case s == nil:
		return nil, "no Service of this cluster shows which of them is in use"
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
		return nil, "neither is on the address of Service " + Key(s)
	}

	return keeper, "its address is the Service's"
}
