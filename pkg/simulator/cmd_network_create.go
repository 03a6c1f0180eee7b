// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"net/netip"
	"strconv"
	"strings"
)

type networkAnswer struct {
	Network networkView `json:"network"`
}

// createNetwork creates an isolated, shared or L2 network, or a VPC tier. The checks run in CloudStack's order.
func createNetwork(c *call) (any, error) {
	z, o := arg[*zone](c, "zoneid"), arg[*networkOffering](c, "networkofferingid")
	if o == nil || o.removed {
		return nil, invalid("Unable to find network offering by specified id")
	}
	if z == nil || z.removed {
		return nil, invalid("Specified zone id was not found")
	}
	n := &network{
		entity: entity{created: c.now}, name: c.str("name"), display: cmp.Or(c.str("displaytext"), c.str("name")), zone: z, offering: o, typ: o.spec.GuestType,
		state: netAllocated, dns1: c.str("dns1"), dns2: c.str("dns2"), externalID: c.str("externalid"), domainName: c.str("networkdomain"),
		hidden: c.has("displaynetwork") && !c.boolean("displaynetwork"), vpc: arg[*vpc](c, "vpcid"), base: arg[*network](c, "associatednetworkid"),
	}
	if err := c.checkBase(n); err != nil {
		return nil, err
	}
	var err error
	n.owner = c.caller.account
	if c.given("domainid") && c.str("account") != "" || c.given("projectid") { // account without domainid is ignored
		if n.owner, err = c.newOwner(); err != nil {
			return nil, err
		}
	}
	for _, check := range []func(*network) error{
		c.checkNetworkScope, c.checkAddressing, c.checkNetworkRights, c.checkNetworkServices, c.checkTier, c.checkGuestNetwork,
	} {
		if err := check(n); err != nil {
			return nil, err
		}
	}
	if err := c.storeNetwork(n); err != nil {
		return nil, err
	}
	return networkAnswer{c.viewNetwork(n)}, nil
}

// storeNetwork is the last step of every network creation. A network of a persistent offering is implemented
// immediately.
func (c *call) storeNetwork(n *network) error {
	c.st.networks.add(n)
	if err := c.giveSourceNAT(n); err != nil {
		c.st.networks.drop(n)
		return err
	}
	if n.offering.spec.Persistent {
		c.st.implement(n, c.now)
	}
	return nil
}

// createIsolatedNetwork creates a network that a command needs for another object.
func createIsolatedNetwork(c *call, owner *account, z *zone, o *networkOffering, name, display string) (*network, error) {
	n := &network{
		entity: entity{created: c.now}, name: name, display: display, zone: z, offering: o, owner: owner, domain: owner.domain, typ: typeIsolated, state: netAllocated,
	}
	if err := c.checkGuestNetwork(n); err != nil {
		return nil, err
	}
	return n, c.storeNetwork(n)
}

// checkBase checks the parameters that select the physical network: physicalnetworkid, or the associated network of a
// shared network.
func (c *call) checkBase(n *network) error {
	switch {
	case n.base != nil && n.typ != typeShared:
		return invalid("Associated network ID can be specified for networks of guest IP type Shared only.")
	case n.base != nil && n.base.zone != n.zone:
		return invalid("The network can only be created in the same zone as the associated network")
	case c.given("physicalnetworkid") && n.typ != typeShared:
		return invalid("Physical network ID can be specified for networks of guest IP type Shared only.")
	}
	return nil
}

// checkNetworkScope sets the network's owner: an account or a domain.
func (c *call) checkNetworkScope(n *network) error {
	me := c.caller.account
	if !n.zone.enabled && !c.caller.rootAdmin() {
		return errf(codeAccount, csPermission, "Cannot perform this operation since specified Zone is currently disabled")
	}
	kind := c.str("acltype")
	switch {
	case strings.EqualFold(kind, "Account"):
		kind = "Account"
	case strings.EqualFold(kind, "Domain"):
		kind = "Domain"
	case kind != "":
		return invalid("Incorrect aclType specified. Check the API documentation for supported types")
	case n.typ != typeShared || me.normal():
		kind = "Account"
	case me.rootAdmin():
		kind = "Domain"
	default:
		return invalid("AclType must be specified for shared network created by domain admin")
	}
	n.domain = n.owner.domain
	switch {
	case n.typ == typeIsolated && kind != "Account":
		return invalid("AclType should be Account for network of type Isolated")
	case n.typ != typeShared && (c.has("routerip") || c.has("routeripv6")):
		return invalid("Router IP can be specified only for Shared networks")
	case kind == "Account" && c.has("subdomainaccess"):
		return invalid("Parameter subDomainAccess can be specified only with aclType=Domain")
	case kind == "Account":
		return nil
	case me.normal():
		return errf(codeAccount, csPermission, "Only admin can create networks with aclType=Domain")
	case n.typ != typeShared:
		return invalid("Only Shared networks can have aclType=Domain")
	}
	n.owner, n.domain, n.subdomains = nil, c.st.root(), c.boolOr("subdomainaccess", true)
	if !c.given("domainid") {
		n.subdomains = true
		return nil
	}
	d := arg[*domain](c, "domainid")
	switch {
	case d == nil || d.removed:
		return invalid("Unable to find domain by specified id")
	case !c.domainAccess(d):
		return denied()
	}
	n.domain = d
	return nil
}

// checkAddressing reads the gateway, the netmask and the IP range.
func (c *call) checkAddressing(n *network) error {
	gw, mask, first, last := c.str("gateway"), c.str("netmask"), c.str("startip"), c.str("endip")
	gateway, err := netip.ParseAddr(gw)
	if gw != "" && err != nil {
		return invalid("Gateway parameter is invalid")
	}
	if gw == "" {
		return nil // without a gateway, startip and endip are ignored
	}
	if first != "" {
		if last == "" {
			last = first
		}
		if n.first, err = netip.ParseAddr(first); err != nil || !n.first.Is4() {
			return invalid("Invalid format for the startIp parameter")
		}
		if n.last, err = netip.ParseAddr(last); err != nil || !n.last.Is4() {
			return invalid("Invalid format for the endIp parameter")
		}
		if mask == "" {
			return invalid("gateway and netmask should be defined when startIP/endIP are passed in")
		}
	}
	if mask == "" {
		return nil
	}
	bits, ok := maskBits(mask)
	if !ok || !gateway.Is4() {
		if !gateway.Is4() {
			return invalid("Invalid gateway")
		}
		return invalid("Invalid netmask")
	}
	p := netip.PrefixFrom(gateway, bits)
	if gateway == p.Masked().Addr() || gateway == lastAddr(p) {
		return invalid("Invalid gateway IP provided. Either the IP is broadcast or network IP.")
	}
	n.cidr, n.gateway = p.Masked(), gw
	return nil
}

// maskBits returns the prefix length of a netmask such as 255.255.255.0.
func maskBits(mask string) (int, bool) {
	for bits := 1; bits <= 32; bits++ {
		if netmask(bits) == mask {
			return bits, true
		}
	}
	return 0, false
}

// checkNetworkRights refuses parameters that are reserved to root admins.
func (c *call) checkNetworkRights(n *network) error {
	spec, root := &n.offering.spec, c.caller.rootAdmin()
	for _, p := range []string{"ip6gateway", "ip6cidr", "startipv6", "endipv6"} {
		if c.has(p) && n.typ != typeShared {
			return invalid("Can only support create IPv6 network with advance shared network!")
		}
	}
	switch {
	case c.str("isolatedpvlan") != "" && !root:
		return invalid("Only ROOT admin is allowed to create Private VLAN network")
	case c.str("isolatedpvlan") != "" && n.typ == typeIsolated:
		return invalid("Can only support create Private VLAN network with advanced shared or L2 network!")
	case c.str("isolatedpvlan") != "" && c.str("vlan") == "":
		return invalid("VLAN ID has to be set in order to configure a Private VLAN")
	case !root && n.typ == typeShared && spec.SpecifyVlan:
		return invalid("This user can only create an Isolated network, a L2 network or a Shared network with specifyVlan=false.")
	case n.typ == typeShared && !spec.SpecifyVlan && c.has("vlan"):
		return invalid("Cannot specify vlanId when create a network from network offering with specifyvlan=false")
	case !root && (spec.SpecifyVlan || c.has("vlan") || c.boolean("bypassvlanoverlapcheck")):
		return invalid("Only ROOT admin is allowed to specify vlanId or bypass vlan overlap check")
	case !root && n.cidr.IsValid() && n.cidr.Bits() < smallestGuestBits:
		return invalid("Cidr size can't be less than %d", smallestGuestBits)
	case c.has("cidrsize") && n.typ != typeIsolated:
		return invalid("network cidr size is only applicable on Isolated networks")
	case c.has("cidrsize") && n.cidr.IsValid():
		return invalid("network cidr and cidr size are mutually exclusive")
	case c.has("cidrsize"):
		return invalid("network cidr size is only applicable on Isolated networks with Routed mode")
	}
	return nil
}

// smallestGuestBits is network.guest.cidr.limit, the smallest prefix length that users may choose.
const smallestGuestBits = 22

// checkNetworkServices checks the offering's providers and the parameters that depend on its services.
func (c *call) checkNetworkServices(n *network) error {
	o := n.offering
	for i := range o.services {
		for _, p := range o.services[i].Provider {
			if !enabledProviders[p.Name] {
				return c.internal(4390, "Provider %s is either not enabled or doesn't support service %s on physical network id=%d", p.Name, o.services[i].Name, n.zone.id)
			}
		}
	}
	if c.has("startip") && n.cidr.IsValid() && (n.typ == typeShared || n.typ == typeIsolated && !n.provides("SourceNat")) && !o.spec.SpecifyIPs {
		return invalid("Network offering with specified id doesn't support adding multiple ip ranges")
	}
	if n.first.IsValid() && o.spec.SpecifyIPs {
		switch {
		case !n.cidr.Contains(n.first):
			return invalid("Please ensure that your start IP is in the same subnet as your gateway's IP range.")
		case !n.cidr.Contains(n.last):
			return invalid("Please ensure that your end IP is in the same subnet as your gateway's IP range.")
		case n.last.Less(n.first):
			return invalid("Please ensure that your start IP is less than the end IP.")
		}
	} else {
		n.first, n.last = netip.Addr{}, netip.Addr{} // other offerings ignore the range
	}
	if n.dns1 != "" || n.dns2 != "" {
		switch {
		case n.typ == typeL2:
			return invalid("DNS can not be specified for L2 networks")
		case n.vpc != nil:
			return invalid("DNS can not be specified for a VPC tier")
		case !n.provides("Dns"):
			return invalid("DNS can not be specified for networks with network offering that do not support DNS service")
		}
		return c.checkDNSPair(n.dns1, n.dns2)
	}
	if n.base != nil && n.base.owner != nil && !c.access(n.base.owner) {
		return denied()
	}
	return nil
}

// checkGuestNetwork runs the checks that apply to every guest network, and sets its VLAN, CIDR and network domain.
func (c *call) checkGuestNetwork(n *network) error {
	if n.offering.spec.State != "Enabled" {
		return invalid("Can't use specified network offering id as its state is not Enabled")
	}
	if n.owner != nil {
		if err := c.checkLimit(n.owner, "networks", 1); err != nil {
			return err
		}
	}
	if err := c.checkVLAN(n); err != nil {
		return err
	}
	if n.domainName == "" && n.provides("Dns") {
		n.domainName = n.zone.systemDomain()
		if n.owner != nil {
			n.domainName = c.st.networkDomainOf(n.owner, n.zone)
		}
	}
	if n.domainName != "" && !validDomainName(n.domainName) {
		return badNetworkDomain()
	}
	switch {
	case n.typ == typeL2:
		n.cidr, n.gateway = netip.Prefix{}, ""
		return nil
	case n.cidr.IsValid() && n.typ == typeIsolated && !guestCIDR(n.cidr):
		return invalid("Virtual Guest Cidr %s is not RFC 1918 or 6598 compliant", n.cidr)
	case n.cidr.IsValid():
		return nil
	case n.typ == typeShared:
		return invalid("Gateway/netmask are required when creating Shared networks.")
	case !n.provides("SourceNat"):
		return invalid("gateway/netmask are required when create network of type Isolated with service SourceNat disabled")
	}
	n.cidr = netip.MustParsePrefix(n.zone.guestCIDR)
	n.gateway = n.cidr.Addr().Next().String()
	return nil
}

// checkVLAN checks the VLAN that the admin specified, or allocates one for a shared network.
func (c *call) checkVLAN(n *network) error {
	spec, given := &n.offering.spec, c.has("vlan")
	switch {
	case given && !spec.SpecifyVlan:
		return invalid("Can't specify vlan; corresponding offering says specifyVlan=false")
	case !given && spec.SpecifyVlan:
		return invalid("Vlan has to be specified; corresponding offering says specifyVlan=true")
	case !given && n.typ == typeShared:
		n.vlan, n.state = c.st.freeVLAN(n.zone), netSetup
		return nil
	case !given:
		return nil
	}
	text := strings.TrimPrefix(strings.ToLower(c.str("vlan")), "vlan://")
	n.givenVLAN, n.state = true, netSetup
	if text == "untagged" {
		return nil
	}
	v, err := strconv.Atoi(text)
	if err != nil || v < 0 || v > 4094 {
		return invalid("Invalid vlan id: %s", c.str("vlan"))
	}
	n.vlan = v
	bypass := c.boolean("bypassvlanoverlapcheck") && n.typ == typeShared
	if v >= firstGuestVLAN && v <= lastGuestVLAN && !bypass {
		return invalid("The VLAN tag to use for new guest network, %s is already being used for dynamic vlan allocation for the guest network in zone %s", text, n.zone.name)
	}
	for _, o := range c.st.networks.rows {
		switch {
		case o.removed || o.zone != n.zone || o.vlan != v || o.state == netAllocated:
		case n.typ != typeShared && !bypass:
			return invalid("Network with vlan %s already exists or overlaps with other network vlans in zone %s", text, n.zone.text())
		case n.typ == typeShared && o.typ == typeIsolated && !bypass:
			return invalid("There is an existing isolated/shared network that overlaps with vlan id:%s in zone %s", text, n.zone.text())
		}
	}
	return nil
}

// giveSourceNAT allocates the requested address as the network's source NAT address.
func (c *call) giveSourceNAT(n *network) error {
	want := c.str("sourcenatipaddress")
	if want == "" || n.owner == nil || !n.provides("SourceNat") || n.vpc != nil {
		return nil
	}
	if err := c.checkLimit(n.owner, "publicIPs", 1); err != nil {
		return err
	}
	ip, ok := c.st.addressNamed(n.zone, want)
	if !ok || ip.state != ipFree {
		return errf(codeCapacity, csGeneric, "Insufficient address capacity")
	}
	c.st.takeIP(ip, n.owner, c.now)
	ip.state, ip.network, ip.sourceNAT = ipAllocated, n, true
	return nil
}
