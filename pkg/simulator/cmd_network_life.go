// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/netip"
	"slices"
	"time"
)

// targetNetwork returns the network of a command. Networks of other owners are refused before a job starts.
func (c *call) targetNetwork() (*network, error) {
	n := arg[*network](c, "id")
	if n == nil {
		return nil, c.badRef("id", c.str("id"))
	}
	if !n.removed && !c.operates(n) {
		return nil, denied()
	}
	return n, nil
}

// operates reports whether the caller may change the network. A domain's network is owned by the system account.
func (c *call) operates(n *network) bool {
	if n.owner == nil {
		return c.caller.rootAdmin() || c.caller.account.domainAdmin() && n.domain.within(c.caller.account.domain)
	}
	return c.access(n.owner)
}

func (c *call) networkJob(n *network, run func(now time.Time) (any, error)) *jobSpec {
	return &jobSpec{instanceType: "Network", instanceID: n.uuid, run: run}
}

func deleteNetwork(c *call) (*jobSpec, error) {
	n, err := c.targetNetwork()
	if err != nil {
		return nil, err
	}
	if n.removed {
		return nil, invalid("Network ID=%d doesn't exist", n.id)
	}
	return c.networkJob(n, func(time.Time) (any, error) {
		based := func(o *network) bool { return o.base == n && !o.removed }
		switch i := slices.IndexFunc(c.st.networks.rows, based); {
		case n.removed:
			return nil, invalid("Unable to find a network with the specified ID.")
		case i >= 0:
			return nil, invalid("Cannot delete network %s which is associated to another network %s", n.uuid, c.st.networks.rows[i].uuid)
		case c.boolean("forced") && !c.caller.rootAdmin():
			return nil, invalid("Delete network with 'forced' option can only be called by root admins")
		case c.st.inUse(n):
			return nil, errf(codeInternal, csRuntime, "Failed to delete network")
		}
		c.st.destroyNetwork(n)
		return success{true}, nil
	}), nil
}

func restartNetwork(c *call) (*jobSpec, error) {
	n, err := c.targetNetwork()
	if err != nil {
		return nil, err
	}
	if n.removed {
		return nil, invalid("Networkd ID=%d doesn't exist", n.id)
	}
	return c.networkJob(n, func(time.Time) (any, error) {
		switch {
		case n.removed:
			return nil, invalid("Network [%s] to restart was not found.", n.uuid)
		case n.vpc != nil && c.boolean("cleanup"):
			return nil, invalid("Cannot restart a VPC tier with cleanup, please restart the whole VPC.")
		case n.state != netImplemented && n.state != netSetup:
			return nil, invalid("Network is not in the right state to be restarted. Correct states are: Implemented, Setup")
		}
		n.redundant = n.redundant || c.boolean("makeredundant")
		n.restart = false
		return success{true}, nil
	}), nil
}

func updateNetwork(c *call) (*jobSpec, error) {
	n, err := c.targetNetwork()
	if err != nil {
		return nil, err
	}
	if n.removed {
		return nil, invalid("Networkd ID=%d doesn't exist", n.id)
	}
	return c.networkJob(n, func(time.Time) (any, error) {
		if n.removed {
			return nil, invalid("Specified network id doesn't exist in the system")
		}
		changed := *n // nothing is stored if a later parameter is refused
		for _, step := range []func(n, to *network) error{c.updateOffering, c.updateDNS, c.updateRange} {
			if err := step(n, &changed); err != nil {
				return nil, err
			}
		}
		setIf(c, "name", &changed.name)
		setIf(c, "displaytext", &changed.display)
		setIf(c, "hideipaddressusage", &changed.hideUsage)
		if b := c.optBool("displaynetwork"); b != nil {
			changed.hidden = !*b
		}
		*n = changed
		if ip, ok := c.st.addressNamed(n.zone, c.str("sourcenatipaddress")); ok && ip.network == n && n.vpc == nil {
			c.st.moveSourceNAT(n.sourceNATIP(c.st), ip)
		}
		setCustomID(c, c.st.networks, n)
		return networkAnswer{c.viewNetwork(n)}, nil
	}), nil
}

// updateOffering changes the network offering.
func (c *call) updateOffering(n, to *network) error {
	if !c.given("networkofferingid") {
		return nil
	}
	o := arg[*networkOffering](c, "networkofferingid")
	switch {
	case o == nil || o.removed:
		return invalid("Unable to find network offering with specified id")
	case n.typ != typeIsolated:
		return invalid("NetworkOffering and domain suffix upgrade can be perfomed for Isolated networks only")
	case o.spec.State != "Enabled":
		return invalid("Network offering with specified id is not in Enabled state, can't upgrade to it")
	case o.spec.ForVPC && n.vpc == nil:
		return invalid("Can't update as the new offering is a vpc offering ")
	case !o.spec.ForVPC && n.vpc != nil:
		return invalid("Can't update as the new offering is not a vpc offering")
	case n.vpc != nil:
		if err := c.checkTierOffering(o, n, n.vpc); err != nil {
			return err
		}
	}
	if o != n.offering && (o.spec.GuestType != n.typ || o.spec.SpecifyVlan != n.offering.spec.SpecifyVlan) {
		return invalid("Can't upgrade from network offering %s to %s; check logs for more information", n.offering.uuid, o.uuid)
	}
	to.offering = o
	return nil
}

// updateDNS changes the network domain and the DNS servers.
func (c *call) updateDNS(n, to *network) error {
	if d, ok := c.args["networkdomain"]; ok {
		switch {
		case n.typ != typeIsolated:
			return invalid("NetworkOffering and domain suffix upgrade can be perfomed for Isolated networks only")
		case !validDomainName(d):
			return badNetworkDomain()
		}
		to.domainName = d
	}
	if !c.has("dns1") && !c.has("dns2") {
		return nil
	}
	switch {
	case n.typ == typeL2:
		return invalid("DNS can not be specified for L2 networks")
	case n.vpc != nil:
		return invalid("DNS can not be specified for a VPC tier")
	case !to.provides("Dns"):
		return invalid("DNS can not be specified for networks with network offering that do not support DNS service")
	}
	setIf(c, "dns1", &to.dns1)
	setIf(c, "dns2", &to.dns2)
	return c.checkDNSPair(to.dns1, to.dns2)
}

// updateRange applies an IP reservation: VMs get addresses of guestvmcidr only.
func (c *call) updateRange(n, to *network) error {
	text, ok := c.args["guestvmcidr"]
	if !ok {
		return nil
	}
	p, err := netip.ParsePrefix(text)
	whole := n.cidr
	if n.wholeCIDR != "" {
		whole = netip.MustParsePrefix(n.wholeCIDR)
	}
	switch {
	case n.typ != typeIsolated:
		return invalid("Can only allow IP Reservation in networks with guest type Isolated")
	case to.offering != n.offering:
		return invalid("Cannot specify this network offering change and guestVmCidr at same time. Specify only one.")
	case n.state != netImplemented && n.state != netAllocated:
		return invalid("The network must be in Implemented or Allocated state. IP Reservation cannot be applied in %s state", n.state)
	case err != nil || !p.Addr().Is4():
		return invalid("Invalid format of Guest VM CIDR.")
	case !guestCIDR(p):
		return invalid("Invalid format of Guest VM CIDR. Make sure it is RFC1918 compliant. ")
	case !within(p, whole) && n.wholeCIDR != "":
		return invalid("Invalid value of Guest VM CIDR. For IP Reservation, Guest VM CIDR  should be a subset of network CIDR : %s", whole)
	case !within(p, whole):
		return invalid("Invalid value of Guest VM CIDR. For IP Reservation, Guest VM CIDR  should be a subset of network CIDR :  %s", whole)
	}
	for _, u := range n.used {
		if a, err := netip.ParseAddr(u.ip); err == nil && !p.Contains(a) {
			return invalid("Active IPs like %s exist outside the Guest VM CIDR. Cannot apply reservation ", u.ip)
		}
	}
	to.cidr, to.wholeCIDR = p.Masked(), whole.String()
	if to.cidr == whole {
		to.wholeCIDR = ""
	}
	return nil
}
