// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/annotation"
)

// Desire returns what should be in CloudStack, or why the Service cannot be served.
func Desire(f Facts) (Desired, *RefusalError) {
	if r := cmp.Or(checkNetwork(f), checkPorts(f), checkMode(f), checkRanges(f)); r != nil {
		return Desired{}, r
	}

	d := Desired{
		Address:     f.Spec.Address,
		KeepAddress: f.Spec.KeepIP,
		Internal:    f.Spec.Internal,
		Ranges:      slices.Clone(f.Spec.SourceRanges),
		Firewall:    !f.Spec.Internal,
	}

	if n := f.Network; n != nil {
		d.NetworkID, d.VPCID = n.ID, n.VPCID
		d.Firewall = n.Firewall && !f.Spec.Internal
		d.CIDRsDecide = !d.Firewall && !f.Spec.Internal
	}

	d.Rules, d.OnePurpose = rules(f), f.onePurpose()
	if d.Forwards = forwardPorts(f); len(d.Forwards) > 0 {
		d.UID = f.Service.UID
		if d.VPCID != "" {
			d.Buckets = buckets(cmp.Or(f.Spec.DirectSpread, annotation.DefaultSpread))
		}
	}

	if n := f.Network; n != nil && n.ownACL() && !f.LeaveACLs && len(d.aclPorts()) > 0 {
		d.ACLID = n.ACLID
	}

	// Without a closed firewall, deny access by leaving the rules without members.
	closed := d.Firewall && (f.Network == nil || !f.Network.Unfiltered)
	if f.Spec.DenyAll() && !closed {
		return d, nil
	}

	d.Members = memberNames(f.Members, d.NetworkID)
	if len(d.Forwards) > 0 {
		d.Serving = serving(f, d.NetworkID, d.Members)
	}

	return d, nil
}

// serving returns the members to which ports may be forwarded. If no member is eligible, it returns all of them: ports
// then stay on their member, which may recover at any moment.
func serving(f Facts, networkID string, members []string) []string {
	eligible := slices.DeleteFunc(slices.Clone(f.Members), func(m Member) bool {
		return f.Ineligible[m.Node] != Problem{}
	})
	if names := memberNames(eligible, networkID); len(names) > 0 {
		return names
	}
	return members
}

// buckets returns the spread, rounded up to a power of two.
func buckets(spread int) int {
	n := 1
	for n < spread {
		n *= 2
	}
	return n
}

func rules(f Facts) []Rule {
	// Without allowed sources, leave the list empty and rely on missing members: an empty list on a rule would allow
	// everybody.
	var cidrs []string
	if !f.Spec.DenyAll() && !f.Spec.Internal {
		cidrs = f.Spec.SourceRanges
	}

	out := make([]Rule, 0, len(f.Service.Ports))
	for _, p := range f.Service.Ports {
		if f.forwarded(p) {
			continue
		}
		r := Rule{
			Protocol:    ruleProtocol(f.Spec, p),
			Algorithm:   f.Spec.Algorithm,
			PublicPort:  p.Port,
			PrivatePort: p.NodePort,
			CIDRs:       slices.Clone(cidrs),
			Stickiness:  f.Spec.Stickiness,
		}

		r.Name = RuleName(f.Service.LB, r.Protocol, p.Port)
		if r.Protocol == ProtocolSSL {
			r.Certificate = f.Spec.SSLCertificate
		}
		out = append(out, r)
	}

	slices.SortFunc(out, func(a, b Rule) int { return cmp.Compare(a.PublicPort, b.PublicPort) })
	return out
}

func ruleProtocol(spec annotation.Spec, p Port) string {
	switch {
	case p.Protocol == "UDP":
		return ProtocolUDP
	case spec.ProxyProtocol.Has(p.Port):
		return ProtocolTCPProxy
	case spec.SSLPorts.Has(p.Port):
		return ProtocolSSL
	}
	return ProtocolTCP
}

// memberNames returns the names of the members that have a NIC in a network, see MemberName; sorted.
func memberNames(members []Member, networkID string) []string {
	var names []string
	for i := range members {
		m := &members[i]
		if nic := m.nicIn(networkID); nic != nil {
			names = append(names, MemberName(m.VMID, nic.secondary(m.Addresses)))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Outside returns the nodes without a NIC in a network, sorted.
func Outside(members []Member, networkID string) []string {
	var nodes []string
	for i := range members {
		if members[i].nicIn(networkID) == nil {
			nodes = append(nodes, members[i].Node)
		}
	}
	slices.Sort(nodes)
	return nodes
}

func (m *Member) nicIn(networkID string) *NIC {
	if at := slices.IndexFunc(m.NICs, func(n NIC) bool { return n.NetworkID == networkID }); at >= 0 {
		return &m.NICs[at]
	}
	return nil
}

// secondary returns the secondary address of the NIC at which a node wants to be reached: one of the node's own
// addresses. It is empty if the node has the primary address of the NIC.
func (n NIC) secondary(own []string) string {
	if slices.Contains(own, n.IP) {
		return ""
	}
	for _, a := range own {
		if slices.Contains(n.Secondary, a) {
			return a
		}
	}
	return ""
}

// PrimaryAddresses returns the addresses of the members' NICs in a network, by VM.
func PrimaryAddresses(members []Member, networkID string) map[string]string {
	out := make(map[string]string, len(members))
	for _, m := range members {
		for _, nic := range m.NICs {
			if nic.NetworkID == networkID && nic.IP != "" && out[m.VMID] == "" {
				out[m.VMID] = nic.IP
			}
		}
	}
	return out
}

// mode returns the mode of the Service.
func (f Facts) mode() string { return cmp.Or(f.Spec.Mode, annotation.Auto) }

// forwarded reports whether a port is forwarded to one node instead of being balanced. In mode auto, these are the
// ports that the virtual router does not balance, and all other ports as well if one address cannot have both.
func (f Facts) forwarded(p Port) bool {
	switch {
	case f.unbalanced(p):
		return true
	case !f.onePurpose(), p.Protocol == "SCTP", len(f.Spec.NeedsBalancer()) > 0:
		return false
	}
	return f.Forwards()
}

// onePurpose reports whether an address of the network can have only load balancer rules or only port forwardings.
func (f Facts) onePurpose() bool {
	return f.Network != nil && !f.Network.anywhere && !f.Network.Conserve && !f.Spec.Internal
}

// AllForwarded returns a notice about ports that are forwarded although they would be balanced if an address could have
// both; nil if there are none.
func AllForwarded(f Facts) *Notice {
	var ports []string
	for _, p := range f.Service.Ports {
		if f.forwarded(p) && !f.unbalanced(p) {
			ports = append(ports, portText("tcp", p.Port))
		}
	}
	if len(ports) == 0 {
		return nil
	}
	return &Notice{Reason: ReasonAllForwarded, Message: fmt.Sprintf(
		"also forwarding %s, to one node each: %s", strings.Join(ports, ", "), f.Network.eitherOr())}
}

// eitherOr returns the explanation that a network without conserve mode allows only one of the two.
func (n *Network) eitherOr() string {
	return fmt.Sprintf("network %q is of an offering without conserve mode, so an address has either load "+
		"balancer rules or port forwardings",
		cmp.Or(n.Name, n.ID))
}

// unbalanced reports whether a port is forwarded whatever the other ports are: UDP, and TCP on a number that UDP uses
// as well, because CloudStack uses a number either for load balancer rules or for port forwardings.
func (f Facts) unbalanced(p Port) bool {
	switch {
	case f.mode() == annotation.Direct:
		return p.Protocol == "TCP" || p.Protocol == "UDP" || p.Protocol == ""
	case f.mode() != annotation.Auto, f.Spec.Internal, f.NoForwards != "":
		return false
	case f.Network != nil && !f.Network.anywhere && (!f.Network.proxied() || !f.Network.Forwards):
		return false
	}
	return p.Protocol == "UDP" ||
		p.Protocol != "SCTP" &&
			slices.ContainsFunc(f.Service.Ports, func(o Port) bool { return o.Port == p.Port && o.Protocol == "UDP" })
}

// rules reports whether at least one port is balanced.
func (f Facts) rules() bool {
	return slices.ContainsFunc(f.Service.Ports, func(p Port) bool { return !f.forwarded(p) })
}

func forwardPorts(f Facts) []ForwardPort {
	var out []ForwardPort
	for _, p := range f.Service.Ports {
		if f.forwarded(p) {
			out = append(out,
				ForwardPort{
					Protocol:    strings.ToLower(cmp.Or(p.Protocol, "TCP")),
					PublicPort:  p.Port,
					PrivatePort: p.NodePort,
				})
		}
	}
	slices.SortFunc(out, compareForwardPorts)
	return out
}

// orAuto returns the end of a remedy for a port that mode auto would serve; empty in other modes than proxy.
func (f Facts) orAuto() string {
	if f.mode() != annotation.Proxy {
		return ""
	}
	return ", or set the annotation " + annotation.Mode + " to " + annotation.Auto
}

// whyNotForwarded returns why mode auto does not forward a port; empty in other modes.
func (f Facts) whyNotForwarded() string {
	switch {
	case f.mode() != annotation.Auto:
		return ""
	case f.Spec.Internal:
		return ", and an internal load balancer has no port forwarding"
	case f.NoForwards != "":
		return ", and the role of the CloudStack user may not forward ports (" + f.NoForwards + ")"
	case f.Network != nil && !f.Network.Forwards:
		return ", and the network's virtual router does not forward ports"
	}
	return ""
}

// checkMode returns why ports that should be forwarded in the Service's mode cannot be. Forwarded ports have none of
// the load balancer's features.
func checkMode(f Facts) *RefusalError {
	if !f.Forwards() {
		return nil
	}

	n := f.Network
	if n != nil && !n.anywhere && n.VPCID == "" && !n.Firewall && f.Spec.Restricted() {
		return Refuse(ReasonSourceRanges,
			fmt.Sprintf("network %q has no firewall, without which nothing enforces the source ranges of "+
				"forwarded ports", cmp.Or(n.Name, n.ID)),
			"remove the source ranges, or put the nodes in a network whose offering has the service Firewall")
	}

	refuse := func(port int, what, remedy string) *RefusalError {
		return RefusePort(ReasonUnsupportedMode, what, remedy, port)
	}
	if f.onePurpose() && f.rules() {
		return refuse(0, n.eitherOr()+", and "+cmp.Or(f.Spec.NeedsBalancer()...)+" needs a load balancer",
			"put the UDP ports in a Service of their own with another address, remove that annotation, or use a "+
				"network offering with conserve mode")
	}

	if f.mode() != annotation.Direct {
		// These are TCP ports on a number that UDP uses as well; all other TCP ports are balanced.
		for _, p := range f.Service.Ports {
			if p.Protocol != "UDP" && f.forwarded(p) {
				if what, name := f.Spec.NeedsBalancerAt(p.Port); what != "" {
					return refuse(p.Port,
						fmt.Sprintf("port %d is TCP and UDP, so that both are forwarded to a node without a load "+
							"balancer, which has no %s", p.Port, what),
						"use another number for one of them, or remove the annotation "+name)
				}
			}
		}
		return nil
	}

	const remedy = "set the annotation " + annotation.Mode + " to " + annotation.Proxy + " or " + annotation.Auto
	if names := f.Spec.NeedsBalancer(); len(names) > 0 {
		return refuse(0, "mode direct has no load balancer, which "+names[0]+" needs",
			"remove that annotation, or "+remedy)
	}

	switch {
	case f.NoForwards != "":
		return refuse(0, "the role of the CloudStack user may not forward ports ("+f.NoForwards+")",
			"have the role allow it, or "+remedy)
	case n != nil && !n.Forwards:
		return Refuse(ReasonUnsupportedNetwork,
			fmt.Sprintf("network %q (%s) has no virtual router that forwards ports (service PortForwarding)",
				cmp.Or(n.Name, n.ID), cmp.Or(n.Type, "unknown type")),
			remedy+
				", or put the nodes in an isolated network or a VPC tier whose offering has the service PortForwarding")
	}

	return nil
}

// Forwards reports whether the Service may have forwarded ports, as far as the facts show. In mode auto, a TCP port is
// forwarded only because of a UDP port, so UDP ports decide, and the time does not grow with the square of the ports.
func (f Facts) Forwards() bool {
	return slices.ContainsFunc(f.Service.Ports, func(p Port) bool {
		return (p.Protocol == "UDP" || f.mode() == annotation.Direct) && f.unbalanced(p)
	})
}
