// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// ipView is the API object publicipaddress (ipaddress in job results).
type ipView struct {
	ID        string     `json:"id"`
	IPAddress string     `json:"ipaddress"`
	Allocated *timestamp `json:"allocated,omitempty"`
	ZoneID    string     `json:"zoneid"`
	ZoneName  string     `json:"zonename"`
	SourceNAT bool       `json:"issourcenat"`
	*ownerView
	VirtualNet    bool      `json:"forvirtualnetwork"`
	VLANID        string    `json:"vlanid,omitempty"`
	VLANName      string    `json:"vlanname,omitempty"`
	StaticNAT     bool      `json:"isstaticnat"`
	System        bool      `json:"issystem"`
	VMID          string    `json:"virtualmachineid,omitempty"`
	VMIPAddress   string    `json:"vmipaddress,omitempty"`
	VMName        string    `json:"virtualmachinename,omitempty"`
	VMDisplayName string    `json:"virtualmachinedisplayname,omitempty"`
	VMType        string    `json:"virtualmachinetype,omitempty"`
	AssocNetID    string    `json:"associatednetworkid,omitempty"`
	AssocNetName  string    `json:"associatednetworkname,omitempty"`
	NetworkID     string    `json:"networkid"`
	State         string    `json:"state"`
	PhysicalNet   string    `json:"physicalnetworkid"`
	VPCID         string    `json:"vpcid,omitempty"`
	VPCName       string    `json:"vpcname,omitempty"`
	Purpose       string    `json:"purpose,omitempty"`
	Tags          []tagView `json:"tags"`
	Portable      bool      `json:"isportable"`
	ForDisplay    *bool     `json:"fordisplay,omitempty"`
	HasRules      bool      `json:"hasrules"`
	ForSystemVMs  bool      `json:"forsystemvms"`
	ForProvider   bool      `json:"forprovider"`
	jobRef
	HasAnnotations bool `json:"hasannotations"`
}

func (c *call) viewIP(ip *publicIP) ipView {
	v := ipView{
		ID: ip.uuid, IPAddress: ip.addr.String(), Allocated: stamp(ip.allocated), ZoneID: ip.zone.uuid, ZoneName: ip.zone.name, SourceNAT: ip.sourceNAT,
		VirtualNet: true, StaticNAT: ip.staticVM != nil, System: ip.system, NetworkID: ip.zone.publicNetID, State: ip.state,
		PhysicalNet: ip.zone.physicalNetID, Tags: viewTags(&ip.tagged), HasRules: ip.hasRules(), jobRef: c.st.jobRef(ip),
	}
	if ip.owner != nil {
		o := viewOwner(ip.owner)
		v.ownerView = &o
	}
	if ip.network != nil {
		v.AssocNetID, v.AssocNetName = ip.network.uuid, ip.network.name
	}
	if ip.vpc != nil {
		v.VPCID, v.VPCName = ip.vpc.uuid, ip.vpc.name
	}
	if m := ip.staticVM; m != nil {
		v.VMID, v.VMIPAddress, v.VMName, v.VMDisplayName, v.VMType = m.uuid, ip.staticIP, m.name, m.display, "User"
	}
	if m := ip.systemVM; m != nil {
		v.VMID, v.VMName, v.VMType, v.Purpose = m.uuid, m.name, systemVMTypes[m.typ], "Lb"
	}
	if c.caller.rootAdmin() {
		v.ForDisplay = ptr(!ip.hidden)
		v.VLANID, v.VLANName = ip.zone.vlanID(), fmt.Sprintf("vlan://%d", publicVLAN)
	}
	return v
}

func listPublicIPAddresses(c *call) (any, error) {
	state := c.str("state")
	freeState := strings.EqualFold(state, ipFree) || strings.EqualFold(state, ipReserved)
	allocatedOnly := c.boolOr("allocatedonly", !freeState)
	if freeState && allocatedOnly {
		return nil, invalid("Conflict: allocatedonly is true but state is %s", state)
	}
	in, err := c.ownerScope(c.byID())
	if err != nil {
		return nil, err
	}
	var out []*publicIP
	for _, ip := range c.st.ips.rows {
		switch {
		case ip.owner == nil && allocatedOnly, ip.owner != nil && !in(ip.owner):
		case allocatedOnly && ip.state != ipAllocated, state != "" && !strings.EqualFold(state, ip.state):
		case !c.ipMatches(ip) || !c.visible("fordisplay", ip.hidden):
		default:
			out = append(out, ip)
		}
	}
	slices.SortStableFunc(out, func(a, b *publicIP) int { return a.addr.Compare(b.addr) })
	return page(c, "publicipaddress", out, c.viewIP)
}

func (c *call) ipMatches(ip *publicIP) bool {
	flag := func(name string, is bool) bool { return !c.has(name) || c.boolean(name) == is }
	switch {
	case !matches(c, "id", ip), c.has("ipaddress") && c.str("ipaddress") != ip.addr.String(),
		!flag("issourcenat", ip.sourceNAT), !flag("isstaticnat", ip.staticVM != nil), !matches(c, "zoneid", ip.zone),
		!matches(c, "networkid", ip.zone), // the public network that the address comes from
		c.given("associatednetworkid") && (ip.network == nil || !matches(c, "associatednetworkid", ip.network)),
		c.given("vpcid") && (ip.vpc == nil || !matches(c, "vpcid", ip.vpc)),
		c.has("forloadbalancing") && c.boolean("forloadbalancing") && !ip.hasRules(),
		c.has("forvirtualnetwork") && !c.boolean("forvirtualnetwork"),
		c.has("forsystemvms") && c.boolean("forsystemvms"), c.has("forprovider") && c.boolean("forprovider"),
		!matches(c, "vlanid", ip.zone), !matches(c, "physicalnetworkid", ip.zone),
		c.has("keyword") && !like(ip.addr.String(), c.str("keyword")), !ip.hasTags(c.tagFilter()):
		return false
	}
	return true
}

// addressOwnerKey returns the id of the account whose row associateIpAddress locks.
func (c *call) addressOwnerKey() string {
	if o, err := c.addressOwner(); err == nil {
		return o.uuid
	}
	return c.caller.account.uuid
}

// addressOwner returns the account that will own a new address.
func (c *call) addressOwner() (*account, error) {
	if c.str("account") != "" && c.given("domainid") { // one without the other is ignored
		return c.newOwner()
	}
	if c.given("projectid") {
		p := arg[*project](c, "projectid")
		if p == nil || p.removed {
			return nil, invalid("Unable to find project by id %s", c.projectRef())
		}
		if p.state != projectActive {
			return nil, errf(codeAccount, csPermission, "Can't add resources to the project with specified projectId in state=%s as it's no longer active", p.state)
		}
		return p.account, nil
	}
	if n := arg[*network](c, "networkid"); n != nil {
		if n.owner == nil { // a domain's network is owned by the system account
			return nil, denied()
		}
		return n.owner, nil
	}
	if v := arg[*vpc](c, "vpcid"); v != nil {
		return v.owner, nil
	}
	return c.caller.account, nil
}

func associateIPAddress(c *call) (*jobSpec, error) {
	n, v, z := arg[*network](c, "networkid"), arg[*vpc](c, "vpcid"), arg[*zone](c, "zoneid")
	if v != nil && v.removed {
		v = nil
	}
	if n != nil && n.removed {
		return nil, invalid("Invalid network id is given")
	}
	owner, err := c.addressOwner()
	if err != nil {
		return nil, err
	}
	if !c.access(owner) { // CloudStack checks this first for every command that creates an object
		return nil, denied()
	}
	switch {
	case z != nil:
	case v != nil:
		z = v.zone
	case n != nil:
		z = n.zone
	default:
		return nil, invalid("Unable to figure out zone to assign IP to. Please specify either zoneId, or networkId, or vpcId in the call")
	}
	if n == nil && v == nil {
		if n, err = c.onlyNetwork(owner, z); err != nil {
			return nil, err
		}
	}
	switch {
	case n != nil && n.typ == typeShared && !n.offering.addressServices():
		return nil, invalid("Associate IP address can only be called on the shared networks in the advanced zone with Firewall/Source Nat/Static Nat/Port Forwarding/" +
			"Load balancing services enabled")
	case n != nil && n.typ == typeL2:
		return nil, invalid("Can't acquire IP address for the network of type %s", n.typ)
	}
	if !z.enabled && !c.caller.rootAdmin() {
		return nil, errf(codeAccount, csPermission, "Cannot perform this operation, Zone is currently disabled")
	}
	ip, err := c.reserveAddress(owner, z)
	if err != nil {
		return nil, err
	}
	stuckAllocating := false
	return &jobSpec{
		objectID: ip.uuid, instanceType: "IpAddress", instanceID: ip.uuid,
		run: func(time.Time) (any, error) {
			if ip.owner != owner || ip.state != ipAllocating { // released while the job was pending
				return nil, errf(codeInternal, csRuntime, "Failed to assign ip address")
			}
			if v == nil && n.vpc == nil && n.owner != owner {
				// The address stays in state Allocating, and list commands do not show it by default.
				stuckAllocating = true
				return nil, errf(codeInternal, csPermission, "Unable to use network with id= %s, permission denied", n.uuid)
			}
			return c.attachAddress(ip, n, v)
		},
		undo: func() {
			if !stuckAllocating && ip.owner == owner && ip.state == ipAllocating {
				c.st.release(ip)
			}
		},
	}, nil
}

// onlyNetwork returns the owner's only isolated network in the zone.
func (c *call) onlyNetwork(owner *account, z *zone) (*network, error) {
	var hits []*network
	for _, n := range c.st.networks.rows {
		if n.owner == owner && n.zone == z && n.typ == typeIsolated && !n.removed && n.provides("SourceNat") {
			hits = append(hits, n)
		}
	}
	switch len(hits) {
	case 0:
		return nil, invalid("Account %s doesn't have virtual networks in zone=%s", accountText(owner), z.uuid)
	case 1:
		return hits[0], nil
	}
	return nil, invalid("Account has more than one isolated network in the zone")
}

// reserveAddress is the create phase: it allocates an address to the owner.
func (c *call) reserveAddress(owner *account, z *zone) (*publicIP, error) {
	full := errf(codeCapacity, csGeneric, "Insufficient address capacity")
	if c.boolean("isportable") {
		return nil, full // no region has portable addresses
	}
	ip := c.st.freeIP(z)
	if want, ok := c.args["ipaddress"]; ok {
		ip, _ = c.st.addressNamed(z, want)
	}
	mine := ip != nil && ip.state == ipReserved && ip.owner == owner // already counted
	if ip == nil || ip.state != ipFree && !mine || pick(c.faults, FaultCapacity) != nil {
		return nil, full
	}
	if !mine { // CloudStack checks the limit after it has found an address
		if err := c.checkLimit(owner, "publicIPs", 1); err != nil {
			return nil, err
		}
	}
	c.st.takeIP(ip, owner, c.now)
	ip.hidden = c.has("fordisplay") && !c.boolean("fordisplay")
	return ip, nil
}

// freeIP returns the lowest free address of the zone.
func (st *state) freeIP(z *zone) *publicIP {
	var best *publicIP
	for _, ip := range st.ips.rows {
		if ip.zone == z && ip.state == ipFree && (best == nil || ip.addr.Less(best.addr)) {
			best = ip
		}
	}
	return best
}

// takeIP allocates a free address to an owner, in state Allocating.
func (st *state) takeIP(ip *publicIP, owner *account, now time.Time) {
	ip.state, ip.owner, ip.allocated = ipAllocating, owner, now
}

// addressServices reports whether a shared network of the offering can have public addresses.
func (o *networkOffering) addressServices() bool {
	return slices.ContainsFunc([]string{"SourceNat", "StaticNat", "Firewall", "PortForwarding", "Lb"}, o.has)
}

type ipAnswer struct {
	IP ipView `json:"ipaddress"`
}

// attachAddress is the job of associateIpAddress. If it fails, the address is released.
func (c *call) attachAddress(ip *publicIP, n *network, v *vpc) (any, error) {
	switch {
	case n != nil && n.vpc != nil && v == nil:
		return nil, invalid("Can't assign ip to the network directly when network belongs to VPC.Specify vpcId to associate ip address to VPC")
	case v != nil:
		if v.removed {
			return nil, invalid("Invalid VPC id provided")
		}
		ip.sourceNAT = v.offering.needsSourceNAT() && v.sourceNATIP(c.st) == nil
		ip.state, ip.vpc = ipAllocated, v
		return ipAnswer{c.viewIP(ip)}, nil
	case n.removed:
		return nil, invalid("Invalid network id is given")
	case !n.provides("SourceNat"):
		return nil, invalid("The network id=%d doesn't provide the service SourceNat", n.id)
	}
	ip.network = n
	ip.sourceNAT = n.sourceNATIP(c.st) == nil
	ans := ipAnswer{c.viewIP(ip)} // built before the final state is stored, so it shows Allocating
	ip.state = ipAllocated
	return ans, nil
}
