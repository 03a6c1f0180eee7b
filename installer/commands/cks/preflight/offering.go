// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"fmt"
	"slices"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/plural"
)

// What a node needs at least, whatever the version says.
const (
	minCPUs      = 2
	minMemoryMiB = 2048
)

// need is the smallest node of a version; v is nil where the version is not known.
func need(v *cloudstack.KubernetesVersion) (cpus, memory int) {
	if v == nil {
		return minCPUs, minMemoryMiB
	}
	return max(minCPUs, v.MinCPUs), max(minMemoryMiB, v.MinMemoryMiB)
}

func large(o *cloudstack.ServiceOffering, v *cloudstack.KubernetesVersion) bool {
	cpus, memory := need(v)
	return o.CPUs >= cpus && o.MemoryMiB >= memory
}

func offeringObject(o *cloudstack.ServiceOffering) string { return "offering " + o.Name }

// choose names offerings that nodes of a version can have, the smallest first.
func (f *Facts) choose(v *cloudstack.KubernetesVersion) string {
	cpus, memory := need(v)
	remedy := fmt.Sprintf("choose an offering with at least %d CPUs and %d MiB of memory", cpus, memory)
	var fit []cloudstack.ServiceOffering
	for _, o := range f.Offerings {
		if !o.Customized && large(&o, v) && o.State != inactive {
			fit = append(fit, o)
		}
	}
	slices.SortFunc(fit, func(a, b cloudstack.ServiceOffering) int {
		return slices.Compare([]int{a.CPUs, a.MemoryMiB}, []int{b.CPUs, b.MemoryMiB})
	})
	if len(fit) == 0 {
		return remedy + "; CloudStack shows none to these keys: ask an administrator"
	}
	const most = 3
	var names []string
	for i := range fit[:min(len(fit), most)] {
		names = append(names, fmt.Sprintf("%s (%d CPUs, %d MiB)", fit[i].Name, fit[i].CPUs, fit[i].MemoryMiB))
	}
	return remedy + ", such as " + either(names)
}

const inactive = "Inactive"

// newNodes adds findings about the offering of nodes that are to be created, or to be resized to it. It returns the
// offering, nil where it is not known.
func (c *check) newNodes(id, kind string, v *cloudstack.KubernetesVersion) *cloudstack.ServiceOffering {
	o := c.offering(id)
	switch {
	case o == nil:
		c.fail("offering-unknown", "offering "+id, c.choose(v), "CloudStack does not know it, or does not show it to these keys")
		return nil
	case o.State == inactive:
		c.fail("offering-inactive", offeringObject(o), c.choose(v), "it is Inactive: no VM can be made with it")
	case o.Customized:
		c.fail("offering-custom", offeringObject(o), c.choose(v), "it leaves CPUs and memory open, which CloudStack refuses for nodes")
		return nil
	case !large(o, v):
		c.small("offering-small", o, kind, v)
	}
	return o
}

func (c *check) small(code string, o *cloudstack.ServiceOffering, kind string, v *cloudstack.KubernetesVersion) {
	cpus, memory := need(v)
	of := ""
	if v != nil {
		of = " of " + versionObject(v)
	}
	c.fail(code, offeringObject(o), c.choose(v), "it has %s and %d MiB of memory; %s%s need at least %d CPUs and %d MiB", plural.Count(o.CPUs, "CPU"), o.MemoryMiB, kind, of, cpus, memory)
}

const (
	allNodes     = "nodes"
	controlNodes = "control nodes"
	workerNodes  = "worker nodes"
)

// createOfferings checks the offerings of a new cluster and returns those of its control nodes and workers.
func (c *check) createOfferings(r cloudstack.CreateClusterRequest, v *cloudstack.KubernetesVersion) (control, worker *cloudstack.ServiceOffering) {
	if !c.read("offering", SubjectOfferings) {
		return nil, nil
	}
	if r.OfferingID == "" {
		c.fail("offering-missing", "cluster "+r.Name, "name one offering for all nodes, too", "without it CloudStack makes the cluster, but never upgrades it")
	}
	var general *cloudstack.ServiceOffering
	switch {
	case r.OfferingID == "":
	case r.ControlOfferingID == "" || r.WorkerOfferingID == "":
		general = c.newNodes(r.OfferingID, allNodes, v)
	default: // no node has it; an upgrade measures the cluster by it all the same
		if o := c.offering(r.OfferingID); o != nil && !large(o, v) {
			c.warn("offering-unused-small", offeringObject(o), c.choose(v), "no node will have it, but CloudStack measures the cluster by it when it upgrades; it has %s and %d MiB of memory", plural.Count(o.CPUs, "CPU"), o.MemoryMiB)
		}
	}
	control, worker = general, general
	if r.ControlOfferingID != "" {
		control = c.newNodes(r.ControlOfferingID, controlNodes, v)
	}
	if r.WorkerOfferingID != "" {
		worker = c.newNodes(r.WorkerOfferingID, workerNodes, v)
	}
	return control, worker
}

// upgradeOffering checks the offering that CloudStack measures the cluster by before an upgrade: the one for all nodes, even
// when every kind of node has another.
func (c *check) upgradeOffering(to *cloudstack.KubernetesVersion) {
	k := c.Cluster
	if k.OfferingID == "" {
		c.noOffering(Error, "CloudStack refuses the upgrade: \"Invalid service offering associated with Kubernetes cluster\"")
		return
	}
	if !c.read("offering", SubjectOfferings) {
		return
	}
	o := c.offering(k.OfferingID)
	if o == nil {
		c.add(NotChecked, "offering-small", "offering "+k.OfferingName, "CloudStack does not show it to these keys any more", "", "")
	} else if o.CPUs < to.MinCPUs || o.MemoryMiB < to.MinMemoryMiB { // without CKS's own minimum: the nodes are there already
		c.small("offering-upgrade", o, allNodes, to)
	}
	for _, own := range []struct{ id, kind string }{{k.ControlOfferingID, controlNodes}, {k.WorkerOfferingID, workerNodes}} {
		if o := c.offering(own.id); o != nil && own.id != k.OfferingID && !large(o, to) {
			cpus, memory := need(to)
			c.warn("offering-small", offeringObject(o), fmt.Sprintf("scale the cluster to a larger offering first: csccm cks scale %s --offering OFFERING", k.Name),
				"the %s have it: %s and %d MiB of memory; %s needs %d CPUs and %d MiB", own.kind, plural.Count(o.CPUs, "CPU"), o.MemoryMiB, versionObject(to), cpus, memory)
		}
	}
}

// noOffering adds the finding about a cluster that was created with offerings for kinds of nodes only.
func (c *check) noOffering(s Severity, effect string) {
	k := c.Cluster
	c.add(s, "offering-missing", "cluster "+k.Name, "it was created without an offering for all nodes, only with one for each kind of node: "+effect,
		fmt.Sprintf("give it one: csccm cks scale %s --offering OFFERING (on KVM stop the cluster first). Where CloudStack refuses this too, it needs the fix of "+
			"apache/cloudstack#14148; else create a new cluster with an offering for all nodes", k.Name), references["offering-missing"])
}

// Offerings returns findings about the cluster's offerings that hinder every upgrade, or scaling.
func Offerings(f *Facts) []Finding {
	c := newCheck(f)
	if f.Cluster.OfferingID == "" {
		c.noOffering(Error, "CloudStack refuses to upgrade it, and can fail to scale it")
	} else {
		c.mixedOfferings()
	}
	return c.findings
}

func (c *check) mixedOfferings() {
	if k := c.Cluster; mixed(k) {
		c.warn("mixed-offerings", "cluster "+k.Name, "where scaling fails so, stop the cluster and scale it to one offering for all nodes",
			"its kinds of nodes have different offerings: CloudStack 4.21 and 4.22 can take a change of the size for a change of the offering and refuse it on KVM")
	}
}

// mixed reports whether the cluster's nodes have other offerings than the cluster.
func mixed(k *cloudstack.KubernetesCluster) bool {
	return k.ControlOfferingID != "" && k.ControlOfferingID != k.OfferingID || k.WorkerOfferingID != "" && k.WorkerOfferingID != k.OfferingID
}

// resize checks the offerings that existing nodes are to get, and returns what the nodes will need in addition.
func (c *check) resize(r cloudstack.ScaleClusterRequest, v *cloudstack.KubernetesVersion) demand {
	var more demand
	k := c.Cluster
	if !c.read("offering", SubjectOfferings) {
		return more
	}
	for _, n := range []struct {
		kind, to, from string
		count          int
	}{
		{controlNodes, or(r.ControlOfferingID, r.OfferingID), or(k.ControlOfferingID, k.OfferingID), k.ControlNodes},
		{workerNodes, or(r.WorkerOfferingID, r.OfferingID), or(k.WorkerOfferingID, k.OfferingID), k.Size},
	} {
		if n.to == "" || n.to == n.from {
			continue
		}
		to, from := c.newNodes(n.to, n.kind, v), c.offering(n.from)
		if to == nil || from == nil {
			continue
		}
		if k.State == running && (to.MemoryMiB < from.MemoryMiB || to.CPUs*to.SpeedMHz < from.CPUs*from.SpeedMHz) {
			c.fail("offering-shrinks", offeringObject(to), "stop the cluster first, or choose an offering that is not smaller",
				"it is smaller than %s, which the %s have; CloudStack does not shrink running nodes", from.Name, n.kind)
		}
		more.CPUs += n.count * (to.CPUs - from.CPUs)
		more.MemoryMiB += n.count * (to.MemoryMiB - from.MemoryMiB)
	}
	return more
}

// or returns the first that is not empty.
func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
