// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"fmt"
	"slices"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// Commands that add existing VMs to clusters and remove them: as VMs of an ExternalManaged cluster, or as nodes of a
// CloudManaged cluster.

// externalTarget returns the cluster of a command that is only for ExternalManaged clusters.
func externalTarget(c *wire.Call, refusal string) (*store.KubernetesCluster, error) {
	k := clusterTarget(c)
	switch {
	case k == nil:
		return nil, wire.Invalid("Invalid Kubernetes cluster ID specified")
	case k.Kind != store.ExternalManaged:
		return nil, wire.Invalid("%s", refusal)
	case !c.Access(k.Owner):
		return nil, wire.Denied()
	}
	return k, nil
}

func addVMsToCluster(c *wire.Call) (any, error) {
	k, err := externalTarget(c, "VM cannot be added to a CloudStack managed Kubernetes cluster")
	if err != nil {
		return nil, cksError(err)
	}
	var vms []*store.VM
	for _, r := range c.Lists["virtualmachineids"] {
		v, ok := r.Obj.(*store.VM)
		if !ok || v.Removed {
			return nil, cksError(wire.Invalid("Invalid VM ID specified"))
		}
		if !c.Access(v.Owner) {
			return nil, cksError(wire.Denied())
		}
		vms = append(vms, v)
	}
	for _, v := range vms {
		if k.Node(v) == nil {
			k.Nodes = append(k.Nodes, &store.ClusterNode{VM: v, Control: c.Boolean("iscontrolnode")})
		}
	}
	k.Recount()
	return wire.Success{Success: true}, nil
}

// removedVM is the result of removeVirtualMachinesFromKubernetesCluster for one VM.
type removedVM struct {
	ID      string `json:"id"`
	Success bool   `json:"success"`
	Text    string `json:"displaytext,omitempty"`
}

func removeVMsFromCluster(c *wire.Call) (any, error) {
	k, err := externalTarget(c, "VM cannot be removed from a CloudStack Managed Kubernetes cluster")
	if err != nil {
		return nil, cksError(err)
	}
	var gone, rest []removedVM
	named := map[*store.VM]bool{}
	for _, r := range c.Lists["virtualmachineids"] {
		v, ok := r.Obj.(*store.VM)
		switch {
		case !ok:
			rest = append(rest, removedVM{ID: fmt.Sprint(r.ID), Text: "Not a valid vm id"})
		case k.Node(v) != nil:
			named[v] = true
		case v.Removed:
			rest = append(rest, removedVM{ID: v.UUID, Text: "VM is already removed"})
		default:
			rest = append(rest, removedVM{ID: v.UUID, Text: "VM is not part of the cluster"})
		}
	}
	for _, n := range k.Nodes { // in the order in which they joined
		if named[n.VM] {
			gone = append(gone, removedVM{ID: n.VM.UUID, Success: true})
		}
	}
	k.Nodes = slices.DeleteFunc(k.Nodes, func(n *store.ClusterNode) bool { return named[n.VM] })
	k.Recount()
	if len(gone)+len(rest) == 0 {
		return nil, wire.Errf(wire.CodeInternal, wire.CSGeneric, "Provided VMs are not part of the CKS cluster")
	}
	same := func(v removedVM) removedVM { return v }
	return wire.Whole("removevirtualmachinesfromkubernetesclusterresponse", append(gone, rest...), same), nil
}

// nodesTarget returns the cluster of a command that adds or removes nodes.
func nodesTarget(c *wire.Call) (*store.KubernetesCluster, error) {
	k := clusterTarget(c)
	switch {
	case k == nil:
		return nil, wire.Invalid("Invalid Kubernetes cluster ID specified")
	case !c.Access(k.Owner):
		return nil, wire.Denied()
	}
	return k, nil
}

// nodesJob returns a job that changes a cluster's nodes; prefix is the beginning of its errors.
func nodesJob(c *wire.Call, k *store.KubernetesCluster, state, prefix string, err error, work func(now time.Time)) *wire.JobSpec {
	before := ""
	if err == nil {
		before, k.Stored = k.Stored, state
	} else {
		err = wire.Invalid("%s %d due to: %s", prefix, c.Refs["id"].ID, wire.AsAPIError(err).Text)
	}
	spec := clusterJob(c, err, func(now time.Time) (any, error) {
		work(now)
		k.Stored = before
		k.Measure()
		reopenSSH(c, k, now)
		return clusterAnswer{viewCluster(c, k)}, nil
	})
	spec.InstanceType = "KubernetesCluster"
	if err == nil {
		spec.Undo = func() { k.Stored = before }
	}
	return spec
}

func addNodesToCluster(c *wire.Call) (*wire.JobSpec, error) {
	k, err := nodesTarget(c)
	var vms []*store.VM
	if err == nil {
		for _, r := range c.Lists["nodeids"] {
			v, ok := r.Obj.(*store.VM)
			if ok && !v.Removed && c.Access(v.Owner) && v.Template.ForCKS && len(v.NICs) > 0 && v.NICs[0].Network == k.Network && k.Node(v) == nil {
				vms = append(vms, v)
			}
		}
		if len(vms) == 0 || k.Kind != store.CloudManaged || k.State() != store.VMRunning {
			err = wire.Invalid("No valid nodes found to be added to the Kubernetes cluster")
		}
	}
	return nodesJob(c, k, store.ClusterImporting, "Failed to add nodes to cluster ID", err, func(time.Time) {
		for _, v := range vms {
			node := &store.ClusterNode{VM: v, External: true, Manual: c.Boolean("manualupgrade")}
			if !node.Manual {
				node.Version = k.Version.Semantic
			}
			k.Nodes = append(k.Nodes, node)
			k.Size++
		}
	}), nil
}

func removeNodesFromCluster(c *wire.Call) (*wire.JobSpec, error) {
	k, err := nodesTarget(c)
	var out []*store.ClusterNode
	if err == nil {
		for _, r := range c.Lists["nodeids"] {
			if v, ok := r.Obj.(*store.VM); ok && !v.Removed {
				if n := k.Node(v); n != nil && n.External {
					out = append(out, n)
				}
			}
		}
		if len(out) == 0 || k.State() != store.VMRunning {
			err = wire.Invalid("No valid nodes found to be removed from the Kubernetes cluster")
		}
	}
	return nodesJob(c, k, store.ClusterRemoving, "Failed to remove node(s) from Kubernetes cluster ID:", err, func(time.Time) {
		k.Nodes = slices.DeleteFunc(k.Nodes, func(n *store.ClusterNode) bool { return slices.Contains(out, n) })
		k.Size -= len(out)
	}), nil
}
