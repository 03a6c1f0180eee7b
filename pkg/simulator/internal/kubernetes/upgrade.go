// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/fault"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

func upgradeKubernetesCluster(c *wire.Call) (*wire.JobSpec, error) {
	k := clusterTarget(c)
	to := liveVersion(wire.Arg[*store.KubernetesVersion](c, "kubernetesversionid"))
	if err := checkClusterUpgrade(c, k, to); err != nil {
		return clusterJob(c, err, nil), nil
	}
	w := &work{c: c, k: k}
	before := k.Stored
	k.Stored = store.ClusterUpgrading
	for i, n := range slices.DeleteFunc(slices.Clone(k.Nodes),
		func(n *store.ClusterNode) bool { return n.Etcd || n.Manual }) {
		w.inside(upgradedNode(w, n, to, i == 0))
	}
	w.then(0, func(time.Time) error {
		k.Version, k.Stored = to, before
		return nil
	})
	return w.job(store.ClusterAlert, w.shown), nil
}

// upgradedNode returns the step that upgrades a node. It is an assumption that a node's version changes before the job
// ends.
func upgradedNode(w *work, n *store.ClusterNode, to *store.KubernetesVersion, first bool) *visit {
	k := w.k
	v := &visit{
		takes: w.time("upgradeKubernetesCluster"),
		limit: w.c.St.ClusterTimeout("upgrade"),
		call: func(ctx context.Context, in wire.ClusterInside, seen *wire.InsideCluster) error {
			return in.Upgrade(ctx, seen, insideNode(n), to.Semantic)
		},
		failed: func(err error) error {
			if first && errors.Is(err, wire.ErrNodesNotReady) {
				return wire.Invalid("Failed to upgrade Kubernetes cluster : %s, unable to get control Kubernetes "+
					"node on VM : %s in ready state",
					k.Name, n.VM.Display)
			}
			return wire.Invalid("Failed to upgrade Kubernetes cluster : %s, unable to upgrade Kubernetes node on VM "+
				": %s", k.Name, n.VM.Display)
		},
		done: func(time.Time) error {
			n.Version = to.Semantic
			return nil
		},
	}

	if first {
		v.broken = w.fault(fault.NodesNotReady, wire.ErrNodesNotReady)
	}

	return v
}

func checkClusterUpgrade(c *wire.Call, k *store.KubernetesCluster, to *store.KubernetesVersion) error {
	if err := checkEndpoint(c, k); err != nil {
		return err
	}

	if k == nil {
		return wire.Invalid("Invalid Kubernetes cluster ID")
	}

	if err := notExternal(k, "Upgrade"); err != nil {
		return err
	}

	if !c.Access(k.Owner) {
		return wire.Denied()
	}

	from, o := liveVersion(k.Version), k.Offering
	const text = "Kubernetes cluster : %s cannot be upgraded with Kubernetes version : %s which needs minimum %d %s " +
		"while associated service offering : %s offers only %d %s"
	switch {
	case k.State() != store.VMRunning:
		return wire.Invalid("Kubernetes cluster : %s is not in running state", k.Name)
	case to == nil:
		return wire.Invalid("Invalid Kubernetes version ID")
	case to.Disabled:
		return wire.Invalid("Kubernetes version ID: %s for upgrade is in %s state", to.UUID, to.State())
	case from == nil:
		return wire.Invalid("Invalid Kubernetes version associated with cluster : %s", k.Name)
	case o == nil:
		return wire.Invalid("Invalid service offering associated with Kubernetes cluster : %s", k.Name)
	case o.CPUNumber < to.MinCPU:
		return wire.Invalid(text, k.Name, to.Name, to.MinCPU, "vCPUs", o.Name, o.CPUNumber, "vCPUs")
	case o.MemMB < to.MinMemMB:
		return wire.Invalid(text, k.Name, to.Name, to.MinMemMB, "MB RAM", o.Name, o.MemMB, "MB RAM")
	}

	if err := checkUpgrade(from.Semantic, to.Semantic); err != nil {
		return err
	}

	iso := to.ISO(c.Now)
	if iso == "" {
		return wire.Invalid("Invalid ISO associated with version : %s", to.Name)
	}

	if iso != store.ISOReady || to.Zone != nil && to.Zone != k.Zone {
		return wire.Invalid("ISO associated with version : %s is not in Ready state for datacenter : %s", to.Name,
			k.Zone.Name)
	}

	return nil
}
