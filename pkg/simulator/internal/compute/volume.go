// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// volumeView is the API object volume.
type volumeView struct {
	ID            string          `json:"id"`
	Name          string          `json:"name"`
	ZoneID        string          `json:"zoneid"`
	ZoneName      string          `json:"zonename"`
	Type          string          `json:"type"`
	DeviceID      int             `json:"deviceid"`
	VMID          string          `json:"virtualmachineid"`
	TemplateID    string          `json:"templateid,omitempty"`
	TemplateName  string          `json:"templatename,omitempty"`
	TemplateText  string          `json:"templatedisplaytext,omitempty"`
	VMName        string          `json:"vmname"`
	VMDisplayName string          `json:"vmdisplayname"`
	VMState       string          `json:"vmstate"`
	VMType        string          `json:"vmtype"`
	Provisioning  string          `json:"provisioningtype"`
	Size          int64           `json:"size"`
	Created       *wire.Timestamp `json:"created"`
	State         string          `json:"state"`
	wire.OwnerView
	StorageType         string         `json:"storagetype,omitempty"`
	Hypervisor          string         `json:"hypervisor,omitempty"`
	Storage             string         `json:"storage,omitempty"`
	StorageID           string         `json:"storageid,omitempty"`
	PodID               string         `json:"podid,omitempty"`
	PodName             string         `json:"podname,omitempty"`
	ClusterID           string         `json:"clusterid,omitempty"`
	ClusterName         string         `json:"clustername,omitempty"`
	Path                string         `json:"path,omitempty"`
	Display             *bool          `json:"displayvolume,omitempty"`
	KBsRead             int            `json:"diskkbsread"`
	KBsWrite            int            `json:"diskkbswrite"`
	IORead              int            `json:"diskioread"`
	IOWrite             int            `json:"diskiowrite"`
	Destroyed           bool           `json:"destroyed"`
	DiskOfferingID      string         `json:"diskofferingid,omitempty"`
	DiskOfferingName    string         `json:"diskofferingname,omitempty"`
	DiskOfferingText    string         `json:"diskofferingdisplaytext,omitempty"`
	ServiceOfferingID   string         `json:"serviceofferingid,omitempty"` // the internal id, as in CloudStack
	ServiceOfferingName string         `json:"serviceofferingname,omitempty"`
	ServiceOfferingText string         `json:"serviceofferingdisplaytext,omitempty"`
	Extractable         bool           `json:"isextractable"`
	Quiesce             bool           `json:"quiescevm"`
	StorageSnapshot     bool           `json:"supportsstoragesnapshot"`
	DeleteProtection    bool           `json:"deleteprotection"`
	Tags                []wire.TagView `json:"tags"`
	HasAnnotations      bool           `json:"hasannotations"`
}

func listVolumes(c *wire.Call) (any, error) {
	in, err := c.OwnerScope(c.ByID())
	if err != nil {
		return nil, err
	}
	var out []*store.Volume
	for _, d := range slices.Backward(c.St.Volumes.Rows) {
		if !d.Removed && in(d.VM.Owner) && volumeMatches(c, d) && c.Visible("displayvolume", d.VM.Hidden) {
			out = append(out, d)
		}
	}
	return wire.Page(c, "volume", out, func(d *store.Volume) volumeView { return viewVolume(c, d) })
}

func volumeMatches(c *wire.Call, d *store.Volume) bool {
	ids := c.Lists["ids"]
	switch {
	case !wire.Matches(c, "id", d), len(ids) > 0 && !slices.ContainsFunc(ids, func(r store.Ref) bool { return r.Obj == any(d) }),
		c.Has("name") && !strings.EqualFold(c.Str("name"), d.Name),
		c.Has("keyword") && !store.Like(d.Name, c.Str("keyword")) && !store.Like(d.Typ, c.Str("keyword")),
		c.Has("type") && !strings.EqualFold(c.Str("type"), d.Typ),
		c.Has("state") && !strings.EqualFold(c.Str("state"), d.State()),
		c.Boolean("listsystemvms"), c.Boolean("isencrypted"),
		!wire.Matches(c, "virtualmachineid", d.VM), !wire.Matches(c, "zoneid", d.VM.Zone),
		c.Given("diskofferingid") && !wire.Matches(c, "diskofferingid", d.DiskOffering),
		c.Given("serviceofferingid") && (d.Typ != store.VolumeRoot || !wire.Matches(c, "serviceofferingid", d.VM.Offering)),
		c.Given("hostid") && !wire.Matches(c, "hostid", d.VM.Host), !d.HasTags(c.TagFilter()):
		return false
	}
	p := c.St.PoolOf(d.VM.Zone)
	return p == nil || wire.Matches(c, "storageid", p) && wire.Matches(c, "clusterid", p.Cluster) && wire.Matches(c, "podid", p.Cluster.Pod)
}

func viewVolume(c *wire.Call, d *store.Volume) volumeView {
	m := d.VM
	v := volumeView{
		ID: d.UUID, Name: d.Name, ZoneID: m.Zone.UUID, ZoneName: m.Zone.Name, Type: d.Typ, DeviceID: d.Device, VMID: m.UUID, VMName: m.Name,
		VMDisplayName: m.Display, VMState: m.State, VMType: "User", Provisioning: "thin", Size: d.Size, Created: wire.Stamp(d.Created), State: d.State(),
		OwnerView: wire.ViewOwner(m.Owner), Destroyed: m.Gone(), Tags: wire.ViewTags(&d.Tagged),
	}
	if d.Typ == store.VolumeRoot {
		v.TemplateID, v.TemplateName, v.TemplateText = m.Template.UUID, m.Template.Name, m.Template.Display
		v.ServiceOfferingID, v.ServiceOfferingName, v.ServiceOfferingText = fmt.Sprint(m.Offering.ID), m.Offering.Name, m.Offering.Display
	}
	if o := d.DiskOffering; o != nil {
		v.DiskOfferingID, v.DiskOfferingName, v.DiskOfferingText = o.UUID, o.Name, o.Display
	}
	if c.Caller.RootAdmin() {
		v.Hypervisor, v.StorageType, v.Display = m.Hypervisor, "shared", wire.Ptr(!m.Hidden)
		if p := c.St.PoolOf(m.Zone); p != nil && !m.Unplaced {
			v.Storage, v.StorageID, v.ClusterID, v.ClusterName = p.Name, p.UUID, p.Cluster.UUID, p.Cluster.Name
			v.PodID, v.PodName, v.Path = p.Cluster.Pod.UUID, p.Cluster.Pod.Name, d.UUID
		}
	}
	return v
}

// diskOfferingView is the API object diskoffering.
type diskOfferingView struct {
	ID             string          `json:"id"`
	Name           string          `json:"name"`
	DisplayText    string          `json:"displaytext"`
	DiskSize       int             `json:"disksize"`
	Created        *wire.Timestamp `json:"created"`
	Customized     bool            `json:"iscustomized"`
	CustomIOPS     bool            `json:"iscustomizediops"`
	StorageType    string          `json:"storagetype"`
	Provisioning   string          `json:"provisioningtype"`
	Display        bool            `json:"displayoffering"`
	State          string          `json:"state"`
	Encrypt        bool            `json:"encrypt"`
	SizeStrict     bool            `json:"disksizestrictness"`
	HasAnnotations bool            `json:"hasannotations"`
}

func listDiskOfferings(c *wire.Call) (any, error) {
	var out []*store.DiskOffering
	for _, o := range c.St.DiskOffs.Rows {
		switch {
		case o.Removed || o.Compute || !wire.Matches(c, "id", o):
		case c.Has("name") && !strings.EqualFold(c.Str("name"), o.Name):
		case c.Has("keyword") && !store.Like(o.Name, c.Str("keyword")) && !store.Like(o.Display, c.Str("keyword")):
		case c.Boolean("encrypt"), c.Has("storagetype") && !strings.EqualFold(c.Str("storagetype"), "shared"):
		case c.Has("state") && !strings.EqualFold(c.Str("state"), "Active") && !strings.EqualFold(c.Str("state"), "all"):
		default:
			out = append(out, o)
		}
	}
	return wire.Page(c, "diskoffering", out, func(o *store.DiskOffering) diskOfferingView {
		return diskOfferingView{
			ID: o.UUID, Name: o.Name, DisplayText: o.Display, DiskSize: o.Gib, Created: wire.Stamp(o.Created), Customized: o.Gib == 0,
			StorageType: "shared", Provisioning: "thin", Display: true, State: "Active",
		}
	})
}

// listSnapshots answers an empty list, because the simulator has no snapshots.
func listSnapshots(c *wire.Call) (any, error) {
	if _, err := c.OwnerScope(c.ByID()); err != nil {
		return nil, err
	}
	return wire.Page(c, "snapshot", nil, func(v *store.Volume) *store.Volume { return v })
}
