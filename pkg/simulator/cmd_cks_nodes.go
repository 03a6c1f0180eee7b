// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"slices"
	"time"
)

// Commands that add existing VMs to clusters and remove them: as VMs of an ExternalManaged cluster, or as nodes of a
// CloudManaged cluster.

var clusterNodeRefs = map[string]refKind{"id": refKubernetesCluster, "nodeids": refVM}

// externalTarget returns the cluster of a command that is only for ExternalManaged clusters.
func (c *call) externalTarget(refusal string) (*kubernetesCluster, error) {
	k := c.clusterTarget()
	switch {
	case k == nil:
		return nil, invalid("Invalid Kubernetes cluster ID specified")
	case k.kind != externalManaged:
		return nil, invalid("%s", refusal)
	case !c.access(k.owner):
		return nil, denied()
	}
	return k, nil
}

func addVMsToCluster(c *call) (any, error) {
	k, err := c.externalTarget("VM cannot be added to a CloudStack managed Kubernetes cluster")
	if err != nil {
		return nil, cksError(err)
	}
	var vms []*vm
	for _, r := range c.lists["virtualmachineids"] {
		v, ok := r.obj.(*vm)
		if !ok || v.removed {
			return nil, cksError(invalid("Invalid VM ID specified"))
		}
		if !c.access(v.owner) {
			return nil, cksError(denied())
		}
		vms = append(vms, v)
	}
	for _, v := range vms {
		if k.node(v) == nil {
			k.nodes = append(k.nodes, &clusterNode{vm: v, control: c.boolean("iscontrolnode")})
		}
	}
	k.recount()
	return success{true}, nil
}

// removedVM is the result of removeVirtualMachinesFromKubernetesCluster for one VM.
type removedVM struct {
	ID      string `json:"id"`
	Success bool   `json:"success"`
	Text    string `json:"displaytext,omitempty"`
}

func removeVMsFromCluster(c *call) (any, error) {
	k, err := c.externalTarget("VM cannot be removed from a CloudStack Managed Kubernetes cluster")
	if err != nil {
		return nil, cksError(err)
	}
	var gone, rest []removedVM
	named := map[*vm]bool{}
	for _, r := range c.lists["virtualmachineids"] {
		v, ok := r.obj.(*vm)
		switch {
		case !ok:
			rest = append(rest, removedVM{ID: fmt.Sprint(r.id), Text: "Not a valid vm id"})
		case k.node(v) != nil:
			named[v] = true
		case v.removed:
			rest = append(rest, removedVM{ID: v.uuid, Text: "VM is already removed"})
		default:
			rest = append(rest, removedVM{ID: v.uuid, Text: "VM is not part of the cluster"})
		}
	}
	for _, n := range k.nodes { // in the order in which they joined
		if named[n.vm] {
			gone = append(gone, removedVM{ID: n.vm.uuid, Success: true})
		}
	}
	k.nodes = slices.DeleteFunc(k.nodes, func(n *clusterNode) bool { return named[n.vm] })
	k.recount()
	if len(gone)+len(rest) == 0 {
		return nil, errf(codeInternal, csGeneric, "Provided VMs are not part of the CKS cluster")
	}
	return whole("removevirtualmachinesfromkubernetesclusterresponse", append(gone, rest...), func(v removedVM) removedVM { return v }), nil
}

// nodesTarget returns the cluster of a command that adds or removes nodes.
func (c *call) nodesTarget() (*kubernetesCluster, error) {
	k := c.clusterTarget()
	switch {
	case k == nil:
		return nil, invalid("Invalid Kubernetes cluster ID specified")
	case !c.access(k.owner):
		return nil, denied()
	}
	return k, nil
}

// nodesJob returns a job that changes a cluster's nodes; prefix is the beginning of its errors.
func (c *call) nodesJob(k *kubernetesCluster, state, prefix string, err error, work func(now time.Time)) *jobSpec {
	before := ""
	if err == nil {
		before, k.stored = k.stored, state
	} else {
		err = invalid("%s %d due to: %s", prefix, c.refs["id"].id, asAPIError(err).text)
	}
	spec := c.clusterJob(err, func(now time.Time) (any, error) {
		work(now)
		k.stored = before
		k.measure()
		c.reopenSSH(k, now)
		return clusterAnswer{c.viewCluster(k)}, nil
	})
	spec.instanceType = "KubernetesCluster"
	if err == nil {
		spec.undo = func() { k.stored = before }
	}
	return spec
}

func addNodesToCluster(c *call) (*jobSpec, error) {
	k, err := c.nodesTarget()
	var vms []*vm
	if err == nil {
		for _, r := range c.lists["nodeids"] {
			v, ok := r.obj.(*vm)
			if ok && !v.removed && c.access(v.owner) && v.template.forCKS && len(v.nics) > 0 && v.nics[0].network == k.network && k.node(v) == nil {
				vms = append(vms, v)
			}
		}
		if len(vms) == 0 || k.kind != cloudManaged || k.state() != vmRunning {
			err = invalid("No valid nodes found to be added to the Kubernetes cluster")
		}
	}
	return c.nodesJob(k, clusterImporting, "Failed to add nodes to cluster ID", err, func(time.Time) {
		for _, v := range vms {
			node := &clusterNode{vm: v, external: true, manual: c.boolean("manualupgrade")}
			if !node.manual {
				node.version = k.version.semantic
			}
			k.nodes = append(k.nodes, node)
			k.size++
		}
	}), nil
}

func removeNodesFromCluster(c *call) (*jobSpec, error) {
	k, err := c.nodesTarget()
	var out []*clusterNode
	if err == nil {
		for _, r := range c.lists["nodeids"] {
			if v, ok := r.obj.(*vm); ok && !v.removed {
				if n := k.node(v); n != nil && n.external {
					out = append(out, n)
				}
			}
		}
		if len(out) == 0 || k.state() != vmRunning {
			err = invalid("No valid nodes found to be removed from the Kubernetes cluster")
		}
	}
	return c.nodesJob(k, clusterRemoving, "Failed to remove node(s) from Kubernetes cluster ID:", err, func(time.Time) {
		k.nodes = slices.DeleteFunc(k.nodes, func(n *clusterNode) bool { return slices.Contains(out, n) })
		k.size -= len(out)
	}), nil
}
