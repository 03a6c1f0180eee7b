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
	ForNSX      bool               `json:"fornsx"`
}

func listVPCOfferings(c *wire.Call) (any, error) {
	return wire.List(c, "vpcoffering", c.St.VPCOffs.Rows, func(o *store.VPCOffering) bool {
		return c.Like("name", o.Name) && c.Like("displaytext", o.Display) &&
			(!c.Has("keyword") || store.Like(o.Name, c.Str("keyword")) || store.Like(o.Display, c.Str("keyword")) || strings.EqualFold(c.Str("keyword"), "Enabled")) &&
			c.Flag("isdefault", o.IsDefault()) && c.Is("state", "Enabled") && o.HasAll(c.List("supportedservices"))
	}, func(o *store.VPCOffering) vpcOfferingView {
		return vpcOfferingView{
			ID: o.UUID, Name: o.Name, Created: wire.Stamp(o.Created), DisplayText: o.Display, IsDefault: o.IsDefault(), State: "Enabled",
			Services: o.Services, NetworkMode: o.Mode, Protocol: "IPv4", ForNSX: o.Provides("SourceNat", "Nsx"),
		}
	})
}
