// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"fmt"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/fault"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// work collects the steps of a job on a cluster.
type work struct {
	c     *wire.Call
	k     *store.KubernetesCluster
	steps []store.JobStep
}

// job returns a job that runs the steps. If a step fails, the state of the cluster becomes failed.
func (w *work) job(failed string, answer func(now time.Time) (any, error)) *wire.JobSpec {
	spec := clusterJob(w.c, nil, answer)
	busy := w.k.Stored
	spec.Steps = w.steps
	spec.Undo = func() {
		if w.k.Stored == busy {
			w.k.Stored = failed
		}
	}
	return spec
}

// shown returns the answer that shows the cluster.
func (w *work) shown(time.Time) (any, error) {
	return wire.Object("kubernetescluster", viewCluster(w.c, w.k)), nil
}

// then adds a step. A step that takes no time runs immediately after the previous one.
func (w *work) then(takes time.Duration, do func(now time.Time) error) {
	w.steps = append(w.steps, store.JobStep{Takes: takes, Do: func(now time.Time) error { return cksError(do(now)) }})
}

// time returns how long the job of a command takes.
func (w *work) time(command string) time.Duration { return w.c.Server.Profile().JobTime(command) }

// fault returns err if a fault of the kind hits the call.
func (w *work) fault(kind fault.Kind, err error) error {
	if fault.Pick(w.c.Faults, kind) == nil {
		return nil
	}
	return err
}

// visit is a step inside the cluster's VMs: work to do, or a condition to wait for.
type visit struct {
	takes  time.Duration // duration if there is no ClusterInside
	limit  time.Duration // CloudStack's time-out
	broken error         // if set, the step fails with this error after the time-out
	call   func(ctx context.Context, in wire.ClusterInside, k *wire.InsideCluster) error
	failed func(err error) error // returns CloudStack's error
	done   func(now time.Time) error
}

// inside adds the step of a visit.
func (w *work) inside(v *visit) {
	in := w.c.Server.Inside
	failed := func(err error) error {
		w.k.Broken = true
		return v.failed(err)
	}

	switch {
	case v.broken != nil:
		w.then(v.limit, func(time.Time) error { return failed(v.broken) })
		return
	case in == nil:
		w.then(v.takes, v.done)
		return
	}

	var seen *wire.InsideCluster
	w.then(0, func(now time.Time) error {
		seen = insideCluster(w.c, w.k, now)
		return nil
	})

	w.then(v.limit, func(time.Time) error { return failed(context.DeadlineExceeded) })
	w.steps[len(w.steps)-1].Outside = func(ctx context.Context) func(now time.Time) error {
		err := v.call(ctx, in, seen)
		return func(now time.Time) error {
			if err != nil {
				return cksError(failed(err))
			}
			return cksError(v.done(now))
		}
	}
}

// insideCluster returns a copy of the cluster for a ClusterInside.
func insideCluster(c *wire.Call, k *store.KubernetesCluster, now time.Time) *wire.InsideCluster {
	u := serviceUser(c.St, k.Owner, now)
	out := &wire.InsideCluster{ID: k.UUID, Name: k.Name, Version: k.Version.Semantic, Endpoint: "https://" + apiHost(k)}
	out.Provider = fmt.Sprintf("[Global]\napi-url = %s\napi-key = %s\nsecret-key = %s\n", c.St.Setting("endpoint.url"),
		u.APIKey, u.SecretKey)
	if k.Owner.Project != nil {
		out.Provider += fmt.Sprintf("project-id = %s\n", k.Owner.Project.UUID)
	}
	for _, n := range k.Nodes {
		out.Nodes = append(out.Nodes, insideNode(n))
	}
	return out
}

func insideNode(n *store.ClusterNode) wire.InsideNode {
	out := wire.InsideNode{ID: n.VM.UUID, Name: n.VM.Name, Control: n.Control, Etcd: n.Etcd, Version: n.Version}
	if len(n.VM.NICs) > 0 {
		out.Address = n.VM.NICs[0].IP
	}
	return out
}

// apiHost returns the address and port of the cluster's API.
func apiHost(k *store.KubernetesCluster) string {
	host := ""
	if k.Address != nil {
		host = k.Address.Addr.String()
	}
	if control := k.NodesOf(store.NodeControl); host == "" && len(control) > 0 {
		host = control[0].VM.NICs[0].IP
	}
	return fmt.Sprintf("%s:%d", host, store.APIPort)
}
