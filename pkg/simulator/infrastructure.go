// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"net/netip"
	"strings"
)

// pod, cluster and storagePool are the parts of a zone that contain its hosts and storage.
type pod struct {
	entity
	name string
	zone *zone
	net  netip.Prefix
}

type cluster struct {
	entity
	name string
	pod  *pod
}

type storagePool struct {
	entity
	name    string
	cluster *cluster
	size    int64 // bytes
}

// systemVM is a VM of CloudStack itself: secondary storage VM or console proxy.
type systemVM struct {
	entity
	name, typ string
	zone      *zone
	pod       *pod
	host      *host
	state     string
	seq       int
}

// systemVMTypes maps the types of system VMs to their names in answers about public addresses.
var systemVMTypes = map[string]string{"consoleproxy": "ConsoleProxy", "secondarystoragevm": "SecondaryStorageVm"}

const hostsPerCluster = 2

// addInfrastructure creates a zone's pod, clusters, storage pools and system VMs for its hosts.
func (st *state) addInfrastructure(z *zone, hosts []*host, base func(kind, name string) entity) {
	p := st.pods.add(&pod{
		entity: base("pod", z.name), name: fmt.Sprintf("POD%d", len(st.pods.rows)), zone: z,
		net: netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 16, 15, 1}), 24),
	})
	for i, h := range hosts {
		if i%hostsPerCluster == 0 {
			name := fmt.Sprintf("C%d", i/hostsPerCluster)
			c := st.clusters.add(&cluster{entity: base("cluster", z.name+name), name: name, pod: p})
			st.pools.add(&storagePool{
				entity: base("storagepool", z.name+name), name: fmt.Sprintf("PS%d", i/hostsPerCluster), cluster: c, size: 1 << 40,
			})
		}
		h.cluster = st.clusters.rows[len(st.clusters.rows)-1]
	}
	for i, v := range []struct{ name, typ string }{{"v-%d-VM", "consoleproxy"}, {"s-%d-VM", "secondarystoragevm"}} {
		name := fmt.Sprintf(v.name, len(st.systemVMs.rows)+1)
		st.systemVMs.add(&systemVM{
			entity: base("systemvm", z.name+name), name: name, typ: v.typ, zone: z, pod: p, host: hosts[i%len(hosts)], state: vmRunning, seq: i,
		})
	}
}

// poolOf returns the storage pool of a zone's volumes, or nil if there is none.
func (st *state) poolOf(z *zone) *storagePool {
	p, _ := st.pools.find(func(p *storagePool) bool { return p.cluster.pod.zone == z })
	return p
}

// osType is a guest operating system.
type osType struct {
	entity
	description string
	category    *osCategory
}

type osCategory struct {
	entity
	name string
}

// osCategories are the same in every installation.
var osCategories = func() *table[*osCategory] {
	t := newTable[*osCategory]()
	for _, n := range []string{"CentOS", "Debian", "Oracle", "RedHat", "SUSE", "Windows", "Other", "Novel", "Unix", "Ubuntu", "None", "Fedora"} {
		t.add(&osCategory{entity: entity{uuid: stableID("oscategory", n)}, name: n})
	}
	return t
}()

// commonOSTypes are some of CloudStack's guest operating systems.
var commonOSTypes = []string{
	"CentOS 5.6 (64-bit)", "CentOS 7", "CentOS 8", "Rocky Linux 8", "Rocky Linux 9", "Debian GNU/Linux 11 (64-bit)", "Debian GNU/Linux 12 (64-bit)",
	"Red Hat Enterprise Linux 8", "Red Hat Enterprise Linux 9", "SUSE Linux Enterprise Server 15 (64-bit)", "Ubuntu 20.04 LTS", "Ubuntu 22.04 LTS",
	"Ubuntu 24.04 LTS", "Windows Server 2019 (64-bit)", "Windows Server 2022 (64-bit)", "Other Linux (64-bit)", "Other (64-bit)", "None",
}

// osTypeNamed returns a guest operating system. It creates a missing one in the category with which its name begins.
func (st *state) osTypeNamed(name string) *osType {
	if o, ok := st.osTypes.find(func(o *osType) bool { return o.description == name }); ok {
		return o
	}
	words := map[string]string{"Red Hat": "RedHat", "Rocky": "CentOS"}
	category, _ := osCategories.find(func(c *osCategory) bool { return c.name == "Other" })
	for _, c := range osCategories.rows {
		if strings.HasPrefix(name, c.name) {
			category = c
		}
	}
	for prefix, c := range words {
		if strings.HasPrefix(name, prefix) {
			category, _ = osCategories.find(func(o *osCategory) bool { return o.name == c })
		}
	}
	return st.osTypes.add(&osType{entity: entity{uuid: stableID("guestos", name)}, description: name, category: category})
}
