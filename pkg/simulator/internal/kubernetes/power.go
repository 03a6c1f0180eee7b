// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/fault"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// clusterTarget returns the cluster that the command names, or nil if it is deleted.
func clusterTarget(c *wire.Call) *store.KubernetesCluster {
	k := wire.Arg[*store.KubernetesCluster](c, "id")
	if k == nil || k.Removed {
		return nil
	}
	return k
}

func notExternal(k *store.KubernetesCluster, verb string) error {
	if k.Kind == store.ExternalManaged {
		return wire.Invalid("%s kubernetes cluster is not supported for an externally managed cluster (%s)", verb,
			k.Name)
	}
	return nil
}

// clusterToSwitch returns the cluster that the command starts or stops.
func clusterToSwitch(c *wire.Call, verb, missing string) (*store.KubernetesCluster, error) {
	k := clusterTarget(c)
	if k == nil {
		return nil, wire.Invalid("%s", missing)
	}
	if err := notExternal(k, verb); err != nil {
		return nil, err
	}
	if !c.Access(k.Owner) {
		return nil, wire.Denied()
	}
	return k, nil
}

func startKubernetesCluster(c *wire.Call) (*wire.JobSpec, error) {
	k, err := clusterToSwitch(c, "Start", "Given Kubernetes cluster was not found")
	if err != nil {
		return clusterJob(c, err, nil), nil
	}

	w := &work{c: c, k: k}
	switch k.State() {
	case store.VMRunning, store.VMStarting: // nothing to do
		return clusterJob(c, nil, w.shown), nil
	}

	if k.Endpoint == "" {
		err := wire.Invalid("Kubernetes cluster : %s has invalid API endpoint. Can not verify if cluster is in "+
			"ready state", k.Name)
		return clusterJob(c, err, nil), nil
	}

	k.Stored = store.VMStarting
	for _, n := range k.Nodes {
		w.start(n.VM)
	}

	w.then(0, func(time.Time) error {
		for _, n := range k.Nodes {
			if n.VM.State != store.VMRunning {
				return wire.Invalid("Failed to start all VMs in Kubernetes cluster : %s", k.Name)
			}
		}
		return nil
	})

	w.inside(restarted(w))
	return w.job(store.ClusterAlert, w.shown), nil
}

// start adds the steps that start a stopped VM. A failure does not end the job: the other VMs start nevertheless.
func (w *work) start(v *store.VM) {
	w.then(0, func(now time.Time) error {
		if v.State == store.VMStopped {
			v.State, v.Updated = store.VMStarting, now
			v.Host, _ = w.c.St.PlaceVM(v)
		}
		return nil
	})
	w.then(w.time("startVirtualMachine"), func(now time.Time) error {
		if v.State == store.VMStarting && !w.c.St.Boot(v, now) {
			v.FailStart(store.VMStopped, now)
		}
		return nil
	})
}

// restarted returns the step that waits for the API of a cluster that was stopped.
func restarted(w *work) *visit {
	k, kubeconfig := w.k, ""
	return &visit{
		takes:  w.time("startKubernetesCluster"),
		limit:  w.c.St.ClusterTimeout("start"),
		broken: w.fault(fault.APIUnreachable, context.DeadlineExceeded),
		call: func(ctx context.Context, in wire.ClusterInside, seen *wire.InsideCluster) error {
			var err error
			kubeconfig, err = in.Start(ctx, seen)
			return err
		},
		failed: func(error) error {
			return wire.Invalid("Failed to start Kubernetes cluster : %s in usable state", k.Name)
		},
		done: func(time.Time) error {
			if kubeconfig != "" {
				k.Kubeconfig = kubeconfig
			}
			k.Stored, k.Broken = store.VMRunning, false
			return nil
		},
	}
}

func stopKubernetesCluster(c *wire.Call) (*wire.JobSpec, error) {
	k, err := clusterToSwitch(c, "Stop", "Failed to find Kubernetes cluster with given ID")
	if err != nil {
		return clusterJob(c, err, nil), nil
	}

	done := func(time.Time) (any, error) { return wire.Success{Success: true}, nil }
	state := k.State()
	if state == store.VMStopped || state == store.VMStopping {
		return clusterJob(c, nil, done), nil
	}

	if state == store.VMRunning || state == store.ClusterAlert || state == store.VMStarting {
		k.Stored = store.VMStopping
	}

	w := &work{c: c, k: k}
	for _, n := range k.Nodes {
		w.stop(n.VM)
	}

	w.then(w.time("stopKubernetesCluster"), func(time.Time) error {
		if k.Stored == store.VMStopping {
			k.Stored = store.VMStopped
		}
		return nil
	})

	return w.job(store.ClusterAlert, done), nil
}

// stop adds the steps that stop a VM.
func (w *work) stop(v *store.VM) {
	w.then(0, func(now time.Time) error {
		v.Stopping(now)
		return nil
	})
	w.then(w.time("stopVirtualMachine"), func(now time.Time) error {
		if v.State == store.VMStopping || v.State == store.VMRunning {
			v.Stopped(now)
		}
		return nil
	})
}
