// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"slices"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

func deleteKubernetesCluster(c *wire.Call) (*wire.JobSpec, error) {
	k := clusterTarget(c)
	if err := checkClusterDelete(c, k); err != nil {
		spec := clusterJob(c, err, nil)
		spec.InstanceType = "KubernetesCluster"
		return spec, nil
	}

	w := &work{c: c, k: k}
	if k.Kind == store.CloudManaged {
		k.Stored = store.ClusterDestroy
		w.dismantle()
	}

	spec := w.job(store.ClusterAlert, func(now time.Time) (any, error) {
		if k.Removed {
			return nil, wire.Invalid("Invalid cluster id specified")
		}
		c.St.DestroyCluster(k, c.Boolean("cleanup") || c.Boolean("expunge"), c.Boolean("expunge"), now)
		return wire.Success{Success: true}, nil
	})

	spec.InstanceType = "KubernetesCluster"
	return spec, nil
}

// dismantle adds the steps that remove the VMs, one after the other. The end of the job removes the network or the
// rules.
func (w *work) dismantle() {
	k := w.k
	for _, n := range k.Nodes {
		w.then(0, func(now time.Time) error {
			n.VM.Stopping(now)
			return nil
		})
		w.then(w.time("destroyVirtualMachine"), func(time.Time) error {
			w.c.St.RemoveNode(k, n)
			return nil
		})
	}

	if w.c.Server.Inside == nil {
		w.then(w.time("deleteKubernetesCluster"), func(time.Time) error { return nil })
		return
	}

	w.inside(&visit{
		limit: w.c.St.ClusterTimeout("start"), // CloudStack has no time-out here
		call: func(ctx context.Context, in wire.ClusterInside, seen *wire.InsideCluster) error {
			return in.Delete(ctx, seen)
		},
		failed: func(error) error { return nil },
		done:   func(time.Time) error { return nil },
	})
}

func checkClusterDelete(c *wire.Call, k *store.KubernetesCluster) error {
	if k == nil {
		return wire.Invalid("Invalid cluster id specified")
	}

	if !c.Access(k.Owner) {
		return wire.Denied()
	}

	if k.Kind == store.ExternalManaged {
		if c.Boolean("expunge") && c.Caller.Account.Normal() && !c.St.BoolSetting("allow.user.expunge.recover.vm") {
			return wire.Invalid("Parameter expunge can be passed by Admin only. Or when the " +
				"allow.user.expunge.recover.vm key is set.")
		}
		return nil
	}

	switch k.State() {
	case store.VMRunning, store.VMStopped, store.ClusterAlert, store.VMError, store.ClusterDestroy:
	default:
		return wire.Invalid("Cannot perform delete operation on cluster %s in state: %s", k.Text(), k.State())
	}

	if slices.ContainsFunc(k.Nodes, func(n *store.ClusterNode) bool { return n.External }) {
		return wire.Invalid("Cannot delete cluster %s, which has external nodes", k.Text())
	}

	if !k.OwnNetwork {
		return nil
	}

	guests := 0
	for _, v := range c.St.VMs.Rows {
		if !v.Removed && v.NICIn(k.Network) != nil {
			guests++
		}
	}

	if guests > len(k.Nodes) {
		return wire.Invalid("Network : %s for Kubernetes cluster : %s has instances using it which are not part of "+
			"the Kubernetes cluster",
			k.Network.Name, k.Name)
	}

	return nil
}
