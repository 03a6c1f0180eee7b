// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// router is the virtual router of a network or of a VPC. It has no row of its own: it exists while its network is
// implemented or its VPC is started.
type router struct {
	id      string
	name    string
	network *network // nil: the router of a VPC
	vpc     *vpc
	zone    *zone
	owner   *account
	created time.Time
	public  *publicIP
}

// routerView is the API object router.
type routerView struct {
	ID            string     `json:"id"`
	ZoneID        string     `json:"zoneid"`
	ZoneName      string     `json:"zonename"`
	DNS1          string     `json:"dns1"`
	DNS2          string     `json:"dns2,omitempty"`
	NetworkDomain string     `json:"networkdomain,omitempty"`
	Gateway       string     `json:"gateway,omitempty"`
	Name          string     `json:"name"`
	HostID        string     `json:"hostid,omitempty"`
	HostName      string     `json:"hostname,omitempty"`
	HostControl   string     `json:"hostcontrolstate,omitempty"`
	Hypervisor    string     `json:"hypervisor"`
	PublicNetwork string     `json:"publicnetworkid,omitempty"`
	PublicIP      string     `json:"publicip,omitempty"`
	PublicMask    string     `json:"publicnetmask,omitempty"`
	GuestIP       string     `json:"guestipaddress,omitempty"`
	GuestMask     string     `json:"guestnetmask,omitempty"`
	GuestNetwork  string     `json:"guestnetworkid,omitempty"`
	GuestName     string     `json:"guestnetworkname,omitempty"`
	Created       *timestamp `json:"created"`
	State         string     `json:"state"`
	ownerView
	Redundant       bool       `json:"isredundantrouter"`
	RedundantState  string     `json:"redundantstate"`
	VPCID           string     `json:"vpcid,omitempty"`
	VPCName         string     `json:"vpcname,omitempty"`
	Role            string     `json:"role"`
	RequiresUpgrade bool       `json:"requiresupgrade"`
	NICs            []struct{} `json:"nic"`
	ChecksFailed    bool       `json:"healthchecksfailed"`
	HasAnnotations  bool       `json:"hasannotations"`
}

// routers returns all running virtual routers.
func (st *state) routers() []router {
	var out []router
	for _, n := range st.networks.rows {
		running := n.state == netImplemented || n.typ == typeShared && st.inUse(n)
		if n.removed || n.vpc != nil || !running || !n.offering.routed() {
			continue
		}
		r := router{id: stableID("router", n.uuid), name: routerName(n.routerID, n.id), network: n, zone: n.zone, owner: n.owner, created: n.created, public: n.sourceNATIP(st)}
		out = append(out, r)
	}
	for _, v := range st.vpcs.rows {
		if !v.removed && v.started {
			out = append(out, router{
				id: stableID("router", v.uuid), name: routerName(v.routerID, 100000+v.id), vpc: v, zone: v.zone, owner: v.owner, created: v.created, public: v.sourceNATIP(st),
			})
		}
	}
	return out
}

// routerName returns the name of the router with a number. Routers of networks in a world file have no number and use
// other.
func routerName(number, other int64) string {
	if number == 0 {
		number = other
	}
	return fmt.Sprintf("r-%d-VM", number)
}

// routed reports whether a virtual router provides a service of the offering.
func (o *networkOffering) routed() bool {
	return slices.ContainsFunc(o.services, func(s serviceView) bool { return slices.Contains(s.Provider, nameView{"VirtualRouter"}) })
}

// routerFinder finds routers by id.
type routerFinder struct{ st *state }

func (f routerFinder) findUUID(v string) (any, int64) {
	for _, r := range f.st.routers() {
		if strings.EqualFold(r.id, v) {
			return r, 0
		}
	}
	return nil, 0
}

func (routerFinder) findID(int64) any { return nil }

func listRouters(c *call) (any, error) {
	in, err := c.ownerScope(c.has("id"))
	if err != nil {
		return nil, err
	}
	wide := c.boolean("listall") && !c.has("account") && !c.given("projectid")
	var out []router
	for _, r := range c.st.routers() {
		switch {
		case r.owner != nil && !in(r.owner), r.owner == nil && !wide && !c.has("id"): // a domain's network is owned by the system account
		case c.has("id") && !strings.EqualFold(c.str("id"), r.id), c.has("name") && !strings.EqualFold(c.str("name"), r.name):
		case !matches(c, "zoneid", r.zone), c.given("networkid") && !r.serves(arg[*network](c, "networkid")):
		case c.given("vpcid") && r.vpc != arg[*vpc](c, "vpcid"), c.has("forvpc") && c.boolean("forvpc") != (r.vpc != nil):
		case c.has("state") && !strings.EqualFold(c.str("state"), vmRunning), c.has("healthchecksfailed") && c.boolean("healthchecksfailed"):
		case c.has("keyword") && !like(r.name, c.str("keyword")):
		case c.given("hostid") && c.st.hostOf(r) != arg[*host](c, "hostid"), c.given("podid"), c.given("clusterid"):
		default:
			out = append(out, r)
		}
	}
	return page(c, "router", out, c.viewRouter)
}

// serves reports whether this is the router of the network.
func (r router) serves(n *network) bool {
	return n != nil && (r.network == n || r.vpc != nil && n.vpc == r.vpc)
}

func (st *state) hostOf(r router) *host { return st.hostFor(r.zone, int(r.created.Unix()&0xff)) }

func (c *call) viewRouter(r router) routerView {
	v := routerView{
		ID: r.id, ZoneID: r.zone.uuid, ZoneName: r.zone.name, DNS1: r.zone.dns1, DNS2: r.zone.dns2, Name: r.name, Hypervisor: "Simulator", Created: stamp(r.created),
		State: vmRunning, RedundantState: "UNKNOWN", Role: "VIRTUAL_ROUTER", NICs: []struct{}{},
	}
	if h := c.st.hostOf(r); h != nil {
		v.HostID, v.HostName, v.HostControl = h.uuid, h.name, "Enabled"
	}
	if r.public != nil {
		_, gw := publicGateway(r.public.addr)
		v.PublicNetwork, v.PublicIP, v.PublicMask, v.Gateway = r.zone.publicNetID, r.public.addr.String(), netmask(24), gw.String()
	}
	if r.owner != nil {
		v.ownerView = viewOwner(r.owner)
	}
	if n := r.network; n != nil {
		v.GuestIP, v.GuestMask, v.GuestNetwork, v.GuestName, v.NetworkDomain = n.gateway, netmask(n.cidr.Bits()), n.uuid, n.name, n.domainName
		v.Redundant = n.redundant
	}
	if p := r.vpc; p != nil {
		v.VPCID, v.VPCName, v.NetworkDomain, v.Redundant = p.uuid, p.name, p.domainName, p.redundant
	}
	return v
}
