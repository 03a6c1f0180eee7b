// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"

	"github.com/csccm/csccm/pkg/annotation"
)

// Grants are what the operator's policy allows the Service in addition to the addresses of its own namespace.
type Grants struct {
	// SourceNAT allows the source NAT address of an isolated network.
	SourceNAT bool
	// ForeignAddress allows an address that has rules or port forwardings which no Service of the cluster created.
	ForeignAddress bool
	// MaxAddresses limits the addresses that Services of the namespace have or share, together with those kept for it.
	// MaxKeepIP limits those that are kept. MaxPorts limits the rules and port forwardings of a Service, MaxAllPorts
	// the ports of all Services of the namespace. A negative value means no limit.
	MaxAddresses, MaxKeepIP, MaxPorts, MaxAllPorts int
}

// AllGrants returns Grants that allow everything without limits.
func AllGrants() Grants {
	return Grants{SourceNAT: true, ForeignAddress: true, MaxAddresses: -1, MaxKeepIP: -1, MaxPorts: -1, MaxAllPorts: -1}
}

// CheckPorts refuses a Service that would have more rules and port forwardings in CloudStack than the policy allows.
func CheckPorts(d Desired, grants Grants) *RefusalError {
	n := len(d.Rules) + len(d.Forwards)*max(1, len(d.bucketsOf()))
	if grants.MaxPorts < 0 || n <= grants.MaxPorts {
		return nil
	}
	return Refuse(ReasonNotAllowed,
		fmt.Sprintf("the Service would have %d rules and port forwardings in CloudStack, and %d are allowed "+
			"(tenancy.limits.maxPortsPerService)", n, grants.MaxPorts),
		"use fewer ports or a smaller "+annotation.DirectSpread+
			", or ask your cluster's operator, who can raise the limit")
}

// CheckCluster refuses to work on a Service whose objects in CloudStack name another cluster. Either the id of this
// cluster was changed, or one of the two clusters is a copy of the other, whose objects must not be changed.
func CheckCluster(a Actual, clusters []string) *RefusalError {
	if a.OtherCluster == "" {
		return nil
	}
	return Refuse(ReasonOtherClusterID,
		fmt.Sprintf("objects in CloudStack carry the UID of this Service and the id of cluster %q, and this "+
			"cluster's id is %q; nothing is changed", a.OtherCluster, clusters[0]),
		fmt.Sprintf("if the id of this cluster was changed, add %q to former-cluster-ids in the cloud-config; if the "+
			"cluster is a copy of the other one, delete the Service here and remove its finalizer", a.OtherCluster))
}

// Fits returns why the address chosen by Plan cannot serve; nil if it can.
func Fits(d Desired, target *Address, network *Network, grants Grants) *RefusalError {
	if d.Absent {
		return nil
	}

	known := d.NetworkID != ""

	// The first rule binds an address of a VPC to a tier, so the tier must be known.
	unbound := target != nil && (target.VPCID != "" || target.Internal) && target.NetworkID == "" && target.joining(d)
	if !known && (target == nil || unbound) {
		return Refuse(ReasonNoNodes, "no node is eligible, so the network of the address is not known",
			"add a node that may serve; the Service is tried again")
	}

	if target == nil {
		return nil
	}

	where := "address " + target.IP
	unusable := func(message, remedy string) *RefusalError {
		return Refuse(ReasonAddressUnavailable, where+message, remedy)
	}

	switch {
	case target.ForeignCluster && (!target.Internal || target.asks(d)):
		return unusable(" belongs to another cluster (by its tags)", "choose another address")
	case target.StaticNAT:
		return unusable(" has static NAT, so it cannot have load balancer rules",
			"disable its static NAT or choose another address")
	case known && target.VPCID != d.VPCID && target.VPCID != "":
		return unusable(" belongs to a VPC that is not the nodes'", "choose an address of the nodes' network")
	case known && !target.Internal && target.VPCID != d.VPCID:
		return unusable(" does not belong to the nodes' VPC", "choose an address of the VPC")
	case target.VPCID != "" && target.SourceNAT:
		return unusable(" is the source NAT address of the VPC, and a load balancer rule would permanently end its "+
			"source NAT",
			"choose another address")
	case known && target.NetworkID != "" && target.NetworkID != d.NetworkID:
		return unusable(" serves another network than the nodes'", "choose an address of the nodes' network")
	case target.SourceNAT && network != nil && !network.Conserve:
		return unusable(" is the source NAT address of a network whose offering is not in conserve mode, so it "+
			"cannot have load balancer rules", "choose another address")
	}

	rulesOfOthers := len(d.Forwards) > 0 && slices.ContainsFunc(target.Rules, ofOthers)
	forwardsOfOthers := len(d.Rules) > 0 && slices.ContainsFunc(target.Forwards, ofOthers)
	if d.OnePurpose && (rulesOfOthers || forwardsOfOthers) {
		return unusable(" has rules of others that exclude those of this Service, and "+network.eitherOr(),
			"choose another address")
	}

	ports := d.Ports()
	if target.SourceNAT && network != nil && network.DNS && slices.Contains(ports, DNSPort) {
		return RefusePort(ReasonReservedPort,
			fmt.Sprintf("port %d on %s is taken by the virtual router for DNS: it is the network's source NAT address",
				DNSPort, where), "choose another address", DNSPort)
	}

	asks := target.asks(d)
	if asks && target.Refusal != nil {
		return target.Refusal // check the owner first: nobody else should learn what is on the address
	}

	for _, r := range target.Rules {
		if r.Owner != Owned && slices.Contains(ports, r.StartPort) {
			return r.taken(r.StartPort, where, "a load balancer rule", "delete that rule")
		}
	}

	if !target.joining(d) {
		return nil // ports that are already served stay served
	}

	// CloudStack uses a port number either for load balancer rules or for port forwardings, whatever their protocols.
	for i := range target.Forwards {
		f := &target.Forwards[i]
		for _, port := range ports {
			balanced := slices.ContainsFunc(d.Rules, func(r Rule) bool { return r.PublicPort == port })
			if f.Owner != Owned && f.on(port) && (balanced || slices.Contains(d.Forwarded()[f.Protocol], port)) {
				return f.taken(port, where, "a port forwarding", "delete that port forwarding")
			}
		}
	}

	if !asks {
		return nil
	}

	return target.refuses(d, grants)
}

// taken refuses a port that an item of others uses; what describes the item. It names the other Service only if both
// are in one namespace, because everyone who can edit the Service can read its Events.
func (m *Mark) taken(port int, where, what, remedy string) *RefusalError {
	by := what + ", which is not of this Service"
	if m.By != "" {
		by, remedy = m.By, "have that Service give up the port"
	}
	return RefusePort(ReasonPortTaken, fmt.Sprintf("port %d of %s is taken by %s", port, where, by),
		remedy+", or choose another port or address", port)
}

// joining reports whether the Service wants a port for which it has neither a rule nor a port forwarding on the
// address.
func (a *Address) joining(d Desired) bool { return a.ID != "" && a.needsPorts(d, nil) }

// asks reports whether the Service wants a port that it does not have on the address. It has a port if there is a rule
// or port forwarding of ours, or if its record says so, since others may have deleted the rule. The record counts while
// the status shows the address.
func (a *Address) asks(d Desired) bool {
	return a.joining(d) && (!a.Has || a.needsPorts(d, a.RecordedPorts))
}

// needsPorts reports whether the Service wants a port that it neither has on the address nor had according to had.
func (a *Address) needsPorts(d Desired, had annotation.PortSet) bool {
	for protocol, ports := range d.Opened() {
		if slices.ContainsFunc(ports, func(port int) bool {
			return !a.has(protocol, port) && !slices.Contains(had[protocol], port)
		}) {
			return true
		}
	}
	return false
}

// refuses returns why the Service may not use the address without the operator's grant: it is the network's source NAT
// address, or others use it.
func (a *Address) refuses(d Desired, grants Grants) *RefusalError {
	refuse := func(message, remedy string) *RefusalError {
		return Refuse(ReasonNotAllowed, "address "+a.IP+message, remedy)
	}

	switch {
	case a.SourceNAT && !grants.SourceNAT:
		return refuse(" is the source NAT address of the network, through which its VMs reach other networks",
			"choose another address, or have the namespace added to the chart's value tenancy.sourceNATAddress.allow")
	case grants.ForeignAddress, a.proven() && !a.Internal, a.Holder != "" && a.Known:
		return nil // others use an address of ours, or its holder shares it with them
	case slices.ContainsFunc(a.Rules, ofNobodyHere):
		return refuse(" has a load balancer rule that no Service of this cluster has", foreignRemedy)
	case slices.ContainsFunc(a.Forwards, ofNobodyHere):
		return refuse(" has a port forwarding that no Service of this cluster created", foreignRemedy)
	case a.Internal && d.Address == a.IP && !a.Known:
		return refuse(" is an address of the tier that no Service of this cluster has, and CloudStack does not show "+
			"what else uses it", foreignRemedy)
	}

	return nil
}

const foreignRemedy = "choose another address, or have the namespace added to the chart's value " +
	"tenancy.foreignAddress.allow"

// NeedsDetails reports whether the port forwardings of the address must be read before a rule is created on it. On an
// address of the Service's own they matter only if a firewall rule without tags covers a port: whoever created that
// rule may forward the port.
func NeedsDetails(d Desired, target *Address) bool {
	if target == nil || target.Internal || !target.joining(d) || target.ForwardsKnown {
		return false
	}
	return !target.proven() || slices.ContainsFunc(target.Firewall, func(f Item) bool {
		return f.Owner == Unknown && slices.ContainsFunc(d.Opened()[f.Protocol], func(port int) bool {
			return f.on(port) && !target.has(f.Protocol, port)
		})
	})
}
