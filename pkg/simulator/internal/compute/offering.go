// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"encoding/json"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

type serviceOfferingView struct {
	ID             string          `json:"id"`
	Name           string          `json:"name"`
	State          string          `json:"state"`
	DisplayText    string          `json:"displaytext"`
	CPUs           int             `json:"cpunumber"`
	Speed          int             `json:"cpuspeed"`
	Memory         int             `json:"memory"`
	Created        *wire.Timestamp `json:"created"`
	StorageType    string          `json:"storagetype"`
	Provisioning   string          `json:"provisioningtype"`
	OfferHA        bool            `json:"offerha"`
	LimitCPU       bool            `json:"limitcpuuse"`
	Volatile       bool            `json:"isvolatile"`
	System         bool            `json:"issystem"`
	DefaultUse     bool            `json:"defaultuse"`
	Customized     bool            `json:"iscustomized"`
	RootDisk       int             `json:"rootdisksize"`
	DynScaling     bool            `json:"dynamicscalingenabled"`
	DiskStrict     bool            `json:"diskofferingstrictness"`
	DiskID         string          `json:"diskofferingid"`
	DiskName       string          `json:"diskofferingname"`
	DiskText       string          `json:"diskofferingdisplaytext"`
	Encrypt        bool            `json:"encryptroot"`
	HasAnnotations bool            `json:"hasannotations"`
}

func listServiceOfferings(c *wire.Call) (any, error) {
	if _, err := c.OwnerScope(false); err != nil {
		return nil, err
	}

	m := wire.Arg[*store.VM](c, "virtualmachineid")
	switch {
	case !c.Given("virtualmachineid"):
	case m == nil || m.Removed:
		return nil, wire.Invalid("unable to find a virtual machine with specified id")
	case !c.Access(m.Owner):
		return nil, wire.Denied()
	}

	return wire.List(c, "serviceoffering", c.St.Offerings.Rows, func(o *store.ServiceOffering) bool {
		return c.Is("name", o.Name) && c.Like("keyword", o.Name) && (m == nil || canChangeTo(m, o))
	}, func(o *store.ServiceOffering) serviceOfferingView {
		return serviceOfferingView{
			ID:           o.UUID,
			Name:         o.Name,
			State:        "Active",
			DisplayText:  o.Name,
			CPUs:         o.CPUNumber,
			Speed:        o.CPUSpeed,
			Memory:       o.MemMB,
			Created:      wire.Stamp(o.Created),
			StorageType:  "shared",
			Provisioning: "thin",
			DynScaling:   true,
			DiskID:       o.DiskOfferingID,
			DiskName:     o.Name,
			DiskText:     o.Name,
		}
	})
}

// canChangeTo reports whether listServiceOfferings returns an offering as a choice for a VM.
func canChangeTo(v *store.VM, o *store.ServiceOffering) bool {
	if o == v.Offering {
		return false
	}
	return v.State != store.VMRunning ||
		o.CPUNumber >= v.Offering.CPUNumber && o.CPUSpeed >= v.Offering.CPUSpeed && o.MemMB >= v.Offering.MemMB
}

func listNetworkOfferings(c *wire.Call) (any, error) {
	return wire.List(c, "networkoffering", c.St.NetOffs.Rows, func(o *store.NetworkOffering) bool {
		return c.Is("name", o.Spec.Name) &&
			c.Like("displaytext", o.Spec.DisplayText) &&
			c.Like("keyword", o.Spec.Name, o.Spec.DisplayText) &&
			c.Is("state", o.Spec.State) &&
			c.Is("guestiptype", o.Spec.GuestType) &&
			c.Flag("forvpc", o.Spec.ForVPC)
	}, viewNetworkOffering)
}

// viewNetworkOffering adds id and created to the recorded answer for a built-in offering.
func viewNetworkOffering(o *store.NetworkOffering) json.RawMessage {
	head, err := wire.Marshal(struct {
		ID      string          `json:"id"`
		Created *wire.Timestamp `json:"created"`
	}{o.UUID, wire.Stamp(o.Created)})
	if err != nil {
		return o.Body
	}
	head[len(head)-1] = ','
	return append(head, o.Body[1:]...)
}
