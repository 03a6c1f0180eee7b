// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/annotation"
)

// statsPort is the port of the HAProxy statistics on the virtual router, which refuses a rule for it.
const statsPort = 8081

// DNSPort is refused on the source NAT address of a network whose router serves DNS.
const DNSPort = 53

// CheckService returns why a Service cannot be served, whatever its nodes and network are. Desire makes the same
// checks; calling CheckService first avoids reads for a Service that is refused.
func CheckService(svc Service, spec annotation.Spec) *RefusalError {
	f := Facts{
		Service: svc,
		Spec:    spec,
		Network: &Network{
			Providers: []string{"unknown"},
			Protocols: []string{ProtocolUDP},
			Forwards:  true,
			anywhere:  true,
		},
	}
	return cmp.Or(checkPorts(f), checkMode(f), checkRanges(f))
}

// checkRanges refuses so many source ranges that they would break the virtual router for all rules of its network.
func checkRanges(f Facts) *RefusalError {
	n := len(f.Spec.SourceRanges)
	if n <= annotation.MaxSourceRanges || f.Spec.Internal || !f.rules() {
		return nil
	}
	return Refuse(ReasonSourceRanges,
		fmt.Sprintf("the Service has %d source ranges; CloudStack's virtual router takes at most %d on a load "+
			"balancer rule", n, annotation.MaxSourceRanges),
		"use fewer, larger ranges, or set the annotation "+annotation.Mode+" to "+annotation.Direct)
}

func checkPorts(f Facts) *RefusalError {
	svc := f.Service
	if len(svc.Ports) == 0 {
		return Refuse(ReasonInvalidPort, "the Service has no ports", "give it at least one TCP port")
	}

	if svc.IPv6Only {
		return Refuse(ReasonUnsupportedProto, "the Service has IPv6 only: CloudStack's load balancers speak IPv4",
			"add IPv4 to spec.ipFamilies (ipFamilyPolicy PreferDualStack)")
	}

	byPort := map[int]Port{}
	for _, p := range slices.SortedFunc(slices.Values(svc.Ports), func(a, b Port) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Protocol, b.Protocol))
	}) {
		if p.Port < 1 || p.Port > 65535 {
			return RefusePort(ReasonInvalidPort, fmt.Sprintf("port %d is outside 1-65535", p.Port),
				"choose another port", p.Port)
		}

		if other, taken := byPort[p.Port]; taken &&
			other.Protocol != p.Protocol &&
			(!f.forwarded(other) || !f.forwarded(p)) {
			return RefusePort(
				ReasonMixedProtocols,
				fmt.Sprintf("port %d is requested for %s and %s: CloudStack gives a port of an address to one "+
					"protocol only", p.Port, other.Protocol, p.Protocol),
				"use different ports, or two Services"+f.orAuto(), p.Port,
			)
		}
		byPort[p.Port] = p
	}

	for _, p := range svc.Ports {
		if r := checkPort(p, f); r != nil {
			return r
		}
	}

	return nil
}

func checkPort(p Port, f Facts) *RefusalError {
	network := f.Network
	proxied, forwarded := network == nil || network.proxied(), f.forwarded(p)
	refuse := func(reason Reason, what, remedy string) *RefusalError {
		return RefusePort(reason, fmt.Sprintf("port %d %s", p.Port, what), remedy, p.Port)
	}

	const otherwise = "use a TCP port, or expose the UDP port by a NodePort Service"
	switch {
	case p.Protocol == "UDP" && f.Spec.Internal: // createLoadBalancer has no parameter for the protocol
		return refuse(ReasonUnsupportedProto, "is UDP: internal load balancers forward TCP only", otherwise)
	case p.Protocol == "UDP" && !forwarded && proxied:
		return refuse(ReasonUnsupportedProto,
			"is UDP: the load balancer of CloudStack's virtual router forwards TCP only"+f.whyNotForwarded(),
			otherwise+f.orAuto())
	case p.Protocol == "UDP" && !forwarded && !slices.Contains(network.Protocols, ProtocolUDP):
		return refuse(ReasonUnsupportedProto,
			"is UDP, which "+strings.Join(network.Providers, ", ")+" does not balance", otherwise)
	case p.Protocol != "TCP" && p.Protocol != "UDP" && p.Protocol != "":
		return refuse(ReasonUnsupportedProto, "is "+p.Protocol+": CloudStack's load balancer forwards TCP only",
			"use a TCP port")

	case p.NodePort < 1 || p.NodePort > 65535:
		return refuse(ReasonNoNodePort, "has no node port: the load balancer reaches pods through node ports only",
			"set spec.allocateLoadBalancerNodePorts to true")
	case p.Port == statsPort && (f.Spec.Internal || proxied && !forwarded):
		return refuse(ReasonReservedPort,
			"is reserved: the HAProxy of CloudStack's load balancer serves its statistics there",
			"choose another port; the Pods may keep theirs (spec.ports[].targetPort)")
	}

	return nil
}

// checkNetwork returns why a network cannot give the Service what it asks for.
func checkNetwork(f Facts) *RefusalError {
	n, spec := f.Network, f.Spec
	if n == nil || n.Forwards && !f.rules() {
		return nil // there is nothing to balance
	}

	name := fmt.Sprintf("network %q", cmp.Or(n.Name, n.ID))
	refuse := func(message, remedy string) *RefusalError {
		return Refuse(ReasonUnsupportedNetwork, message, remedy)
	}
	if r := checkInternalAddress(n, spec); r != nil {
		return r
	}

	switch {
	case !n.LoadBalancer:
		return refuse(name+" ("+cmp.Or(n.Type, "unknown type")+") offers no load balancing (service Lb)",
			"put the nodes in an isolated network or a VPC tier whose offering has the service Lb")
	case spec.Internal && n.VPCID == "":
		return refuse(name+" is not a tier of a VPC: internal load balancers exist on tiers only",
			"remove the annotation "+annotation.Internal)
	case spec.Internal && !n.Internal:
		return refuse(name+" is a tier whose offering has no internal load balancing (provider InternalLbVm)",
			"remove the annotation "+annotation.Internal+", or put the nodes in a tier with such an offering")
	case !spec.Internal && !n.Public:
		return refuse(name+" is a tier whose offering balances internally only",
			"set the annotation "+annotation.Internal+", or put the nodes in a tier with public load balancing")
	case spec.Internal && (spec.ProxyProtocol.Any() || spec.SSLPorts.Any() || spec.Stickiness != nil):
		return refuse("internal load balancers do not support the PROXY protocol, TLS or stickiness",
			"remove those annotations, or "+annotation.Internal)
	case spec.Stickiness != nil && strings.EqualFold(spec.Stickiness.Method, annotation.AppCookie) && n.proxied():
		// The router would reject its whole configuration, and with it every later change of any rule of the network.
		return refuse(name+" is balanced by a virtual router, whose HAProxy has had no app-cookie since 1.6",
			"set the annotation "+annotation.StickinessMethod+" to lb-cookie or source")

	case spec.SSLPorts.Any() && !n.TLS:
		return refuse(name+" cannot terminate TLS (capability SslTermination, CloudStack 4.22 or newer)",
			"remove the annotation "+annotation.SSLCertificate)
	case spec.ProxyProtocol.Any() && !n.proxied() && !slices.Contains(n.Protocols, ProtocolTCPProxy):
		return refuse(name+" has a load balancer ("+strings.Join(n.Providers, ", ")+") without the PROXY protocol",
			"remove the annotation "+annotation.ProxyProtocol)
	case n.Unfiltered && !spec.Internal && spec.Restricted():
		return Refuse(ReasonSourceRanges,
			name+" is balanced by "+strings.Join(n.Providers, ", ")+
				", which is not known to enforce source ranges, and has no firewall of that provider",
			"remove the source ranges, or put the nodes in a network with a virtual router or with the "+
				"service Firewall")

	case spec.Internal && (!n.ownACL() || f.LeaveACLs) && spec.Restricted():
		return Refuse(ReasonSourceRanges,
			"source ranges of an internal load balancer are enforced by the tier's network ACL list, and "+
				cmp.Or(n.ACLName, "none")+" cannot be changed",
			"give the tier a network ACL list of its own, or remove the source ranges")
	}

	return nil
}

// guestNetwork is a network in which members have NICs.
type guestNetwork struct {
	name     string
	nodes    []string // the nodes of these members
	defaults int      // the number of members whose default NIC is in the network
}

func networksOf(members []Member) map[string]*guestNetwork {
	out := map[string]*guestNetwork{}
	for i := range members {
		for j, nic := range members[i].NICs {
			n := out[nic.NetworkID]
			if n == nil {
				n = &guestNetwork{}
				out[nic.NetworkID] = n
			}
			n.name = cmp.Or(nic.NetworkName, nic.NetworkID)
			// A VM may have two NICs in a network.
			if node := members[i].Node; len(n.nodes) == 0 || n.nodes[len(n.nodes)-1] != node {
				n.nodes = append(n.nodes, node)
			}
			if j == 0 {
				n.defaults++
			}
		}
	}

	return out
}

// CommonNetworks returns the names of the networks in which all members have a NIC, except for the network without.
func CommonNetworks(members []Member, without string) []string {
	var out []string
	for id, n := range networksOf(members) {
		if len(n.nodes) == len(members) && id != without {
			out = append(out, n.name)
		}
	}
	slices.Sort(out)
	return out
}

// ServingNetwork chooses the network through which the nodes are reached. It is the one that wanted names or
// identifies, or else one in which all nodes have a NIC. If there are several such networks, current, which serves now,
// takes precedence, and then the default network of the most nodes. If no network has all nodes, the Service stays in
// current with the nodes that have a NIC there, so that it still follows these nodes.
func ServingNetwork(members []Member, wanted, current string) (string, *RefusalError) {
	networks := networksOf(members)
	if n := networks[current]; n != nil {
		n.defaults = len(members) + 1
	}

	var ids []string
	for id, n := range networks {
		named := strings.EqualFold(id, wanted) || strings.EqualFold(n.name, wanted)
		if named || wanted == "" && len(n.nodes) == len(members) {
			ids = append(ids, id)
		}
	}

	slices.SortFunc(ids, func(a, b string) int {
		return cmp.Or(cmp.Compare(networks[b].defaults, networks[a].defaults), cmp.Compare(a, b))
	})
	switch {
	case wanted != "" && len(ids) > 1:
		return "", Refuse(ReasonNoSuchNetwork, fmt.Sprintf("%d networks of the nodes are named %q", len(ids), wanted),
			"give the network's id in "+annotation.Network)
	case len(ids) > 0:
		return ids[0], nil
	case wanted == "" && networks[current] != nil:
		return current, nil
	case len(members) == 0:
		return "", nil
	}

	var parts []string
	for _, network := range networks {
		parts = append(parts,
			fmt.Sprintf("%s (%s)", network.name, Some(slices.Sorted(slices.Values(network.nodes)), 3)))
	}

	slices.Sort(parts)
	if wanted != "" {
		return "", Refuse(ReasonNoSuchNetwork,
			fmt.Sprintf("no node has a NIC in network %q; the nodes' networks: %s", wanted, strings.Join(parts, "; ")),
			"correct "+annotation.Network)
	}

	return "", Refuse(ReasonSeveralNetworks, "the nodes are in several networks: "+strings.Join(parts, "; "),
		"give every node a NIC in one network, name a network in "+annotation.Network+
			", or exclude nodes with the label node.kubernetes.io/exclude-from-external-load-balancers")
}

// checkInternalAddress refuses an address that no internal load balancer of the tier can have: an address outside of
// the tier, and its network and broadcast addresses.
func checkInternalAddress(n *Network, spec annotation.Spec) *RefusalError {
	tier, _ := netip.ParsePrefix(n.CIDR) // not valid if the CIDR is not known
	if !tier.IsValid() || !spec.Internal || spec.Address == "" || !tier.Addr().Is4() {
		return nil
	}

	address, _ := netip.ParseAddr(spec.Address)
	var why string
	switch {
	case !tier.Contains(address):
		why = "is not in the tier " + tier.String()
	case !tier.Contains(address.Prev()):
		why = "is the network address of the tier " + tier.String()
	case !tier.Contains(address.Next()):
		why = "is the broadcast address of the tier " + tier.String()
	default:
		return nil
	}

	return Refuse(ReasonAddressUnavailable, "address "+spec.Address+" "+why,
		"choose another address of the tier, or none")
}
