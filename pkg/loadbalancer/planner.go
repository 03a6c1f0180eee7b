// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package loadbalancer makes CloudStack serve Services of type LoadBalancer:
//
//	observe  reads the actual state from CloudStack
//	plan     compares desired and actual state; makes no calls
//	apply    executes the steps of the plan in CloudStack
//
// All three work on one plan.Subject, which a Reconciler creates from a Request.
package loadbalancer

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer/apply"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// Options configure a Reconciler.
type Options struct {
	API apply.API
	// ClusterIDs returns the ids of the cluster in tags: the current one, then former ones.
	ClusterIDs func() []string
	// ClusterName is the cluster's name in the rule names of older providers; "kubernetes" if empty.
	ClusterName string
	// Book has the cluster's Services and their addresses.
	Book plan.Book
	// LeaveACLs means that network ACL lists are not changed.
	LeaveACLs bool
	// DriftPeriod is how long a read is trusted; zero means forever.
	DriftPeriod time.Duration
	// Policy decides which steps may be done; PolicyApply if empty.
	Policy plan.Policy
	Clock  clock.PassiveClock
}

// Request is the request to reconcile one Service.
type Request struct {
	// Facts come from the cluster. The Reconciler adds what CloudStack knows about the network and the role.
	plan.Facts
	// Absent means that the Service no longer wants a load balancer: everything that it has is removed.
	Absent bool
	// Fresh means that Members and Reach were read at most some seconds ago.
	Fresh bool
	// Preview means to only read, and return what would be done.
	Preview bool
	// Keep means to maintain what a Service serves although its request is refused, see plan.Refused. Without
	// MembersKnown, rules keep their members.
	Keep, MembersKnown bool
	Records            apply.Store
	Grants             plan.Grants
	// Memory has what is known about the Service; nil if nothing is.
	Memory *Memory
	// Since is the time before which reads are not trusted. Whole lists that were started later may be shared with
	// other Services. If it is zero, reads are trusted for a drift period.
	Since time.Time
	// Project is the id of the project to work in. OwnProject is the same if the Service or its records name a project,
	// and empty otherwise.
	Project, OwnProject string
	// Inventory is that of the project. NodeVMs are the VMs of the Nodes, if the Service wants no load balancer.
	Inventory *inventory.Inventory
	NodeVMs   []plan.Member
	// AllACLs means that the Service may have items in network ACL lists that nothing else shows.
	AllACLs bool
}

// Locate sets the project: the one that the records name, or else the one that the Service names. It refuses a Service
// that now names another project, because CloudStack cannot move its load balancer. configured and named are the
// inventories of the configured project and of the one that the Service names; both are the same if it names none.
func (req *Request) Locate(ctx context.Context, configured, named *inventory.Inventory) (err error) {
	records, from := req.Spec.Records, configured
	if records.Empty() {
		from = named
	}

	req.Project, req.OwnProject = records.Project(), records.Project()
	if req.Project == "" {
		if req.Project, err = from.ProjectID(ctx); err != nil {
			return err
		}
		if from != configured {
			req.OwnProject = req.Project
		}
	}
	if req.Absent || records.Empty() {
		return nil
	}

	id, err := named.ProjectID(ctx)
	switch {
	case err != nil && !cloudstack.IsNotFound(err):
		return err
	case err != nil, id != req.Project:
		return plan.ProjectChanged(req.Spec.Project, req.Project)
	}
	return nil
}

// Preview is what the controller would do for a Service.
type Preview struct {
	Service string        `json:"service"`
	Desired *plan.Desired `json:"desired,omitempty"`
	Actual  *plan.Actual  `json:"actual,omitempty"`
	// Actions turn the actual state into the desired one. Policies are not applied.
	Actions []plan.Step `json:"actions"`
	// Refusal says why the Service's request is refused. The actions then maintain what it has.
	Refusal *plan.RefusalError `json:"refusal,omitempty"`
	// Pending is the number of acquisitions whose result the controller would ask for first.
	Pending int           `json:"pending,omitempty"`
	Notices []plan.Notice `json:"notices,omitempty"`
}

// ServiceOf returns what the planner needs to know about a Service.
func ServiceOf(svc *corev1.Service) plan.Service {
	out := plan.Service{
		UID:       string(svc.UID),
		Namespace: svc.Namespace,
		Name:      svc.Name,
		LB:        cloudprovider.DefaultLoadBalancerName(svc),
	}
	for _, p := range svc.Spec.Ports {
		out.Ports = append(out.Ports,
			plan.Port{Name: p.Name, Protocol: string(p.Protocol), Port: int(p.Port), NodePort: int(p.NodePort)})
	}
	out.IPv6Only = len(svc.Spec.IPFamilies) > 0 && !slices.Contains(svc.Spec.IPFamilies, corev1.IPv4Protocol)
	for _, i := range svc.Status.LoadBalancer.Ingress {
		if i.IP != "" {
			out.StatusIPs = append(out.StatusIPs, i.IP)
		}
	}
	return out
}

// StatusWriter returns the field manager that wrote the addresses in the status of a Service; empty if it is not known.
// Their list is atomic, so it has one.
func StatusWriter(svc *corev1.Service) string {
	for _, m := range svc.ManagedFields {
		if m.FieldsV1 != nil && strings.Contains(m.FieldsV1.GetRawString(), `"f:ingress"`) {
			return m.Manager
		}
	}
	return ""
}

// NetworkOf returns what the planner needs to know about a network of CloudStack.
func NetworkOf(n *cloudstack.Network) plan.Network {
	capability, providers := n.Services["Lb"], n.ServiceProviders["Lb"]
	schemes := strings.ToLower(capability["LbSchemes"])
	filters := func(provider string) bool {
		return plan.IsVirtualRouter(provider) || slices.Contains(n.ServiceProviders["Firewall"], provider)
	}
	return plan.Network{
		ID:           n.ID,
		Name:         n.Name,
		VPCID:        n.VPCID,
		Type:         n.Type,
		CIDR:         n.CIDR,
		ACLID:        n.ACLID,
		ACLName:      n.ACLName,
		Conserve:     n.ConserveMode,
		LoadBalancer: n.HasService("Lb"), Firewall: n.HasService("Firewall"), DNS: n.HasService("Dns"),
		Public: schemes == "" || strings.Contains(schemes, "public"), Internal: strings.Contains(schemes, "internal"),
		TLS: strings.EqualFold(capability["SslTermination"], "true"), Providers: providers,
		Protocols:  strings.Split(strings.ToLower(strings.ReplaceAll(capability["SupportedProtocols"], " ", "")), ","),
		Unfiltered: len(providers) > 0 && !slices.ContainsFunc(providers, filters),
		Forwards: (n.Type == "Isolated" || n.VPCID != "") &&
			slices.ContainsFunc(n.ServiceProviders["PortForwarding"], plan.IsVirtualRouter),
	}
}
