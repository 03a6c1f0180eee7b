// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
)

// ownerView holds the fields that describe an owner: account or project, and the domain.
type ownerView struct {
	Account    string `json:"account,omitempty"`
	ProjectID  string `json:"projectid,omitempty"`
	Project    string `json:"project,omitempty"`
	DomainID   string `json:"domainid,omitempty"`
	Domain     string `json:"domain,omitempty"`
	DomainPath string `json:"domainpath,omitempty"`
}

func viewOwner(a *account) ownerView {
	v := ownerView{DomainID: a.domain.uuid, Domain: a.domain.name, DomainPath: a.domain.display()}
	if a.project != nil {
		v.ProjectID, v.Project = a.project.uuid, a.project.name
	} else {
		v.Account = a.name
	}
	return v
}

// tagView is a tag in the answer of its resource.
type tagView struct {
	Key          string `json:"key"`
	Value        string `json:"value"`
	ResourceType string `json:"resourcetype,omitempty"`
	ResourceID   string `json:"resourceid,omitempty"`
	Customer     string `json:"customer,omitempty"`
	ownerView
}

// viewTags returns the tags of a resource, with key and value only.
func viewTags(t *tagged) []tagView {
	out := make([]tagView, 0, len(t.tags))
	for _, g := range t.tags {
		out = append(out, tagView{Key: g.key, Value: g.value})
	}
	return out
}

// jobRef holds the pending job of an object, as lists show it.
type jobRef struct {
	JobID     string `json:"jobid,omitempty"`
	JobStatus *int   `json:"jobstatus,omitempty"`
}

func (st *state) jobRef(subject any) jobRef {
	if len(st.due) == 0 && st.running == nil {
		return jobRef{}
	}
	if j := st.pendingOn(subject); j != nil {
		return jobRef{JobID: j.uuid, JobStatus: ptr(jobPending)}
	}
	return jobRef{}
}

// vmStats are the statistics of a running VM. CloudStack's simulator hypervisor reports constants.
type vmStats struct {
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

type vmDiskOffering struct {
	ID   string `json:"diskofferingid"`
	Name string `json:"diskofferingname"`
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

// vmView is the API object virtualmachine.
type vmView struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	DisplayName string `json:"displayname"`
	UserID      string `json:"userid"`
	Username    string `json:"username"`
	ownerView
	Created      *timestamp `json:"created"`
	Updated      *timestamp `json:"lastupdated,omitempty"`
	State        string     `json:"state"`
	HAEnable     bool       `json:"haenable"`
	ZoneID       string     `json:"zoneid"`
	ZoneName     string     `json:"zonename"`
	HostID       string     `json:"hostid,omitempty"`
	HostName     string     `json:"hostname,omitempty"`
	ControlState string     `json:"hostcontrolstate,omitempty"`
	*vmTemplate
	*vmOffering
	*vmDiskOffering
	*vmSize
	*vmStats
	GuestOSID string `json:"guestosid"`
	*vmVolume
	SecurityGroups   []struct{}        `json:"securitygroup"`
	NICs             []nicView         `json:"nic"`
	Hypervisor       string            `json:"hypervisor"`
	IPAddress        string            `json:"ipaddress,omitempty"`
	PublicIPID       string            `json:"publicipid,omitempty"`
	PublicIP         string            `json:"publicip,omitempty"`
	InstanceName     string            `json:"instancename,omitempty"`
	Details          map[string]string `json:"details"`
	ReadOnly         string            `json:"readonlydetails,omitempty"`
	AffinityGroups   []vmAffinityView  `json:"affinitygroup"`
	GroupID          string            `json:"groupid,omitempty"`
	Group            string            `json:"group,omitempty"`
	KeyPairs         string            `json:"keypairs,omitempty"`
	UserData         string            `json:"userdata,omitempty"`
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
	Tags             []tagView         `json:"tags"`
	HasAnnotations   bool              `json:"hasannotations"`
	jobRef
}

type secondaryView struct {
	ID string `json:"id"`
	IP string `json:"ipaddress"`
}

type extraDHCPView struct {
	ID    string `json:"id"`
	NICID string `json:"nicid"`
	Name  string `json:"extradhcpoptionname"`
	Code  int    `json:"extradhcpoptioncode"`
	Value string `json:"extradhcpvalue"`
}

type nicView struct {
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
	SecondaryIPs []secondaryView `json:"secondaryip"`
	ExtraDHCP    []extraDHCPView `json:"extradhcpoption"`
	DeviceID     string          `json:"deviceid"`
	PublicIPID   string          `json:"publicipid,omitempty"`
	PublicIP     string          `json:"publicip,omitempty"`
	VPCID        string          `json:"vpcid,omitempty"`
	VPCName      string          `json:"vpcname,omitempty"`
}

// vmDetails is the set of detail groups that the caller requested.
type vmDetails map[string]bool

// vmDetailNames are the valid values of details, in the order of the error text.
var vmDetailNames = []string{
	"all", "group", "nics", "stats", "secgrp", "tmpl", "servoff", "diskoff", "backoff", "iso", "volume", "min", "affgrp", "vnfnics",
}

func (d vmDetails) has(name string) bool { return len(d) == 0 || d["all"] || d[name] }

// statsInterval is vm.stats.interval. A VM has statistics once it has run for this time, and keeps them while it is
// stopped.
const statsInterval = time.Minute

// viewVM returns the view of a VM for the caller.
func (c *call) viewVM(v *vm, d vmDetails) vmView {
	running := v.state == vmRunning
	sampled := v.sampled || running && c.now.Sub(v.updated) >= statsInterval
	placed := v.placed()
	out := vmView{
		ID: v.uuid, Name: v.name, DisplayName: v.display, UserID: v.user.uuid, Username: v.user.username, ownerView: viewOwner(v.owner),
		Created: stamp(v.created), Updated: stamp(v.updated), State: v.state, HAEnable: v.haEnabled, ZoneID: v.zone.uuid, ZoneName: v.zone.name,
		GuestOSID: v.template.guestOSID, OSTypeID: v.template.guestOSID, OSName: v.template.osName, Hypervisor: v.hypervisor, Details: c.vmDetailsMap(v),
		SecurityGroups: []struct{}{}, AffinityGroups: viewVMAffinity(v, d), DynScalable: v.dynScalable, DeleteProtection: v.protected,
		KeyPairs: strings.Join(v.keypairs, ","), Tags: viewVMTags(v), jobRef: c.st.jobRef(v),
	}
	if v.guestOS != nil {
		out.GuestOSID, out.OSTypeID, out.OSName = v.guestOS.uuid, v.guestOS.uuid, v.guestOS.description
	}
	if v.group != nil && d.has("group") {
		out.GroupID, out.Group = v.group.uuid, v.group.name
	}
	if c.boolean("userdata") {
		out.UserData = v.userdata
	}
	if !v.unplaced {
		out.PoolType = "NetworkFilesystem"
	}
	if placed {
		out.ControlState = "Enabled"
	}
	if v.bootKnown && (running || v.state == vmStopping) {
		out.BootMode, out.BootType = "legacy", "Bios"
	}
	if c.caller.rootAdmin() {
		out.InstanceName = v.instanceName()
		out.DisplayVM = ptr(!v.hidden)
		out.Arch = "x86_64"
		if placed && v.host != nil {
			out.HostID, out.HostName = v.host.uuid, v.host.name
		}
	} else {
		out.ReadOnly = "dataDiskController, rootDiskController"
	}
	if d.has("tmpl") {
		t := v.template
		out.vmTemplate = &vmTemplate{ID: t.uuid, Name: t.name, Type: t.typ, Format: t.format, Text: t.display}
	}
	if d.has("servoff") {
		out.vmOffering = &vmOffering{ID: v.offering.uuid, Name: v.offering.name}
	}
	if data := v.dataVolume(); data != nil && data.diskOffering != nil && d.has("diskoff") {
		out.vmDiskOffering = &vmDiskOffering{ID: data.diskOffering.uuid, Name: data.diskOffering.name}
	}
	if d.has("servoff") || d.has("stats") {
		out.vmSize = &vmSize{CPUs: v.offering.cpuNumber, Speed: v.offering.cpuSpeed, Memory: v.offering.memMB}
	}
	if d.has("stats") && sampled {
		out.vmStats = &vmStats{CPUUsed: "10%", NetRead: 32768, NetWrite: 16384}
	}
	if d.has("volume") {
		out.vmVolume = &vmVolume{RootDeviceType: "ROOT"}
	}
	nics := v.nics
	if !d.has("nics") && len(nics) > 1 {
		nics = nics[len(nics)-1:] // without the group nics, CloudStack's database join returns only the last NIC
	}
	out.NICs = make([]nicView, 0, len(nics))
	for _, n := range nics {
		out.NICs = append(out.NICs, viewNIC(n, placed))
		if n.staticNAT != nil {
			out.PublicIPID, out.PublicIP = n.staticNAT.uuid, n.staticNAT.addr.String()
		}
	}
	if len(nics) > 0 {
		out.IPAddress = nics[0].ip
	}
	return out
}

// viewMember returns the view of a VM in listLoadBalancerRuleInstances: without the fields that only the admin
// variants of commands show.
func (c *call) viewMember(v *vm) vmView {
	out := c.viewVM(v, nil)
	out.HostID, out.HostName, out.InstanceName, out.Arch = "", "", "", ""
	return out
}

// vmAffinityView is an affinity group in the view of a VM.
type vmAffinityView struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Account     string `json:"account,omitempty"`
}

func viewVMAffinity(v *vm, d vmDetails) []vmAffinityView {
	out := []vmAffinityView{}
	if !d.has("affgrp") {
		return out
	}
	for _, g := range v.affinity {
		o := vmAffinityView{ID: g.uuid, Name: g.name, Description: g.description}
		if g.owner != nil {
			o.Account = g.owner.name
		}
		out = append(out, o)
	}
	return out
}

// noDetails is the shared map of VMs without details. It must not be modified.
var noDetails = map[string]string{}

// vmDetailsMap returns the details that the caller may see.
func (c *call) vmDetailsMap(v *vm) map[string]string {
	if len(v.details) == 0 {
		return noDetails
	}
	out := make(map[string]string, len(v.details))
	for k, val := range v.details {
		if c.caller.rootAdmin() || !slices.Contains(deniedDetails, k) {
			out[k] = val
		}
	}
	return out
}

func (v *vm) instanceName() string { return fmt.Sprintf("i-%d-%d-VM", v.owner.id, v.id) }

// viewVMTags returns the tags of a VM. Unlike tags of other resources, they contain the resource and its owner.
func viewVMTags(v *vm) []tagView {
	out := make([]tagView, 0, len(v.tags))
	for _, g := range v.tags {
		o := viewOwner(v.owner)
		o.DomainPath = ""
		out = append(out, tagView{Key: g.key, Value: g.value, ResourceType: "UserVm", ResourceID: v.uuid, ownerView: o})
	}
	return out
}

func viewNIC(n *nic, placed bool) nicView {
	v := nicView{
		ID: n.uuid, NetworkID: n.network.uuid, NetworkName: n.network.name, IPAddress: n.ip, TrafficType: "Guest", Type: n.network.typ,
		IsDefault: n.isDefault, MAC: n.mac, IP6: n.ip6, DeviceID: fmt.Sprint(n.device), SecondaryIPs: []secondaryView{}, ExtraDHCP: []extraDHCPView{},
	}
	if n.network.typ != typeL2 {
		v.Netmask, v.Gateway = netmask(n.network.cidr.Bits()), n.network.gateway
	}
	if placed || n.prepared {
		v.IsolationURI = fmt.Sprintf("vlan://%d", n.network.vlan)
		v.BroadcastURI = v.IsolationURI
	}
	for _, s := range n.secondary {
		v.SecondaryIPs = append(v.SecondaryIPs, secondaryView{ID: s.uuid, IP: s.ip})
	}
	for _, e := range n.extraDHCPs {
		v.ExtraDHCP = append(v.ExtraDHCP, extraDHCPView{ID: e.uuid, NICID: n.uuid, Name: e.name, Code: e.code, Value: e.value})
	}
	if n.staticNAT != nil {
		v.PublicIPID, v.PublicIP = n.staticNAT.uuid, n.staticNAT.addr.String()
	}
	if n.network.vpc != nil {
		v.VPCID, v.VPCName = n.network.vpc.uuid, n.network.vpc.name
	}
	return v
}

// netmask formats a prefix length as an IPv4 netmask.
func netmask(bits int) string { return net.IP(net.CIDRMask(bits, 32)).String() }
