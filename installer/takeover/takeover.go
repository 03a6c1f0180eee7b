// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package takeover puts csccm's controller in the place of another provider
// for CloudStack: Apache's (by its manifest, also as CloudStack Kubernetes
// Service deploys it), Leaseweb's fork (by its chart), and what the provider
// inside old Kubernetes versions left.
//
//	Detect   cluster, CloudStack -> Facts; reads only
//	NewPlan  Facts -> Plan; pure: what would differ, Service by Service, and what can be pinned
//	Steps    Plan -> steps before the chart and after its Pods run
//	Undoer   Facts -> steps back to the old workload, which stays with no Pods
//
// Two controllers never act at once. Where the old one elects a leader on the
// lease that ours uses, ours is started first and stands by; csccm then holds
// the lease itself while it stops the old one and renames rules, and lets ours
// have it. Where the old one elects none, it is stopped before ours starts.
package takeover

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/check/tenants"
	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// Facts is what a plan rests on.
type Facts struct {
	family.Controllers
	Services  []corev1.Service
	Nodes     []corev1.Node
	VMs       *inventory.VMSnapshot
	Rules     []rules.Rule
	Addresses []cloudstack.PublicIP
	Firewall  []cloudstack.FirewallRule
	ACLs      []cloudstack.NetworkACL // items of the lists of VPCs
	Forwards  []cloudstack.PortForwarding
	Networks  map[string]plan.Network // by id, of the nodes
	// ClusterIDs are the cluster's ids in tags: the one that the controller will write, then former ones.
	ClusterIDs []string
	Limits     plan.Limits

	project     string // id
	aclsRefused error  // the role may not list ACL items
	mode        string // of Services that choose none, by the cloud-config

	forwardsRefused error // the role may not list port forwardings
}

// Order says which controller is started or stopped first.
type Order string

// Orders.
const (
	OursFirst Order = "ours-first" // ours stands by on the lease that the old one holds
	OldFirst  Order = "old-first"  // the old one elects no leader, or on another lease
	Nothing   Order = "nothing"    // there is no other controller
)

// Problem keeps a takeover from happening.
type Problem struct {
	Text   string `json:"text"`
	Remedy string `json:"remedy"`
}

// Plan is what a takeover would do, complete enough to be shown and agreed to. It holds no secret.
type Plan struct {
	SchemaVersion int                  `json:"schemaVersion"`
	Predecessors  []family.Predecessor `json:"predecessors"`
	Own           family.Own           `json:"own"`
	Order         Order                `json:"order"`
	Why           string               `json:"why"` // of the order
	// Values are chart values that keep what new nodes would otherwise get differently.
	Values   map[string]string `json:"values,omitempty"`
	Services []ServicePlan     `json:"services"`
	// Rules are the rules' renames and the deletion of surplus ones.
	Rules    rules.Plan `json:"rules"`
	Problems []Problem  `json:"problems,omitempty"`
	// Tenants is what the policy of csccm's controller refuses.
	Tenants []tenants.Refusal `json:"tenants,omitempty"`
	// State and Next, the next command, are of csccm takeover alone.
	State State  `json:"state,omitempty"`
	Next  string `json:"next,omitempty"`

	project string // id of the rules' project
}

// ServicePlan is one Service of type LoadBalancer.
type ServicePlan struct {
	Service     string       `json:"service"` // namespace/name
	Address     string       `json:"address,omitempty"`
	Rules       []string     `json:"rules,omitempty"` // ids of the current ones
	Differences []Difference `json:"differences,omitempty"`
	// Changes are all that is made, changed or deleted for the Service, in the order in which it is done.
	Changes []Change `json:"changes"`
	// Pinned: annotations keep what is there, see Plan.Pin.
	Pinned bool `json:"pinned,omitempty"`

	pinned []Change // instead, with the annotations that keep what is there
}

// NeedsConsent reports whether anything that its users would notice changes.
func (s *ServicePlan) NeedsConsent() bool { return len(s.consents()) > 0 }

// consents are the texts of the differences that need consent.
func (s *ServicePlan) consents() []string {
	var out []string
	for i := range s.Differences {
		if s.Differences[i].Consent {
			out = append(out, s.Differences[i].Text)
		}
	}
	return out
}

// Pins are the annotations that keep the current state; nil when any difference that needs consent has none.
func (s *ServicePlan) Pins() map[string]string {
	var pins map[string]string
	for i := range s.Differences {
		switch d := &s.Differences[i]; {
		case !d.Consent:
		case d.Pin == nil:
			return nil
		case pins == nil:
			pins = map[string]string{d.Pin.Annotation: d.Pin.Value}
		default:
			pins[d.Pin.Annotation] = d.Pin.Value
		}
	}
	return pins
}

// Undecided are the Services that need consent and have neither been accepted nor pinned.
func (p *Plan) Undecided(accepted, pinned []string) []*ServicePlan {
	var out []*ServicePlan
	for i := range p.Services {
		s := &p.Services[i]
		if !s.NeedsConsent() || Named(accepted, s.Service) || Named(pinned, s.Service) && s.Pins() != nil {
			continue
		}
		out = append(out, s)
	}
	return out
}

// All in a list of Services stands for every one.
const All = "all"

// Named reports whether a list of Services names one.
func Named(list []string, service string) bool {
	return slices.Contains(list, All) || slices.Contains(list, service)
}

// unknown are the names that are no Service's of the plan.
func (p *Plan) unknown(lists ...[]string) []string {
	var out []string
	for _, name := range slices.Concat(lists...) {
		if name != All && !slices.ContainsFunc(p.Services, func(s ServicePlan) bool { return s.Service == name }) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// noConsent is the error of a takeover that would change what nobody agreed to.
func noConsent(services []*ServicePlan) error {
	var parts []string
	names := make([]string, len(services))
	pinnable := true
	for i, s := range services {
		names[i] = s.Service
		pinnable = pinnable && s.Pins() != nil
		for _, text := range s.consents() {
			parts = append(parts, s.Service+": "+text)
		}
	}
	list := strings.Join(names, ",")
	fix := fmt.Sprintf("agree with --accept %s, or correct the Services first; --pin keeps what an annotation can keep", list)
	if pinnable {
		fix = fmt.Sprintf("keep the current state with --pin %s, or agree with --accept %s", list, list)
	}
	return &report.Error{What: "the takeover would change what runs: " + strings.Join(parts, "; "), Fix: fix, Code: report.ExitCheckFailed}
}

// Blocked is the error of a takeover that cannot begin; nil without problems.
func Blocked(problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	return &report.Error{What: "nothing was changed: " + problems[0].Text, Fix: problems[0].Remedy, Code: report.ExitCheckFailed}
}
