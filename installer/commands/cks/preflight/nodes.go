// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"fmt"
	"slices"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/plural"
)

// State returns a finding about a cluster that does not run.
func State(f *Facts) []Finding {
	c := newCheck(f)
	if k := f.Cluster; k.State != running {
		c.warn("cluster-state", "cluster "+k.Name, stateRemedy(k.State), "it is %s, not Running", k.State)
	}
	return c.findings
}

// Nodes returns findings about VMs and Nodes of the cluster that do not work.
func Nodes(f *Facts) []Finding {
	c := newCheck(f)
	c.nodes(Error)
	return c.findings
}

// nodes checks that all nodes work: an upgrade reaches each of them in turn, and scaling up waits until all are Ready.
func (c *check) nodes(s Severity) {
	k := c.Cluster
	own := 0
	for _, vm := range k.Nodes {
		if !vm.Etcd && !vm.External {
			own++
		}
		if vm.State != "" && vm.State != running {
			c.add(s, "vm-state", "VM "+vm.Name, fmt.Sprintf("it is %s, not Running", vm.State), "start the VM, and wait until its Node is Ready", "")
		}
	}
	if want := k.ControlNodes + k.Size; own != want && k.Type == cloudstack.CloudManaged {
		c.warn("cluster-nodes", "cluster "+k.Name, "csccm cks show "+k.Name+" lists its VMs; scaling the cluster to the number of workers that it has puts that right",
			"it has %s, and CloudStack expects %d", plural.Count(own, "VM"), want)
	}
	if !c.read("node-not-ready", SubjectNodes) {
		return
	}
	for _, n := range c.Nodes {
		if n.VMID != "" && !n.Ready {
			c.add(s, "node-not-ready", "Node "+n.Name, "it is not Ready: "+n.Why, "kubectl describe node "+n.Name+" says more; start or repair its VM", "")
		}
	}
	for _, vm := range k.Nodes {
		joined := slices.ContainsFunc(c.Nodes, func(n Node) bool { return n.VMID == vm.ID })
		if !joined && !vm.Etcd && vm.State == running {
			c.add(s, "node-missing", "VM "+vm.Name, "it is Running, but no Node of Kubernetes has its name: it did not join the cluster",
				"read /var/log/daemon.log on the VM; or delete the VM by scaling the cluster down", "")
		}
	}
}
