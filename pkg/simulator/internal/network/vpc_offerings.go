// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"strings"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

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
}

func listVPCOfferings(c *wire.Call) (any, error) {
	var out []*store.VPCOffering
	for _, o := range c.St.VPCOffs.Rows {
		switch {
		case o.Removed || !wire.Matches(c, "id", o):
		case c.Has("name") && !store.Like(o.Name, c.Str("name")), c.Has("displaytext") && !store.Like(o.Display, c.Str("displaytext")):
		case c.Has("keyword") && !store.Like(o.Name, c.Str("keyword")) && !store.Like(o.Display, c.Str("keyword")) && !strings.EqualFold(c.Str("keyword"), "Enabled"):
		case c.Has("isdefault") && c.Boolean("isdefault") != (o.Name == store.VPCOfferingName):
		case c.Has("state") && !strings.EqualFold(c.Str("state"), "Enabled"), !o.HasAll(c.List("supportedservices")):
		default:
			out = append(out, o)
		}
	}
	return wire.Page(c, "vpcoffering", out, func(o *store.VPCOffering) vpcOfferingView {
		return vpcOfferingView{
			ID: o.UUID, Name: o.Name, Created: wire.Stamp(o.Created), DisplayText: o.Display, IsDefault: o.Name == store.VPCOfferingName, State: "Enabled",
			Services: o.Services, NetworkMode: o.Mode, Protocol: "IPv4",
		}
	})
}
