// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer/plan/access"
)

// Grants are what the operator's policy allows the Service to use beyond the addresses of its own namespace.
type Grants struct {
	// SourceNAT is the source NAT address of an isolated network.
	SourceNAT bool
	// ForeignAddress is an address that carries rules or port forwardings which no Service of the cluster made.
	ForeignAddress bool
	// MaxAddresses and MaxKept limit the addresses that Services of the namespace have, and those kept for it when
	// Services went; negative for no limit.
	MaxAddresses, MaxKept int
}

// AllGrants has everything and no limit.
func AllGrants() Grants {
	return Grants{SourceNAT: true, ForeignAddress: true, MaxAddresses: -1, MaxKept: -1}
}

// Fits returns why the address chosen by Plan cannot serve, nil when it can.
func Fits(d Desired, target *Address, network *Network, grants Grants) *RefusalError {
	if d.Absent {
		return nil
	}
	if target == nil {
		if d.NetworkID == "" {
			return &RefusalError{Reason: ReasonNoNodes, Message: "no node is eligible, so that the network of the address is not known", Remedy: "add a node that may serve; the Service is tried again"}
		}
		return nil
	}
	where := "address " + target.IP
	unusable := func(message, remedy string) *RefusalError {
		return &RefusalError{Reason: ReasonAddressUnavailable, Message: where + message, Remedy: remedy}
	}
	known := d.NetworkID != ""
	switch {
	case target.ForeignCluster:
		return unusable(" belongs to another cluster (by its tags)", "choose another address")
	case target.StaticNAT:
		return unusable(" carries static NAT and so cannot balance load", "disable its static NAT or choose another address")
	case known && target.VPCID != d.VPCID && target.VPCID != "":
		return unusable(" belongs to a VPC that is not the nodes'", "choose an address of the nodes' network")
	case known && !target.Internal && target.VPCID != d.VPCID:
		return unusable(" does not belong to the nodes' VPC", "choose an address of the VPC")
	case target.VPCID != "" && target.SourceNAT:
		return unusable(" is the source NAT address of the VPC, which a load balancer would take from it for good", "choose another address")
	case known && target.NetworkID != "" && target.NetworkID != d.NetworkID:
		return unusable(" serves another network ("+target.NetworkID+") than the nodes' ("+d.NetworkID+")", "choose an address of the nodes' network")
	case target.SourceNAT && network != nil && !network.Conserve:
		return unusable(" is the source NAT address of a network whose offering is not in conserve mode, and so cannot balance load", "choose another address")
	}
	ports := d.Ports()
	if target.SourceNAT && network != nil && network.DNS && slices.Contains(ports, DNSPort) {
		return &RefusalError{ReasonReservedPort, fmt.Sprintf("port %d on %s is taken by the virtual router for DNS: it is the network's source NAT address", DNSPort, where), "choose another address", DNSPort}
	}
	if target.joining(d) {
		// Whose the address is comes first: what is on it is nobody else's business.
		if refusal := target.refusesNamespace(); refusal != nil {
			return refusal
		}
	}
	for _, r := range target.Rules {
		if r.Owner != Owned && slices.Contains(ports, r.PublicPort) {
			return r.taken(where)
		}
	}
	if !target.joining(d) {
		return nil // what is served already is served on
	}
	for i := range target.Forwards {
		f := &target.Forwards[i]
		for _, port := range ports {
			if f.Owner != Owned && f.has(port) && (d.rulesOn(port) || d.forwardsOn(f.Protocol, port)) {
				return f.taken(where, port)
			}
		}
	}
	return target.refuses(grants)
}

// rulesOn and forwardsOn report what is wanted on a port. CloudStack gives a number to load balancer rules or to port
// forwardings, whatever their protocols.
func (d Desired) rulesOn(port int) bool {
	return slices.ContainsFunc(d.Rules, func(r Rule) bool { return r.PublicPort == port })
}

func (d Desired) forwardsOn(protocol string, port int) bool {
	return slices.ContainsFunc(d.Forwards, func(f ForwardPort) bool { return f.PublicPort == port && f.Protocol == protocol })
}

// taken refuses a port that others forward.
func (f *Forward) taken(where string, port int) *RefusalError {
	var by string
	remedy := "choose another port or address"
	switch {
	case f.Near:
		by, remedy = "Service "+f.Service, remedy+", or remove the port from that Service"
	case f.Service != "":
		by = "a Service of another namespace"
	default:
		return &RefusalError{
			ReasonPortTaken, fmt.Sprintf("port %d of %s is forwarded to VM %s by port forwarding %s, which is not of this Service", port, where, f.VM, f.ID),
			"delete that port forwarding, or choose another port or address", port,
		}
	}
	return &RefusalError{ReasonPortTaken, fmt.Sprintf("port %d of %s is taken by %s", port, where, by), remedy, port}
}

// taken refuses the port of a rule that is not the Service's own. It names the Service that has the rule to those of its
// namespace.
func (r *ActualRule) taken(where string) *RefusalError {
	by, remedy := fmt.Sprintf("load balancer rule %q (%s), which is not of this Service", r.Name, r.ID), "delete that rule, or choose another port or address"
	switch {
	case r.Near:
		by, remedy = "Service "+r.Service, "choose another port or address, or remove the port from that Service"
	case r.Service != "":
		by, remedy = "a Service of another namespace", "choose another port or address"
	}
	return &RefusalError{ReasonPortTaken, fmt.Sprintf("port %d of %s is taken by %s", r.PublicPort, where, by), remedy, r.PublicPort}
}

// joining reports whether a rule or port forwarding has to be made on the address where there is neither of ours.
func (a *Address) joining(d Desired) bool {
	if a.ID == "" {
		return false
	}
	return slices.ContainsFunc(d.Rules, func(r Rule) bool { return a.Rule("", r.PublicPort) == nil && len(a.forwardsOn(r.PublicPort)) == 0 }) ||
		slices.ContainsFunc(d.Forwards, func(f ForwardPort) bool { return !a.has(f.Protocol, f.PublicPort) })
}

func (a *Address) notAllowed(message, remedy string) *RefusalError {
	return &RefusalError{Reason: ReasonNotAllowed, Message: "address " + a.IP + message, Remedy: remedy}
}

// refusesNamespace says why the Service may not use the address: Services of another namespace have it and do not share
// it. Their names are not told.
func (a *Address) refusesNamespace() *RefusalError {
	if a.proven() {
		return nil
	}
	const remedy = "choose another address, or have its Service annotated with " + annotation.ShareWith + " and this Service's namespace"
	switch {
	case a.Kept && !a.Admits:
		return a.notAllowed(" is kept for another namespace", "choose another address, or ask whoever operates the cluster to release it in CloudStack")
	case a.Holder != "" && !a.Admits:
		return a.notAllowed(" belongs to a Service of another namespace, which does not share it", remedy)
	case a.Holder == "" && (slices.ContainsFunc(a.Rules, func(r ActualRule) bool { return r.Owner != Owned && r.Service != "" && !r.Admits }) ||
		slices.ContainsFunc(a.Forwards, func(f Forward) bool { return f.Owner != Owned && f.Service != "" && !f.Admits })):
		return a.notAllowed(" is used by a Service of another namespace, which does not share it", remedy)
	}
	return nil
}

// refuses says why the Service may not use the address without the operator's grant: its network or others use it.
func (a *Address) refuses(grants Grants) *RefusalError {
	refuse := a.notAllowed
	switch {
	case a.Internal: // CloudStack keeps internal load balancers of one address apart by their ports alone
		return nil
	case a.SourceNAT && !grants.SourceNAT:
		return refuse(" is the source NAT address of the network, by which all its VMs reach the outside",
			"choose another address, or have the namespace added to the chart's value tenancy.sourceNATAddress.allow")
	case a.proven() || a.Holder != "":
		return nil // what others made there, they made on an address of ours, or its holder lives with it
	}
	for _, r := range a.Rules {
		if r.Owner != Owned && r.Service == "" && !grants.ForeignAddress {
			return refuse(fmt.Sprintf(" carries load balancer rule %q (%s), which no Service of this cluster has", r.Name, r.ID), foreignRemedy)
		}
	}
	for i := range a.Forwards {
		if f := &a.Forwards[i]; f.Owner != Owned && f.Service == "" && !grants.ForeignAddress {
			return refuse(fmt.Sprintf(" carries port forwarding %s to VM %s, which no Service of this cluster made", f.ID, f.VM), foreignRemedy)
		}
	}
	return nil
}

const foreignRemedy = "choose another address, or have the namespace added to the chart's value tenancy.foreignAddress.allow"

// NeedsSurvey reports whether a rule is about to be made on an address of which too little is known: who holds it, and
// which of its ports are forwarded. On an address of ours that matters only where a firewall rule of unknown origin is
// on such a port.
func NeedsSurvey(d Desired, target *Address) bool {
	if target == nil || target.Internal || !target.joining(d) || target.ForwardsKnown && (target.Known || len(d.Forwards) == 0) {
		return false
	}
	return !target.proven() || len(claims(d, target)) > 0
}

// ForeignAccess finds firewall rules of others that let sources reach our ports which the Service does not let in.
func ForeignAccess(d Desired, target *Address) []Notice {
	if target == nil || !d.Firewall {
		return nil
	}
	var out []Notice
	wanted := d.Opened()
	for _, f := range access.Sorted(target.Firewall) {
		if target.OwnsFirewall(f, wanted) || access.Contain(d.Ranges, f.CIDRs) {
			continue
		}
		all := f.StartPort == 0 && f.EndPort == 0
		for _, port := range wanted[f.Protocol] {
			if all || (f.StartPort <= port && port <= f.EndPort) {
				out = append(out, Notice{Warning: true, Reason: ReasonForeignFirewall, Message: fmt.Sprintf(
					"firewall rule %s on %s (%s from %s), which is not of this Service, lets others reach port %d; delete it in CloudStack if that is not meant",
					f.ID, target.IP, f.Ports(), strings.Join(f.CIDRs, ","), port)})
				break
			}
		}
	}
	return out
}

// DefaultACL reports the network ACL list default_deny, which nobody can change, where somebody is to be let in.
func DefaultACL(d Desired, n *Network) *Notice {
	if n == nil || n.VPCID == "" || n.ACLName != defaultDeny || d.Absent || len(d.Ranges) == 0 {
		return nil
	}
	text := "the tier's network ACL list default_deny lets nobody in and cannot be changed; only routers that do not apply it to public load balancers let clients through; "
	if len(d.Forwards) > 0 {
		text = "the tier's network ACL list default_deny lets nobody reach forwarded ports and cannot be changed; "
	}
	if d.Internal {
		text = "the tier's network ACL list default_deny lets nobody from other tiers reach the internal load balancer and cannot be changed; "
	}
	return &Notice{Warning: true, Reason: ReasonDefaultACL, Message: text + "give the tier a network ACL list of its own, in which the controller can let the Service's sources in"}
}
