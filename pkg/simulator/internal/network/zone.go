// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"strings"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

type zoneView struct {
	ID              string         `json:"id"`
	Name            string         `json:"name"`
	DNS1            string         `json:"dns1,omitempty"`
	InternalDNS1    string         `json:"internaldns1,omitempty"`
	GuestCIDR       string         `json:"guestcidraddress,omitempty"`
	NetworkType     string         `json:"networktype"`
	SecurityGroups  bool           `json:"securitygroupsenabled"`
	GPUTotal        int            `json:"gputotal"`
	GPUUsed         int            `json:"gpuused"`
	AllocationState string         `json:"allocationstate"`
	ZoneToken       string         `json:"zonetoken"`
	DHCPProvider    string         `json:"dhcpprovider"`
	LocalStorage    bool           `json:"localstorageenabled"`
	Tags            []wire.TagView `json:"tags"`
	UserVRMTU       bool           `json:"allowuserspecifyvrmtu"`
	PrivateMTU      int            `json:"routerprivateinterfacemaxmtu"`
	PublicMTU       int            `json:"routerpublicinterfacemaxmtu"`
	Type            string         `json:"type"`
	NSX             bool           `json:"isnsxenabled"`
	MultiArch       bool           `json:"ismultiarch"`
	ASNRange        string         `json:"asnrange"`
	RoutedMode      bool           `json:"routedmodeenabled"`
	HasAnnotations  bool           `json:"hasannotations"`
}

func listZones(c *wire.Call) (any, error) {
	named := c.ByID() || c.Str("name") != ""
	ids := map[*store.Zone]bool{}
	for _, r := range c.Lists["ids"] {
		if z, ok := r.Obj.(*store.Zone); ok {
			ids[z] = true
		}
	}
	var out []*store.Zone
	for _, z := range c.St.Zones.Rows {
		switch {
		case z.Removed || !wire.Matches(c, "id", z) || len(c.Lists["ids"]) > 0 && !ids[z]:
		case !z.Enabled && !named && !c.Caller.RootAdmin():
		case c.Has("name") && !strings.EqualFold(c.Str("name"), z.Name):
		case c.Has("keyword") && !store.Like(z.Name, c.Str("keyword")):
		case c.Has("networktype") && !strings.EqualFold(c.Str("networktype"), "Advanced"):
		case c.Given("domainid"): // no zone is dedicated to a domain
		case c.Has("available") && !c.Boolean("available") && !hasRouter(c, z):
		case len(c.TagFilter()) > 0: // zones have no tags
		default:
			out = append(out, z)
		}
	}
	return wire.Page(c, "zone", out, func(z *store.Zone) zoneView { return viewZone(c, z) })
}

// hasRouter reports whether the caller's account has virtual routers in the zone.
func hasRouter(c *wire.Call, z *store.Zone) bool {
	_, ok := c.St.Networks.Find(func(n *store.Network) bool {
		return n.Zone == z && n.Owner == c.Caller.Account && n.State == store.NetImplemented
	})
	return ok
}

func viewZone(c *wire.Call, z *store.Zone) zoneView {
	v := zoneView{
		ID: z.UUID, Name: z.Name, NetworkType: "Advanced", AllocationState: "Enabled", ZoneToken: z.Zonetoken,
		DHCPProvider: "VirtualRouter", Tags: []wire.TagView{}, PrivateMTU: 1500, PublicMTU: 1500, Type: "Core", RoutedMode: true,
	}
	if !z.Enabled {
		v.AllocationState = "Disabled"
	}
	if c.Caller.RootAdmin() {
		v.DNS1, v.InternalDNS1, v.GuestCIDR = z.DNS1, z.InternalDNS1, z.GuestCIDR
	}
	return v
}
