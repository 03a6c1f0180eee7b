// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"strings"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// vpcView is the API object vpc.
type vpcView struct {
	ID           string             `json:"id"`
	Name         string             `json:"name"`
	DisplayText  string             `json:"displaytext"`
	State        string             `json:"state"`
	ZoneID       string             `json:"zoneid"`
	ZoneName     string             `json:"zonename"`
	Services     []store.VPCService `json:"service"`
	CIDR         string             `json:"cidr"`
	OfferingID   string             `json:"vpcofferingid"`
	OfferingName string             `json:"vpcofferingname"`
	Created      *wire.Timestamp    `json:"created"`
	wire.OwnerView
	Networks       []networkView  `json:"network"`
	Restart        bool           `json:"restartrequired"`
	NetworkDomain  string         `json:"networkdomain"`
	ForDisplay     *bool          `json:"fordisplay,omitempty"`
	Tags           []wire.TagView `json:"tags"`
	Distributed    bool           `json:"distributedvpcrouter"`
	RegionLevel    bool           `json:"regionlevelvpc"`
	Redundant      bool           `json:"redundantvpcrouter"`
	PublicMTU      int            `json:"publicmtu"`
	HasAnnotations bool           `json:"hasannotations"`
}

// serviceNames are the network services by which lists can be filtered.
var serviceNames = store.SetOf("Vpn", "Dhcp", "Dns", "Gateway", "Firewall", "Lb", "UserData", "SourceNat", "StaticNat",
	"PortForwarding", "SecurityGroup", "NetworkACL", "Connectivity", "CustomAction")

func listVPCs(c *wire.Call) (any, error) {
	for _, s := range c.List("supportedservices") {
		if !serviceNames[s] {
			return nil, wire.Invalid("Invalid service specified %s", s)
		}
	}

	in, err := c.OwnerScope(c.ByID())
	if err != nil {
		return nil, err
	}

	return wire.List(c, "vpc", wire.Newest(c.St.VPCs.Rows), func(v *store.VPC) bool {
		return in(v.Owner) &&
			wire.Matches(c, "zoneid", v.Zone) &&
			c.Like("name", v.Name) &&
			c.Like("displaytext", v.Display) &&
			c.Like("keyword", v.Name, v.Display) &&
			(!c.Has("cidr") || c.Str("cidr") == v.CIDR) &&
			c.Is("state", stateText(v)) &&
			wire.Matches(c, "vpcofferingid", v.Offering) &&
			(!c.Has("restartrequired") || !c.Boolean("restartrequired")) &&
			v.HasTags(c.TagFilter()) &&
			v.Offering.HasAll(c.List("supportedservices")) &&
			(!c.Has("fordisplay") || c.Boolean("fordisplay"))
	}, func(v *store.VPC) vpcView { return viewVPC(c, v) })
}

func stateText(v *store.VPC) string {
	if v.Enabled {
		return "Enabled"
	}
	return "Inactive"
}

func viewVPC(c *wire.Call, v *store.VPC) vpcView {
	out := vpcView{
		ID:            v.UUID,
		Name:          v.Name,
		DisplayText:   v.Display,
		State:         stateText(v),
		ZoneID:        v.Zone.UUID,
		ZoneName:      v.Zone.Name,
		Services:      v.Offering.Services,
		CIDR:          v.CIDR,
		OfferingID:    v.Offering.UUID,
		OfferingName:  v.Offering.Name,
		Created:       wire.Stamp(v.Created),
		OwnerView:     wire.ViewOwner(v.Owner),
		NetworkDomain: v.DomainName,
		Tags:          wire.ViewTags(&v.Tagged),
		PublicMTU:     1500,
		Redundant:     v.Redundant,
		Networks:      []networkView{},
	}

	for _, n := range c.St.Tiers(v) {
		out.Networks = append(out.Networks, viewNetwork(c, n))
	}

	if c.Caller.RootAdmin() {
		out.ForDisplay = wire.Ptr(true)
	}

	return out
}

// vpcOfferingView is the API object vpcoffering.
type vpcOfferingView struct {
	ID          string             `json:"id"`
	Name        string             `json:"name"`
	Created     *wire.Timestamp    `json:"created"`
	DisplayText string             `json:"displaytext"`
	IsDefault   bool               `json:"isdefault"`
	State       string             `json:"state"`
	Services    []store.VPCService `json:"service"`
	Distributed bool               `json:"distributedvpcrouter"`
	RegionLevel bool               `json:"supportsregionLevelvpc"`
	NetworkMode string             `json:"networkmode,omitempty"`
	SpecifyAS   bool               `json:"specifyasnumber"`
	Protocol    string             `json:"internetprotocol"`
	ForNSX      bool               `json:"fornsx"`
}

func listVPCOfferings(c *wire.Call) (any, error) {
	return wire.List(c, "vpcoffering", c.St.VPCOffs.Rows, func(o *store.VPCOffering) bool {
		return c.Like("name", o.Name) &&
			c.Like("displaytext", o.Display) &&
			(!c.Has("keyword") ||
				store.Like(o.Name, c.Str("keyword")) ||
				store.Like(o.Display, c.Str("keyword")) ||
				strings.EqualFold(c.Str("keyword"), "Enabled")) &&
			c.Flag("isdefault", o.IsDefault()) &&
			c.Is("state", "Enabled") &&
			o.HasAll(c.List("supportedservices"))
	}, func(o *store.VPCOffering) vpcOfferingView {
		return vpcOfferingView{
			ID:          o.UUID,
			Name:        o.Name,
			Created:     wire.Stamp(o.Created),
			DisplayText: o.Display,
			IsDefault:   o.IsDefault(),
			State:       "Enabled",
			Services:    o.Services,
			NetworkMode: o.Mode,
			Protocol:    "IPv4",
			ForNSX:      o.Provides("SourceNat", "Nsx"),
		}
	})
}
