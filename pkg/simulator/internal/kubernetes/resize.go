// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"slices"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/fault"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// autoscale applies the autoscaling parameters.
func (s *scaling) autoscale(c *wire.Call, k *store.KubernetesCluster) {
	if s.autoscaling == nil {
		return
	}
	k.Autoscaling, k.MinSize, k.MaxSize = *s.autoscaling, c.OptInt("minsize"), c.OptInt("maxsize")
	if !k.Autoscaling {
		k.MinSize, k.MaxSize = nil, nil
	}
}

// offer adds the steps that change the service offerings, one VM after the other: control nodes, etcd nodes, workers.
func (w *work) offer(s *scaling) {
	k := w.k
	for _, kind := range []string{store.NodeControl, store.NodeEtcd, store.NodeWorker} {
		o := s.offeringOf(kind)
		if o == nil || o == k.OfferingOf(kind) {
			continue
		}
		for _, n := range k.NodesOf(kind) {
			w.then(w.time("scaleVirtualMachine"), func(time.Time) error {
				n.VM.Offering = o
				return nil
			})
		}
		w.then(0, func(time.Time) error {
			k.Offerings[kind] = o
			return nil
		})
	}

	if s.offering != nil {
		w.then(0, func(time.Time) error {
			k.Offering = s.offering
			return nil
		})
	}
}

// grow adds the steps that add workers.
func (w *work) grow(size int) {
	k, more := w.k, size-w.k.Size
	for range more {
		w.node(store.NodeWorker,
			wire.Invalid("Scaling failed for Kubernetes cluster : %s, unable to provision node VM in the cluster",
				k.Name))
	}

	w.reopen()
	w.inside(&visit{
		limit:  w.c.St.ClusterTimeout("scale"),
		broken: w.fault(fault.NodesNotReady, wire.ErrNodesNotReady),
		call: func(ctx context.Context, in wire.ClusterInside, seen *wire.InsideCluster) error {
			return in.Join(ctx, seen, seen.Nodes[len(seen.Nodes)-more:])
		},
		failed: func(error) error {
			return wire.Invalid("Scaling unsuccessful for Kubernetes cluster : %s as it does not have desired number "+
				"of nodes in ready state",
				k.Name)
		},
		done: func(time.Time) error {
			k.Size = size
			return nil
		},
	})
}

// shrink adds the steps that remove the named nodes or the newest workers, one after the other.
func (w *work) shrink(s *scaling) {
	k, remove := w.k, s.remove
	if s.size != nil {
		workers := k.NodesOf(store.NodeWorker)
		remove = workers[max(len(workers)-(k.Size-*s.size), 0):]
	}

	remove = slices.Clone(remove)
	slices.Reverse(remove)
	for _, n := range remove {
		w.inside(&visit{
			limit: w.c.St.ClusterTimeout("scale"),
			call: func(ctx context.Context, in wire.ClusterInside, seen *wire.InsideCluster) error {
				return in.Leave(ctx, seen, insideNode(n))
			},
			failed: func(error) error {
				return wire.Invalid("Scaling failed for Kubernetes cluster %s, failed to remove Kubernetes node: %s "+
					"running on VM : %s",
					k.Text(), n.VM.Name, n.VM.Text())
			},
			done: func(time.Time) error { return nil },
		})
		w.then(w.time("destroyVirtualMachine"), func(time.Time) error {
			w.c.St.RemoveNode(k, n)
			return nil
		})
	}

	if len(remove) == 0 {
		return
	}

	w.reopen()
	w.then(0, func(time.Time) error {
		k.Size -= len(remove)
		return nil
	})
}

// reopen adds the step that adapts the SSH rules to the new set of nodes.
func (w *work) reopen() {
	w.then(w.time("createFirewallRule"), func(now time.Time) error {
		reopenSSH(w.c, w.k, now)
		return nil
	})
}
