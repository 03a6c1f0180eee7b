// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import "strings"

type zoneView struct {
	ID              string    `json:"id"`
	Name            string    `json:"name"`
	Description     string    `json:"description,omitempty"`
	DNS1            string    `json:"dns1,omitempty"`
	DNS2            string    `json:"dns2,omitempty"`
	InternalDNS1    string    `json:"internaldns1,omitempty"`
	GuestCIDR       string    `json:"guestcidraddress,omitempty"`
	NetworkType     string    `json:"networktype"`
	SecurityGroups  bool      `json:"securitygroupsenabled"`
	GPUTotal        int       `json:"gputotal"`
	GPUUsed         int       `json:"gpuused"`
	AllocationState string    `json:"allocationstate"`
	ZoneToken       string    `json:"zonetoken"`
	DHCPProvider    string    `json:"dhcpprovider"`
	LocalStorage    bool      `json:"localstorageenabled"`
	Tags            []tagView `json:"tags"`
	UserVRMTU       bool      `json:"allowuserspecifyvrmtu"`
	PrivateMTU      int       `json:"routerprivateinterfacemaxmtu"`
	PublicMTU       int       `json:"routerpublicinterfacemaxmtu"`
	Type            string    `json:"type"`
	NSX             bool      `json:"isnsxenabled"`
	MultiArch       bool      `json:"ismultiarch"`
	ASNRange        string    `json:"asnrange"`
	RoutedMode      bool      `json:"routedmodeenabled"`
	HasAnnotations  bool      `json:"hasannotations"`
}

func listZones(c *call) (any, error) {
	named := c.byID() || c.str("name") != ""
	ids := map[*zone]bool{}
	for _, r := range c.lists["ids"] {
		if z, ok := r.obj.(*zone); ok {
			ids[z] = true
		}
	}
	var out []*zone
	for _, z := range c.st.zones.rows {
		switch {
		case z.removed || !matches(c, "id", z) || len(c.lists["ids"]) > 0 && !ids[z]:
		case !z.enabled && !named && !c.caller.rootAdmin():
		case c.has("name") && !strings.EqualFold(c.str("name"), z.name):
		case c.has("keyword") && !like(z.name, c.str("keyword")) && !like(z.description, c.str("keyword")):
		case c.has("networktype") && !strings.EqualFold(c.str("networktype"), "Advanced"):
		case c.given("domainid"): // no zone is dedicated to a domain
		case c.has("available") && !c.boolean("available") && !c.hasRouter(z):
		case !z.hasTags(c.tagFilter()):
		default:
			out = append(out, z)
		}
	}
	return page(c, "zone", out, c.viewZone)
}

// hasRouter reports whether the caller's account has virtual routers in the zone.
func (c *call) hasRouter(z *zone) bool {
	_, ok := c.st.networks.find(func(n *network) bool {
		return n.zone == z && n.owner == c.caller.account && n.state == netImplemented
	})
	return ok
}

func (c *call) viewZone(z *zone) zoneView {
	v := zoneView{
		ID: z.uuid, Name: z.name, Description: z.description, NetworkType: "Advanced", AllocationState: "Enabled", ZoneToken: z.zonetoken,
		DHCPProvider: "VirtualRouter", Tags: viewTags(&z.tagged), PrivateMTU: 1500, PublicMTU: 1500, Type: "Core", RoutedMode: true,
	}
	if !z.enabled {
		v.AllocationState = "Disabled"
	}
	if c.caller.rootAdmin() {
		v.DNS1, v.DNS2, v.InternalDNS1, v.GuestCIDR = z.dns1, z.dns2, z.internalDNS1, z.guestCIDR
	}
	return v
}

// region is the only region of a fresh installation.
type region struct {
	ID       int    `json:"id"`
	Name     string `json:"name"`
	Endpoint string `json:"endpoint"`
	GSLB     bool   `json:"gslbserviceenabled"`
	Portable bool   `json:"portableipserviceenabled"`
}

func listRegions(c *call) (any, error) {
	var out []region
	local := region{ID: 1, Name: "Local", Endpoint: "http://localhost:8080/client/", GSLB: true}
	if (!c.has("id") || c.integer("id") == local.ID) && (!c.has("name") || strings.EqualFold(c.str("name"), local.Name)) {
		out = append(out, local)
	}
	return page(c, "region", out, func(r region) region { return r })
}
