// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package ckscheck

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// Join reads the facts for adding VMs as workers.
func (r *Reader) Join(
	ctx context.Context, k *cloudapi.KubernetesCluster, vms []cloudstack.VirtualMachine,
) (*Facts, error) {
	f, err := r.read(ctx, k, SubjectVersions, SubjectOfferings)
	if err != nil {
		return nil, err
	}

	f.Joining, f.RootDisks = vms, map[string]int64{}
	for i := range vms {
		disks, err := r.API.ListVolumes(ctx, vms[i].ID, r.ProjectID)
		if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
			f.Unread[SubjectRootDisks] = "the role of the keys does not allow it"
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", SubjectRootDisks, err)
		}
		for _, d := range disks {
			if d.Type == "ROOT" {
				f.RootDisks[vms[i].ID] = d.Size
			}
		}
	}

	return f, nil
}

// Join decides whether VMs can become workers of f.Cluster. If a VM does not meet the requirements in CloudStack's
// documentation, CloudStack fails after it has changed the rules of the network.
func Join(f *Facts) []Finding {
	return f.check(func(c *check) {
		v := c.version(c.Cluster.VersionID)
		for i := range c.Joining {
			c.join(&c.Joining[i], v)
		}
		c.add(Warning, "node-key", "user cloud of the VMs",
			"put it there, and install what CloudStack's documentation lists for templates of CKS",
			"CloudStack logs in by SSH, and it does not show whether ~/.ssh/authorized_keys has the public key of "+
				"its management server")
	})
}

func (c *check) join(vm *cloudstack.VirtualMachine, v *cloudapi.KubernetesVersion) {
	object := "VM " + vm.Name
	if vm.State != cloudstack.VMRunning {
		c.add(Error, "vm-state", object, "start the VM", "it is %s, not Running", vm.State)
	}

	inNetwork := func(n cloudstack.NIC) bool { return n.NetworkID == c.Cluster.NetworkID }
	if !slices.ContainsFunc(vm.NICs, inNetwork) {
		c.add(Error, "vm-network", object, "add a NIC in that network to the VM",
			"it has none in the cluster's network %s", c.Cluster.NetworkName)
	}
	if o := c.offering(vm.ServiceOfferingID); o != nil && !large(o, v) {
		c.add(Error, "vm-small", object, larger(v), "its offering %s has %s", o.Name, size(o))
	}
	if disk, known := c.RootDisks[vm.ID]; known && disk < defaultDiskGiB<<30 {
		c.add(Error, "vm-small", object, fmt.Sprintf("make the root disk at least %d GiB large", defaultDiskGiB),
			"its root disk has %d GiB", disk>>30)
	}
}

// Leave decides whether nodes can be removed from f.Cluster.
func Leave(f *Facts) []Finding {
	return f.check(func(c *check) {
		if why := c.Unread[SubjectPods]; why != "" {
			c.add(Error, "node-drain", "cluster "+c.Cluster.Name,
				"run csccm where the cluster's API server answers; or leave the draining to CloudStack, whose "+
					"documentation says that it drains the nodes itself",
				"what runs on the nodes is not known, and they cannot be drained first: %s", why)
		}
		for _, name := range slices.Sorted(maps.Keys(c.Lost)) {
			c.add(Error, "pods-lost", "node "+name,
				"move these Pods yourself; when the problem is ignored, they are deleted, with the data in their "+
					"emptyDir volumes",
				"not all of its Pods can move: %s", c.Lost[name])
		}
	})
}
