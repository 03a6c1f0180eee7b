// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"fmt"
	"strings"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// address returns the n-th address of the pod's CIDR.
func address(p *store.Pod, n int) string {
	a := p.Net.Masked().Addr()
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
func is(c *wire.Call, param, value string) bool {
	return !c.Has(param) || strings.EqualFold(c.Str(param), value)
}

func contains(c *wire.Call, param, value string) bool {
	return !c.Has(param) || store.Like(value, c.Str(param))
}

func listPods(c *wire.Call) (any, error) {
	var out []*store.Pod
	for _, p := range c.St.Pods.Rows {
		if !p.Removed && wire.Matches(c, "id", p) && wire.Matches(c, "zoneid", p.Zone) && is(c, "name", p.Name) && contains(c, "keyword", p.Name) && is(c, "allocationstate", "Enabled") {
			out = append(out, p)
		}
	}
	return wire.Page(c, "pod", out, func(p *store.Pod) podView {
		first, last, gateway := address(p, 2), address(p, 200), address(p, 1)
		return podView{
			ID: p.UUID, Name: p.Name, ZoneID: p.Zone.UUID, ZoneName: p.Zone.Name, Gateway: gateway, Netmask: wire.Netmask(p.Net.Bits()), StartIP: []string{first},
			EndIP: []string{last}, SystemVMs: []string{"0"}, VLANs: []string{"vlan://untagged"}, State: "Enabled",
			Ranges: []podRange{{Start: first, End: last, SystemVMs: "0", VLAN: "vlan://untagged", Gateway: gateway, CIDR: p.Net.Masked().String()}},
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

func listClusters(c *wire.Call) (any, error) {
	var out []*store.Cluster
	for _, o := range c.St.Clusters.Rows {
		if !o.Removed && wire.Matches(c, "id", o) && wire.Matches(c, "podid", o.Pod) && wire.Matches(c, "zoneid", o.Pod.Zone) && is(c, "name", o.Name) && contains(c, "keyword", o.Name) &&
			is(c, "hypervisor", "Simulator") && is(c, "clustertype", "CloudManaged") && is(c, "managedstate", "Managed") && is(c, "allocationstate", "Enabled") && is(c, "arch", templateArch) {
			out = append(out, o)
		}
	}
	return wire.Page(c, "cluster", out, func(o *store.Cluster) clusterView {
		return clusterView{
			ID: o.UUID, Name: o.Name, PodID: o.Pod.UUID, PodName: o.Pod.Name, ZoneID: o.Pod.Zone.UUID, ZoneName: o.Pod.Zone.Name, Hypervisor: "Simulator",
			Type: "CloudManaged", State: "Enabled", Managed: "Managed", CPURatio: "1.0", MemoryRatio: "1.0", Arch: templateArch,
			Details: map[string]string{"cpuOvercommitRatio": "1.0", "memoryOvercommitRatio": "1.0"},
		}
	})
}

type poolView struct {
	ID          string          `json:"id"`
	ZoneID      string          `json:"zoneid"`
	ZoneName    string          `json:"zonename"`
	PodID       string          `json:"podid"`
	PodName     string          `json:"podname"`
	Name        string          `json:"name"`
	IPAddress   string          `json:"ipaddress"`
	Path        string          `json:"path"`
	Created     *wire.Timestamp `json:"created"`
	Type        string          `json:"type"`
	ClusterID   string          `json:"clusterid"`
	ClusterName string          `json:"clustername"`
	SizeTotal   int64           `json:"disksizetotal"`
	Allocated   int64           `json:"disksizeallocated"`
	Used        int64           `json:"disksizeused"`
	State       string          `json:"state"`
	Scope       string          `json:"scope"`
	OverFactor  string          `json:"overprovisionfactor"`
	Migration   bool            `json:"suitableformigration"`
	Managed     bool            `json:"managed"`
	Hypervisor  string          `json:"hypervisor"`
	Provider    string          `json:"provider"`
	TagARule    bool            `json:"istagarule"`
	Annotations bool            `json:"hasannotations"`
}

func listStoragePools(c *wire.Call) (any, error) {
	var out []*store.StoragePool
	for _, p := range c.St.Pools.Rows {
		o := p.Cluster.Pod
		if !p.Removed && wire.Matches(c, "id", p) && wire.Matches(c, "clusterid", p.Cluster) && wire.Matches(c, "podid", o) && wire.Matches(c, "zoneid", o.Zone) && is(c, "name", p.Name) &&
			contains(c, "keyword", p.Name) && is(c, "scope", "CLUSTER") && is(c, "status", "Up") && is(c, "ipaddress", address(o, 250)) && is(c, "path", path(p)) &&
			(!c.Given("hostid") || wire.Arg[*store.Host](c, "hostid") != nil && wire.Arg[*store.Host](c, "hostid").Cluster == p.Cluster) {
			out = append(out, p)
		}
	}
	return wire.Page(c, "storagepool", out, func(p *store.StoragePool) poolView {
		o := p.Cluster.Pod
		v := poolView{
			ID: p.UUID, ZoneID: o.Zone.UUID, ZoneName: o.Zone.Name, PodID: o.UUID, PodName: o.Name, Name: p.Name, IPAddress: address(o, 250), Path: path(p),
			Created: wire.Stamp(p.Created), Type: "NetworkFilesystem", ClusterID: p.Cluster.UUID, ClusterName: p.Cluster.Name, SizeTotal: p.Size, State: "Up",
			Scope: "CLUSTER", OverFactor: "2.0", Hypervisor: "Simulator", Provider: "DefaultPrimary",
		}
		if c.St.PoolOf(o.Zone) == p {
			for _, d := range c.St.Volumes.Rows {
				if !d.Removed && d.VM.Zone == o.Zone && !d.VM.Unplaced {
					v.Allocated += d.Size
				}
			}
		}
		return v
	})
}

func path(p *store.StoragePool) string { return "/export/primary/" + p.Name }

type systemVMView struct {
	ID           string          `json:"id"`
	Type         string          `json:"systemvmtype"`
	ZoneID       string          `json:"zoneid"`
	ZoneName     string          `json:"zonename"`
	DNS1         string          `json:"dns1"`
	Gateway      string          `json:"gateway"`
	Name         string          `json:"name"`
	PodID        string          `json:"podid"`
	PodName      string          `json:"podname"`
	HostID       string          `json:"hostid"`
	HostName     string          `json:"hostname"`
	HostState    string          `json:"hostcontrolstate"`
	Hypervisor   string          `json:"hypervisor"`
	PrivateIP    string          `json:"privateip"`
	PrivateMAC   string          `json:"privatemacaddress"`
	PrivateMask  string          `json:"privatenetmask"`
	LinkLocalIP  string          `json:"linklocalip"`
	LinkLocalMAC string          `json:"linklocalmacaddress"`
	LinkMask     string          `json:"linklocalnetmask"`
	Created      *wire.Timestamp `json:"created"`
	State        string          `json:"state"`
	AgentState   string          `json:"agentstate"`
	Version      string          `json:"version"`
	DynScalable  bool            `json:"isdynamicallyscalable"`
	Arch         string          `json:"arch"`
	Annotations  bool            `json:"hasannotations"`
}

func listSystemVMs(c *wire.Call) (any, error) {
	var out []*store.SystemVM
	for _, v := range c.St.SystemVMs.Rows {
		if !v.Removed && wire.Matches(c, "id", v) && wire.Matches(c, "zoneid", v.Zone) && wire.Matches(c, "podid", v.Pod) && wire.Matches(c, "hostid", v.Host) && is(c, "systemvmtype", v.Typ) &&
			is(c, "name", v.Name) && (!c.Has("keyword") || store.Like(v.Name, c.Str("keyword")) || store.Like(v.State, c.Str("keyword"))) && is(c, "state", v.State) &&
			(!c.Given("storageid") || wire.Matches(c, "storageid", c.St.PoolOf(v.Zone))) && is(c, "arch", templateArch) {
			out = append(out, v)
		}
	}
	return wire.Page(c, "systemvm", out, func(v *store.SystemVM) systemVMView {
		return systemVMView{
			ID: v.UUID, Type: v.Typ, ZoneID: v.Zone.UUID, ZoneName: v.Zone.Name, DNS1: v.Zone.DNS1, Gateway: address(v.Pod, 1), Name: v.Name, PodID: v.Pod.UUID,
			PodName: v.Pod.Name, HostID: v.Host.UUID, HostName: v.Host.Name, HostState: "Enabled", Hypervisor: "Simulator", PrivateIP: address(v.Pod, 100+v.Seq),
			PrivateMAC: fmt.Sprintf("1e:00:00:00:00:%02x", 2*v.ID), PrivateMask: wire.Netmask(v.Pod.Net.Bits()), LinkLocalIP: fmt.Sprintf("169.254.0.%d", 10+v.ID), LinkLocalMAC: fmt.Sprintf("0e:00:a9:fe:00:%02x", 10+v.ID),
			LinkMask: "255.255.0.0", Created: wire.Stamp(v.Created), State: v.State, AgentState: "Up", Version: c.St.Version, Arch: templateArch,
		}
	})
}
