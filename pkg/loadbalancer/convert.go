// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	cpapi "k8s.io/cloud-provider/api"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// ServiceOf is what the planner needs of a Service.
func ServiceOf(svc *corev1.Service) plan.Service {
	out := plan.Service{UID: string(svc.UID), Namespace: svc.Namespace, Name: svc.Name, LB: cloudprovider.DefaultLoadBalancerName(svc)}
	for _, p := range svc.Spec.Ports {
		out.Ports = append(out.Ports, plan.Port{Name: p.Name, Protocol: string(p.Protocol), Port: int(p.Port), NodePort: int(p.NodePort)})
	}
	out.IPv6Only = len(svc.Spec.IPFamilies) > 0 && !slices.Contains(svc.Spec.IPFamilies, corev1.IPv4Protocol)
	for _, i := range svc.Status.LoadBalancer.Ingress {
		if i.IP != "" {
			out.StatusIPs = append(out.StatusIPs, i.IP)
		}
	}
	return out
}

// MemberOf is what the planner needs to know of a node and its VM.
func MemberOf(n *corev1.Node, vm *cloudstack.VirtualMachine) plan.Member {
	m := plan.Member{Node: n.Name, VMID: vm.ID}
	for _, nic := range vm.NICs {
		m.NICs = append(m.NICs, plan.NIC{NetworkID: nic.NetworkID, NetworkName: nic.NetworkName, IP: nic.IPv4, Secondary: nic.SecondaryIP})
	}
	m.Addresses = NodeAddresses(n)
	return m
}

// NodeAddresses are the addresses at which a node wants to be reached: what its kubelet was told, else what
// the Node shows.
func NodeAddresses(n *corev1.Node) []string {
	if own := n.Annotations[cpapi.AnnotationAlphaProvidedIPAddr]; own != "" {
		return strings.Split(own, ",")
	}
	var out []string
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			out = append(out, a.Address)
		}
	}
	return out
}

// NetworkOf is what the planner needs to know of a network that CloudStack has shown.
func NetworkOf(n *cloudstack.Network) plan.Network {
	capability := n.Services["Lb"]
	schemes := strings.ToLower(capability["LbSchemes"])
	out := plan.Network{
		ID: n.ID, Name: n.Name, VPCID: n.VPCID, Type: n.Type, ACLID: n.ACLID, ACLName: n.ACLName, Conserve: n.ConserveMode,
		LoadBalancer: n.HasService("Lb"), Firewall: n.HasService("Firewall"), DNS: n.HasService("Dns"),
		Public: schemes == "" || strings.Contains(schemes, "public"), Internal: strings.Contains(schemes, "internal"),
		TLS: strings.EqualFold(capability["SslTermination"], "true"), Providers: n.ServiceProviders["Lb"],
	}
	out.Forwards = (n.Type == "Isolated" || n.VPCID != "") && slices.ContainsFunc(n.ServiceProviders["PortForwarding"], plan.IsVirtualRouter)
	for _, p := range strings.Split(capability["SupportedProtocols"], ",") {
		out.Protocols = append(out.Protocols, strings.ToLower(strings.TrimSpace(p)))
	}
	return out
}
