// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"fmt"
	"slices"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// These commands add existing VMs to clusters and remove them: as VMs of an ExternalManaged cluster, or as nodes of a
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

	var finished, rest []removedVM
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
			finished = append(finished, removedVM{ID: n.VM.UUID, Success: true})
		}
	}

	k.Nodes = slices.DeleteFunc(k.Nodes, func(n *store.ClusterNode) bool { return named[n.VM] })
	k.Recount()
	if len(finished)+len(rest) == 0 {
		return nil, wire.Errf(wire.CodeInternal, wire.CSGeneric, "Provided VMs are not part of the CKS cluster")
	}

	same := func(v removedVM) removedVM { return v }
	return wire.Whole("removevirtualmachinesfromkubernetesclusterresponse", append(finished, rest...), same), nil
}
