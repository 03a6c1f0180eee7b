// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"fmt"
	"strconv"

	"github.com/csccm/csccm/pkg/simulator/internal/settings"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// volumeView is the API object volume. Only root disks are simulated.
type volumeView struct {
	ID           string          `json:"id"`
	Name         string          `json:"name"`
	ZoneID       string          `json:"zoneid"`
	ZoneName     string          `json:"zonename"`
	Type         string          `json:"type"`
	DeviceID     int             `json:"deviceid"`
	VMID         string          `json:"virtualmachineid"`
	TemplateID   string          `json:"templateid"`
	TemplateName string          `json:"templatename"`
	TemplateText string          `json:"templatedisplaytext"`
	VMName       string          `json:"vmname"`
	VMDisplay    string          `json:"vmdisplayname"`
	VMState      string          `json:"vmstate"`
	VMType       string          `json:"vmtype"`
	Provisioning string          `json:"provisioningtype"`
	Size         int64           `json:"size"`
	Created      *wire.Timestamp `json:"created"`
	State        string          `json:"state"`
	wire.OwnerView
	KBRead            int            `json:"diskkbsread"`
	KBWritten         int            `json:"diskkbswrite"`
	Reads             int            `json:"diskioread"`
	Writes            int            `json:"diskiowrite"`
	Destroyed         bool           `json:"destroyed"`
	OfferingID        string         `json:"serviceofferingid"` // not a UUID but the id in the database
	OfferingName      string         `json:"serviceofferingname"`
	OfferingText      string         `json:"serviceofferingdisplaytext"`
	Extractable       bool           `json:"isextractable"`
	Quiesce           bool           `json:"quiescevm"`
	SupportsSnapshots bool           `json:"supportsstoragesnapshot"`
	DeleteProtection  bool           `json:"deleteprotection"`
	Tags              []wire.TagView `json:"tags"`
	HasAnnotations    bool           `json:"hasannotations"`
}

func listVolumes(c *wire.Call) (any, error) {
	in, err := c.OwnerScope(false)
	if err != nil {
		return nil, err
	}

	return wire.List(c, "volume", c.St.VMs.Rows, func(v *store.VM) bool {
		return in(v.Owner) && wire.Matches(c, "virtualmachineid", v) && c.Is("type", "ROOT")
	}, func(v *store.VM) volumeView {
		return volumeView{
			ID:           store.StableID("volume", v.UUID),
			Name:         fmt.Sprintf("ROOT-%d", v.ID),
			ZoneID:       v.Zone.UUID,
			ZoneName:     v.Zone.Name,
			Type:         "ROOT",
			VMID:         v.UUID,
			TemplateID:   v.Template.UUID,
			TemplateName: v.Template.Name,
			TemplateText: v.Template.Name,
			VMName:       v.Name,
			VMDisplay:    v.Display,
			VMState:      v.State,
			VMType:       "User",
			Provisioning: "thin",
			Size:         store.RootGiB(v.Details) * settings.Gib,
			Created:      wire.Stamp(v.Created),
			State:        "Ready",
			OwnerView:    wire.ViewOwner(v.Owner),
			OfferingID:   strconv.FormatInt(v.Offering.ID, 10),
			OfferingName: v.Offering.Name,
			OfferingText: v.Offering.Name,
			Tags:         []wire.TagView{},
		}
	})
}
