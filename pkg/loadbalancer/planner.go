// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package loadbalancer makes CloudStack serve Services of type LoadBalancer:
//
//	observe  CloudStack -> what there is; reads only
//	plan     what is wanted, what there is -> actions; pure
//	apply    actions -> CloudStack
//
// All three work on one plan.Subject, which a Reconciler makes of a Request.
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
	// ClusterIDs are the ids of the cluster in tags: the current one, then former ones.
	ClusterIDs func() []string
	// ClusterName is what older providers put into rules' names; "kubernetes" when empty.
	ClusterName string
	// Book knows the cluster's Services and their addresses.
	Book plan.Book
	// Project returns the id of a project by name or id. The empty name is the configured project, whose id
	// is empty for the account's own resources. One that does not exist is a *cloudstack.Error of KindNotFound.
	Project func(ctx context.Context, name string) (string, error)
	// Network describes a network of a project as it was no longer than maxAge ago; with zero it may be some minutes
	// old.
	Network func(ctx context.Context, project, id string, maxAge time.Duration) (plan.Network, error)
	// VMs are the ids of all VMs with a NIC in a network, and those of Nodes for the empty network; may be nil.
	VMs func(ctx context.Context, project, networkID string) ([]string, error)
	// LeaveACLs leaves network ACL lists alone.
	LeaveACLs bool
	// DriftPeriod is how long what was read is trusted; zero means for ever.
	DriftPeriod time.Duration
	// Policy filters plans; PolicyApply when empty.
	Policy plan.Policy
	Clock  clock.PassiveClock
}

// Request is one Service to work on.
type Request struct {
	// Facts are those of the cluster; what CloudStack knows of the network and the role is added.
	plan.Facts
	// Absent means that the Service no longer wants a load balancer: everything of it is removed.
	Absent bool
	// Fresh means that Members and Reach were read some seconds ago at most.
	Fresh bool
	// Preview only reads, and says what would be done.
	Preview bool
	// Keep keeps up what a Service serves that is refused what it asks for: see plan.Kept. Without MembersKnown members
	// stay as they are.
	Keep, MembersKnown bool
	Records            apply.Store
	Grants             plan.Grants
	// Memory is what is known of the Service; nil for nothing.
	Memory *Memory
	// Since means that what was read before is not trusted; whole lists that were begun since may be shared with other
	// Services. With zero, what was read counts for a drift period.
	Since time.Time
	// Project is where an orphan was found, and AllACLs says that it may have items in network ACL lists that nothing
	// else shows.
	Project string
	AllACLs bool
}

// place names something that a project shows and that only the place shows in which a Service's objects were made: a VM
// in its network, or the network itself; the VM of a Node if the network is not known.
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
	// Actions turn actual into desired. Policies are not applied to them.
	Actions []plan.Step `json:"actions"`
	// Refusal says why the Service is not served as it asks to be: the actions are those that keep up what it has.
	Refusal *plan.RefusalError `json:"refusal,omitempty"`
	// Pending are acquisitions whose outcome the controller would ask for first.
	Pending int           `json:"pending,omitempty"`
	Notices []plan.Notice `json:"notices,omitempty"`
}

// ServiceOf is what the planner needs of a Service.
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

// StatusIPs are the addresses that the status of a Service shows.
func StatusIPs(svc *corev1.Service) (out []string) {
	for _, i := range svc.Status.LoadBalancer.Ingress {
		if i.IP != "" {
			out = append(out, i.IP)
		}
	}
	return out
}

// NetworkOf is what the planner needs to know of a network that CloudStack has shown.
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
