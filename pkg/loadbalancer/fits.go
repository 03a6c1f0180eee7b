// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"fmt"
	"slices"
	"strings"
)

// Fits says why the desired state cannot be reached from the actual one: what
// only the addresses found can tell.
func Fits(d Desired, a Actual, network *Network) *RefusalError {
	if d.Absent {
		return nil
	}
	target := chooseTarget(d, a)
	if target == nil {
		if d.NetworkID == "" {
			return &RefusalError{Reason: ReasonNoNodes, Message: "no node has a VM yet, so that the network of the address is not known", Remedy: "add nodes; the Service is tried again"}
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
	if target.SourceNAT && network != nil && network.DNS && slices.Contains(ports, dnsPort) {
		return &RefusalError{ReasonReservedPort, fmt.Sprintf("port %d on %s is taken by the virtual router for DNS: it is the network's source NAT address", dnsPort, where), "choose another address", dnsPort}
	}
	for _, r := range target.Rules {
		if r.Owner != Mine && slices.Contains(ports, r.PublicPort) {
			return &RefusalError{
				ReasonPortTaken, fmt.Sprintf("port %d of %s is taken by load balancer rule %q (%s), which is not of this Service", r.PublicPort, where, r.Name, r.ID),
				"delete that rule, or choose another port or address", r.PublicPort,
			}
		}
	}
	return nil
}

// foreignAccess finds firewall rules of others that let in to our ports whom the Service does not.
func foreignAccess(d Desired, a Actual) []Notice {
	target := chooseTarget(d, a)
	if target == nil || !d.Firewall {
		return nil
	}
	var out []Notice
	wanted := wantedPorts(d.Rules)
	for _, f := range sortedFirewall(target.Firewall) {
		if target.ownsFirewall(f, wanted) || containsRanges(d.Ranges, f.CIDRs) {
			continue
		}
		all := f.StartPort == 0 && f.EndPort == 0
		for _, port := range wanted[f.Protocol] {
			if all || (f.StartPort <= port && port <= f.EndPort) {
				out = append(out, Notice{Warning: true, Reason: ReasonForeignFirewall, Message: fmt.Sprintf(
					"firewall rule %s on %s (%s from %s), which is not of this Service, lets others reach port %d; delete it in CloudStack if that is not meant",
					f.ID, target.IP, portsText(f.FirewallRange), strings.Join(f.CIDRs, ","), port)})
				break
			}
		}
	}
	return out
}

// defaultACL tells of a default network ACL list, which nobody can change.
func defaultACL(d Desired, n *Network) []Notice {
	if n == nil || n.VPCID == "" || n.ACLName != defaultDeny || d.Absent {
		return nil
	}
	text := "the tier's network ACL list default_deny cannot be changed: CloudStack's routers do not apply it to public load balancers; "
	if d.Internal {
		text = "the tier's network ACL list default_deny lets nobody from other tiers reach the internal load balancer and cannot be changed; "
	}
	return []Notice{{Warning: true, Reason: ReasonDefaultACL, Message: text + "give the tier a network ACL list of its own, in which the controller can let the Service's sources in"}}
}
