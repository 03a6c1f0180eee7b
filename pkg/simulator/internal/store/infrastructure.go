// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"net/netip"
	"strings"
)

// Pod is a part of a zone that contains hosts and storage.
type Pod struct {
	Entity
	Name string
	Zone *Zone
	Net  netip.Prefix
}

// Cluster is a cluster of hosts in a pod.
type Cluster struct {
	Entity
	Name string
	Pod  *Pod
}

// StoragePool is the primary storage of a cluster.
type StoragePool struct {
	Entity
	Name    string
	Cluster *Cluster
	Size    int64 // bytes
}

// SystemVM is a VM of CloudStack itself: secondary storage VM or console proxy.
type SystemVM struct {
	Entity
	Name, Typ string
	Zone      *Zone
	Pod       *Pod
	Host      *Host
	State     string
	Seq       int
}

// SystemVMTypes maps the types of system VMs to their names in answers about public addresses.
var SystemVMTypes = map[string]string{"consoleproxy": "ConsoleProxy", "secondarystoragevm": "SecondaryStorageVm"}

const hostsPerCluster = 2

// AddInfrastructure creates a zone's pod, clusters, storage pools and system VMs for its hosts.
func (st *State) AddInfrastructure(z *Zone, hosts []*Host, base func(kind, name string) Entity) {
	p := st.Pods.Add(&Pod{
		Entity: base("pod", z.Name), Name: fmt.Sprintf("POD%d", len(st.Pods.Rows)), Zone: z,
		Net: netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 16, 15, 1}), 24),
	})
	for i, h := range hosts {
		if i%hostsPerCluster == 0 {
			name := fmt.Sprintf("C%d", i/hostsPerCluster)
			c := st.Clusters.Add(&Cluster{Entity: base("cluster", z.Name+name), Name: name, Pod: p})
			st.Pools.Add(&StoragePool{
				Entity: base("storagepool", z.Name+name), Name: fmt.Sprintf("PS%d", i/hostsPerCluster), Cluster: c, Size: 1 << 40,
			})
		}
		h.Cluster = st.Clusters.Rows[len(st.Clusters.Rows)-1]
	}
	for i, v := range []struct{ name, typ string }{{"v-%d-VM", "consoleproxy"}, {"s-%d-VM", "secondarystoragevm"}} {
		name := fmt.Sprintf(v.name, len(st.SystemVMs.Rows)+1)
		st.SystemVMs.Add(&SystemVM{
			Entity: base("systemvm", z.Name+name), Name: name, Typ: v.typ, Zone: z, Pod: p, Host: hosts[i%len(hosts)], State: VMRunning, Seq: i,
		})
	}
}

// PoolOf returns the storage pool of a zone's volumes, or nil if there is none.
func (st *State) PoolOf(z *Zone) *StoragePool {
	p, _ := st.Pools.Find(func(p *StoragePool) bool { return p.Cluster.Pod.Zone == z })
	return p
}

// OSType is a guest operating system.
type OSType struct {
	Entity
	Description string
	Category    *OSCategory
}

// OSCategory is a category of guest operating systems.
type OSCategory struct {
	Entity
	Name string
}

// OSCategories are the same in every installation.
var OSCategories = func() *Table[*OSCategory] {
	t := newTable[*OSCategory]()
	for _, n := range []string{"CentOS", "Debian", "Oracle", "RedHat", "SUSE", "Windows", "Other", "Novel", "Unix", "Ubuntu", "None", "Fedora"} {
		t.Add(&OSCategory{Entity: Entity{UUID: StableID("oscategory", n)}, Name: n})
	}
	return t
}()

// CommonOSTypes are some of CloudStack's guest operating systems.
var CommonOSTypes = []string{
	"CentOS 5.6 (64-bit)", "CentOS 7", "CentOS 8", "Rocky Linux 8", "Rocky Linux 9", "Debian GNU/Linux 11 (64-bit)", "Debian GNU/Linux 12 (64-bit)",
	"Red Hat Enterprise Linux 8", "Red Hat Enterprise Linux 9", "SUSE Linux Enterprise Server 15 (64-bit)", "Ubuntu 20.04 LTS", "Ubuntu 22.04 LTS",
	"Ubuntu 24.04 LTS", "Windows Server 2019 (64-bit)", "Windows Server 2022 (64-bit)", "Other Linux (64-bit)", "Other (64-bit)", "None",
}

// OSTypeNamed returns a guest operating system. It creates a missing one in the category with which its name begins.
func (st *State) OSTypeNamed(name string) *OSType {
	if o, ok := st.OSTypes.Find(func(o *OSType) bool { return o.Description == name }); ok {
		return o
	}
	words := map[string]string{"Red Hat": "RedHat", "Rocky": "CentOS"}
	category, _ := OSCategories.Find(func(c *OSCategory) bool { return c.Name == "Other" })
	for _, c := range OSCategories.Rows {
		if strings.HasPrefix(name, c.Name) {
			category = c
		}
	}
	for prefix, c := range words {
		if strings.HasPrefix(name, prefix) {
			category, _ = OSCategories.Find(func(o *OSCategory) bool { return o.Name == c })
		}
	}
	return st.OSTypes.Add(&OSType{Entity: Entity{UUID: StableID("guestos", name)}, Description: name, Category: category})
}
