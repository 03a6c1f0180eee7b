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

	"github.com/dustin/go-humanize/english"

	"github.com/csccm/csccm/installer/check/ckscheck"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
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
	*Service
	plan          *Plan
	goal          goal
	preflight     func(*ckscheck.Reader) ([]ckscheck.Finding, error) // nil: none is needed
	submit        func(ctx context.Context) (cloudstack.Submitted, error)
	before, after []engine.Step // around the operation

	cluster  *cloudapi.KubernetesCluster // as it was before; nil before a create
	job      string                      // id; "" where CloudStack does not know it
	noEvents bool                        // the role may not list them
	seen     map[string]bool             // events; nil until the first list
	said     string
}

// Action is what a command does about a cluster.
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
	Operation     string `json:"operation"` // create, scale, upgrade, start, stop or delete
	Name          string `json:"name"`
	ID            string `json:"id,omitempty"`
	Project       string `json:"project,omitempty"`
	Action        Action `json:"action"`
	Why           string `json:"why,omitempty"` // why nothing is started

	Changes  []Change           `json:"changes"`
	Findings []ckscheck.Finding `json:"findings"`           // of the preflight
	Services []string           `json:"services,omitempty"` // of type LoadBalancer that are deleted first
	With     []string           `json:"with,omitempty"`     // what is installed into a new cluster

	DryRun bool   `json:"dryRun"`
	Done   bool   `json:"done"`            // the goal is reached
	State  string `json:"state,omitempty"` // as it was seen last; empty when the cluster is gone
	Job    string `json:"job,omitempty"`
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
		SchemaVersion: schemaVersion, Operation: o.name, Name: k.Name, ID: k.ID, State: k.State, Action: ActionChange,
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
	case k.Type == cloudstack.ExternalManaged:
		return report.Usage(fmt.Sprintf("CloudStack cannot %s cluster %s: it is ExternalManaged, CloudStack only lists it", o.name, k.Name),
			"change the cluster with what made it; csccm cks list shows which clusters CloudStack made")
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
	t := &task{Service: s, plan: o.plan(k), cluster: k}
	if err := prepare(k, t); err != nil {
		return err
	}
	if err := o.decide(t.plan, k); err != nil {
		return err
	}
	return t.run(ctx)
}

// what says what a plan does, for the question and errors.
func (p *Plan) what() string { return p.Operation + " cluster " + p.Name }

// Write prints the plan for a person.
func (p *Plan) Write(w io.Writer, style report.Style) error {
	var b strings.Builder
	switch p.Action {
	case ActionNone:
		fmt.Fprintf(&b, "Cluster %s: nothing to do, %s\n", p.Name, p.Why)
	case ActionFollow:
		fmt.Fprintf(&b, "Cluster %s: following it, %s\n", p.Name, p.Why)
	case ActionChange:
		fmt.Fprintf(&b, "To do: %s\n", p.what())
		for _, c := range p.Changes {
			text := c.To
			if c.From != "" {
				text = c.From + " -> " + c.To
			}
			fmt.Fprintf(&b, "  %-25s  %s\n", c.What, terminal.Line(text))
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
		What: fmt.Sprintf("cannot %s, the preflight has found %s: %s; nothing was changed", p.what(), english.Plural(len(codes), "problem", ""), strings.Join(texts, "; ")),
		Fix:  "correct that; --ignore-preflight " + strings.Join(slices.Compact(codes), ",") + " goes on all the same, and CloudStack decides",
		Code: report.ExitCheckFailed,
	}
}

// run shows the plan, asks, starts the operation and follows it to its end.
func (t *task) run(ctx context.Context) error {
	p := t.plan
	p.Project, p.DryRun = t.Project, t.DryRun
	if p.Action == ActionChange && t.preflight != nil {
		findings, err := t.preflight(t.reader(ctx, t.cluster))
		if err != nil {
			return explain("look at what is needed to "+p.what(), err)
		}
		p.Findings = append(p.Findings, findings...)
	}
	var steps []engine.Step
	if p.Action == ActionChange {
		steps = slices.Concat(t.before, []engine.Step{{Name: p.what(), Do: t.start}})
	}
	if p.Action != ActionNone {
		steps = append(steps, engine.Step{Name: "follow cluster " + p.Name, ReadOnly: true, Do: t.follow})
	}
	steps = append(steps, t.after...)
	e := *t.Env
	e.Yes = e.Yes || p.Action == ActionFollow && len(t.after) == 0 // nobody needs to agree to looking
	return e.Run(ctx, engine.Operation{
		Name: "cks-" + p.Operation, What: p.what(), Plan: p, Steps: steps,
		Back:  "CloudStack goes on with what it has begun, and csccm cks show " + p.Name + " --watch shows it",
		Show:  func(w io.Writer) error { return p.Write(w, e.StyleOf(w)) },
		Check: func(context.Context) error { return p.judge(t.Ignore) },
		Done: func(w io.Writer) error {
			if len(steps) == 0 {
				return nil
			}
			end := cmp.Or(p.State, "deleted")
			if p.Operation == opCreate.name {
				end += "; csccm cks kubeconfig " + p.Name + " writes the configuration for kubectl"
			}
			_, err := fmt.Fprintf(w, "Cluster %s: %s\n", p.Name, end)
			return err
		},
	})
}

// start sends the command. Where no answer comes, the cluster's state says whether it arrived.
func (t *task) start(ctx context.Context, note engine.Note) error {
	p := t.plan
	if p.ID == "" {
		t.seen = map[string]bool{} // all events of a new cluster are those of the operation
	} else {
		t.newEvents(ctx)
	}
	sent, err := t.submit(ctx)
	var api *cloudstack.Error
	if errors.As(err, &api) && api.MayHaveHappened && ctx.Err() == nil {
		all, _ := t.API.ListKubernetesClusters(ctx, t.Project)
		i := slices.IndexFunc(all, func(k cloudapi.KubernetesCluster) bool {
			return k.ID == p.ID && inProgress(k.State) || p.ID == "" && k.Name == p.Name
		})
		if i >= 0 {
			t.Progress.Warn("%v; but cluster %s is %s, so it did", err, p.Name, all[i].State)
			p.ID, err = all[i].ID, nil
		}
	}
	if err != nil {
		return explain(p.what(), err)
	}
	p.ID, p.Job, t.job = cmp.Or(p.ID, sent.ID), sent.JobID, sent.JobID
	note("cluster %s (%s), job %s", p.Name, p.ID, p.Job)
	return nil
}

// follow watches the operation until it is over, and completes the plan.
func (t *task) follow(ctx context.Context, _ engine.Note) error {
	p := t.plan
	var k *cloudapi.KubernetesCluster
	_, err := engine.Poll(ctx, t.Clock, pollInterval, math.MaxInt64, func() (over bool, err error) {
		l, err := t.look(ctx)
		if err != nil {
			return false, err
		}
		k = l.cluster
		t.say(ctx, k)
		over, p.Cause = t.goal.judge(l)
		return over, nil
	})
	if p.State = ""; k != nil {
		p.State = k.State
	}
	if err != nil {
		return err
	}
	if p.Cause != "" {
		return t.failed(ctx, k)
	}
	p.Done = len(t.after) == 0
	t.Progress.Done("")
	return nil
}

// failed is the error of an operation that did not reach its goal, with the cause that its last event names.
func (t *task) failed(ctx context.Context, k *cloudapi.KubernetesCluster) error {
	p := t.plan
	t.newEvents(ctx)
	for _, e := range slices.Backward(p.Events) {
		if e.Level == cloudapi.EventError && e.Description != p.Cause {
			p.Cause += "; " + e.Description
			break
		}
	}
	fix := "csccm cks show " + p.Name + " shows its events"
	if k != nil && k.State != stateRunning {
		fix = strings.TrimSuffix(fix+"; "+nextStep(k), "; ")
	}
	return &report.Error{What: fmt.Sprintf("%s failed, the cluster is %s: %s", p.what(), cmp.Or(p.State, "gone"), p.Cause), Fix: fix}
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

// newEvents are the events since the last call, oldest first; none at the first call.
func (t *task) newEvents(ctx context.Context) []cloudapi.Event {
	if t.noEvents {
		return nil
	}
	all, err := t.API.ListEvents(ctx, cloudapi.ClusterResource, t.plan.ID, t.Project)
	if err != nil {
		t.noEvents = !cloudstack.IsKind(err, cloudstack.KindTransient) && ctx.Err() == nil
		return nil
	}
	first := t.seen == nil
	if first {
		t.seen = map[string]bool{}
	}
	var fresh []cloudapi.Event
	for _, e := range slices.Backward(all) {
		if !t.seen[e.ID] && !first {
			fresh = append(fresh, e)
		}
		t.seen[e.ID] = true
	}
	t.plan.Events = append(t.plan.Events, fresh...)
	return fresh
}

// look asks for the job and the cluster. The job comes first: what it has done is visible when it is over. A server that does
// not answer is asked again.
func (t *task) look(ctx context.Context) (l look, err error) {
	again := look{job: &cloudstack.Job{Status: cloudstack.JobPending}}
	if t.job != "" {
		l.job, err = t.API.QueryJob(ctx, t.job)
		switch {
		case err == nil:
		case cloudstack.IsNotFound(err), cloudstack.IsKind(err, cloudstack.KindNotPermitted), cloudstack.IsKind(err, cloudstack.KindInvalid):
			t.job, l.job = "", nil // the cluster's state tells
		case ctx.Err() == nil && cloudstack.IsKind(err, cloudstack.KindTransient):
			return again, nil
		default:
			return l, explain("read the job", err)
		}
	}
	l.cluster, err = t.API.KubernetesCluster(ctx, t.plan.ID, t.Project)
	if cloudstack.IsKind(err, cloudstack.KindTransient) && ctx.Err() == nil {
		return again, nil
	}
	return l, explain("read cluster "+t.plan.Name, err)
}

// say shows what is new.
func (t *task) say(ctx context.Context, k *cloudapi.KubernetesCluster) {
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
	for _, e := range t.newEvents(ctx) {
		show := t.Progress.Info
		if e.Level == cloudapi.EventError {
			show = t.Progress.Warn
		}
		show("event %s: %s", e.Type, e.Description)
	}
}

// vms is how many VMs a cluster has, or is to have.
func vms(k *cloudapi.KubernetesCluster) int {
	return max(len(k.Nodes), k.ControlNodes+k.Size+k.EtcdNodes)
}
