// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/installer/check/ckscheck"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/plural"
	"github.com/csccm/csccm/pkg/ui/terminal"
)

// operation is a row of the table of what csccm does with a cluster. All of them go the same way: a Plan, one call, and looks
// at the cluster until its state shows that the operation is over. CloudStack goes on with an operation whether or not
// anybody follows it, so a second run finds it by the cluster's state and follows it.
type operation struct {
	name   string
	from   []string // states in which CloudStack takes it; nil leaves that to CloudStack
	during []string // states while CloudStack works on it
}

var (
	opCreate  = operation{"create", nil, []string{"Created", "Starting"}}
	opScale   = operation{"scale", []string{stateRunning, stateStopped}, []string{"Scaling", "ScalingStoppedCluster"}}
	opUpgrade = operation{"upgrade", []string{stateRunning}, []string{"Upgrading"}}
	opStart   = operation{"start", nil, []string{"Starting"}}
	opStop    = operation{"stop", nil, []string{"Stopping"}}
	opDelete  = operation{"delete", nil, []string{"Destroying"}}
)

// goal is how a cluster is when an operation has succeeded. The cluster is nil when it is gone.
type goal func(k *cloudapi.KubernetesCluster) bool

func inState(state string) goal {
	return func(k *cloudapi.KubernetesCluster) bool { return k != nil && k.State == state }
}

// task is an operation on one cluster.
type task struct {
	plan      *Plan
	ignore    []string // codes of findings
	goal      goal
	preflight func() ([]ckscheck.Finding, error) // nil: none is needed
	submit    func(ctx context.Context) (cloudstack.Submitted, error)
	// before and after are steps around the operation.
	before, after []engine.Step
	done          func(k *cloudapi.KubernetesCluster) // may be nil
}

// Action is what a command does about a cluster or a version.
type Action string

// The actions.
const (
	ActionChange Action = "change" // start an operation, and follow it
	ActionFollow Action = "follow" // the operation runs already
	ActionNone   Action = "none"   // already in that state
)

// Plan is what a command is about to do. The run completes it, and it is the result then.
type Plan struct {
	SchemaVersion int    `json:"schemaVersion"`
	Operation     string `json:"operation"` // create, scale, upgrade, start, stop, delete; of versions add, enable, disable, delete
	Kind          string `json:"kind"`      // cluster, or Kubernetes version
	Name          string `json:"name"`
	ID            string `json:"id,omitempty"`
	Project       string `json:"project,omitempty"`
	Action        Action `json:"action"`
	// Why says why nothing is started.
	Why     string   `json:"why,omitempty"`
	Changes []Change `json:"changes"`
	// Findings are those of the preflight.
	Findings []ckscheck.Finding `json:"findings"`
	// Services are those of type LoadBalancer that are deleted first.
	Services []string `json:"services,omitempty"`
	// With is what is installed into a new cluster.
	With []string `json:"with,omitempty"`

	DryRun bool `json:"dryRun"`
	// Done says that the goal is reached.
	Done  bool   `json:"done"`
	State string `json:"state,omitempty"` // as it was seen last; empty when the cluster or version is gone
	Job   string `json:"job,omitempty"`
	// Version is how a version is afterwards.
	Version *cloudapi.KubernetesVersion `json:"version,omitempty"`
	// Cause says why the operation failed, and Events are those of the operation.
	Cause  string           `json:"cause,omitempty"`
	Events []cloudapi.Event `json:"events,omitempty"`
}

// Change is one thing that changes.
type Change struct {
	What string `json:"what"`
	From string `json:"from,omitempty"`
	To   string `json:"to"`
}

func (o operation) plan(k *cloudapi.KubernetesCluster) *Plan {
	return &Plan{
		SchemaVersion: schemaVersion, Operation: o.name, Kind: "cluster", Name: k.Name, ID: k.ID, State: k.State, Action: ActionChange,
		Changes: []Change{}, Findings: []ckscheck.Finding{},
	}
}

// change notes what differs.
func (p *Plan) change(what, from, to string) {
	if from != to {
		p.Changes = append(p.Changes, Change{what, from, to})
	}
}

// nothing says that there is nothing to do.
func (p *Plan) nothing(why string) { p.Action, p.Why, p.Done = ActionNone, why, true }

// decide chooses what to do about a cluster, by its state and by what differs. CloudStack does one operation at a time.
func (o operation) decide(p *Plan, k *cloudapi.KubernetesCluster) error {
	switch {
	case slices.Contains(o.during, k.State):
		p.Action, p.Why = ActionFollow, "CloudStack works on it already: it is "+k.State
	case inProgress(k.State):
		return &report.Error{
			What: fmt.Sprintf("cluster %s is %s: another operation on it runs, and nothing was changed", k.Name, k.State),
			Fix:  "wait until it is over: csccm cks show " + k.Name + " --watch; then run the command again", Code: report.ExitCheckFailed,
		}
	case len(p.Changes) == 0:
		p.nothing("already in that state")
	case o.from != nil && !slices.Contains(o.from, k.State):
		return &report.Error{
			What: fmt.Sprintf("cluster %s is %s; CloudStack can %s it only while it is %s: nothing was changed", k.Name, k.State, o.name, strings.Join(o.from, " or ")),
			Fix:  nextStep(k), Code: report.ExitCheckFailed,
		}
	}
	return nil
}

// on runs an operation on a cluster that exists. prepare says what differs and how it is done.
func (s *Service) on(ctx context.Context, o operation, name string, prepare func(k *cloudapi.KubernetesCluster, t *task) error) error {
	k, err := s.cluster(ctx, name)
	if err != nil {
		return err
	}
	if k.Type == cloudstack.ExternalManaged {
		return report.Usage(fmt.Sprintf("CloudStack cannot %s cluster %s: it is ExternalManaged, CloudStack only lists it", o.name, k.Name),
			"change the cluster with what made it; csccm cks list shows which clusters CloudStack made")
	}
	t := &task{plan: o.plan(k)}
	if err := prepare(k, t); err != nil {
		return err
	}
	if err := o.decide(t.plan, k); err != nil {
		return err
	}
	return s.run(ctx, t)
}

// what says what a plan does, for the question and errors.
func (p *Plan) what() string { return p.Operation + " " + p.Kind + " " + p.Name }

// title begins a line about the object.
func (p *Plan) title() string { return strings.ToUpper(p.Kind[:1]) + p.Kind[1:] + " " + p.Name }

// Write prints the plan for a person.
func (p *Plan) Write(w io.Writer, style report.Style) error {
	var b strings.Builder
	switch p.Action {
	case ActionNone:
		fmt.Fprintf(&b, "%s: nothing to do, %s\n", p.title(), p.Why)
	case ActionFollow:
		fmt.Fprintf(&b, "%s: following it, %s\n", p.title(), p.Why)
	case ActionChange:
		fmt.Fprintf(&b, "To do: %s\n", p.what())
		width := 0
		for _, c := range p.Changes {
			width = max(width, len(c.What))
		}
		for _, c := range p.Changes {
			text := c.To
			if c.From != "" {
				text = c.From + " -> " + c.To
			}
			fmt.Fprintf(&b, "  %-*s  %s\n", width, c.What, terminal.Line(text))
		}
		for _, s := range p.Services {
			fmt.Fprintf(&b, "  before that, delete Service %s with its load balancer\n", s)
		}
	}
	for _, name := range p.With {
		fmt.Fprintf(&b, "  when it runs, install %s\n", name)
	}
	for _, f := range p.Findings {
		y := report.SymbolWarning
		if f.Severity == ckscheck.Error {
			y = report.SymbolFailed
		}
		text := f.String() + " [" + f.Code + "]"
		if f.Reference != "" {
			text += " (" + f.Reference + ")"
		}
		b.WriteString(style.Indented(style.Symbol(y)+" ", style.SymbolWidth()+1, text))
		if f.Remedy != "" {
			b.WriteString(style.Indented("  fix: ", 7, f.Remedy))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// judge returns an error if the preflight found what stops the operation. ignored are codes of findings that do not.
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
	return &report.Error{
		What: fmt.Sprintf("cannot %s, the preflight has found %s: %s; nothing was changed", p.what(), plural.Count(len(codes), "problem"), strings.Join(texts, "; ")),
		Fix:  "correct that; --ignore-preflight " + strings.Join(slices.Compact(codes), ",") + " goes on all the same, and CloudStack decides",
		Code: report.ExitCheckFailed,
	}
}

// run shows the plan, asks, starts the operation and follows it to its end.
func (s *Service) run(ctx context.Context, t *task) error {
	p := t.plan
	p.Project = s.Project
	if p.Action == ActionChange && t.preflight != nil {
		findings, err := t.preflight()
		if err != nil {
			return explain("look at what is needed to "+p.what(), err)
		}
		p.Findings = append(p.Findings, findings...)
	}
	f := &follower{Service: s, plan: p, seen: map[string]bool{}}
	var steps []engine.Step
	if p.Action == ActionChange {
		steps = append(steps, t.before...)
		steps = append(steps, engine.Step{Name: p.what(), Do: func(ctx context.Context, note engine.Note) error {
			if p.ID != "" {
				f.newEvents(ctx) // the later ones are those of the operation
				f.all = nil
			}
			return s.start(ctx, t, note)
		}})
	}
	if p.Action != ActionNone {
		steps = append(steps, engine.Step{Name: "follow cluster " + p.Name, ReadOnly: true, Do: func(ctx context.Context, _ engine.Note) error {
			return s.follow(ctx, t, f)
		}})
	}
	return s.show(ctx, "cks-", t, append(steps, t.after...), "CloudStack goes on with what it has begun, and csccm cks show "+p.Name+" --watch shows it")
}

// show shows the plan, asks and carries the steps out. prefix is that of the operation's name in the journal.
func (s *Service) show(ctx context.Context, prefix string, t *task, steps []engine.Step, back string) error {
	p := t.plan
	p.DryRun = s.DryRun
	e := *s.Env
	e.Yes = e.Yes || p.Action == ActionFollow && len(t.after) == 0 // nobody needs to agree to looking
	return e.Run(ctx, engine.Operation{
		Name: prefix + p.Operation, What: p.what(), Back: back, Plan: p, Steps: steps,
		Show:  func(w io.Writer) error { return p.Write(w, e.StyleOf(w)) },
		Check: func(context.Context) error { return p.judge(t.ignore) },
		Done: func(w io.Writer) error {
			if len(steps) == 0 {
				return nil
			}
			end := cmp.Or(p.State, "deleted")
			if p.Operation == opCreate.name {
				end += "; csccm cks kubeconfig " + p.Name + " writes the configuration for kubectl"
			}
			_, err := fmt.Fprintf(w, "%s: %s\n", p.title(), end)
			return err
		},
	})
}

// start sends the command. Where no answer comes, the cluster's state says whether it arrived.
func (s *Service) start(ctx context.Context, t *task, note engine.Note) error {
	p := t.plan
	sent, err := t.submit(ctx)
	var api *cloudstack.Error
	if errors.As(err, &api) && api.MayHaveHappened && ctx.Err() == nil {
		if k := s.begun(ctx, p); k != nil {
			s.Progress.Warn("%v; but cluster %s is %s, so it did", err, k.Name, k.State)
			p.ID, err = k.ID, nil
		}
	}
	if err != nil {
		return explain(p.what(), err)
	}
	p.ID, p.Job = cmp.Or(p.ID, sent.ID), sent.JobID
	note("cluster %s (%s), job %s", p.Name, p.ID, p.Job)
	return nil
}

// begun returns the cluster if CloudStack works on it, or if it did not exist before; nil otherwise.
func (s *Service) begun(ctx context.Context, p *Plan) *cloudapi.KubernetesCluster {
	all, err := s.API.ListKubernetesClusters(ctx, s.Project)
	if err != nil {
		return nil
	}
	for i := range all {
		if k := &all[i]; k.ID == p.ID && inProgress(k.State) || p.ID == "" && k.Name == p.Name {
			return k
		}
	}
	return nil
}

// follow watches the operation and completes the plan.
func (s *Service) follow(ctx context.Context, t *task, f *follower) error {
	p := t.plan
	k, cause, err := f.follow(ctx, t.goal)
	if p.State = ""; k != nil {
		p.State = k.State
	}
	p.Events = append(p.Events, f.all...)
	if err != nil {
		return err
	}
	if p.Cause = cause; cause != "" {
		fix := "csccm cks show " + p.Name + " shows its events"
		if k != nil && k.State != stateRunning {
			fix = strings.TrimSuffix(fix+"; "+nextStep(k), "; ")
		}
		return &report.Error{What: fmt.Sprintf("%s failed, the cluster is %s: %s", p.what(), cmp.Or(p.State, "gone"), cause), Fix: fix}
	}
	p.Done = len(t.after) == 0
	s.Progress.Done("")
	if t.done != nil && k != nil {
		t.done(k)
	}
	return nil
}

// pollInterval is the time between two looks at a cluster.
const pollInterval = 2 * time.Second

// look is what is known of an operation at a time.
type look struct {
	cluster *cloudapi.KubernetesCluster // nil: gone
	job     *cloudstack.Job             // nil: not known
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
	*Service
	plan     *Plan
	noJob    bool            // CloudStack does not know it
	noEvents bool            // the role may not list them
	seen     map[string]bool // events
	all      []cloudapi.Event
	said     string
}

// newEvents are the events since the last call, oldest first.
func (f *follower) newEvents(ctx context.Context) []cloudapi.Event {
	if f.noEvents {
		return nil
	}
	all, err := f.API.ListEvents(ctx, cloudapi.ClusterResource, f.plan.ID, f.Project)
	if err != nil {
		f.noEvents = !cloudstack.IsKind(err, cloudstack.KindTransient) && ctx.Err() == nil
		return nil
	}
	var fresh []cloudapi.Event
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
func (f *follower) follow(ctx context.Context, g goal) (k *cloudapi.KubernetesCluster, cause string, err error) {
	if f.plan.Action == ActionFollow {
		f.newEvents(ctx)
		f.all = nil
	}
	_, err = engine.Poll(ctx, f.Clock, pollInterval, math.MaxInt64, func() (over bool, err error) {
		var l look
		if l, err = f.look(ctx); err != nil {
			return false, err
		}
		k = l.cluster
		f.say(ctx, k)
		over, cause = g.judge(l)
		return over, nil
	})
	if err != nil || cause == "" {
		return k, "", err
	}
	f.newEvents(ctx)
	for _, e := range slices.Backward(f.all) {
		if e.Level == cloudapi.EventError && e.Description != cause {
			return k, cause + "; " + e.Description, nil
		}
	}
	return k, cause, nil
}

// look asks for the job and the cluster. The job comes first: what it has done is visible when it is over. A server that does
// not answer is asked again.
func (f *follower) look(ctx context.Context) (l look, err error) {
	again := look{job: &cloudstack.Job{Status: cloudstack.JobPending}}
	if f.plan.Job != "" && !f.noJob {
		l.job, err = f.API.QueryJob(ctx, f.plan.Job)
		switch {
		case err == nil:
		case cloudstack.IsNotFound(err), cloudstack.IsKind(err, cloudstack.KindNotPermitted), cloudstack.IsKind(err, cloudstack.KindInvalid):
			f.noJob, l.job = true, nil // the cluster's state tells
		case ctx.Err() == nil && cloudstack.IsKind(err, cloudstack.KindTransient):
			return again, nil
		default:
			return l, explain("read the job", err)
		}
	}
	l.cluster, err = f.API.KubernetesCluster(ctx, f.plan.ID, f.Project)
	if cloudstack.IsKind(err, cloudstack.KindTransient) && ctx.Err() == nil {
		return again, nil
	}
	return l, explain("read cluster "+f.plan.Name, err)
}

// say shows what is new.
func (f *follower) say(ctx context.Context, k *cloudapi.KubernetesCluster) {
	if k == nil {
		return
	}
	running := 0
	for _, vm := range k.Nodes {
		if vm.State == string(cloudstack.VMRunning) {
			running++
		}
	}
	if text := fmt.Sprintf("%s, %d of %d VMs run", k.State, running, vms(k)); text != f.said {
		f.said = text
		f.Progress.Step("Cluster %s: %s", k.Name, text)
	}
	for _, e := range f.newEvents(ctx) {
		show := f.Progress.Info
		if e.Level == cloudapi.EventError {
			show = f.Progress.Warn
		}
		show("event %s: %s", e.Type, e.Description)
	}
}

// vms is how many VMs a cluster has, or is to have.
func vms(k *cloudapi.KubernetesCluster) int {
	return max(len(k.Nodes), k.ControlNodes+k.Size+k.EtcdNodes)
}
