// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cks

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/installer/check/ckscheck"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/poll"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// task is a run of an operation on one cluster. The operation's prepare function sets the fields from differs on.
type task struct {
	*Service
	Operation
	Options
	cluster *cloudapi.KubernetesCluster // as it was before the operation; nil if it did not exist
	plan    *Plan
	said    string            // progress text that was shown last
	named   map[string]object // objects that flags name, by flag; see resolve

	// differs returns how a cluster differs from the options; nothing once the operation has succeeded.
	differs       func(k *cloudapi.KubernetesCluster) []Change
	facts         func(*ckscheck.Reader) (*ckscheck.Facts, error) // reads the facts for the preflight; nil skips it
	rules         func(*ckscheck.Facts) []ckscheck.Finding        // checks of the preflight
	params        cloudstack.Params                               // of the API command
	before, after []engine.Step                                   // steps before and after the API command
}

// Action is what a command does with a cluster.
type Action string

// The actions.
const (
	ActionChange Action = "change" // start the operation and follow it
	ActionFollow Action = "follow" // follow the operation, which already runs
	ActionNone   Action = "none"   // do nothing, the cluster is already in that state
)

// Plan is what a command is about to do with an object of CloudStack. The run adds how it ended.
type Plan struct {
	Operation string             `json:"operation"`
	Object    string             `json:"object"` // kind of object, such as cluster
	Name      string             `json:"name"`
	ID        string             `json:"id,omitempty"`
	Project   string             `json:"project,omitempty"`
	Action    Action             `json:"action"`
	Changes   []Change           `json:"-"`        // shown as those of all plans
	Findings  []ckscheck.Finding `json:"findings"` // of the preflight

	Done  bool   `json:"done"`            // everything is as requested
	State string `json:"state,omitempty"` // last known state; empty if the cluster does not exist
	Job   string `json:"job,omitempty"`
	Cause string `json:"cause,omitempty"` // why the operation failed

	verb string // for messages; "" means Operation
}

// Change is one change in a plan.
type Change struct {
	What string `json:"what"`
	From string `json:"from,omitempty"`
	To   string `json:"to"`
}

// Run carries out an operation on the cluster with that name or id, and follows it to its end. CloudStack continues the
// operation if csccm stops following it. A second run recognizes it by the state of the cluster and follows it.
func (s *Service) Run(ctx context.Context, op Operation, name string, o Options) error {
	t := &task{Service: s, Operation: op, Options: o}
	t.plan = s.plan(op.name, "cluster", name)
	t.plan.verb = op.verb
	if err := s.needs(ctx, &o, "csccm cks "+op.name, op.since); err != nil {
		return err
	}

	if err := op.prepare(ctx, t, name); err != nil {
		return err
	}

	if err := t.decide(); err != nil {
		return err
	}

	return t.run(ctx)
}

// plan returns a new plan of an operation on an object.
func (s *Service) plan(operation, object, name string) *Plan {
	return &Plan{
		Operation: operation,
		Object:    object,
		Name:      name,
		Project:   s.Project,
		Action:    ActionChange,
		Findings:  []ckscheck.Finding{},
	}
}

// call carries out a plan that consists of one API call, whose job it waits for, and of the steps in after.
func (s *Service) call(ctx context.Context, p *Plan, command string, f cloudstack.Params, after ...engine.Step) error {
	steps := append([]engine.Step{{Name: p.what(), Do: func(ctx context.Context) error {
		err := s.API.Do(ctx, command, f)
		if p.Done = err == nil && len(after) == 0; err == nil {
			s.Note("%s", p.what())
		}
		return explain(p.what(), err)
	}}}, after...)

	switch p.Action {
	case ActionNone:
		steps = nil
	case ActionFollow:
		steps = after
	case ActionChange:
	}

	return s.Env.Run(ctx, s.operation(p, steps))
}

// operation returns the operation that carries out a plan.
func (s *Service) operation(p *Plan, steps []engine.Step) engine.Operation {
	return engine.Operation{
		Name:  "cks-" + p.Operation,
		What:  p.what(),
		Plan:  p.shown(s.Env),
		Steps: steps,
		Check: func(context.Context) error { return p.judge(nil) },
		Done:  func() string { return fmt.Sprintf("Done: %s\n", p.what()) },
	}
}

// found sets the cluster that the operation is about.
func (t *task) found(k *cloudapi.KubernetesCluster) {
	t.cluster, t.plan.Name, t.plan.ID, t.plan.State = k, k.Name, k.ID, k.State
}

// decide sets the action of the plan, by the state of the cluster and by how it differs from the options. CloudStack
// runs one operation on a cluster at a time.
func (t *task) decide() error {
	k, p := t.cluster, t.plan
	p.Action = ActionChange
	if k == nil {
		return nil
	}

	p.Changes = append(p.Changes, t.differs(k)...)

	done := len(p.Changes) == 0
	switch {
	case k.Type == cloudstack.ExternalManaged:
		return report.Usage(
			"change the cluster with the tool that created it; csccm cks list shows which clusters CloudStack created",
			"CloudStack cannot %s cluster %s: it is ExternalManaged, CloudStack only lists it", t.name, k.Name,
		)

	case slices.Contains(t.during, k.State), done && len(t.after) > 0 && k.State == stateRunning:
		p.Action = ActionFollow

	case inProgress(k.State):
		return report.CheckFailed(
			"wait until it is over: csccm cks show "+k.Name+" --watch; then run the command again",
			"cluster %s is %s: another operation on it is in progress; nothing was changed", k.Name, k.State,
		)

	case done && slices.Contains(t.to, k.State):
		p.Action, p.Done = ActionNone, true

	case done || t.from != nil && !slices.Contains(t.from, k.State):
		return report.CheckFailed(
			nextStep(k),
			"CloudStack cannot %s cluster %s while it is %s: nothing was changed", t.name, k.Name, k.State,
		)
	}

	return nil
}

// what describes the plan in a few words, for the confirmation and for errors.
func (p *Plan) what() string { return cmp.Or(p.verb, p.Operation) + " " + p.Object + " " + p.Name }

// shown returns the plan as all commands show theirs. Its details are p, which the steps complete.
func (p *Plan) shown(e *engine.Env) *engine.Plan {
	out := e.NewPlan()
	out.Details = p
	out.Title = map[Action]string{
		ActionNone:   report.Capital(p.Object) + " " + p.Name + ": nothing to do, already in that state",
		ActionChange: "To do: " + p.what(),
		ActionFollow: report.Capital(p.Object) + " " + p.Name + ": following it, it is " + p.State + " already",
	}[p.Action]

	for _, c := range p.Changes {
		text := c.To
		if c.From != "" {
			text = c.From + " -> " + c.To
		}
		out.Add(c.What, text, c)
	}

	for _, f := range p.Findings {
		text := f.String() + " [" + f.Code + "]"
		if f.Reference != "" {
			text += " (" + f.Reference + ")"
		}

		if f.Remedy != "" {
			text += "; fix: " + f.Remedy
		}

		out.Warnings = append(out.Warnings, text)
	}

	return out
}

// judge returns an error if the preflight has findings of severity error whose codes are not in ignored.
func (p *Plan) judge(ignored []string) error {
	var codes, texts []string
	for _, f := range p.Findings {
		if f.Severity == ckscheck.Error && !slices.Contains(ignored, f.Code) {
			codes, texts = append(codes, f.Code), append(texts, f.String())
		}
	}

	if len(codes) == 0 {
		return nil
	}

	slices.Sort(codes)
	return report.CheckFailed(
		"correct that; --ignore-preflight "+strings.Join(slices.Compact(codes), ",")+
			" continues anyway, and CloudStack decides",
		"cannot %s, because the preflight found %s: %s; nothing was changed",
		p.what(), report.Count(len(codes), "problem"), strings.Join(texts, "; "),
	)
}

// run shows the plan, asks for confirmation, starts the operation and follows it to its end.
func (t *task) run(ctx context.Context) error {
	p := t.plan
	if p.Action == ActionChange && t.facts != nil {
		in := &ckscheck.Reader{API: t.API, ProjectID: t.Project, Clock: t.Clock}
		if t.cluster != nil {
			in.Kube, _, in.NoKube = t.inside(ctx, t.cluster)
		}

		facts, err := t.facts(in)
		if err != nil {
			return explain("look at what is needed to "+p.what(), err)
		}

		p.Findings = append(p.Findings, t.rules(facts)...)
	}

	var steps []engine.Step
	if p.Action == ActionChange {
		steps = slices.Concat(t.before, []engine.Step{{Name: p.what(), Do: t.start}})
	}

	if p.Action != ActionNone {
		steps = append(steps, engine.Step{Name: "follow cluster " + p.Name, ReadOnly: true, Do: t.follow})
		steps = append(steps, t.after...)
	}

	op := t.operation(p, steps)
	op.Looks = p.Action == ActionFollow && len(t.after) == 0
	op.Back = "CloudStack continues the operation, and csccm cks show " + p.Name + " --watch shows it"
	op.Check = func(context.Context) error { return p.judge(strings.Split(strings.Join(t.Ignore, ","), ",")) }
	op.Done = func() string { return fmt.Sprintf("Cluster %s: %s\n", p.Name, cmp.Or(p.State, "deleted")) }
	return t.Env.Run(ctx, op)
}

// start sends the API command, and records its job in the plan.
func (t *task) start(ctx context.Context) error {
	p := t.plan
	sent, err := t.API.Submit(ctx, cmp.Or(t.command, t.name+"KubernetesCluster"), t.params)
	if err != nil {
		return explain(p.what(), err)
	}

	p.ID, p.Job = cmp.Or(p.ID, sent.ID), sent.JobID
	t.Note("cluster %s (%s), job %s", p.Name, p.ID, p.Job)
	return nil
}

// pollInterval is the time between two requests for the state of a cluster.
const pollInterval = 2 * time.Second

// follow polls the operation until it is over, and completes the plan. It reads the job before the cluster, so that the
// cluster it reads shows all changes of a job that is over. It retries transient errors.
func (t *task) follow(ctx context.Context) error {
	p := t.plan
	var k *cloudapi.KubernetesCluster
	_, err := poll.Until(ctx, t.Clock, pollInterval, math.MaxInt64, func() (over bool, err error) {
		var job *cloudstack.Job
		if p.Job != "" {
			job, err = t.API.QueryJob(ctx, p.Job)
		}

		if err == nil {
			k, err = t.API.KubernetesCluster(ctx, p.ID, t.Project)
		}

		if err != nil {
			if cloudstack.IsKind(err, cloudstack.KindTransient) && ctx.Err() == nil {
				err = nil
			}
			return false, explain("look at cluster "+p.Name, err)
		}

		t.say(k)
		over, p.Cause = t.over(k, job)
		return over, nil
	})

	if p.State = ""; k != nil {
		p.State = k.State
	}

	if err != nil {
		return err
	}

	if p.Cause != "" {
		fix := "csccm cks show " + p.Name + " shows its events"
		if k != nil && k.State != stateRunning {
			fix += "; " + nextStep(k)
		}
		if t.setting != "" {
			fix += "; CloudStack gives up when the time of its setting " + t.setting + " is over"
		}

		return report.Errorf(fix, "%s failed, the cluster is %s: %s", p.what(), cmp.Or(p.State, "gone"), p.Cause)
	}

	p.Done = len(t.after) == 0
	return nil
}

// over reports whether the operation is over, and why it failed; cause is empty if it succeeded. k is nil if the
// cluster does not exist, job is nil if the job is not known.
func (t *task) over(k *cloudapi.KubernetesCluster, job *cloudstack.Job) (over bool, cause string) {
	switch {
	case job != nil && job.Status == cloudstack.JobPending:
		return false, ""
	case job != nil && job.Status != cloudstack.JobSucceeded:
		return true, cmp.Or(job.ErrorText,
			"the job ended, and CloudStack gave no reason: perhaps by a restart of the management server")
	case k == nil && t.to == nil, k != nil && slices.Contains(t.to, k.State) && len(t.differs(k)) == 0:
		return true, ""
	case k == nil:
		return true, "the cluster no longer exists"
	case inProgress(k.State):
		return false, ""
	}
	return true, "it ended in state " + k.State + ", and differs from what was requested"
}

// say shows the progress, if it has changed since the last call.
func (t *task) say(k *cloudapi.KubernetesCluster) {
	if k == nil {
		return
	}

	running := 0
	for _, vm := range k.Nodes {
		if vm.State == string(cloudstack.VMRunning) {
			running++
		}
	}

	if text := fmt.Sprintf("%s, %d of %d VMs run", k.State, running, vms(k)); text != t.said {
		t.said = text
		t.Progress.Step("Cluster %s: %s", k.Name, text)
	}
}

// vms returns how many VMs a cluster has, or will have.
func vms(k *cloudapi.KubernetesCluster) int {
	return max(len(k.Nodes), k.ControlNodes+k.Size+k.EtcdNodes)
}
