// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"strings"
)

// address returns the n-th address of the pod's CIDR.
func (p *pod) address(n int) string {
	a := p.net.Masked().Addr()
	for range n {
		a = a.Next()
	}
	return a.String()
}

type podRange struct {
	Start     string `json:"startip"`
	End       string `json:"endip"`
	SystemVMs string `json:"forsystemvms"`
	VLAN      string `json:"vlanid"`
	Gateway   string `json:"gateway"`
	CIDR      string `json:"cidr"`
}

type podView struct {
	ID          string     `json:"id"`
	Name        string     `json:"name"`
	ZoneID      string     `json:"zoneid"`
	ZoneName    string     `json:"zonename"`
	Gateway     string     `json:"gateway"`
	Netmask     string     `json:"netmask"`
	StartIP     []string   `json:"startip"`
	EndIP       []string   `json:"endip"`
	SystemVMs   []string   `json:"forsystemvms"`
	VLANs       []string   `json:"vlanid"`
	Ranges      []podRange `json:"ipranges"`
	State       string     `json:"allocationstate"`
	Annotations bool       `json:"hasannotations"`
}

// is is a list filter: it reports whether a text parameter is absent or equals value, ignoring case.
func (c *call) is(param, value string) bool {
	return !c.has(param) || strings.EqualFold(c.str(param), value)
}

func (c *call) contains(param, value string) bool {
	return !c.has(param) || like(value, c.str(param))
}

func listPods(c *call) (any, error) {
	var out []*pod
	for _, p := range c.st.pods.rows {
		if !p.removed && matches(c, "id", p) && matches(c, "zoneid", p.zone) && c.is("name", p.name) && c.contains("keyword", p.name) && c.is("allocationstate", "Enabled") {
			out = append(out, p)
		}
	}
	return page(c, "pod", out, func(p *pod) podView {
		first, last, gateway := p.address(2), p.address(200), p.address(1)
		return podView{
			ID: p.uuid, Name: p.name, ZoneID: p.zone.uuid, ZoneName: p.zone.name, Gateway: gateway, Netmask: netmask(p.net.Bits()), StartIP: []string{first},
			EndIP: []string{last}, SystemVMs: []string{"0"}, VLANs: []string{"vlan://untagged"}, State: "Enabled",
			Ranges: []podRange{{Start: first, End: last, SystemVMs: "0", VLAN: "vlan://untagged", Gateway: gateway, CIDR: p.net.Masked().String()}},
		}
	})
}

type clusterView struct {
	ID          string            `json:"id"`
	Name        string            `json:"name"`
	PodID       string            `json:"podid"`
	PodName     string            `json:"podname"`
	ZoneID      string            `json:"zoneid"`
	ZoneName    string            `json:"zonename"`
	Hypervisor  string            `json:"hypervisortype"`
	Type        string            `json:"clustertype"`
	State       string            `json:"allocationstate"`
	Managed     string            `json:"managedstate"`
	CPURatio    string            `json:"cpuovercommitratio"`
	MemoryRatio string            `json:"memoryovercommitratio"`
	Details     map[string]string `json:"resourcedetails"`
	Arch        string            `json:"arch"`
	Annotations bool              `json:"hasannotations"`
}

func listClusters(c *call) (any, error) {
	var out []*cluster
	for _, o := range c.st.clusters.rows {
		if !o.removed && matches(c, "id", o) && matches(c, "podid", o.pod) && matches(c, "zoneid", o.pod.zone) && c.is("name", o.name) && c.contains("keyword", o.name) &&
			c.is("hypervisor", "Simulator") && c.is("clustertype", "CloudManaged") && c.is("managedstate", "Managed") && c.is("allocationstate", "Enabled") && c.is("arch", templateArch) {
			out = append(out, o)
		}
	}
	return page(c, "cluster", out, func(o *cluster) clusterView {
		return clusterView{
			ID: o.uuid, Name: o.name, PodID: o.pod.uuid, PodName: o.pod.name, ZoneID: o.pod.zone.uuid, ZoneName: o.pod.zone.name, Hypervisor: "Simulator",
			Type: "CloudManaged", State: "Enabled", Managed: "Managed", CPURatio: "1.0", MemoryRatio: "1.0", Arch: templateArch,
			Details: map[string]string{"cpuOvercommitRatio": "1.0", "memoryOvercommitRatio": "1.0"},
		}
	})
}

type poolView struct {
	ID          string     `json:"id"`
	ZoneID      string     `json:"zoneid"`
	ZoneName    string     `json:"zonename"`
	PodID       string     `json:"podid"`
	PodName     string     `json:"podname"`
	Name        string     `json:"name"`
	IPAddress   string     `json:"ipaddress"`
	Path        string     `json:"path"`
	Created     *timestamp `json:"created"`
	Type        string     `json:"type"`
	ClusterID   string     `json:"clusterid"`
	ClusterName string     `json:"clustername"`
	SizeTotal   int64      `json:"disksizetotal"`
	Allocated   int64      `json:"disksizeallocated"`
	Used        int64      `json:"disksizeused"`
	State       string     `json:"state"`
	Scope       string     `json:"scope"`
	OverFactor  string     `json:"overprovisionfactor"`
	Migration   bool       `json:"suitableformigration"`
	Managed     bool       `json:"managed"`
	Hypervisor  string     `json:"hypervisor"`
	Provider    string     `json:"provider"`
	TagARule    bool       `json:"istagarule"`
	Annotations bool       `json:"hasannotations"`
}

func listStoragePools(c *call) (any, error) {
	var out []*storagePool
	for _, p := range c.st.pools.rows {
		o := p.cluster.pod
		if !p.removed && matches(c, "id", p) && matches(c, "clusterid", p.cluster) && matches(c, "podid", o) && matches(c, "zoneid", o.zone) && c.is("name", p.name) &&
			c.contains("keyword", p.name) && c.is("scope", "CLUSTER") && c.is("status", "Up") && c.is("ipaddress", o.address(250)) && c.is("path", p.path()) &&
			(!c.given("hostid") || arg[*host](c, "hostid") != nil && arg[*host](c, "hostid").cluster == p.cluster) {
			out = append(out, p)
		}
	}
	return page(c, "storagepool", out, func(p *storagePool) poolView {
		o := p.cluster.pod
		v := poolView{
			ID: p.uuid, ZoneID: o.zone.uuid, ZoneName: o.zone.name, PodID: o.uuid, PodName: o.name, Name: p.name, IPAddress: o.address(250), Path: p.path(),
			Created: stamp(p.created), Type: "NetworkFilesystem", ClusterID: p.cluster.uuid, ClusterName: p.cluster.name, SizeTotal: p.size, State: "Up",
			Scope: "CLUSTER", OverFactor: "2.0", Hypervisor: "Simulator", Provider: "DefaultPrimary",
		}
		if c.st.poolOf(o.zone) == p {
			for _, d := range c.st.volumes.rows {
				if !d.removed && d.vm.zone == o.zone && !d.vm.unplaced {
					v.Allocated += d.size
				}
			}
		}
		return v
	})
}

func (p *storagePool) path() string { return "/export/primary/" + p.name }

type systemVMView struct {
	ID           string     `json:"id"`
	Type         string     `json:"systemvmtype"`
	ZoneID       string     `json:"zoneid"`
	ZoneName     string     `json:"zonename"`
	DNS1         string     `json:"dns1"`
	Gateway      string     `json:"gateway"`
	Name         string     `json:"name"`
	PodID        string     `json:"podid"`
	PodName      string     `json:"podname"`
	HostID       string     `json:"hostid"`
	HostName     string     `json:"hostname"`
	HostState    string     `json:"hostcontrolstate"`
	Hypervisor   string     `json:"hypervisor"`
	PrivateIP    string     `json:"privateip"`
	PrivateMAC   string     `json:"privatemacaddress"`
	PrivateMask  string     `json:"privatenetmask"`
	LinkLocalIP  string     `json:"linklocalip"`
	LinkLocalMAC string     `json:"linklocalmacaddress"`
	LinkMask     string     `json:"linklocalnetmask"`
	Created      *timestamp `json:"created"`
	State        string     `json:"state"`
	AgentState   string     `json:"agentstate"`
	Version      string     `json:"version"`
	DynScalable  bool       `json:"isdynamicallyscalable"`
	Arch         string     `json:"arch"`
	Annotations  bool       `json:"hasannotations"`
}

func listSystemVMs(c *call) (any, error) {
	var out []*systemVM
	for _, v := range c.st.systemVMs.rows {
		if !v.removed && matches(c, "id", v) && matches(c, "zoneid", v.zone) && matches(c, "podid", v.pod) && matches(c, "hostid", v.host) && c.is("systemvmtype", v.typ) &&
			c.is("name", v.name) && (!c.has("keyword") || like(v.name, c.str("keyword")) || like(v.state, c.str("keyword"))) && c.is("state", v.state) &&
			(!c.given("storageid") || matches(c, "storageid", c.st.poolOf(v.zone))) && c.is("arch", templateArch) {
			out = append(out, v)
		}
	}
	return page(c, "systemvm", out, func(v *systemVM) systemVMView {
		return systemVMView{
			ID: v.uuid, Type: v.typ, ZoneID: v.zone.uuid, ZoneName: v.zone.name, DNS1: v.zone.dns1, Gateway: v.pod.address(1), Name: v.name, PodID: v.pod.uuid,
			PodName: v.pod.name, HostID: v.host.uuid, HostName: v.host.name, HostState: "Enabled", Hypervisor: "Simulator", PrivateIP: v.pod.address(100 + v.seq),
			PrivateMAC: fmt.Sprintf("1e:00:00:00:00:%02x", 2*v.id), PrivateMask: netmask(v.pod.net.Bits()), LinkLocalIP: fmt.Sprintf("169.254.0.%d", 10+v.id), LinkLocalMAC: fmt.Sprintf("0e:00:a9:fe:00:%02x", 10+v.id),
			LinkMask: "255.255.0.0", Created: stamp(v.created), State: v.state, AgentState: "Up", Version: c.st.version, Arch: templateArch,
		}
	})
}
