// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/csccm/csccm/installer/commands/cks/facts"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// task is a plan with what carries it out.
type task struct {
	plan   *Plan
	ignore []string // codes of preflight findings
	submit func(ctx context.Context) (cloudstack.Submitted, error)
	goal   goal
	// before and after are steps around the operation.
	before, after []engine.Step
	// done is told the cluster as it is at the end; may be nil.
	done func(k *cloudstack.KubernetesCluster)
}

// run shows the plan, asks, starts the operation and follows it to its end.
func (s *Service) run(ctx context.Context, op *task) error {
	p := op.plan
	p.DryRun, p.Project = s.DryRun, s.Project
	f := &follower{api: s.API, project: s.Project, clock: s.Clock, progress: s.Progress, id: p.ID, name: p.Cluster}
	var steps []engine.Step
	if p.Action == ActionChange {
		steps = append(steps, op.before...)
		steps = append(steps, engine.Step{Name: p.what(), Do: func(ctx context.Context, note engine.Note) error {
			f.begin(ctx)
			return s.start(ctx, op, f, note)
		}})
	}
	if p.Action != ActionNone {
		steps = append(steps, engine.Step{Name: "follow cluster " + p.Cluster, ReadOnly: true, Do: func(ctx context.Context, _ engine.Note) error {
			return s.follow(ctx, op, f)
		}})
	}
	steps = append(steps, op.after...)
	e := *s.Env
	e.Yes = e.Yes || p.Action == ActionFollow && len(op.after) == 0 // nobody needs to agree to looking
	return e.Run(ctx, engine.Operation{
		Name: "cks-" + p.Operation, What: p.what(),
		Back: "CloudStack goes on with what it has begun, and csccm cks show " + p.Cluster + " --watch shows it",
		Plan: p, Show: func(w io.Writer) error { return p.Write(w, e.StyleOf(w)) },
		Check: func(context.Context) error { return judge(p, op.ignore) },
		Steps: steps,
		Done: func(w io.Writer) error {
			if p.Action == ActionNone && len(op.after) == 0 {
				return nil
			}
			_, err := fmt.Fprintf(w, "Cluster %s: %s\n", p.Cluster, p.end())
			return err
		},
	})
}

// end says how the operation ended well.
func (p *Plan) end() string {
	switch {
	case p.State == "":
		return "deleted"
	case p.Operation == "create":
		return p.State + "; csccm cks kubeconfig " + p.Cluster + " writes the configuration for kubectl"
	}
	return p.State
}

// start sends the command. Where no answer comes, the cluster's state says whether it arrived.
func (s *Service) start(ctx context.Context, op *task, f *follower, note engine.Note) error {
	p := op.plan
	sent, err := op.submit(ctx)
	var api *cloudstack.Error
	if errors.As(err, &api) && api.MayHaveHappened && ctx.Err() == nil {
		if k := s.begun(ctx, p); k != nil {
			s.Progress.Warn("%v; but cluster %s is %s, so it did", err, k.Name, k.State)
			p.ID, f.id, err = k.ID, k.ID, nil
		}
	}
	if err != nil {
		return explain(p.what(), err)
	}
	if p.ID == "" {
		p.ID, f.id = sent.ID, sent.ID
	}
	p.Job, f.job = sent.JobID, sent.JobID
	note("cluster %s (%s), job %s", p.Cluster, p.ID, p.Job)
	return nil
}

// begun returns the cluster if CloudStack works on it, or if it did not exist before; nil otherwise.
func (s *Service) begun(ctx context.Context, p *Plan) *cloudstack.KubernetesCluster {
	all, err := s.API.ListKubernetesClusters(ctx, s.Project)
	if err != nil {
		return nil
	}
	for i := range all {
		if k := &all[i]; k.ID == p.ID && inProgress(k.State) || p.ID == "" && k.Name == p.Cluster {
			return k
		}
	}
	return nil
}

// follow watches the operation and completes the plan.
func (s *Service) follow(ctx context.Context, op *task, f *follower) error {
	p := op.plan
	if f.seen == nil {
		f.begin(ctx)
	}
	k, cause, err := f.follow(ctx, op.goal)
	p.State = ""
	if k != nil {
		p.State = k.State
	}
	for _, e := range f.all {
		p.Events = append(p.Events, Event{Created: e.Created, Type: e.Type, Level: e.Level, State: e.State, Description: e.Description, User: e.Username})
	}
	if err != nil {
		return err
	}
	if p.Cause = cause; cause != "" {
		fix := "csccm cks show " + p.Cluster + " shows its events"
		if k != nil {
			if next := nextStep(k); next != "" && k.State != stateRunning {
				fix += "; " + next
			}
		}
		return &report.Error{What: fmt.Sprintf("%s failed, the cluster is %s: %s", p.what(), orGone(p.State), cause), Fix: fix}
	}
	p.Done = len(op.after) == 0
	s.Progress.Done("")
	if op.done != nil && k != nil {
		op.done(k)
	}
	return nil
}

func orGone(state string) string {
	if state == "" {
		return "gone"
	}
	return state
}

// reader reads facts for the preflight, and asks the cluster itself where it can be reached.
func (s *Service) reader(ctx context.Context, k *cloudstack.KubernetesCluster) *facts.Reader {
	r := &facts.Reader{API: s.API, ProjectID: s.Project, Clock: s.Clock}
	if k == nil {
		return r
	}
	var err error
	if r.Kube, err = s.inside(ctx, k); err != nil {
		r.Kube, r.NoKube = nil, err.Error()
	}
	return r
}

// insideTimeout bounds one request to a cluster's API server.
const insideTimeout = 5 * time.Second

// inside connects to a cluster by its kubeconfig. No error shows a part of that.
func (s *Service) inside(ctx context.Context, k *cloudstack.KubernetesCluster) (kubernetes.Interface, error) {
	if k.State != stateRunning && k.State != stateAlert {
		return nil, fmt.Errorf("the cluster is %s", k.State)
	}
	text, err := s.API.KubernetesClusterConfig(ctx, k.ID)
	if err != nil {
		return nil, errors.New("CloudStack does not give the cluster's kubeconfig")
	}
	if s.Kube != nil {
		return s.Kube(text)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(text))
	if err != nil {
		return nil, errors.New("the cluster's kubeconfig cannot be used")
	}
	config.ExecProvider, config.AuthProvider = nil, nil // what CloudStack answers must not start programs here
	config.Timeout = insideTimeout
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, errors.New("the cluster's kubeconfig cannot be used")
	}
	if _, err := client.Discovery().ServerVersion(); err != nil {
		return nil, fmt.Errorf("the API server at %s does not answer", config.Host)
	}
	return client, nil
}
