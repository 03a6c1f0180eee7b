// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"strings"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// routerView is the API object router.
type routerView struct {
	ID            string          `json:"id"`
	ZoneID        string          `json:"zoneid"`
	ZoneName      string          `json:"zonename"`
	DNS1          string          `json:"dns1"`
	DNS2          string          `json:"dns2,omitempty"`
	NetworkDomain string          `json:"networkdomain,omitempty"`
	Gateway       string          `json:"gateway,omitempty"`
	Name          string          `json:"name"`
	HostID        string          `json:"hostid,omitempty"`
	HostName      string          `json:"hostname,omitempty"`
	HostControl   string          `json:"hostcontrolstate,omitempty"`
	Hypervisor    string          `json:"hypervisor"`
	PublicNetwork string          `json:"publicnetworkid,omitempty"`
	PublicIP      string          `json:"publicip,omitempty"`
	PublicMask    string          `json:"publicnetmask,omitempty"`
	GuestIP       string          `json:"guestipaddress,omitempty"`
	GuestMask     string          `json:"guestnetmask,omitempty"`
	GuestNetwork  string          `json:"guestnetworkid,omitempty"`
	GuestName     string          `json:"guestnetworkname,omitempty"`
	Created       *wire.Timestamp `json:"created"`
	State         string          `json:"state"`
	wire.OwnerView
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

func listRouters(c *wire.Call) (any, error) {
	in, err := c.OwnerScope(c.Has("id"))
	if err != nil {
		return nil, err
	}
	wide := c.Boolean("listall") && !c.Has("account") && !c.Given("projectid")
	var out []store.Router
	for _, r := range c.St.Routers() {
		switch {
		case r.Owner != nil && !in(r.Owner), r.Owner == nil && !wide && !c.Has("id"): // a domain's network is owned by the system account
		case c.Has("id") && !strings.EqualFold(c.Str("id"), r.ID), c.Has("name") && !strings.EqualFold(c.Str("name"), r.Name):
		case !wire.Matches(c, "zoneid", r.Zone), c.Given("networkid") && !r.Serves(wire.Arg[*store.Network](c, "networkid")):
		case c.Given("vpcid") && r.VPC != wire.Arg[*store.VPC](c, "vpcid"), c.Has("forvpc") && c.Boolean("forvpc") != (r.VPC != nil):
		case c.Has("state") && !strings.EqualFold(c.Str("state"), store.VMRunning), c.Has("healthchecksfailed") && c.Boolean("healthchecksfailed"):
		case c.Has("keyword") && !store.Like(r.Name, c.Str("keyword")):
		case c.Given("hostid") && c.St.HostOf(r) != wire.Arg[*store.Host](c, "hostid"), c.Given("podid"), c.Given("clusterid"):
		default:
			out = append(out, r)
		}
	}
	return wire.Page(c, "router", out, func(r store.Router) routerView { return viewRouter(c, r) })
}

func viewRouter(c *wire.Call, r store.Router) routerView {
	v := routerView{
		ID: r.ID, ZoneID: r.Zone.UUID, ZoneName: r.Zone.Name, DNS1: r.Zone.DNS1, DNS2: r.Zone.DNS2, Name: r.Name, Hypervisor: "Simulator", Created: wire.Stamp(r.Created),
		State: store.VMRunning, RedundantState: "UNKNOWN", Role: "VIRTUAL_ROUTER", NICs: []struct{}{},
	}
	if h := c.St.HostOf(r); h != nil {
		v.HostID, v.HostName, v.HostControl = h.UUID, h.Name, "Enabled"
	}
	if r.Public != nil {
		_, gw := publicGateway(r.Public.Addr)
		v.PublicNetwork, v.PublicIP, v.PublicMask, v.Gateway = r.Zone.PublicNetID, r.Public.Addr.String(), wire.Netmask(24), gw.String()
	}
	if r.Owner != nil {
		v.OwnerView = wire.ViewOwner(r.Owner)
	}
	if n := r.Network; n != nil {
		v.GuestIP, v.GuestMask, v.GuestNetwork, v.GuestName, v.NetworkDomain = n.Gateway, wire.Netmask(n.CIDR.Bits()), n.UUID, n.Name, n.DomainName
		v.Redundant = n.Redundant
	}
	if p := r.VPC; p != nil {
		v.VPCID, v.VPCName, v.NetworkDomain, v.Redundant = p.UUID, p.Name, p.DomainName, p.Redundant
	}
	return v
}
