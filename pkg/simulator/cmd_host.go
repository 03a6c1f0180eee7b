// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Resources that CloudStack's simulator hypervisor reports for every host.
const (
	hostCPUs   = 4
	hostSpeed  = 8000 // MHz
	hostMemory = 8 * gib
)

// gpuGroup is a GPU as hosts show it.
type gpuGroup struct {
	Name string `json:"gpugroupname"`
	VGPU []vgpu `json:"vgpu"`
}

type vgpu struct {
	Type      string `json:"vgputype"`
	VideoRAM  int    `json:"videoram"`
	MaxHeads  int    `json:"maxheads"`
	MaxX      int    `json:"maxresolutionx"`
	MaxY      int    `json:"maxresolutiony"`
	PerGPU    int    `json:"maxvgpuperpgpu"`
	Remaining int    `json:"remainingcapacity"`
	Capacity  int    `json:"maxcapacity"`
}

// simulatedGPUs are the GPUs that CloudStack's simulator hypervisor reports.
var simulatedGPUs = []gpuGroup{
	{"Simulator Graphics Card Basic", []vgpu{{"passthrough", 8192, 1, 4096, 2160, 1, 4, 4}}},
	{"Simulator Graphics Card Pro", []vgpu{
		{"sim-2q", 2048, 1, 1920, 1080, 8, 8, 8}, {"sim-4q", 4096, 2, 1920, 1080, 4, 4, 4},
		{"passthrough", 16384, 1, 4096, 2160, 1, 0, 0}, {"sim-8q", 8192, 4, 4096, 2160, 2, 4, 4},
	}},
}

// hostView is the API object host.
type hostView struct {
	ID             string     `json:"id"`
	Name           string     `json:"name"`
	State          string     `json:"state"`
	Type           string     `json:"type"`
	IPAddress      string     `json:"ipaddress"`
	ZoneID         string     `json:"zoneid"`
	ZoneName       string     `json:"zonename"`
	PodID          string     `json:"podid"`
	PodName        string     `json:"podname"`
	Version        string     `json:"version"`
	Hypervisor     string     `json:"hypervisor"`
	CPUs           int        `json:"cpunumber"`
	Speed          int        `json:"cpuspeed"`
	CPUAllocated   string     `json:"cpuallocated"`
	CPUValue       int        `json:"cpuallocatedvalue"`
	CPUPercent     string     `json:"cpuallocatedpercentage"`
	CPUOver        string     `json:"cpuallocatedwithoverprovisioning"`
	CPUUsed        string     `json:"cpuused"`
	CPUTotal       string     `json:"cpuwithoverprovisioning"`
	Load           float64    `json:"cpuloadaverage"`
	NetRead        int        `json:"networkkbsread"`
	NetWrite       int        `json:"networkkbswrite"`
	MemTotal       int64      `json:"memorytotal"`
	MemOver        string     `json:"memorywithoverprovisioning"`
	MemAllocated   int64      `json:"memoryallocated"`
	MemPercent     string     `json:"memoryallocatedpercentage"`
	MemBytes       int64      `json:"memoryallocatedbytes"`
	MemUsed        int64      `json:"memoryused"`
	GPUTotal       int        `json:"gputotal"`
	GPUUsed        int        `json:"gpuused"`
	GPUs           []gpuGroup `json:"gpugroup"`
	Capabilities   string     `json:"capabilities"`
	LastPinged     *timestamp `json:"lastpinged"`
	ManagementID   string     `json:"managementserverid"`
	ManagementName string     `json:"managementservername"`
	ClusterID      string     `json:"clusterid"`
	ClusterName    string     `json:"clustername"`
	ClusterType    string     `json:"clustertype"`
	LocalStorage   bool       `json:"islocalstorageactive"`
	Created        *timestamp `json:"created"`
	Events         string     `json:"events"`
	HA             hostHA     `json:"hostha"`
	OutOfBand      outOfBand  `json:"outofbandmanagement"`
	ResourceState  string     `json:"resourcestate"`
	HVVersion      string     `json:"hypervisorversion"`
	HAHost         bool       `json:"hahost"`
	UEFI           bool       `json:"ueficapability"`
	Arch           string     `json:"arch"`
	Annotations    bool       `json:"hasannotations"`
}

type hostHA struct {
	Enable bool   `json:"haenable"`
	State  string `json:"hastate"`
}

type outOfBand struct {
	PowerState string `json:"powerstate"`
	Enabled    bool   `json:"enabled"`
}

func listHosts(c *call) (any, error) {
	var out []*host
	for _, h := range c.st.hosts.rows {
		if !h.removed && c.hostMatches(h) {
			out = append(out, h)
		}
	}
	return page(c, "host", out, c.viewHost)
}

func (c *call) hostMatches(h *host) bool {
	is := func(param, value string) bool { return !c.has(param) || strings.EqualFold(c.str(param), value) }
	if m := arg[*vm](c, "virtualmachineid"); c.given("virtualmachineid") && (m == nil || m.host == h) {
		return false // the parameter asks for hosts to which the VM can migrate
	}
	return matches(c, "id", h) && matches(c, "zoneid", h.zone) && matches(c, "clusterid", h.cluster) && matches(c, "podid", h.cluster.pod) &&
		is("name", h.name) && is("type", "Routing") && is("state", "Up") && is("resourcestate", "Enabled") && is("hypervisor", "Simulator") &&
		is("arch", templateArch) && !c.boolean("hahost") && !c.boolean("outofbandmanagementenabled") &&
		(!c.has("keyword") || like(h.name, c.str("keyword")) || like("Up", c.str("keyword")) || like("Routing", c.str("keyword"))) &&
		(!c.has("managementserverid") || strings.EqualFold(c.str("managementserverid"), c.st.msID))
}

// allocated returns the resources allocated to the VMs of a host, in MHz and bytes.
func (st *state) allocated(h *host) (mhz int, memory int64) {
	for _, v := range st.vms.rows {
		if v.host == h && v.placed() {
			mhz += v.offering.cpuNumber * v.offering.cpuSpeed
			memory += int64(v.offering.memMB) << 20
		}
	}
	return mhz, memory
}

func percent(part, whole float64) string {
	return strconv.FormatFloat(float64(int(part/whole*10000+0.5))/100, 'f', -1, 64) + "%"
}

func (c *call) viewHost(h *host) hostView {
	mhz, memory := c.st.allocated(h)
	total := hostCPUs * hostSpeed
	cpu := percent(float64(mhz), float64(total))
	z, p := h.zone, h.cluster.pod
	return hostView{
		ID: h.uuid, Name: h.name, State: "Up", Type: "Routing", IPAddress: cmp.Or(h.ip, p.address(int(h.id)+1)), ZoneID: z.uuid, ZoneName: z.name, PodID: p.uuid, PodName: p.name,
		Version: c.st.version, Hypervisor: "Simulator", CPUs: hostCPUs, Speed: hostSpeed, CPUAllocated: cpu, CPUValue: mhz, CPUPercent: cpu, CPUOver: cpu,
		CPUUsed: "0%", CPUTotal: fmt.Sprint(total), NetRead: 32768, NetWrite: 16384, MemTotal: hostMemory, MemOver: fmt.Sprint(int64(hostMemory)),
		MemAllocated: memory, MemPercent: percent(float64(memory), hostMemory), MemBytes: memory, GPUTotal: 20, GPUs: simulatedGPUs, Capabilities: "hvm",
		LastPinged: stamp(c.now), ManagementID: c.st.msID, ManagementName: "localhost", ClusterID: h.cluster.uuid, ClusterName: h.cluster.name,
		ClusterType: "CloudManaged", Created: stamp(h.created),
		Events: "Remove; ShutdownRequested; HostDown; AgentDisconnected; AgentConnected; ManagementServerDown; StartAgentRebalance; Ping; PingTimeout",
		HA:     hostHA{State: "Disabled"}, OutOfBand: outOfBand{PowerState: "Disabled"}, ResourceState: "Enabled", HVVersion: c.st.version, Arch: templateArch,
	}
}

// hypervisorNames are the hypervisors that CloudStack knows in addition to those of its zones.
var hypervisorNames = []string{"Hyperv", "KVM", "XenServer", "VMware", "BareMetal", "Ovm", "LXC", "Ovm3", "External"}

// knownHypervisor reports whether CloudStack knows the hypervisor; it ignores filters for unknown ones.
func knownHypervisor(name string) bool {
	return strings.EqualFold(name, "Simulator") || slices.ContainsFunc(hypervisorNames, func(s string) bool { return strings.EqualFold(s, name) })
}

func listHypervisors(c *call) (any, error) {
	list := append(slices.Clone(hypervisorNames), "Simulator")
	if c.given("zoneid") {
		list = []string{"Simulator"}
	}
	return whole("hypervisor", list, func(s string) nameView { return nameView{s} }), nil
}
