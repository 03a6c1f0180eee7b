// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/family"
)

// State says how far a takeover has come.
type State string

// The states.
const (
	StatePlanned  State = "planned"  // nothing was changed
	StatePrepared State = "prepared" // csccm install is next
	StateDone     State = "done"
	StateNone     State = "nothing to do"
)

// ConsentNames checks the form of what --accept and --pin name.
func ConsentNames(accept, pin []string) error {
	for _, list := range []struct {
		flag  string
		names []string
	}{{"--accept", accept}, {"--pin", pin}} {
		for _, n := range list.names {
			namespace, name, _ := strings.Cut(n, "/")
			if n != All && (namespace == "" || name == "" || strings.Contains(name, "/")) {
				return report.Usage(fmt.Sprintf("%s %q is neither NAMESPACE/NAME of a Service nor %s", list.flag, n, All), "")
			}
		}
	}
	return nil
}

// Connect reaches CloudStack with the credentials of the other provider that is in the cluster.
func Connect(ctx context.Context, c *cluster.Cluster, release string) (*cloud.Cloud, error) {
	f, err := family.Find(ctx, c.Kube, release, c.Namespace)
	if err != nil {
		return nil, c.Explain(err)
	}
	found, err := FindCredentials(ctx, c.Kube, f.Predecessors)
	if err != nil {
		return nil, c.Explain(err)
	}
	found.Config.CAFile = "" // a path in the other provider's Pod
	return (&cloud.Cloud{Config: found.Config, From: found.String(), Close: func() {}}).Open()
}

// question is that of a takeover and of its undo.
var question = prompt.Question{
	Message: "Carry this out", Help: "What changes is kept on the Services first. Run again, the command continues where it stopped.",
}

// source is where a run reads and changes.
func source(e *engine.Env, cs *cloud.Cloud, clusterID string) Source {
	return Source{Kube: e.Cluster.Kube, API: cs.Client, Config: cs.Config, Release: e.Release, Namespace: e.Cluster.Namespace, ClusterID: clusterID}
}

// Run puts csccm's controller in the place of another provider's.
func Run(ctx context.Context, e *engine.Env, cs *cloud.Cloud, o Options) error {
	s := source(e, cs, o.ClusterID)
	facts, err := Detect(ctx, s)
	if err != nil {
		return e.Cluster.Explain(err)
	}
	r := NewPlan(facts) //nolint:contextcheck // decides by the facts, and waits for nothing
	r.State = StatePlanned
	if r.Tenants, err = planTenants(ctx, e.Cluster, facts); err != nil {
		return e.Cluster.Explain(err)
	}
	r.Pin(o.Pin)
	o.Clock, o.Progress = e.Clock, e.Progress
	t := NewTaker(s, r, o)
	op := engine.Operation{
		Name: "takeover", What: "carry the plan out", Question: question, Plan: r,
		Show: func(w io.Writer) error { return r.WriteText(w, e.StyleOf(w)) },
		Done: r.conclude,
	}
	if r.Order == Nothing && len(r.Problems) == 0 {
		r.State = StateNone
		return e.Run(ctx, op)
	}
	op.Check = func(ctx context.Context) error {
		if e.Interactive && !e.Structured() && !e.Yes && !e.DryRun && len(r.Problems) == 0 {
			if err := t.Ask(ctx, e.Prompt); err != nil {
				return err
			}
		}
		return t.Check()
	}
	end := func(state State, next string) engine.Step {
		return engine.Step{Name: "result", ReadOnly: true, Do: func(context.Context, engine.Note) error {
			r.State, r.Next = state, next
			return nil
		}}
	}
	if op.Steps = t.Before(); r.Own.Ready == 0 {
		op.Steps = append(op.Steps, end(StatePrepared, e.StyleOf(e.Out).Commands(r.installLine())))
	} else {
		op.Steps = append(append(op.Steps, t.After()...), end(StateDone, ""))
	}
	return e.Run(ctx, op)
}

// Undo goes back to the old controller by what the takeover kept on the Services and on the old workload.
func Undo(ctx context.Context, e *engine.Env, cs *cloud.Cloud, o Options) error {
	s := source(e, cs, "")
	facts, err := Detect(ctx, s)
	if err != nil {
		return e.Cluster.Explain(err)
	}
	r := NewUndoPlan(facts)
	o.Clock, o.Progress = e.Clock, e.Progress
	u := NewUndoer(s, r, o)
	op := engine.Operation{
		Name: "takeover-undo", What: "carry the plan out", Question: question, Plan: r,
		Show: func(w io.Writer) error { return r.WriteText(w, e.StyleOf(w)) },
		Check: func(context.Context) error {
			if err := Blocked(r.Problems); err != nil {
				return err
			}
			if !r.Needed() {
				r.State = StateNone
			}
			return nil
		},
		Done: func(w io.Writer) error {
			if r.State != StateDone {
				return nil
			}
			_, err := io.WriteString(w, "The old controller works again. csccm's release is still there, with no Pods; remove it:  csccm uninstall --orphan-load-balancers\n")
			return err
		},
	}
	if r.Needed() || e.Yes {
		op.Steps = append(u.Steps(), engine.Step{Name: "result", ReadOnly: true, Do: func(context.Context, engine.Note) error {
			r.State = StateDone
			return nil
		}})
	}
	return e.Run(ctx, op)
}

// installLine is what comes between the two halves.
func (p *Plan) installLine() string {
	line := []string{"csccm install --skip-taint"}
	if p.Order == OursFirst {
		line = append(line, "--skip-check CCM-002,CCM-003")
	}
	for _, name := range slices.Sorted(maps.Keys(p.Values)) {
		line = append(line, "--set "+name+"="+p.Values[name])
	}
	return strings.Join(line, " ")
}

// conclude says how it ended and what is next.
func (p *Plan) conclude(w io.Writer) error {
	var text string
	switch p.State {
	case StateNone:
		text = "There is no other controller: nothing to take over.\n"
	case StatePrepared:
		text = "Prepared. Next:\n  " + p.Next + "\n  csccm takeover\n"
	case StateDone:
		text = "Taken over. Check it:  csccm doctor\n" + p.Afterwards()
	case StatePlanned:
		return nil
	}
	_, err := io.WriteString(w, text)
	return err
}
