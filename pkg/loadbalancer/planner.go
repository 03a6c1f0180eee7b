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
	"github.com/csccm/csccm/pkg/loadbalancer/apply"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// Options configure a Reconciler.
type Options struct {
	// ClusterIDs returns the ids of the cluster in tags: the current one, then former ones.
	ClusterIDs func() []string
	// ClusterName is the cluster's name in the rule names of older providers; "kubernetes" if empty.
	ClusterName string
	// Book has the cluster's Services and their addresses.
	Book plan.Book
	// Project returns the id of a project by name or id. The empty name is the configured project, whose id is empty
	// for the account's own resources. If the project does not exist, the error is a *cloudstack.Error of KindNotFound.
	Project func(ctx context.Context, name string) (string, error)
	// Network returns a description of a network that is at most maxAge old; zero accepts one that is some minutes old.
	Network func(ctx context.Context, project, id string, maxAge time.Duration) (plan.Network, error)
	// VMs returns the ids of all VMs with a NIC in a network, or those of the Nodes for the empty network; may be nil.
	VMs func(ctx context.Context, project, networkID string) ([]string, error)
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
	// MembersKnown, members stay as they are.
	Keep, MembersKnown bool
	Records            apply.Store
	Grants             plan.Grants
	// Memory has what is known about the Service; nil if nothing is.
	Memory *Memory
	// Since is the time before which reads are not trusted. Whole lists that were started later may be shared with
	// other Services. If it is zero, reads are trusted for a drift period.
	Since time.Time
	// Project is the project in which an orphan was found. AllACLs means that it may have items in network ACL lists
	// that nothing else shows.
	Project string
	AllACLs bool
}

// place returns the name of something that only the project with the Service's objects shows: a VM in its network, or
// the network itself. If the network is not known, it is the VM of a Node.
func (o Options) place(ctx context.Context, project, network string) (string, error) {
	if o.VMs != nil {
		if vms, err := o.VMs(ctx, project, network); err != nil || len(vms) > 0 {
			return "VM " + strings.Join(vms[:min(1, len(vms))], ""), err
		}
	}
	if network == "" {
		return "", nil
	}

	n, err := o.Network(ctx, project, network, freshAge)
	switch {
	case cloudstack.IsNotFound(err), err == nil && n.Type == "Shared":
		return "", nil
	case err != nil:
		return "", err
	}
	return "network " + network, nil
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
	out.StatusIPs = StatusIPs(svc)
	return out
}

// StatusIPs returns the addresses in the status of a Service.
func StatusIPs(svc *corev1.Service) (out []string) {
	for _, i := range svc.Status.LoadBalancer.Ingress {
		if i.IP != "" {
			out = append(out, i.IP)
		}
	}
	return out
}

// NetworkOf returns what the planner needs to know about a network of CloudStack.
func NetworkOf(n *cloudstack.Network) plan.Network {
	capability := n.Services["Lb"]
	schemes := strings.ToLower(capability["LbSchemes"])
	out := plan.Network{
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
		TLS: strings.EqualFold(capability["SslTermination"], "true"), Providers: n.ServiceProviders["Lb"],
	}

	filters := func(provider string) bool {
		return plan.IsVirtualRouter(provider) || slices.Contains(n.ServiceProviders["Firewall"], provider)
	}
	out.Unfiltered = len(out.Providers) > 0 && !slices.ContainsFunc(out.Providers, filters)
	out.Forwards = (n.Type == "Isolated" || n.VPCID != "") &&
		slices.ContainsFunc(n.ServiceProviders["PortForwarding"], plan.IsVirtualRouter)
	for _, p := range strings.Split(capability["SupportedProtocols"], ",") {
		out.Protocols = append(out.Protocols, strings.ToLower(strings.TrimSpace(p)))
	}

	return out
}
