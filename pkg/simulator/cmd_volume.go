// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"slices"
	"strings"
)

// volumeView is the API object volume.
type volumeView struct {
	ID            string     `json:"id"`
	Name          string     `json:"name"`
	ZoneID        string     `json:"zoneid"`
	ZoneName      string     `json:"zonename"`
	Type          string     `json:"type"`
	DeviceID      int        `json:"deviceid"`
	VMID          string     `json:"virtualmachineid"`
	TemplateID    string     `json:"templateid,omitempty"`
	TemplateName  string     `json:"templatename,omitempty"`
	TemplateText  string     `json:"templatedisplaytext,omitempty"`
	VMName        string     `json:"vmname"`
	VMDisplayName string     `json:"vmdisplayname"`
	VMState       string     `json:"vmstate"`
	VMType        string     `json:"vmtype"`
	Provisioning  string     `json:"provisioningtype"`
	Size          int64      `json:"size"`
	Created       *timestamp `json:"created"`
	State         string     `json:"state"`
	ownerView
	StorageType         string    `json:"storagetype,omitempty"`
	Hypervisor          string    `json:"hypervisor,omitempty"`
	Storage             string    `json:"storage,omitempty"`
	StorageID           string    `json:"storageid,omitempty"`
	PodID               string    `json:"podid,omitempty"`
	PodName             string    `json:"podname,omitempty"`
	ClusterID           string    `json:"clusterid,omitempty"`
	ClusterName         string    `json:"clustername,omitempty"`
	Path                string    `json:"path,omitempty"`
	Display             *bool     `json:"displayvolume,omitempty"`
	KBsRead             int       `json:"diskkbsread"`
	KBsWrite            int       `json:"diskkbswrite"`
	IORead              int       `json:"diskioread"`
	IOWrite             int       `json:"diskiowrite"`
	Destroyed           bool      `json:"destroyed"`
	DiskOfferingID      string    `json:"diskofferingid,omitempty"`
	DiskOfferingName    string    `json:"diskofferingname,omitempty"`
	DiskOfferingText    string    `json:"diskofferingdisplaytext,omitempty"`
	ServiceOfferingID   string    `json:"serviceofferingid,omitempty"` // the internal id, as in CloudStack
	ServiceOfferingName string    `json:"serviceofferingname,omitempty"`
	ServiceOfferingText string    `json:"serviceofferingdisplaytext,omitempty"`
	Extractable         bool      `json:"isextractable"`
	Quiesce             bool      `json:"quiescevm"`
	StorageSnapshot     bool      `json:"supportsstoragesnapshot"`
	DeleteProtection    bool      `json:"deleteprotection"`
	Tags                []tagView `json:"tags"`
	HasAnnotations      bool      `json:"hasannotations"`
}

func listVolumes(c *call) (any, error) {
	in, err := c.ownerScope(c.byID())
	if err != nil {
		return nil, err
	}
	var out []*volume
	for _, d := range slices.Backward(c.st.volumes.rows) {
		if !d.removed && in(d.vm.owner) && c.volumeMatches(d) && c.visible("displayvolume", d.vm.hidden) {
			out = append(out, d)
		}
	}
	return page(c, "volume", out, c.viewVolume)
}

func (c *call) volumeMatches(d *volume) bool {
	ids := c.lists["ids"]
	switch {
	case !matches(c, "id", d), len(ids) > 0 && !slices.ContainsFunc(ids, func(r ref) bool { return r.obj == any(d) }),
		c.has("name") && !strings.EqualFold(c.str("name"), d.name),
		c.has("keyword") && !like(d.name, c.str("keyword")) && !like(d.typ, c.str("keyword")),
		c.has("type") && !strings.EqualFold(c.str("type"), d.typ),
		c.has("state") && !strings.EqualFold(c.str("state"), d.state()),
		c.boolean("listsystemvms"), c.boolean("isencrypted"),
		!matches(c, "virtualmachineid", d.vm), !matches(c, "zoneid", d.vm.zone),
		c.given("diskofferingid") && !matches(c, "diskofferingid", d.diskOffering),
		c.given("serviceofferingid") && (d.typ != volumeRoot || !matches(c, "serviceofferingid", d.vm.offering)),
		c.given("hostid") && !matches(c, "hostid", d.vm.host), !d.hasTags(c.tagFilter()):
		return false
	}
	p := c.st.poolOf(d.vm.zone)
	return p == nil || matches(c, "storageid", p) && matches(c, "clusterid", p.cluster) && matches(c, "podid", p.cluster.pod)
}

func (c *call) viewVolume(d *volume) volumeView {
	m := d.vm
	v := volumeView{
		ID: d.uuid, Name: d.name, ZoneID: m.zone.uuid, ZoneName: m.zone.name, Type: d.typ, DeviceID: d.device, VMID: m.uuid, VMName: m.name,
		VMDisplayName: m.display, VMState: m.state, VMType: "User", Provisioning: "thin", Size: d.size, Created: stamp(d.created), State: d.state(),
		ownerView: viewOwner(m.owner), Destroyed: m.gone(), Tags: viewTags(&d.tagged),
	}
	if d.typ == volumeRoot {
		v.TemplateID, v.TemplateName, v.TemplateText = m.template.uuid, m.template.name, m.template.display
		v.ServiceOfferingID, v.ServiceOfferingName, v.ServiceOfferingText = fmt.Sprint(m.offering.id), m.offering.name, m.offering.display
	}
	if o := d.diskOffering; o != nil {
		v.DiskOfferingID, v.DiskOfferingName, v.DiskOfferingText = o.uuid, o.name, o.display
	}
	if c.caller.rootAdmin() {
		v.Hypervisor, v.StorageType, v.Display = m.hypervisor, "shared", ptr(!m.hidden)
		if p := c.st.poolOf(m.zone); p != nil && !m.unplaced {
			v.Storage, v.StorageID, v.ClusterID, v.ClusterName = p.name, p.uuid, p.cluster.uuid, p.cluster.name
			v.PodID, v.PodName, v.Path = p.cluster.pod.uuid, p.cluster.pod.name, d.uuid
		}
	}
	return v
}

// diskOfferingView is the API object diskoffering.
type diskOfferingView struct {
	ID             string     `json:"id"`
	Name           string     `json:"name"`
	DisplayText    string     `json:"displaytext"`
	DiskSize       int        `json:"disksize"`
	Created        *timestamp `json:"created"`
	Customized     bool       `json:"iscustomized"`
	CustomIOPS     bool       `json:"iscustomizediops"`
	StorageType    string     `json:"storagetype"`
	Provisioning   string     `json:"provisioningtype"`
	Display        bool       `json:"displayoffering"`
	State          string     `json:"state"`
	Encrypt        bool       `json:"encrypt"`
	SizeStrict     bool       `json:"disksizestrictness"`
	HasAnnotations bool       `json:"hasannotations"`
}

func listDiskOfferings(c *call) (any, error) {
	var out []*diskOffering
	for _, o := range c.st.diskOffs.rows {
		switch {
		case o.removed || o.compute || !matches(c, "id", o):
		case c.has("name") && !strings.EqualFold(c.str("name"), o.name):
		case c.has("keyword") && !like(o.name, c.str("keyword")) && !like(o.display, c.str("keyword")):
		case c.boolean("encrypt"), c.has("storagetype") && !strings.EqualFold(c.str("storagetype"), "shared"):
		case c.has("state") && !strings.EqualFold(c.str("state"), "Active") && !strings.EqualFold(c.str("state"), "all"):
		default:
			out = append(out, o)
		}
	}
	return page(c, "diskoffering", out, func(o *diskOffering) diskOfferingView {
		return diskOfferingView{
			ID: o.uuid, Name: o.name, DisplayText: o.display, DiskSize: o.gib, Created: stamp(o.created), Customized: o.gib == 0,
			StorageType: "shared", Provisioning: "thin", Display: true, State: "Active",
		}
	})
}

// listSnapshots answers an empty list, because the simulator has no snapshots.
func listSnapshots(c *call) (any, error) {
	if _, err := c.ownerScope(c.byID()); err != nil {
		return nil, err
	}
	return page(c, "snapshot", nil, func(v *volume) *volume { return v })
}
