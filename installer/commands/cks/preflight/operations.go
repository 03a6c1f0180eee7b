// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"regexp"
	"slices"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// States of a cluster.
const (
	running = "Running"
	stopped = "Stopped"
)

// defaultDiskGiB is the root disk of a node for which none is named.
const defaultDiskGiB = 8

// hostName matches what CloudStack accepts as a cluster's name: the names of its VMs begin with it.
var hostName = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)

func (c *check) create(r cloudstack.CreateClusterRequest) {
	object := "cluster " + r.Name
	if !hostName.MatchString(r.Name) {
		c.fail("cluster-name", object, "use letters, digits and -, at most 63, beginning with a letter", "it is no valid host name")
	}
	if r.ControlNodes < 1 || r.Size < 1 {
		c.fail("cluster-size", object, "ask for at least one of each", "it would have %d control nodes and %d workers", r.ControlNodes, r.Size)
	}
	if r.RootDiskGiB != 0 && r.RootDiskGiB < defaultDiskGiB {
		c.fail("root-disk", object, "ask for at least 8 GiB", "nodes cannot have a root disk of %d GiB", r.RootDiskGiB)
	}
	var v *cloudstack.KubernetesVersion
	if c.read("version", SubjectVersions) {
		if v = c.version(r.VersionID); v == nil {
			c.unknownVersion(r.VersionID)
		} else {
			c.usable(v, r.ZoneID, r.ControlNodes)
		}
	}
	control, worker := c.createOfferings(r, v)
	if r.KeyPair != "" && c.read("key-pair", SubjectKeyPairs) {
		if !slices.ContainsFunc(c.KeyPairs, func(k cloudstack.KeyPair) bool { return k.Name == r.KeyPair }) {
			c.fail("key-pair", "SSH key pair "+r.KeyPair, "register it, or leave it out", "the owner of the cluster has no key pair of this name")
		}
	}
	needs := c.createNetwork(r)
	disk := max(r.RootDiskGiB, defaultDiskGiB)
	needs.nodes(r.ControlNodes, control, disk)
	needs.nodes(r.Size, worker, disk)
	c.limits(Error, needs)
	c.addresses(needs, r.ZoneID)
	c.add(NotChecked, "template", string(SubjectTemplates), "CloudStack takes its own template of system VMs, which it does not show to users", "", "")
	c.maxSize(r.ControlNodes + r.Size)
}

func (c *check) unknownVersion(id string) {
	c.fail("version-unknown", "version "+id, "choose one that csccm cks versions shows", "CloudStack does not know it, or does not show it to these keys")
}

func (c *check) scale(r cloudstack.ScaleClusterRequest) {
	k := c.Cluster
	object := "cluster " + k.Name
	if !c.managed("scale", "Created", running, stopped) {
		return
	}
	resizes := r.OfferingID != "" || r.ControlOfferingID != "" || r.WorkerOfferingID != ""
	switch kinds := count(r.Size != 0, resizes, r.Autoscaling != nil); {
	case kinds == 0:
		c.fail("scale-nothing", object, "name a number of workers, an offering, or autoscaling", "the request changes nothing")
		return
	case kinds > 1:
		c.fail("scale-one-kind", object, "scale in several steps", "CloudStack changes either the number of workers, or offerings, or autoscaling at a time")
		return
	}
	var v *cloudstack.KubernetesVersion
	if c.read("version", SubjectVersions) {
		v = c.version(k.VersionID) // nil: the version was deleted, which does not hinder
	}
	switch {
	case resizes:
		more := c.resize(r, v)
		more.CPUs, more.MemoryMiB = max(more.CPUs, 0), max(more.MemoryMiB, 0)
		c.limits(Error, more)
	case r.Autoscaling != nil:
		if *r.Autoscaling {
			c.autoscale(r, v)
		}
	default:
		c.scaleSize(r.Size)
	}
}

func (c *check) autoscale(r cloudstack.ScaleClusterRequest, v *cloudstack.KubernetesVersion) {
	k := c.Cluster
	object := "cluster " + k.Name
	if v != nil && !v.SupportsAutoscaling {
		c.fail("version-autoscaling", versionObject(v), "upgrade the cluster first", "it does not support autoscaling")
	}
	if r.MinSize < 1 || r.MaxSize <= r.MinSize {
		c.fail("autoscaling-range", object, "ask for at least 1 worker, and for a maximum above the minimum", "workers from %d to %d are no range", r.MinSize, r.MaxSize)
		return
	}
	if r.MaxSize > k.Size {
		c.grow(Warning, r.MaxSize) // perhaps never that many
	}
}

func (c *check) scaleSize(size int) {
	k := c.Cluster
	object := "cluster " + k.Name
	switch {
	case k.State == stopped:
		c.fail("cluster-state", object, "start the cluster first", "it is Stopped; CloudStack changes only the offering of a stopped cluster")
		return
	case size < 1:
		c.fail("cluster-size", object, "ask for at least one worker", "it cannot have %d workers", size)
		return
	case size == k.Size:
		c.warn("scale-nothing", object, "", "it has %d workers already", size)
		return
	}
	if k.Autoscaling {
		c.warn("autoscaling", object, "switch autoscaling off, or change its range", "the cluster scales itself between %d and %d workers, and can undo the change", k.MinSize, k.MaxSize)
	}
	if k.OfferingID == "" {
		c.noOffering(Warning, "CloudStack can fail to scale it")
	} else {
		c.mixedOfferings()
	}
	c.firewall()
	c.certificates()
	if size < k.Size {
		if k.EtcdNodes > 0 {
			c.warn("etcd-scale-down", object, "note the firewall and port forwarding rules of the address first, to restore them",
				"it has separate etcd nodes: CloudStack can delete the rules for SSH to an etcd node instead of those of the workers, and fail after it removed the workers")
		}
		c.nodes(Warning)
		return
	}
	c.nodes(Error)
	c.grow(Error, size)
}

// grow checks that the cluster can have more workers.
func (c *check) grow(s Severity, size int) {
	k := c.Cluster
	var worker *cloudstack.ServiceOffering
	if id := or(k.WorkerOfferingID, k.OfferingID); id != "" && c.read("limit", SubjectOfferings) {
		if worker = c.offering(id); worker == nil {
			c.add(NotChecked, "limit", "offering "+or(k.WorkerOfferingName, k.OfferingName), "CloudStack does not show it to these keys, so CPUs and memory of new nodes are not known", "", "")
		}
	}
	var needs demand
	needs.nodes(size-k.Size, worker, defaultDiskGiB)
	c.limits(s, needs)
	c.template(s)
	c.maxSize(k.ControlNodes + k.EtcdNodes + size)
}

// template checks that new nodes can be made from the template of the others.
func (c *check) template(s Severity) {
	ids := TemplatesOf(c.Cluster)
	if len(ids) == 0 || !c.read("template", SubjectTemplates) {
		return
	}
	for _, id := range ids {
		switch t := byID(c.Templates, id, func(t *cloudstack.Template) string { return t.ID }); {
		case t == nil:
			c.add(NotChecked, "template", "template "+id, "CloudStack does not show it to these keys: it is its own template of system VMs, or it was deleted", "", "")
		case !t.Ready:
			c.add(s, "template", "template "+t.Name, "it is not ready: "+or(t.Status, "no status is shown"), "wait until it is downloaded, or ask an administrator", "")
		}
	}
}

func (c *check) upgrade(versionID string) {
	if !c.managed("upgrade", running) {
		return
	}
	c.upgradeVersion(versionID)
	c.nodes(Error)
	c.certificates()
}

func (c *check) upgradeVersion(versionID string) {
	k := c.Cluster
	if !c.read("version", SubjectVersions) {
		return
	}
	to := c.version(versionID)
	if to == nil {
		c.unknownVersion(versionID)
		return
	}
	c.usable(to, k.ZoneID, k.ControlNodes)
	if from := c.version(k.VersionID); from != nil {
		c.step(from, to, k.ZoneID)
	} else {
		c.fail("version-current", "cluster "+k.Name, "ask an administrator to add the version again", "its own version %s is not among the versions of CloudStack", k.Version)
	}
	c.upgradeOffering(to)
}

// count returns how many are true.
func count(all ...bool) (n int) {
	for _, b := range all {
		if b {
			n++
		}
	}
	return n
}
