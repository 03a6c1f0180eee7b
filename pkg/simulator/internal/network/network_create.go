// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"net/netip"
	"strconv"
	"strings"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// createNetwork creates an isolated, shared or L2 network, or a VPC tier. The checks run in CloudStack's order.
func createNetwork(c *wire.Call) (any, error) {
	z, o := wire.Arg[*store.Zone](c, "zoneid"), wire.Arg[*store.NetworkOffering](c, "networkofferingid")
	if o == nil || o.Removed {
		return nil, wire.Invalid("Unable to find network offering by specified id")
	}

	if z == nil || z.Removed {
		return nil, wire.Invalid("Specified zone id was not found")
	}

	n := &store.Network{
		Entity:   store.Entity{Created: c.Now},
		Name:     c.Str("name"),
		Display:  cmp.Or(c.Str("displaytext"), c.Str("name")),
		Zone:     z,
		Offering: o,
		Typ:      o.Spec.GuestType,
		State:    store.NetAllocated,
		VPC:      wire.Arg[*store.VPC](c, "vpcid"),
	}

	var err error
	n.Owner = c.Caller.Account
	if c.Given("domainid") && c.Str("account") != "" || c.Given("projectid") { // account without domainid is ignored
		if n.Owner, err = c.NewOwner(); err != nil {
			return nil, err
		}
	}

	for _, check := range []func(*store.Network) error{
		func(n *store.Network) error { return checkNetworkScope(c, n) },
		func(n *store.Network) error { return checkAddressing(c, n) },
		func(n *store.Network) error { return checkNetworkRights(c, n) },
		func(n *store.Network) error { return checkNetworkServices(c, n) },
		func(n *store.Network) error { return checkTier(c, n) },
		func(n *store.Network) error { return checkGuestNetwork(c, n) },
	} {
		if err := check(n); err != nil {
			return nil, err
		}
	}

	storeNetwork(c, n)
	return wire.Object("network", viewNetwork(c, n)), nil
}

// storeNetwork is the last step of every network creation. A network of a persistent offering is implemented
// immediately.
func storeNetwork(c *wire.Call, n *store.Network) {
	c.St.Networks.Add(n)
	if n.Offering.Spec.Persistent {
		c.St.Implement(n, c.Now)
	}
}

// CreateIsolated creates an isolated network that a command needs for another object.
func CreateIsolated(
	c *wire.Call, owner *store.Account, z *store.Zone, o *store.NetworkOffering, name, display string,
) (*store.Network, error) {
	n := &store.Network{
		Entity:   store.Entity{Created: c.Now},
		Name:     name,
		Display:  display,
		Zone:     z,
		Offering: o,
		Owner:    owner,
		Domain:   owner.Domain,
		Typ:      store.TypeIsolated,
		State:    store.NetAllocated,
	}

	if err := checkGuestNetwork(c, n); err != nil {
		return nil, err
	}

	storeNetwork(c, n)
	return n, nil
}

// checkNetworkScope sets the network's owner: an account or a domain.
func checkNetworkScope(c *wire.Call, n *store.Network) error {
	me := c.Caller.Account
	if !n.Zone.Enabled && !c.Caller.RootAdmin() {
		return wire.Errf(wire.CodeAccount, wire.CSPermission,
			"Cannot perform this operation since specified Zone is currently disabled")
	}

	kind := c.Str("acltype")
	switch {
	case strings.EqualFold(kind, "Account"):
		kind = "Account"
	case strings.EqualFold(kind, "Domain"):
		kind = "Domain"
	case kind != "":
		return wire.Invalid("Incorrect aclType specified. Check the API documentation for supported types")
	case n.Typ != store.TypeShared || me.Normal():
		kind = "Account"
	case me.RootAdmin():
		kind = "Domain"
	default:
		return wire.Invalid("AclType must be specified for shared network created by domain admin")
	}

	n.Domain = n.Owner.Domain
	switch {
	case n.Typ == store.TypeIsolated && kind != "Account":
		return wire.Invalid("AclType should be Account for network of type Isolated")
	case kind == "Account" && c.Has("subdomainaccess"):
		return wire.Invalid("Parameter subDomainAccess can be specified only with aclType=Domain")
	case kind == "Account":
		return nil
	case me.Normal():
		return wire.Errf(wire.CodeAccount, wire.CSPermission, "Only admin can create networks with aclType=Domain")
	case n.Typ != store.TypeShared:
		return wire.Invalid("Only Shared networks can have aclType=Domain")
	}

	n.Owner, n.Domain, n.Subdomains = nil, c.St.Root(), c.BoolOr("subdomainaccess", true)
	if !c.Given("domainid") {
		n.Subdomains = true
		return nil
	}

	d := wire.Arg[*store.Domain](c, "domainid")
	switch {
	case d == nil || d.Removed:
		return wire.Invalid("Unable to find domain by specified id")
	case !c.DomainAccess(d):
		return wire.Denied()
	}

	n.Domain = d
	return nil
}

// checkAddressing reads the gateway, the netmask and the IP range.
func checkAddressing(c *wire.Call, n *store.Network) error {
	gw, mask, first, last := c.Str("gateway"), c.Str("netmask"), c.Str("startip"), c.Str("endip")
	gateway, err := netip.ParseAddr(gw)
	if gw != "" && err != nil {
		return wire.Invalid("Gateway parameter is invalid")
	}

	if gw == "" {
		return nil // without a gateway, startip and endip are ignored
	}

	if first != "" {
		if last == "" {
			last = first
		}
		if n.First, err = netip.ParseAddr(first); err != nil || !n.First.Is4() {
			return wire.Invalid("Invalid format for the startIp parameter")
		}
		if n.Last, err = netip.ParseAddr(last); err != nil || !n.Last.Is4() {
			return wire.Invalid("Invalid format for the endIp parameter")
		}
		if mask == "" {
			return wire.Invalid("gateway and netmask should be defined when startIP/endIP are passed in")
		}
	}

	if mask == "" {
		return nil
	}

	bits, ok := maskBits(mask)
	if !ok || !gateway.Is4() {
		if !gateway.Is4() {
			return wire.Invalid("Invalid gateway")
		}
		return wire.Invalid("Invalid netmask")
	}

	p := netip.PrefixFrom(gateway, bits)
	if gateway == p.Masked().Addr() || gateway == store.LastAddr(p) {
		return wire.Invalid("Invalid gateway IP provided. Either the IP is broadcast or network IP.")
	}

	n.CIDR, n.Gateway = p.Masked(), gw
	return nil
}

// maskBits returns the prefix length of a netmask such as 255.255.255.0.
func maskBits(mask string) (int, bool) {
	for bits := 1; bits <= 32; bits++ {
		if wire.Netmask(bits) == mask {
			return bits, true
		}
	}
	return 0, false
}

// checkNetworkRights refuses parameters that are reserved to root admins.
func checkNetworkRights(c *wire.Call, n *store.Network) error {
	spec, root := &n.Offering.Spec, c.Caller.RootAdmin()
	switch {
	case !root && n.Typ == store.TypeShared && spec.SpecifyVlan:
		return wire.Invalid("This user can only create an Isolated network, a L2 network or a Shared network with " +
			"specifyVlan=false.")
	case n.Typ == store.TypeShared && !spec.SpecifyVlan && c.Has("vlan"):
		return wire.Invalid("Cannot specify vlanId when create a network from network offering with specifyvlan=false")
	case !root && (spec.SpecifyVlan || c.Has("vlan")):
		return wire.Invalid("Only ROOT admin is allowed to specify vlanId or bypass vlan overlap check")
	case !root && n.CIDR.IsValid() && n.CIDR.Bits() < smallestGuestBits:
		return wire.Invalid("Cidr size can't be less than %d", smallestGuestBits)
	}
	return nil
}

// smallestGuestBits is network.guest.cidr.limit, the smallest prefix length that users may choose.
const smallestGuestBits = 22

// checkNetworkServices checks the offering's providers and the parameters that depend on its services.
func checkNetworkServices(c *wire.Call, n *store.Network) error {
	o := n.Offering
	for i := range o.Services {
		for _, p := range o.Services[i].Provider {
			if !EnabledProviders[p.Name] {
				return c.Internal(4390,
					"Provider %s is either not enabled or doesn't support service %s on physical network id=%d", p.Name,
					o.Services[i].Name, n.Zone.ID)
			}
		}
	}

	if c.Has("startip") &&
		n.CIDR.IsValid() &&
		(n.Typ == store.TypeShared || n.Typ == store.TypeIsolated && !n.Provides("SourceNat")) &&
		!o.Spec.SpecifyIPs {
		return wire.Invalid("Network offering with specified id doesn't support adding multiple ip ranges")
	}

	if n.First.IsValid() && o.Spec.SpecifyIPs {
		switch {
		case !n.CIDR.Contains(n.First):
			return wire.Invalid("Please ensure that your start IP is in the same subnet as your gateway's IP range.")
		case !n.CIDR.Contains(n.Last):
			return wire.Invalid("Please ensure that your end IP is in the same subnet as your gateway's IP range.")
		case n.Last.Less(n.First):
			return wire.Invalid("Please ensure that your start IP is less than the end IP.")
		}
	} else {
		n.First, n.Last = netip.Addr{}, netip.Addr{} // CloudStack ignores the range with other offerings
	}

	return nil
}

// checkGuestNetwork runs the checks that apply to every guest network, and sets its VLAN, CIDR and network domain.
func checkGuestNetwork(c *wire.Call, n *store.Network) error {
	if n.Offering.Spec.State != "Enabled" {
		return wire.Invalid("Can't use specified network offering id as its state is not Enabled")
	}

	if n.Owner != nil {
		if err := c.CheckLimit(n.Owner, "networks", 1); err != nil {
			return err
		}
	}

	if err := checkVLAN(c, n); err != nil {
		return err
	}

	if n.DomainName == "" && n.Provides("Dns") {
		n.DomainName = n.Zone.SystemDomain()
		if n.Owner != nil {
			n.DomainName = c.St.NetworkDomainOf(n.Owner, n.Zone)
		}
	}

	switch {
	case n.Typ == store.TypeL2:
		n.CIDR, n.Gateway = netip.Prefix{}, ""
		return nil
	case n.CIDR.IsValid() && n.Typ == store.TypeIsolated && !guestCIDR(n.CIDR):
		return wire.Invalid("Virtual Guest Cidr %s is not RFC 1918 or 6598 compliant", n.CIDR)
	case n.CIDR.IsValid():
		return nil
	case n.Typ == store.TypeShared:
		return wire.Invalid("Gateway/netmask are required when creating Shared networks.")
	case !n.Provides("SourceNat"):
		return wire.Invalid("gateway/netmask are required when create network of type Isolated with service " +
			"SourceNat disabled")
	}

	n.CIDR = netip.MustParsePrefix(n.Zone.GuestCIDR)
	n.Gateway = n.CIDR.Addr().Next().String()
	return nil
}

// checkVLAN checks the VLAN that the admin specified, or allocates one for a shared network.
func checkVLAN(c *wire.Call, n *store.Network) error {
	spec, given := &n.Offering.Spec, c.Has("vlan")
	switch {
	case given && !spec.SpecifyVlan:
		return wire.Invalid("Can't specify vlan; corresponding offering says specifyVlan=false")
	case !given && spec.SpecifyVlan:
		return wire.Invalid("Vlan has to be specified; corresponding offering says specifyVlan=true")
	case !given && n.Typ == store.TypeShared:
		n.VLAN, n.State = c.St.FreeVLAN(n.Zone), store.NetSetup
		return nil
	case !given:
		return nil
	}

	text := strings.TrimPrefix(strings.ToLower(c.Str("vlan")), "vlan://")
	n.GivenVLAN, n.State = true, store.NetSetup
	if text == "untagged" {
		return nil
	}

	v, err := strconv.Atoi(text)
	if err != nil || v < 0 || v > 4094 {
		return wire.Invalid("Invalid vlan id: %s", c.Str("vlan"))
	}

	n.VLAN = v
	if v >= store.FirstGuestVLAN && v <= store.LastGuestVLAN {
		return wire.Invalid("The VLAN tag to use for new guest network, %s is already being used for dynamic vlan "+
			"allocation for the guest network in zone %s", text, n.Zone.Name)
	}

	for _, o := range c.St.Networks.Rows {
		switch {
		case o.Removed || o.Zone != n.Zone || o.VLAN != v || o.State == store.NetAllocated:
		case n.Typ != store.TypeShared:
			return wire.Invalid("Network with vlan %s already exists or overlaps with other network vlans in zone %s",
				text, n.Zone.Text())
		case n.Typ == store.TypeShared && o.Typ == store.TypeIsolated:
			return wire.Invalid("There is an existing isolated/shared network that overlaps with vlan id:%s in zone %s",
				text, n.Zone.Text())
		}
	}

	return nil
}
