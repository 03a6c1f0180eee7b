// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"encoding/json"
	"strings"

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
	if c.Boolean("issystem") && !c.Caller.RootAdmin() {
		return nil, wire.Invalid("Only ROOT admins can access system's offering")
	}
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
		return !c.Boolean("issystem") && offeringMatches(c, o) && (m == nil || canChangeTo(m, o))
	}, func(o *store.ServiceOffering) serviceOfferingView {
		return serviceOfferingView{
			ID: o.UUID, Name: o.Name, State: "Active", DisplayText: o.Name, CPUs: o.CPUNumber, Speed: o.CPUSpeed, Memory: o.MemMB,
			Created: wire.Stamp(o.Created), StorageType: "shared", Provisioning: "thin", DynScaling: true, DiskID: o.DiskOfferingID, DiskName: o.Name, DiskText: o.Name,
		}
	})
}

// offeringMatches applies the filters on attributes of a service offering.
func offeringMatches(c *wire.Call, o *store.ServiceOffering) bool {
	for name, has := range map[string]int{"cpunumber": o.CPUNumber, "cpuspeed": o.CPUSpeed, "memory": o.MemMB} {
		if c.Has(name) && has < c.Integer(name) {
			return false
		}
	}
	switch {
	case c.Has("name") && !strings.EqualFold(c.Str("name"), o.Name),
		c.Has("keyword") && !store.Like(o.Name, c.Str("keyword")),
		c.Boolean("encryptroot"), c.Boolean("gpuenabled"), c.Given("vgpuprofileid"), c.Has("systemvmtype"),
		c.Has("storagetype") && !strings.EqualFold(c.Str("storagetype"), "shared"),
		c.Has("state") && !strings.EqualFold(c.Str("state"), "Active") && !strings.EqualFold(c.Str("state"), "all"):
		return false
	}
	// No offering belongs to a domain. CloudStack checks the domain parameter of users, but does not filter by it.
	return !c.Given("domainid") || c.Str("account") != "" || !c.Caller.RootAdmin()
}

// canChangeTo reports whether listServiceOfferings returns an offering as a choice for a VM.
func canChangeTo(v *store.VM, o *store.ServiceOffering) bool {
	if o == v.Offering {
		return false
	}
	return v.State != store.VMRunning || o.CPUNumber >= v.Offering.CPUNumber && o.CPUSpeed >= v.Offering.CPUSpeed && o.MemMB >= v.Offering.MemMB
}

func listNetworkOfferings(c *wire.Call) (any, error) {
	return wire.List(c, "networkoffering", c.St.NetOffs.Rows, func(o *store.NetworkOffering) bool {
		s := &o.Spec
		return c.Is("name", s.Name) && c.Like("displaytext", s.DisplayText) && c.Like("keyword", s.Name, s.DisplayText) && c.Is("state", s.State) &&
			c.Is("guestiptype", s.GuestType) && c.Is("traffictype", s.TrafficType) && c.Is("availability", s.Availability) &&
			c.Flag("forvpc", s.ForVPC) && c.Flag("isdefault", s.IsDefault) && c.Flag("specifyvlan", s.SpecifyVlan) &&
			c.Flag("specifyipranges", s.SpecifyIPs) && c.Flag("sourcenatsupported", o.Has("SourceNat")) &&
			(!c.Given("networkid") || changeable(c, o)) && o.HasAll(c.List("supportedservices"))
	}, viewNetworkOffering)
}

// changeable reports whether the network of the call can change to the offering.
func changeable(c *wire.Call, o *store.NetworkOffering) bool {
	n := wire.Arg[*store.Network](c, "networkid")
	return n != nil && n.Typ == o.Spec.GuestType && n.Offering != o && n.Offering.Spec.ForVPC == o.Spec.ForVPC
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
