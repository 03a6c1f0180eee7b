// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"net/netip"
	"slices"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// targetNetwork returns the network of a command. Networks of other owners are refused before a job starts.
func targetNetwork(c *wire.Call) (*store.Network, error) {
	n := wire.Arg[*store.Network](c, "id")
	if n == nil {
		return nil, c.BadRef("id", c.Str("id"))
	}
	if !n.Removed && !operates(c, n) {
		return nil, wire.Denied()
	}
	return n, nil
}

// operates reports whether the caller may change the network. A domain's network is owned by the system account.
func operates(c *wire.Call, n *store.Network) bool {
	if n.Owner == nil {
		return c.Caller.RootAdmin() || c.Caller.Account.DomainAdmin() && n.Domain.Within(c.Caller.Account.Domain)
	}
	return c.Access(n.Owner)
}

func networkJob(c *wire.Call, n *store.Network, run func(now time.Time) (any, error)) *wire.JobSpec {
	return &wire.JobSpec{InstanceType: "Network", InstanceID: n.UUID, Run: run}
}

func deleteNetwork(c *wire.Call) (*wire.JobSpec, error) {
	n, err := targetNetwork(c)
	if err != nil {
		return nil, err
	}
	if n.Removed {
		return nil, wire.Invalid("Network ID=%d doesn't exist", n.ID)
	}
	return networkJob(c, n, func(time.Time) (any, error) {
		based := func(o *store.Network) bool { return o.Base == n && !o.Removed }
		switch i := slices.IndexFunc(c.St.Networks.Rows, based); {
		case n.Removed:
			return nil, wire.Invalid("Unable to find a network with the specified ID.")
		case i >= 0:
			return nil, wire.Invalid("Cannot delete network %s which is associated to another network %s", n.UUID, c.St.Networks.Rows[i].UUID)
		case c.Boolean("forced") && !c.Caller.RootAdmin():
			return nil, wire.Invalid("Delete network with 'forced' option can only be called by root admins")
		case c.St.InUse(n):
			return nil, wire.Errf(wire.CodeInternal, wire.CSRuntime, "Failed to delete network")
		}
		c.St.DestroyNetwork(n)
		return wire.Success{Success: true}, nil
	}), nil
}

func restartNetwork(c *wire.Call) (*wire.JobSpec, error) {
	n, err := targetNetwork(c)
	if err != nil {
		return nil, err
	}
	if n.Removed {
		return nil, wire.Invalid("Networkd ID=%d doesn't exist", n.ID)
	}
	return networkJob(c, n, func(time.Time) (any, error) {
		switch {
		case n.Removed:
			return nil, wire.Invalid("Network [%s] to restart was not found.", n.UUID)
		case n.VPC != nil && c.Boolean("cleanup"):
			return nil, wire.Invalid("Cannot restart a VPC tier with cleanup, please restart the whole VPC.")
		case n.State != store.NetImplemented && n.State != store.NetSetup:
			return nil, wire.Invalid("Network is not in the right state to be restarted. Correct states are: Implemented, Setup")
		}
		n.Redundant = n.Redundant || c.Boolean("makeredundant")
		n.Restart = false
		return wire.Success{Success: true}, nil
	}), nil
}

func updateNetwork(c *wire.Call) (*wire.JobSpec, error) {
	n, err := targetNetwork(c)
	if err != nil {
		return nil, err
	}
	if n.Removed {
		return nil, wire.Invalid("Networkd ID=%d doesn't exist", n.ID)
	}
	return networkJob(c, n, func(time.Time) (any, error) {
		if n.Removed {
			return nil, wire.Invalid("Specified network id doesn't exist in the system")
		}
		changed := *n // nothing is stored if a later parameter is refused
		for _, step := range []func(n, to *store.Network) error{func(n *store.Network, to *store.Network) error { return updateOffering(c, n, to) }, func(n *store.Network, to *store.Network) error { return updateDNS(c, n, to) }, func(n *store.Network, to *store.Network) error { return updateRange(c, n, to) }} {
			if err := step(n, &changed); err != nil {
				return nil, err
			}
		}
		setIf(c, "name", &changed.Name)
		setIf(c, "displaytext", &changed.Display)
		setIf(c, "hideipaddressusage", &changed.HideUsage)
		if b := c.OptBool("displaynetwork"); b != nil {
			changed.Hidden = !*b
		}
		*n = changed
		if ip, ok := c.St.AddressNamed(n.Zone, c.Str("sourcenatipaddress")); ok && ip.Network == n && n.VPC == nil {
			moveSourceNAT(c.St, n.SourceNATIP(c.St), ip)
		}
		wire.SetCustomID(c, c.St.Networks, n)
		return networkAnswer{viewNetwork(c, n)}, nil
	}), nil
}

// updateOffering changes the network offering.
func updateOffering(c *wire.Call, n, to *store.Network) error {
	if !c.Given("networkofferingid") {
		return nil
	}
	o := wire.Arg[*store.NetworkOffering](c, "networkofferingid")
	switch {
	case o == nil || o.Removed:
		return wire.Invalid("Unable to find network offering with specified id")
	case n.Typ != store.TypeIsolated:
		return wire.Invalid("NetworkOffering and domain suffix upgrade can be perfomed for Isolated networks only")
	case o.Spec.State != "Enabled":
		return wire.Invalid("Network offering with specified id is not in Enabled state, can't upgrade to it")
	case o.Spec.ForVPC && n.VPC == nil:
		return wire.Invalid("Can't update as the new offering is a vpc offering ")
	case !o.Spec.ForVPC && n.VPC != nil:
		return wire.Invalid("Can't update as the new offering is not a vpc offering")
	case n.VPC != nil:
		if err := checkTierOffering(c, o, n, n.VPC); err != nil {
			return err
		}
	}
	if o != n.Offering && (o.Spec.GuestType != n.Typ || o.Spec.SpecifyVlan != n.Offering.Spec.SpecifyVlan) {
		return wire.Invalid("Can't upgrade from network offering %s to %s; check logs for more information", n.Offering.UUID, o.UUID)
	}
	to.Offering = o
	return nil
}

// updateDNS changes the network domain and the DNS servers.
func updateDNS(c *wire.Call, n, to *store.Network) error {
	if d, ok := c.Args["networkdomain"]; ok {
		switch {
		case n.Typ != store.TypeIsolated:
			return wire.Invalid("NetworkOffering and domain suffix upgrade can be perfomed for Isolated networks only")
		case !wire.ValidDomainName(d):
			return wire.BadNetworkDomain()
		}
		to.DomainName = d
	}
	if !c.Has("dns1") && !c.Has("dns2") {
		return nil
	}
	switch {
	case n.Typ == store.TypeL2:
		return wire.Invalid("DNS can not be specified for L2 networks")
	case n.VPC != nil:
		return wire.Invalid("DNS can not be specified for a VPC tier")
	case !to.Provides("Dns"):
		return wire.Invalid("DNS can not be specified for networks with network offering that do not support DNS service")
	}
	setIf(c, "dns1", &to.DNS1)
	setIf(c, "dns2", &to.DNS2)
	return checkDNSPair(c, to.DNS1, to.DNS2)
}

// updateRange applies an IP reservation: VMs get addresses of guestvmcidr only.
func updateRange(c *wire.Call, n, to *store.Network) error {
	text, ok := c.Args["guestvmcidr"]
	if !ok {
		return nil
	}
	p, err := netip.ParsePrefix(text)
	whole := n.CIDR
	if n.WholeCIDR != "" {
		whole = netip.MustParsePrefix(n.WholeCIDR)
	}
	switch {
	case n.Typ != store.TypeIsolated:
		return wire.Invalid("Can only allow IP Reservation in networks with guest type Isolated")
	case to.Offering != n.Offering:
		return wire.Invalid("Cannot specify this network offering change and guestVmCidr at same time. Specify only one.")
	case n.State != store.NetImplemented && n.State != store.NetAllocated:
		return wire.Invalid("The network must be in Implemented or Allocated state. IP Reservation cannot be applied in %s state", n.State)
	case err != nil || !p.Addr().Is4():
		return wire.Invalid("Invalid format of Guest VM CIDR.")
	case !guestCIDR(p):
		return wire.Invalid("Invalid format of Guest VM CIDR. Make sure it is RFC1918 compliant. ")
	case !within(p, whole) && n.WholeCIDR != "":
		return wire.Invalid("Invalid value of Guest VM CIDR. For IP Reservation, Guest VM CIDR  should be a subset of network CIDR : %s", whole)
	case !within(p, whole):
		return wire.Invalid("Invalid value of Guest VM CIDR. For IP Reservation, Guest VM CIDR  should be a subset of network CIDR :  %s", whole)
	}
	for _, u := range n.Used {
		if a, err := netip.ParseAddr(u.IP); err == nil && !p.Contains(a) {
			return wire.Invalid("Active IPs like %s exist outside the Guest VM CIDR. Cannot apply reservation ", u.IP)
		}
	}
	to.CIDR, to.WholeCIDR = p.Masked(), whole.String()
	if to.CIDR == whole {
		to.WholeCIDR = ""
	}
	return nil
}
