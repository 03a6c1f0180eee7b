// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/annotation"
)

// statsPort is where the virtual router's HAProxy shows its statistics; the
// router refuses a rule on it.
const statsPort = 8081

// dnsPort is refused on the source NAT address of a network whose router serves DNS.
const dnsPort = 53

const virtualRouter = "VirtualRouter"

// Facts are what Desire decides from.
type Facts struct {
	Service Service
	Spec    annotation.Spec
	Members []Member
	// Network is the members' network; nil when there are no members and it is not known.
	Network *Network
}

// Desire says what should be in CloudStack, or why the Service cannot be served.
func Desire(f Facts) (Desired, *RefusalError) {
	if r := checkPorts(f.Service.Ports, f.Network); r != nil {
		return Desired{}, r
	}
	if r := checkNetwork(f.Members, f.Network); r != nil {
		return Desired{}, r
	}
	d := Desired{
		Address:     f.Spec.Address,
		KeepAddress: f.Spec.KeepIP,
		Ranges:      slices.Clone(f.Spec.SourceRanges),
	}
	if f.Network != nil {
		d.NetworkID = f.Network.ID
	}
	// With nobody let in there is nothing to list: the closed firewall is the filter.
	var cidrs []string
	if !f.Spec.DenyAll() {
		cidrs = f.Spec.SourceRanges
	}
	for _, p := range f.Service.Ports {
		protocol := ProtocolTCP
		if f.Spec.ProxyProtocol.Has(p.Port) {
			protocol = ProtocolTCPProxy
		}
		d.Rules = append(d.Rules, Rule{
			Name:        RuleName(f.Service.LB, protocol, p.Port),
			Protocol:    protocol,
			Algorithm:   f.Spec.Algorithm,
			PublicPort:  p.Port,
			PrivatePort: p.NodePort,
			CIDRs:       slices.Clone(cidrs),
		})
	}
	slices.SortFunc(d.Rules, func(a, b Rule) int { return cmp.Compare(a.PublicPort, b.PublicPort) })
	for _, m := range f.Members {
		d.Members = append(d.Members, m.VMID)
	}
	slices.Sort(d.Members)
	d.Members = slices.Compact(d.Members)
	return d, nil
}

// CheckService says why a Service cannot be served wherever its nodes are. Desire
// asks it too; on its own it spares the reads when the answer is no.
func CheckService(svc Service) *RefusalError {
	return checkPorts(svc.Ports, &Network{Provider: "unknown"})
}

func checkPorts(ports []Port, network *Network) *RefusalError {
	if len(ports) == 0 {
		return &RefusalError{ReasonInvalidPort, "the Service has no ports", "give it at least one TCP port"}
	}
	byPort := map[int]string{}
	for _, p := range slices.SortedFunc(slices.Values(ports), func(a, b Port) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Protocol, b.Protocol))
	}) {
		if p.Port < 1 || p.Port > 65535 {
			return &RefusalError{ReasonInvalidPort, fmt.Sprintf("port %d is outside 1-65535", p.Port), "choose another port"}
		}
		if other, taken := byPort[p.Port]; taken && other != p.Protocol {
			return &RefusalError{
				ReasonMixedProtocols, fmt.Sprintf("port %d is wanted for %s and %s: CloudStack gives a port of an address to one protocol only", p.Port, other, p.Protocol),
				"use different ports, or two Services",
			}
		}
		byPort[p.Port] = p.Protocol
	}
	for _, p := range ports {
		switch {
		case p.Protocol == "UDP":
			return &RefusalError{
				ReasonUnsupportedProto, fmt.Sprintf("port %d is UDP: the load balancer of CloudStack's virtual router forwards TCP only", p.Port),
				"use a TCP port, or expose the UDP port by a NodePort Service",
			}
		case p.Protocol != "TCP" && p.Protocol != "":
			return &RefusalError{ReasonUnsupportedProto, fmt.Sprintf("port %d is %s: CloudStack's load balancer forwards TCP only", p.Port, p.Protocol), "use a TCP port"}
		case p.NodePort < 1 || p.NodePort > 65535:
			return &RefusalError{
				ReasonNoNodePort, fmt.Sprintf("port %d has no node port: the load balancer reaches pods through node ports only", p.Port),
				"set spec.allocateLoadBalancerNodePorts to true",
			}
		case p.Port == statsPort && (network == nil || network.Provider == "" || network.Provider == virtualRouter):
			return &RefusalError{
				ReasonReservedPort, fmt.Sprintf("port %d is taken by the virtual router for its own statistics", p.Port),
				"choose another port",
			}
		}
	}
	return nil
}

func checkNetwork(members []Member, network *Network) *RefusalError {
	networks := map[string]string{}
	byNetwork := map[string][]string{}
	for _, m := range members {
		networks[m.NetworkID] = m.NetworkName
		byNetwork[m.NetworkID] = append(byNetwork[m.NetworkID], m.Node)
	}
	if len(networks) > 1 {
		var parts []string
		for id, nodes := range byNetwork {
			slices.Sort(nodes)
			if len(nodes) > 3 {
				nodes = append(nodes[:3:3], fmt.Sprintf("%d more", len(nodes)-3))
			}
			parts = append(parts, fmt.Sprintf("%s (%s)", cmp.Or(networks[id], id, "none"), strings.Join(nodes, ", ")))
		}
		slices.Sort(parts)
		return &RefusalError{
			ReasonSeveralNetworks, "the nodes are in several networks: " + strings.Join(parts, "; "),
			"give every node its default NIC in one network, or label nodes that shall not serve with node.kubernetes.io/exclude-from-external-load-balancers",
		}
	}
	if network == nil {
		return nil
	}
	name := fmt.Sprintf("network %q", cmp.Or(network.Name, network.ID))
	switch {
	case network.VPCID != "":
		return &RefusalError{
			ReasonUnsupportedNetwork, name + " is a tier of a VPC: load balancers in VPCs are not supported yet",
			"put the nodes in an isolated network",
		}
	case !network.LoadBalancer:
		return &RefusalError{
			ReasonUnsupportedNetwork, name + " (" + cmp.Or(network.Type, "unknown type") + ") offers no load balancing (service Lb)",
			"put the nodes in an isolated network whose offering has the service Lb",
		}
	case !network.Firewall:
		return &RefusalError{
			ReasonUnsupportedNetwork, name + " offers no firewall (service Firewall): source ranges could not be enforced; such networks are not supported yet",
			"put the nodes in an isolated network whose offering has the service Firewall",
		}
	}
	return nil
}

// Fits says why the desired state cannot be reached from the actual one: what
// only the addresses found can tell.
func Fits(d Desired, a Actual, network *Network) *RefusalError {
	if d.Absent {
		return nil
	}
	target := chooseTarget(d, a)
	if target == nil {
		if d.NetworkID == "" {
			return &RefusalError{ReasonNoNodes, "no node has a VM yet, so that the network of the address is not known", "add nodes; the Service is tried again"}
		}
		return nil
	}
	where := "address " + target.IP
	switch {
	case target.ForeignCluster:
		return &RefusalError{ReasonAddressUnavailable, where + " belongs to another cluster (by its tags)", "choose another address"}
	case target.StaticNAT:
		return &RefusalError{ReasonAddressUnavailable, where + " carries static NAT and so cannot balance load", "disable its static NAT or choose another address"}
	case target.VPCID != "":
		return &RefusalError{ReasonAddressUnavailable, where + " belongs to a VPC", "choose an address of the nodes' network"}
	case target.NetworkID != "" && d.NetworkID != "" && target.NetworkID != d.NetworkID:
		return &RefusalError{ReasonAddressUnavailable, where + " serves another network (" + target.NetworkID + ") than the nodes' (" + d.NetworkID + ")", "choose an address of the nodes' network"}
	}
	ports := d.Ports()
	if target.SourceNAT && network != nil && network.DNS && slices.Contains(ports, dnsPort) {
		return &RefusalError{ReasonReservedPort, fmt.Sprintf("port %d on %s is taken by the virtual router for DNS: it is the network's source NAT address", dnsPort, where), "choose another address"}
	}
	for _, r := range target.Rules {
		if r.Owner != Mine && slices.Contains(ports, r.PublicPort) {
			return &RefusalError{
				ReasonPortTaken, fmt.Sprintf("port %d of %s is taken by load balancer rule %q (%s), which is not of this Service", r.PublicPort, where, r.Name, r.ID),
				"delete that rule, or choose another port or address",
			}
		}
	}
	return nil
}
