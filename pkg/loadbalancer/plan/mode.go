// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer/plan/access"
)

// mode is the Service's mode.
func (f Facts) mode() string { return cmp.Or(f.Spec.Mode, annotation.Auto) }

// forwarded reports whether a port is forwarded to one node in place of being balanced. In mode auto that is what the
// virtual router does not balance: UDP, and TCP on a number that has UDP as well, as CloudStack gives a number either to
// load balancer rules or to port forwardings.
func (f Facts) forwarded(p Port) bool {
	switch {
	case f.mode() == annotation.Direct:
		return p.Protocol == "TCP" || p.Protocol == "UDP" || p.Protocol == ""
	case f.mode() != annotation.Auto, f.Spec.Internal, f.NoForwards != "":
		return false
	case f.Network != nil && !f.Network.anywhere && (!f.Network.proxied() || !f.Network.Forwards):
		return false
	}
	return p.Protocol == "UDP" || p.Protocol != "SCTP" && slices.ContainsFunc(f.Service.Ports, func(o Port) bool { return o.Port == p.Port && o.Protocol == "UDP" })
}

// rules reports whether some port is balanced.
func (f Facts) rules() bool {
	return slices.ContainsFunc(f.Service.Ports, func(p Port) bool { return !f.forwarded(p) })
}

func forwardPorts(f Facts) []ForwardPort {
	var out []ForwardPort
	for _, p := range f.Service.Ports {
		if f.forwarded(p) {
			out = append(out, ForwardPort{Protocol: strings.ToLower(cmp.Or(p.Protocol, "TCP")), PublicPort: p.Port, PrivatePort: p.NodePort})
		}
	}
	slices.SortFunc(out, compareForwardPorts)
	return out
}

// orAuto is the rest of a remedy for what mode auto would serve.
func (f Facts) orAuto() string {
	if f.mode() != annotation.Proxy {
		return ""
	}
	return ", or set the annotation " + annotation.Mode + " to " + annotation.Auto
}

// whyNotForwarded says why a port that mode auto would forward is not.
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

// checkMode says why ports cannot be forwarded that the Service's mode wants to be. What a load balancer does to a
// connection cannot be had where there is none.
func checkMode(f Facts) *RefusalError {
	if !f.Forwards() {
		return nil
	}
	n := f.Network
	if n != nil && !n.anywhere && n.VPCID == "" && !n.Firewall && !f.Spec.DenyAll() && !access.Same(f.Spec.SourceRanges, []string{annotation.Anyone}) {
		return &RefusalError{
			Reason: ReasonSourceRanges, Message: fmt.Sprintf("network %q has no firewall, without which nothing enforces the source ranges of forwarded ports", cmp.Or(n.Name, n.ID)),
			Remedy: "remove the source ranges, or put the nodes in a network whose offering has the service Firewall",
		}
	}
	refuse := func(port int, what, remedy string) *RefusalError {
		return &RefusalError{ReasonUnsupportedMode, what, remedy, port}
	}
	if f.mode() != annotation.Direct {
		// TCP on a number with UDP: the others are balanced.
		for _, p := range f.Service.Ports {
			if p.Protocol != "UDP" && f.forwarded(p) {
				if what, name := f.needsProxy(p.Port); what != "" {
					return refuse(p.Port, fmt.Sprintf("port %d is TCP and UDP, so that both are forwarded to a node without a load balancer, which has no %s", p.Port, what),
						"use another number for one of them, or remove the annotation "+name)
				}
			}
		}
		return nil
	}
	const remedy = "set the annotation " + annotation.Mode + " to " + annotation.Proxy + " or " + annotation.Auto
	for _, p := range f.Service.Ports {
		if what, name := f.needsProxy(p.Port); what != "" {
			return refuse(0, "mode direct has no "+what, "remove the annotation "+name+", or "+remedy)
		}
	}
	switch {
	case f.Spec.AlgorithmSet:
		return refuse(0, "mode direct has no algorithm: a port is led to one node, or in a VPC each part of the sources is", "remove the annotation "+annotation.Algorithm+", or "+remedy)
	case f.HasTimeouts():
		return refuse(0, "mode direct has no time-outs: connections are as the router's connection tracking has them", "remove the annotation "+f.timeoutName()+", or "+remedy)
	case f.Spec.Internal:
		return refuse(0, "mode direct has no internal addresses", "remove the annotation "+annotation.Internal+", or "+remedy)
	case f.NoForwards != "":
		return refuse(0, "the role of the CloudStack user may not forward ports ("+f.NoForwards+")", "have the role allow it, or "+remedy)
	case n != nil && !n.Forwards:
		return &RefusalError{
			Reason:  ReasonUnsupportedNetwork,
			Message: fmt.Sprintf("network %q (%s) has no virtual router that forwards ports (service PortForwarding)", cmp.Or(n.Name, n.ID), cmp.Or(n.Type, "unknown type")),
			Remedy:  remedy + ", or put the nodes in an isolated network or a VPC tier whose offering has the service PortForwarding",
		}
	}
	return nil
}

// needsProxy names what is wanted of a TCP port that only a load balancer does, and the annotation for it.
func (f Facts) needsProxy(port int) (what, name string) {
	switch {
	case f.Spec.ProxyProtocol.Has(port):
		return "PROXY protocol", annotation.ProxyProtocol
	case f.Spec.SSLPorts.Has(port):
		return "TLS", annotation.SSLCertificate
	case f.Spec.Stickiness != nil:
		return "stickiness (all clients of a port, or in a VPC all with one address, have one node anyway)", annotation.StickinessMethod
	}
	return "", ""
}

// Forwards reports whether the Service may have ports that are forwarded, as far as the facts tell.
func (f Facts) Forwards() bool { return slices.ContainsFunc(f.Service.Ports, f.forwarded) }
