// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// These commands add VMs to a CloudManaged cluster as workers, and remove them. The answers for an ExternalManaged
// cluster are recorded. For CloudManaged clusters, the requirements and states are those of CloudStack's
// documentation, and the error texts are the simulator's own.

func addNodes(c *wire.Call) (*wire.JobSpec, error) {
	return nodesJob(changeNodes(c, "Failed to add nodes to cluster ID %d due to: %s",
		`Cannot invoke "java.lang.Long.longValue()" because the return value of "com.cloud.kubernetes.cluster.KubernetesClusterVO.getNetworkId()" is null`,
		store.ClusterImporting, canJoin, (*work).admit)), nil
}

func removeNodes(c *wire.Call) (*wire.JobSpec, error) {
	return nodesJob(changeNodes(c, "Failed to remove node(s) from Kubernetes cluster ID: %d due to: %s",
		`Cannot invoke "java.lang.Long.longValue()" because the return value of "com.cloud.kubernetes.cluster.KubernetesCluster.getTemplateId()" is null`,
		store.ClusterRemoving, canLeave, (*work).dismiss)), nil
}

func nodesJob(spec *wire.JobSpec) *wire.JobSpec {
	spec.InstanceType = "KubernetesCluster"
	return spec
}

// changeNodes returns the job that adds or removes nodes. external is the error text for an ExternalManaged cluster;
// during is the state of the cluster while the job runs.
func changeNodes(
	c *wire.Call, failed, external, during string, check func(k *store.KubernetesCluster, v *store.VM) string,
	change func(w *work, vms []*store.VM, failed func(why string) error),
) *wire.JobSpec {
	k := clusterTarget(c)
	if k == nil {
		return clusterJob(c, wire.Invalid("Invalid Kubernetes cluster ID"), nil)
	}

	refuse := func(why string) error { return wire.Invalid(failed, k.ID, why) }
	switch {
	case !c.Access(k.Owner):
		return clusterJob(c, wire.Denied(), nil)
	case k.Kind == store.ExternalManaged && k.Network != nil:
		return clusterJob(c, refuse("the simulator has no recording of an ExternalManaged cluster with a network"), nil)
	case k.Kind == store.ExternalManaged:
		return clusterJob(c, refuse(external), nil)
	case k.State() != store.VMRunning:
		return clusterJob(c, refuse("the cluster is in state "+k.State()), nil)
	}

	var vms []*store.VM
	for _, r := range c.Lists["nodeids"] {
		v, _ := r.Obj.(*store.VM)
		if v == nil || v.Removed || !c.Access(v.Owner) {
			return clusterJob(c, wire.Denied(), nil)
		}
		if why := check(k, v); why != "" {
			return clusterJob(c, refuse("VM "+v.Name+" "+why), nil)
		}
		vms = append(vms, v)
	}

	w := &work{c: c, k: k}
	k.Stored = during
	change(w, vms, refuse)
	w.reopen()
	w.then(w.time("scaleKubernetesCluster"), func(time.Time) error {
		k.Measure()
		k.Stored = store.VMRunning
		return nil
	})

	return w.job(store.VMRunning, w.shown)
}

// canJoin returns why a VM cannot become a node; empty if it can.
func canJoin(k *store.KubernetesCluster, v *store.VM) string {
	switch {
	case k.Node(v) != nil:
		return "is a node of the cluster"
	case v.State != store.VMRunning:
		return "is not running"
	case v.NICIn(k.Network) == nil:
		return "has no NIC in the cluster's network"
	case v.Offering.CPUNumber < minNodeCPU ||
		v.Offering.MemMB < minNodeMem ||
		store.RootGiB(v.Details) < defaultRootDisk:
		return "has fewer than 2 CPUs, or less than 2 GB of memory or 8 GB of root disk"
	}
	return ""
}

// canLeave returns why a VM cannot be removed; empty if it can.
func canLeave(k *store.KubernetesCluster, v *store.VM) string {
	if n := k.Node(v); n == nil || !n.External {
		return "is not an external node of the cluster"
	}
	return ""
}

// admit adds VMs as workers: CloudStack configures and restarts them, and waits until they are ready Nodes.
func (w *work) admit(vms []*store.VM, failed func(string) error) {
	k, manual := w.k, w.c.Boolean("manualupgrade")
	w.then(w.time("rebootVirtualMachine"), func(time.Time) error {
		for _, v := range vms {
			k.Nodes = append(k.Nodes,
				&store.ClusterNode{VM: v, Version: k.Version.Semantic, External: true, Manual: manual})
		}
		k.Size += len(vms)
		return nil
	})
	w.inside(&visit{
		limit: w.c.St.ClusterTimeout("add.node"),
		call: func(ctx context.Context, in wire.ClusterInside, seen *wire.InsideCluster) error {
			return in.Join(ctx, seen, seen.Nodes[len(seen.Nodes)-len(vms):])
		},
		failed: func(error) error { return failed("not every node became ready") },
		done:   func(time.Time) error { return nil },
	})
}

// dismiss removes nodes from the cluster. Their VMs are kept.
func (w *work) dismiss(vms []*store.VM, failed func(string) error) {
	k := w.k
	for _, v := range vms {
		n := k.Node(v)
		w.inside(&visit{
			limit: w.c.St.ClusterTimeout("remove.node"),
			call: func(ctx context.Context, in wire.ClusterInside, seen *wire.InsideCluster) error {
				return in.Leave(ctx, seen, insideNode(n))
			},
			failed: func(error) error { return failed("node " + v.Name + " could not be removed") },
			done: func(time.Time) error {
				w.c.St.ReleaseNode(k, n)
				return nil
			},
		})
	}
}
