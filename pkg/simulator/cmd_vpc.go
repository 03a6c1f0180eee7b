// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"slices"
	"strings"
)

// vpcView is the API object vpc.
type vpcView struct {
	ID           string       `json:"id"`
	Name         string       `json:"name"`
	DisplayText  string       `json:"displaytext"`
	State        string       `json:"state"`
	ZoneID       string       `json:"zoneid"`
	ZoneName     string       `json:"zonename"`
	Services     []vpcService `json:"service"`
	CIDR         string       `json:"cidr"`
	OfferingID   string       `json:"vpcofferingid"`
	OfferingName string       `json:"vpcofferingname"`
	Created      *timestamp   `json:"created"`
	ownerView
	Networks       []networkView `json:"network"`
	Restart        bool          `json:"restartrequired"`
	NetworkDomain  string        `json:"networkdomain"`
	DNS1           string        `json:"dns1,omitempty"`
	DNS2           string        `json:"dns2,omitempty"`
	ForDisplay     *bool         `json:"fordisplay,omitempty"`
	Tags           []tagView     `json:"tags"`
	Distributed    bool          `json:"distributedvpcrouter"`
	RegionLevel    bool          `json:"regionlevelvpc"`
	Redundant      bool          `json:"redundantvpcrouter"`
	PublicMTU      int           `json:"publicmtu"`
	HasAnnotations bool          `json:"hasannotations"`
}

// serviceNames are the network services by which lists can be filtered.
var serviceNames = setOf("Vpn", "Dhcp", "Dns", "Gateway", "Firewall", "Lb", "UserData", "SourceNat", "StaticNat", "PortForwarding", "SecurityGroup",
	"NetworkACL", "Connectivity", "CustomAction")

func listVPCs(c *call) (any, error) {
	for _, s := range c.list("supportedservices") {
		if !serviceNames[s] {
			return nil, invalid("Invalid service specified %s", s)
		}
	}
	in, err := c.ownerScope(c.byID())
	if err != nil {
		return nil, err
	}
	var out []*vpc
	for _, v := range slices.Backward(c.st.vpcs.rows) {
		switch {
		case v.removed || !in(v.owner) || !matches(c, "id", v) || !matches(c, "zoneid", v.zone):
		case c.has("name") && !like(v.name, c.str("name")), c.has("displaytext") && !like(v.display, c.str("displaytext")):
		case c.has("keyword") && !like(v.name, c.str("keyword")) && !like(v.display, c.str("keyword")):
		case c.has("cidr") && c.str("cidr") != v.cidr, c.has("state") && !strings.EqualFold(c.str("state"), v.stateText()):
		case !matches(c, "vpcofferingid", v.offering), c.has("restartrequired") && c.boolean("restartrequired"):
		case !v.hasTags(c.tagFilter()) || !v.offering.hasAll(c.list("supportedservices")) || !c.visible("fordisplay", v.hidden):
		default:
			out = append(out, v)
		}
	}
	return page(c, "vpc", out, c.viewVPC)
}

func (v *vpc) stateText() string {
	if v.enabled {
		return "Enabled"
	}
	return "Inactive"
}

func (c *call) viewVPC(v *vpc) vpcView {
	out := vpcView{
		ID: v.uuid, Name: v.name, DisplayText: v.display, State: v.stateText(), ZoneID: v.zone.uuid, ZoneName: v.zone.name, Services: v.offering.services,
		CIDR: v.cidr, OfferingID: v.offering.uuid, OfferingName: v.offering.name, Created: stamp(v.created), ownerView: viewOwner(v.owner),
		NetworkDomain: v.domainName, DNS1: v.dns1, DNS2: v.dns2, Tags: viewTags(&v.tagged), PublicMTU: cmp.Or(v.mtu, 1500),
		Redundant: v.redundant, Networks: []networkView{},
	}
	for _, n := range c.st.tiers(v) {
		out.Networks = append(out.Networks, c.viewNetwork(n))
	}
	if c.caller.rootAdmin() {
		out.ForDisplay = ptr(!v.hidden)
	}
	return out
}
