// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"errors"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/fault"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// deployCluster returns the steps of a new CloudManaged cluster in CloudStack's order: the address, the VMs one after
// the other, the rules, and the wait for Kubernetes. If one fails, what was created remains.
func deployCluster(c *wire.Call, k *store.KubernetesCluster) *work {
	w := &work{c: c, k: k}
	w.then(0, func(now time.Time) error {
		serviceUser(c.St, k.Owner, now)
		full := wire.Invalid("Provisioning the cluster failed due to insufficient capacity in the Kubernetes "+
			"cluster: %s", k.UUID)
		if err := w.fault(fault.Capacity, full); err != nil {
			return err
		}
		return clusterAddress(c, k, now)
	})

	refused := func(what string) error {
		return wire.Invalid("Provisioning %s VM failed in the Kubernetes cluster : %s", what, k.Name)
	}
	for range k.Etcd {
		w.node(store.NodeEtcd, refused("etcd"))
	}

	for i := range k.Control {
		what := "the control"
		if i > 0 {
			what = "additional control"
		}
		w.node(store.NodeControl, refused(what))
	}

	for range k.Size {
		w.node(store.NodeWorker, refused("node"))
	}

	w.then(w.time("createFirewallRule"), func(now time.Time) error {
		failed := wire.Invalid("Failed to setup Kubernetes cluster : %s, unable to setup network rules", k.Name)
		if err := w.fault(fault.RouterRefuses, failed); err != nil {
			return err
		}
		return openCluster(c, k, now)
	})

	w.inside(firstStart(w))
	return w
}

// firstStart returns the step that waits for the API and the nodes of a new cluster.
func firstStart(w *work) *visit {
	k, kubeconfig := w.k, ""
	endpoint := func() { k.Endpoint = "https://" + apiHost(k) + "/" }
	broken := w.fault(fault.APIUnreachable, context.DeadlineExceeded)
	if broken == nil {
		broken = w.fault(fault.NodesNotReady, wire.ErrNodesNotReady)
	}

	return &visit{
		takes:  w.time("createKubernetesCluster"),
		limit:  w.c.St.ClusterTimeout("start"),
		broken: broken,
		call: func(ctx context.Context, in wire.ClusterInside, seen *wire.InsideCluster) error {
			var err error
			kubeconfig, err = in.Start(ctx, seen)
			return err
		},
		failed: func(err error) error {
			if errors.Is(err, wire.ErrNodesNotReady) {
				endpoint()
				return wire.Invalid("Failed to setup Kubernetes cluster : %s as it does not have desired number of "+
					"nodes in ready state", k.Name)
			}
			return wire.Invalid("Failed to setup Kubernetes cluster : %s in usable state as unable to provision API "+
				"endpoint for the cluster",
				k.Name)
		},
		done: func(now time.Time) error {
			if kubeconfig == "" {
				var err error
				if kubeconfig, err = newKubeconfig("https://"+apiHost(k), now); err != nil {
					return err
				}
			}
			endpoint()
			k.Kubeconfig, k.Stored = kubeconfig, store.VMRunning
			return nil
		},
	}
}

// node adds the steps that create and start a VM.
func (w *work) node(kind string, refused error) {
	var v *store.VM
	w.then(0, func(now time.Time) error {
		var err error
		if v, err = enterNode(w.c, w.k, kind, now); err != nil {
			return refused
		}
		return nil
	})
	w.then(w.time("deployVirtualMachine"), func(now time.Time) error {
		if v.State == store.VMStarting && w.c.St.Boot(v, now) {
			return nil
		}
		return refused
	})
}
