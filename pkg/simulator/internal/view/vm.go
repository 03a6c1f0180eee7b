// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package view renders VMs, which the answers of several families contain.
package view

import (
	"fmt"
	"slices"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// DeniedDetails are details that users cannot see.
var DeniedDetails = []string{"rootdisksize", "cpuOvercommitRatio", "memoryOvercommitRatio", store.ReservedFlag}

// VMStats are the statistics of a running VM. CloudStack's simulator hypervisor reports constants.
type VMStats struct {
	CPUUsed      string `json:"cpuused"`
	NetRead      int    `json:"networkkbsread"`
	NetWrite     int    `json:"networkkbswrite"`
	DiskRead     int    `json:"diskkbsread"`
	DiskWrite    int    `json:"diskkbswrite"`
	Memory       int    `json:"memorykbs"`
	MemoryFree   int    `json:"memoryintfreekbs"`
	MemoryTarget int    `json:"memorytargetkbs"`
	IORead       int    `json:"diskioread"`
	IOWrite      int    `json:"diskiowrite"`
}

type vmTemplate struct {
	ID       string `json:"templateid"`
	Name     string `json:"templatename"`
	Type     string `json:"templatetype"`
	Format   string `json:"templateformat"`
	Text     string `json:"templatedisplaytext"`
	Password bool   `json:"passwordenabled"`
}

type vmOffering struct {
	ID   string `json:"serviceofferingid"`
	Name string `json:"serviceofferingname"`
}

type vmSize struct {
	CPUs   int `json:"cpunumber"`
	Speed  int `json:"cpuspeed"`
	Memory int `json:"memory"`
}

type vmVolume struct {
	RootDeviceID   int    `json:"rootdeviceid"`
	RootDeviceType string `json:"rootdevicetype"`
}

// VMView is the API object virtualmachine.
type VMView struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	DisplayName string `json:"displayname"`
	UserID      string `json:"userid"`
	Username    string `json:"username"`
	wire.OwnerView
	Created      *wire.Timestamp `json:"created"`
	Updated      *wire.Timestamp `json:"lastupdated,omitempty"`
	State        string          `json:"state"`
	HAEnable     bool            `json:"haenable"`
	ZoneID       string          `json:"zoneid"`
	ZoneName     string          `json:"zonename"`
	HostID       string          `json:"hostid,omitempty"`
	HostName     string          `json:"hostname,omitempty"`
	ControlState string          `json:"hostcontrolstate,omitempty"`
	*vmTemplate
	*vmOffering
	*vmSize
	*VMStats
	GuestOSID string `json:"guestosid"`
	*vmVolume
	SecurityGroups   []struct{}        `json:"securitygroup"`
	NICs             []NICView         `json:"nic"`
	Hypervisor       string            `json:"hypervisor"`
	IPAddress        string            `json:"ipaddress,omitempty"`
	PublicIPID       string            `json:"publicipid,omitempty"`
	PublicIP         string            `json:"publicip,omitempty"`
	InstanceName     string            `json:"instancename,omitempty"`
	Details          map[string]string `json:"details"`
	ReadOnly         string            `json:"readonlydetails,omitempty"`
	AffinityGroups   []struct{}        `json:"affinitygroup"`
	GroupID          string            `json:"groupid,omitempty"`
	Group            string            `json:"group,omitempty"`
	KeyPairs         string            `json:"keypairs,omitempty"`
	DisplayVM        *bool             `json:"displayvm,omitempty"`
	DynScalable      bool              `json:"isdynamicallyscalable"`
	DeleteProtection bool              `json:"deleteprotection"`
	OSTypeID         string            `json:"ostypeid"`
	OSName           string            `json:"osdisplayname"`
	BootMode         string            `json:"bootmode,omitempty"`
	BootType         string            `json:"boottype,omitempty"`
	PoolType         string            `json:"pooltype,omitempty"`
	Received         int               `json:"receivedbytes"`
	Sent             int               `json:"sentbytes"`
	Arch             string            `json:"arch,omitempty"`
	Tags             []wire.TagView    `json:"tags"`
	HasAnnotations   bool              `json:"hasannotations"`
	wire.JobRef
}

// SecondaryView is a secondary address of a NIC.
type SecondaryView struct {
	ID string `json:"id"`
	IP string `json:"ipaddress"`
}

// NICView is the object nic.
type NICView struct {
	ID           string          `json:"id"`
	NetworkID    string          `json:"networkid"`
	NetworkName  string          `json:"networkname"`
	Netmask      string          `json:"netmask,omitempty"`
	Gateway      string          `json:"gateway,omitempty"`
	IPAddress    string          `json:"ipaddress,omitempty"`
	IsolationURI string          `json:"isolationuri,omitempty"`
	BroadcastURI string          `json:"broadcasturi,omitempty"`
	TrafficType  string          `json:"traffictype"`
	Type         string          `json:"type"`
	IsDefault    bool            `json:"isdefault"`
	MAC          string          `json:"macaddress"`
	IP6          string          `json:"ip6address,omitempty"`
	SecondaryIPs []SecondaryView `json:"secondaryip"`
	ExtraDHCP    []struct{}      `json:"extradhcpoption"`
	DeviceID     string          `json:"deviceid"`
	PublicIPID   string          `json:"publicipid,omitempty"`
	PublicIP     string          `json:"publicip,omitempty"`
	VPCID        string          `json:"vpcid,omitempty"`
	VPCName      string          `json:"vpcname,omitempty"`
}

// VMDetails is the set of detail groups that the caller requested; empty means all.
type VMDetails map[string]bool

// VMDetailNames are the valid values of details, in the order of the error text.
var VMDetailNames = []string{
	"all", "group", "nics", "stats", "secgrp", "tmpl", "servoff", "diskoff", "backoff", "iso", "volume", "min",
	"affgrp", "vnfnics",
}

func (d VMDetails) has(name string) bool { return len(d) == 0 || d["all"] || d[name] }

// ViewVM returns the view of a VM for the caller.
func ViewVM(c *wire.Call, v *store.VM, d VMDetails) VMView {
	running := v.State == store.VMRunning
	sampled := v.Sampled || running && c.Now.Sub(v.Updated) >= store.StatsInterval
	placed := v.Placed()
	out := VMView{
		ID:             v.UUID,
		Name:           v.Name,
		DisplayName:    v.Display,
		UserID:         v.User.UUID,
		Username:       v.User.Username,
		OwnerView:      wire.ViewOwner(v.Owner),
		Created:        wire.Stamp(v.Created),
		Updated:        wire.Stamp(v.Updated),
		State:          v.State,
		ZoneID:         v.Zone.UUID,
		ZoneName:       v.Zone.Name,
		GuestOSID:      v.Template.GuestOSID,
		OSTypeID:       v.Template.GuestOSID,
		OSName:         v.Template.OSName,
		Hypervisor:     v.Hypervisor,
		Details:        vmDetailsMap(c, v),
		SecurityGroups: []struct{}{},
		AffinityGroups: []struct{}{},
		Tags:           viewVMTags(v),
		JobRef:         wire.ViewJobRef(c.St, v),
	}

	if !v.Unplaced {
		out.PoolType = "NetworkFilesystem"
	}

	if placed {
		out.ControlState = "Enabled"
	}

	if v.BootKnown && (running || v.State == store.VMStopping) {
		out.BootMode, out.BootType = "legacy", "Bios"
	}

	if c.Caller.RootAdmin() {
		out.InstanceName = v.InstanceName()
		out.DisplayVM = wire.Ptr(true)
		out.Arch = "x86_64"
		if placed && v.Host != nil {
			out.HostID, out.HostName = v.Host.UUID, v.Host.Name
		}
	} else {
		out.ReadOnly = "dataDiskController, rootDiskController"
	}

	if d.has("tmpl") {
		t := v.Template
		out.vmTemplate = &vmTemplate{ID: t.UUID, Name: t.Name, Type: t.Typ, Format: t.Format, Text: t.Name}
	}

	if d.has("servoff") {
		out.vmOffering = &vmOffering{ID: v.Offering.UUID, Name: v.Offering.Name}
	}

	if d.has("servoff") || d.has("stats") {
		out.vmSize = &vmSize{CPUs: v.Offering.CPUNumber, Speed: v.Offering.CPUSpeed, Memory: v.Offering.MemMB}
	}

	if d.has("stats") && sampled {
		out.VMStats = &VMStats{CPUUsed: "10%", NetRead: 32768, NetWrite: 16384}
	}

	if d.has("volume") {
		out.vmVolume = &vmVolume{RootDeviceType: "ROOT"}
	}

	nics := v.NICs
	if !d.has("nics") && len(nics) > 1 {
		nics = nics[len(nics)-1:] // without the group nics, CloudStack returns only the last NIC
	}

	out.NICs = make([]NICView, 0, len(nics))
	for _, n := range nics {
		out.NICs = append(out.NICs, ViewNIC(n, placed))
		if n.StaticNAT != nil {
			out.PublicIPID, out.PublicIP = n.StaticNAT.UUID, n.StaticNAT.Addr.String()
		}
	}

	if len(nics) > 0 {
		out.IPAddress = nics[0].IP
	}

	return out
}

// ViewMember returns the view of a VM in listLoadBalancerRuleInstances. It lacks the fields that only the admin
// variants of commands show.
func ViewMember(c *wire.Call, v *store.VM) VMView {
	out := ViewVM(c, v, nil)
	out.HostID, out.HostName, out.InstanceName, out.Arch = "", "", "", ""
	return out
}

// noDetails is the shared map of VMs without details. It must not be modified.
var noDetails = map[string]string{}

// vmDetailsMap returns the details that the caller may see.
func vmDetailsMap(c *wire.Call, v *store.VM) map[string]string {
	if len(v.Details) == 0 {
		return noDetails
	}
	out := make(map[string]string, len(v.Details))
	for k, val := range v.Details {
		if c.Caller.RootAdmin() || !slices.Contains(DeniedDetails, k) {
			out[k] = val
		}
	}
	return out
}

// viewVMTags returns the tags of a VM. Unlike tags of other resources, they contain the resource and its owner.
func viewVMTags(v *store.VM) []wire.TagView {
	out := make([]wire.TagView, 0, len(v.Tags))
	for _, g := range v.Tags {
		o := wire.ViewOwner(v.Owner)
		o.DomainPath = ""
		out = append(out,
			wire.TagView{Key: g.Key, Value: g.Value, ResourceType: "UserVm", ResourceID: v.UUID, OwnerView: o})
	}
	return out
}

// ViewNIC renders a NIC.
func ViewNIC(n *store.NIC, placed bool) NICView {
	v := NICView{
		ID:           n.UUID,
		NetworkID:    n.Network.UUID,
		NetworkName:  n.Network.Name,
		IPAddress:    n.IP,
		TrafficType:  "Guest",
		Type:         n.Network.Typ,
		IsDefault:    n.IsDefault,
		MAC:          n.MAC,
		IP6:          n.IP6,
		DeviceID:     fmt.Sprint(n.Device),
		SecondaryIPs: []SecondaryView{},
		ExtraDHCP:    []struct{}{},
	}

	if n.Network.Typ != store.TypeL2 {
		v.Netmask, v.Gateway = wire.Netmask(n.Network.CIDR.Bits()), n.Network.Gateway
	}

	if placed || n.Prepared {
		v.IsolationURI = fmt.Sprintf("vlan://%d", n.Network.VLAN)
		v.BroadcastURI = v.IsolationURI
	}

	for _, s := range n.Secondary {
		v.SecondaryIPs = append(v.SecondaryIPs, SecondaryView{ID: s.UUID, IP: s.IP})
	}

	if n.StaticNAT != nil {
		v.PublicIPID, v.PublicIP = n.StaticNAT.UUID, n.StaticNAT.Addr.String()
	}

	if n.Network.VPC != nil {
		v.VPCID, v.VPCName = n.Network.VPC.UUID, n.Network.VPC.Name
	}

	return v
}
