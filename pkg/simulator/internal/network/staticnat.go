// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"slices"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// enableStaticNAT enables static NAT from an address to a VM. The checks run in CloudStack's order.
func enableStaticNAT(c *wire.Call) (any, error) {
	ip, v := wire.Arg[*store.PublicIP](c, "ipaddressid"), wire.Arg[*store.VM](c, "virtualmachineid")
	if ip == nil {
		return nil, c.BadRef("ipaddressid", c.Str("ipaddressid"))
	}

	n := ip.Network
	if n == nil {
		n = wire.Arg[*store.Network](c, "networkid")
	}

	if n == nil {
		return nil, wire.Invalid("Unable to enable static NAT for the ipAddress id=%d as IP is not associated with "+
			"any network and no networkId is passed in", ip.ID)
	}

	guest, err := staticTarget(c, ip, v, n)
	if err != nil {
		return nil, err
	}

	sourceNAT := ip.SourceNAT && ip.Network != nil // for a VPC address without a network, Bind ends this role
	if err := staticReady(c, ip, v, guest, sourceNAT); err != nil {
		return nil, err
	}

	ip.Bind(n)
	ip.StaticVM, ip.StaticIP = v, guest
	v.NICIn(n).StaticNAT = ip
	return wire.Success{Success: true}, nil
}

// staticTarget checks the VM and the network. It returns the guest address to which the public address is mapped.
func staticTarget(c *wire.Call, ip *store.PublicIP, v *store.VM, n *store.Network) (string, error) {
	var card *store.NIC
	if v != nil && !v.Removed {
		card = v.NICIn(n)
	}

	switch {
	case card == nil:
		return "", wire.Invalid("Vm doesn't belong to the network with specified id")
	case !n.Provides("StaticNat"):
		return "", wire.Invalid("Unable to create static nat rule; StaticNat service is not supported in network " +
			"with specified id")
	case ip.Network == nil && (ip.VPC == nil || ip.VPC != n.VPC):
		return "", wire.Invalid("Ip address %s is not assigned to the network %s", ip.Text(), n.Text())
	case ip.Owner == nil || ip.State != store.IPAllocated:
		return "", wire.Invalid("Unable to create ip forwarding rule on address %s, invalid IP address specified.",
			ip.Text())
	case v.Gone():
		return "", wire.Invalid("Invalid user vm: %d", v.ID)
	case !c.Access(ip.Owner) || !c.Access(v.Owner):
		return "", wire.Denied()
	case ip.Owner != v.Owner:
		return "", wire.Invalid("Unable to create ip forwarding rule, IP address %s owner is not the same as owner "+
			"of virtual machine %s", ip.Text(), v.Text())
	}

	if err := usable(c, ip, n, "StaticNat"); err != nil {
		return "", err
	}

	want := c.Str("vmguestip")
	if want == "" || want == card.IP {
		return card.IP, nil
	}

	if !slices.ContainsFunc(card.Secondary, func(s *store.SecondaryIP) bool { return s.IP == want }) {
		return "", wire.Invalid("VM ip %s address not belongs to the vm", want)
	}

	return want, nil
}

// staticReady checks that neither the public address nor the VM's address is in use.
func staticReady(c *wire.Call, ip *store.PublicIP, v *store.VM, guest string, sourceNAT bool) error {
	conflict := func(format string, args ...any) error {
		return wire.Errf(wire.CodeConflict, wire.CSGeneric, format, args...)
	}
	switch {
	case sourceNAT:
		return wire.Invalid("Can't enable static, ip address %s is a sourceNat ip address", ip.Text())
	case ip.StaticVM == nil && len(ip.PFRules) > 0:
		return conflict("Failed to enable static nat for the ip address %s as it already has PortForwarding rules "+
			"assigned", ip.Text())
	case ip.StaticVM == nil && len(ip.LBRules) > 0:
		return conflict("Failed to enable static nat for the ip address %s as it already has LoadBalancing rules "+
			"assigned", ip.Text())
	case ip.StaticVM != nil && ip.StaticVM != v:
		return conflict("Failed to enable static for the ip address %s and vm id=%d as it's already assigned to "+
			"antoher vm", ip.Text(), v.ID)
	}

	old, taken := c.St.IPs.Find(func(o *store.PublicIP) bool { return o.StaticVM == v && o.StaticIP == guest })
	if taken {
		return wire.Invalid("Failed to enable static nat on the  ip %s with Id %s as the vm %s with Id %s is already "+
			"associated with another public ip %s with id %s",
			ip.Addr, ip.UUID, v.InstanceName(), v.UUID, old.Addr, old.UUID)
	}

	return nil
}
