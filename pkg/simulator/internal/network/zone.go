// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
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
	return wire.List(c, "zone", c.St.Zones.Rows, func(z *store.Zone) bool {
		return (z.Enabled || named || c.Caller.RootAdmin()) &&
			c.Is("name", z.Name) &&
			c.Like("keyword", z.Name) &&
			!c.Given("domainid") && // no zone is dedicated to a domain
			(c.BoolOr("available", true) || hasRouter(c, z)) &&
			len(c.TagFilter()) == 0 // zones have no tags
	}, func(z *store.Zone) zoneView { return viewZone(c, z) })
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
		ID:              z.UUID,
		Name:            z.Name,
		NetworkType:     "Advanced",
		AllocationState: "Enabled",
		ZoneToken:       z.Zonetoken,
		DHCPProvider:    "VirtualRouter",
		Tags:            []wire.TagView{},
		PrivateMTU:      1500,
		PublicMTU:       1500,
		Type:            "Core",
		RoutedMode:      true,
	}
	if !z.Enabled {
		v.AllocationState = "Disabled"
	}
	if c.Caller.RootAdmin() {
		v.DNS1, v.InternalDNS1, v.GuestCIDR = z.DNS1, z.InternalDNS1, z.GuestCIDR
	}
	return v
}
