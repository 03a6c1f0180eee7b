// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"k8s.io/utils/clock"

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// pollInterval is the time between two looks at a cluster.
const pollInterval = 2 * time.Second

// watched is what a follower asks of CloudStack.
type watched interface {
	KubernetesCluster(ctx context.Context, id, projectID string) (*cloudstack.KubernetesCluster, error)
	QueryJob(ctx context.Context, jobID string) (*cloudstack.Job, error)
	ListEvents(ctx context.Context, resourceType, resourceID, projectID string) ([]cloudstack.Event, error)
}

// goal is how a cluster is when an operation has succeeded. The cluster is nil when it is gone.
type goal func(k *cloudstack.KubernetesCluster) bool

// look is what is known of an operation at a time.
type look struct {
	cluster *cloudstack.KubernetesCluster // nil: gone
	job     *cloudstack.Job               // nil: not known
}

// judge reports whether the operation is over. cause is empty when it reached its goal.
func (g goal) judge(l look) (over bool, cause string) {
	if l.job != nil {
		switch l.job.Status {
		case cloudstack.JobPending:
			return false, ""
		case cloudstack.JobFailed, cloudstack.JobCancelled:
			return true, cmp.Or(l.job.ErrorText, "the job ended without a reason given, perhaps by a restart of the management server")
		case cloudstack.JobSucceeded:
		}
	}
	switch {
	case g(l.cluster):
		return true, ""
	case l.cluster == nil:
		return true, "the cluster does not exist any more"
	case inProgress(l.cluster.State):
		return false, ""
	}
	return true, "it ended in state " + l.cluster.State + ", and is not as it was asked for"
}

// follower watches an operation until it is over.
type follower struct {
	api      watched
	project  string
	clock    clock.Clock
	progress report.Progress

	id, name, job string
	noEvents      bool            // the role may not list them
	seen          map[string]bool // events
	all           []cloudstack.Event
	said          string
}

// begin notes the events that there are, so that later ones are those of the operation.
func (f *follower) begin(ctx context.Context) {
	f.seen = map[string]bool{}
	if f.id == "" {
		return
	}
	for _, e := range f.newEvents(ctx) {
		f.seen[e.ID] = true
	}
	f.all = nil
}

// newEvents are the events since the last call, oldest first.
func (f *follower) newEvents(ctx context.Context) []cloudstack.Event {
	if f.noEvents {
		return nil
	}
	all, err := f.api.ListEvents(ctx, cloudstack.ClusterResource, f.id, f.project)
	if err != nil {
		f.noEvents = !cloudstack.IsKind(err, cloudstack.KindTransient) && ctx.Err() == nil
		return nil
	}
	var fresh []cloudstack.Event
	for _, e := range slices.Backward(all) {
		if !f.seen[e.ID] {
			f.seen[e.ID] = true
			fresh = append(fresh, e)
		}
	}
	f.all = append(f.all, fresh...)
	return fresh
}

// follow returns when the operation is over, with the cluster as it is then, and the cause of a failure.
func (f *follower) follow(ctx context.Context, g goal) (k *cloudstack.KubernetesCluster, cause string, err error) {
	_, err = engine.Poll(ctx, f.clock, pollInterval, math.MaxInt64, func() (over bool, err error) {
		var l look
		if l, err = f.look(ctx); err != nil {
			return false, err
		}
		k = l.cluster
		f.say(ctx, k)
		over, cause = g.judge(l)
		return over, nil
	})
	if err != nil {
		return k, "", err
	}
	if cause != "" {
		f.newEvents(ctx)
		for _, e := range slices.Backward(f.all) {
			if e.Level == cloudstack.EventError && e.Description != cause {
				cause += "; " + e.Description
				break
			}
		}
	}
	return k, cause, nil
}

// look asks for the cluster and the job. The job comes first: what it has done is visible when it is over.
func (f *follower) look(ctx context.Context) (look, error) {
	var l look
	if f.job != "" {
		job, err := f.api.QueryJob(ctx, f.job)
		switch {
		case err == nil:
			l.job = job
		case cloudstack.IsNotFound(err), cloudstack.IsKind(err, cloudstack.KindNotPermitted), cloudstack.IsKind(err, cloudstack.KindInvalid):
			f.job = "" // the cluster's state tells
		case ctx.Err() != nil || !cloudstack.IsKind(err, cloudstack.KindTransient):
			return l, explain("read the job", err)
		default: // the server does not answer: ask again
			return look{job: &cloudstack.Job{Status: cloudstack.JobPending}}, nil
		}
	}
	k, err := f.api.KubernetesCluster(ctx, f.id, f.project)
	if cloudstack.IsKind(err, cloudstack.KindTransient) && ctx.Err() == nil {
		return look{job: &cloudstack.Job{Status: cloudstack.JobPending}}, nil
	}
	if err != nil {
		return l, explain("read cluster "+f.name, err)
	}
	l.cluster = k
	return l, nil
}

// say shows what is new.
func (f *follower) say(ctx context.Context, k *cloudstack.KubernetesCluster) {
	if k == nil {
		return
	}
	if text := stateText(k); text != f.said {
		f.said = text
		f.progress.Step("Cluster %s: %s", k.Name, text)
	}
	for _, e := range f.newEvents(ctx) {
		show := f.progress.Info
		if e.Level == cloudstack.EventError {
			show = f.progress.Warn
		}
		show("event %s: %s", e.Type, e.Description)
	}
}

// stateText is a cluster's state, and how many of its VMs run.
func stateText(k *cloudstack.KubernetesCluster) string {
	running := 0
	for _, vm := range k.Nodes {
		if vm.State == string(cloudstack.VMRunning) {
			running++
		}
	}
	return fmt.Sprintf("%s, %d of %d VMs run", k.State, running, max(len(k.Nodes), k.ControlNodes+k.Size+k.EtcdNodes))
}
