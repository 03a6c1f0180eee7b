// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/csccm/csccm/pkg/simulator/internal/settings"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// Resources that CloudStack's simulator hypervisor reports for every host.
const (
	hostCPUs   = 4
	hostSpeed  = 8000 // MHz
	hostMemory = 8 * settings.Gib
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
	ID             string          `json:"id"`
	Name           string          `json:"name"`
	State          string          `json:"state"`
	Type           string          `json:"type"`
	IPAddress      string          `json:"ipaddress"`
	ZoneID         string          `json:"zoneid"`
	ZoneName       string          `json:"zonename"`
	PodID          string          `json:"podid"`
	PodName        string          `json:"podname"`
	Version        string          `json:"version"`
	Hypervisor     string          `json:"hypervisor"`
	CPUs           int             `json:"cpunumber"`
	Speed          int             `json:"cpuspeed"`
	CPUAllocated   string          `json:"cpuallocated"`
	CPUValue       int             `json:"cpuallocatedvalue"`
	CPUPercent     string          `json:"cpuallocatedpercentage"`
	CPUOver        string          `json:"cpuallocatedwithoverprovisioning"`
	CPUUsed        string          `json:"cpuused"`
	CPUTotal       string          `json:"cpuwithoverprovisioning"`
	Load           float64         `json:"cpuloadaverage"`
	NetRead        int             `json:"networkkbsread"`
	NetWrite       int             `json:"networkkbswrite"`
	MemTotal       int64           `json:"memorytotal"`
	MemOver        string          `json:"memorywithoverprovisioning"`
	MemAllocated   int64           `json:"memoryallocated"`
	MemPercent     string          `json:"memoryallocatedpercentage"`
	MemBytes       int64           `json:"memoryallocatedbytes"`
	MemUsed        int64           `json:"memoryused"`
	GPUTotal       int             `json:"gputotal"`
	GPUUsed        int             `json:"gpuused"`
	GPUs           []gpuGroup      `json:"gpugroup"`
	Capabilities   string          `json:"capabilities"`
	LastPinged     *wire.Timestamp `json:"lastpinged"`
	ManagementID   string          `json:"managementserverid"`
	ManagementName string          `json:"managementservername"`
	ClusterID      string          `json:"clusterid"`
	ClusterName    string          `json:"clustername"`
	ClusterType    string          `json:"clustertype"`
	LocalStorage   bool            `json:"islocalstorageactive"`
	Created        *wire.Timestamp `json:"created"`
	Events         string          `json:"events"`
	HA             hostHA          `json:"hostha"`
	OutOfBand      outOfBand       `json:"outofbandmanagement"`
	ResourceState  string          `json:"resourcestate"`
	HVVersion      string          `json:"hypervisorversion"`
	HAHost         bool            `json:"hahost"`
	UEFI           bool            `json:"ueficapability"`
	Arch           string          `json:"arch"`
	Annotations    bool            `json:"hasannotations"`
}

type hostHA struct {
	Enable bool   `json:"haenable"`
	State  string `json:"hastate"`
}

type outOfBand struct {
	PowerState string `json:"powerstate"`
	Enabled    bool   `json:"enabled"`
}

func listHosts(c *wire.Call) (any, error) {
	var out []*store.Host
	for _, h := range c.St.Hosts.Rows {
		if !h.Removed && hostMatches(c, h) {
			out = append(out, h)
		}
	}
	return wire.Page(c, "host", out, func(h *store.Host) hostView { return viewHost(c, h) })
}

func hostMatches(c *wire.Call, h *store.Host) bool {
	is := func(param, value string) bool { return !c.Has(param) || strings.EqualFold(c.Str(param), value) }
	if m := wire.Arg[*store.VM](c, "virtualmachineid"); c.Given("virtualmachineid") && (m == nil || m.Host == h) {
		return false // the parameter asks for hosts to which the VM can migrate
	}
	return wire.Matches(c, "id", h) && wire.Matches(c, "zoneid", h.Zone) && wire.Matches(c, "clusterid", h.Cluster) && wire.Matches(c, "podid", h.Cluster.Pod) &&
		is("name", h.Name) && is("type", "Routing") && is("state", "Up") && is("resourcestate", "Enabled") && is("hypervisor", "Simulator") &&
		is("arch", templateArch) && !c.Boolean("hahost") && !c.Boolean("outofbandmanagementenabled") &&
		(!c.Has("keyword") || store.Like(h.Name, c.Str("keyword")) || store.Like("Up", c.Str("keyword")) || store.Like("Routing", c.Str("keyword"))) &&
		(!c.Has("managementserverid") || strings.EqualFold(c.Str("managementserverid"), c.St.MsID))
}

// allocated returns the resources allocated to the VMs of a host, in MHz and bytes.
func allocated(st *store.State, h *store.Host) (mhz int, memory int64) {
	for _, v := range st.VMs.Rows {
		if v.Host == h && v.Placed() {
			mhz += v.Offering.CPUNumber * v.Offering.CPUSpeed
			memory += int64(v.Offering.MemMB) << 20
		}
	}
	return mhz, memory
}

func percent(part, whole float64) string {
	return strconv.FormatFloat(float64(int(part/whole*10000+0.5))/100, 'f', -1, 64) + "%"
}

func viewHost(c *wire.Call, h *store.Host) hostView {
	mhz, memory := allocated(c.St, h)
	total := hostCPUs * hostSpeed
	cpu := percent(float64(mhz), float64(total))
	z, p := h.Zone, h.Cluster.Pod
	return hostView{
		ID: h.UUID, Name: h.Name, State: "Up", Type: "Routing", IPAddress: cmp.Or(h.IP, address(p, int(h.ID)+1)), ZoneID: z.UUID, ZoneName: z.Name, PodID: p.UUID, PodName: p.Name,
		Version: c.St.Version, Hypervisor: "Simulator", CPUs: hostCPUs, Speed: hostSpeed, CPUAllocated: cpu, CPUValue: mhz, CPUPercent: cpu, CPUOver: cpu,
		CPUUsed: "0%", CPUTotal: fmt.Sprint(total), NetRead: 32768, NetWrite: 16384, MemTotal: hostMemory, MemOver: fmt.Sprint(int64(hostMemory)),
		MemAllocated: memory, MemPercent: percent(float64(memory), hostMemory), MemBytes: memory, GPUTotal: 20, GPUs: simulatedGPUs, Capabilities: "hvm",
		LastPinged: wire.Stamp(c.Now), ManagementID: c.St.MsID, ManagementName: "localhost", ClusterID: h.Cluster.UUID, ClusterName: h.Cluster.Name,
		ClusterType: "CloudManaged", Created: wire.Stamp(h.Created),
		Events: "Remove; ShutdownRequested; HostDown; AgentDisconnected; AgentConnected; ManagementServerDown; StartAgentRebalance; Ping; PingTimeout",
		HA:     hostHA{State: "Disabled"}, OutOfBand: outOfBand{PowerState: "Disabled"}, ResourceState: "Enabled", HVVersion: c.St.Version, Arch: templateArch,
	}
}

// hypervisorNames are the hypervisors that CloudStack knows in addition to those of its zones.
var hypervisorNames = []string{"Hyperv", "KVM", "XenServer", "VMware", "BareMetal", "Ovm", "LXC", "Ovm3", "External"}

// knownHypervisor reports whether CloudStack knows the hypervisor; it ignores filters for unknown ones.
func knownHypervisor(name string) bool {
	return strings.EqualFold(name, "Simulator") || slices.ContainsFunc(hypervisorNames, func(s string) bool { return strings.EqualFold(s, name) })
}

func listHypervisors(c *wire.Call) (any, error) {
	list := append(slices.Clone(hypervisorNames), "Simulator")
	if c.Given("zoneid") {
		list = []string{"Simulator"}
	}
	return wire.Whole("hypervisor", list, func(s string) store.NameView { return store.NameView{Name: s} }), nil
}
