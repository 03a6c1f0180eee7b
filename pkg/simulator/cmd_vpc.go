// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"slices"
	"strings"
)

var vpcCommands = []command{
	{name: "listVPCs", refs: map[string]refKind{"id": refVPC}, run: listVPCs},
}

type vpcService struct {
	Name     string     `json:"name"`
	Provider []nameView `json:"provider"`
}

// vpcServices are those of the default VPC offering.
var vpcServices = func() []vpcService {
	var out []vpcService
	for _, s := range []string{"Vpn", "StaticNat", "NetworkACL", "PortForwarding", "UserData", "Dns", "Lb", "Dhcp", "SourceNat"} {
		v := vpcService{Name: s, Provider: []nameView{{"VpcVirtualRouter"}}}
		if s == "Lb" {
			v.Provider = append(v.Provider, nameView{"InternalLbVm"})
		}
		out = append(out, v)
	}
	return out
}()

// vpcView is the object vpc.
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
	ForDisplay     *bool         `json:"fordisplay,omitempty"`
	Tags           []tagView     `json:"tags"`
	Distributed    bool          `json:"distributedvpcrouter"`
	RegionLevel    bool          `json:"regionlevelvpc"`
	Redundant      bool          `json:"redundantvpcrouter"`
	PublicMTU      int           `json:"publicmtu"`
	HasAnnotations bool          `json:"hasannotations"`
}

func listVPCs(c *call) (any, error) {
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
		case c.given("vpcofferingid"), c.has("restartrequired") && c.boolean("restartrequired"):
		case !v.hasTags(c.tagFilter()) || !vpcHasAll(c.list("supportedservices")):
		default:
			out = append(out, v)
		}
	}
	return page(c, "vpc", out, c.viewVPC)
}

func vpcHasAll(services []string) bool {
	return !slices.ContainsFunc(services, func(s string) bool {
		return !slices.ContainsFunc(vpcServices, func(v vpcService) bool { return v.Name == s })
	})
}

func (v *vpc) stateText() string {
	if v.enabled {
		return "Enabled"
	}
	return "Inactive"
}

func (c *call) viewVPC(v *vpc) vpcView {
	out := vpcView{
		ID: v.uuid, Name: v.name, DisplayText: v.display, State: v.stateText(), ZoneID: v.zone.uuid, ZoneName: v.zone.name, Services: vpcServices,
		CIDR: v.cidr, OfferingID: v.offeringID, OfferingName: v.offeringName, Created: stamp(v.created), ownerView: viewOwner(v.owner),
		NetworkDomain: v.domainName, Tags: viewTags(&v.tagged), PublicMTU: 1500, Networks: []networkView{},
	}
	for _, n := range c.st.networks.rows {
		if n.vpc == v && !n.removed {
			out.Networks = append(out.Networks, c.viewNetwork(n))
		}
	}
	if c.caller.rootAdmin() {
		out.ForDisplay = ptr(true)
	}
	return out
}
