// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/csccm/csccm/installer/check/decide"
)

// Selection says which checks to run and how.
type Selection struct {
	// Phase "" means all phases.
	Phase Phase
	// Only and Skip hold codes, in any case; Only empty means all. A code may be a prefix up to a
	// dash ("NODE" for all NODE checks).
	Only, Skip []string
	// AllMembers reads the members of every load balancer rule. Else, where that takes many calls, a sample shows whether
	// it is needed. So does Only with LB-001 in it.
	AllMembers bool
	// Timeout is that of one check; 0 means 20 s.
	Timeout time.Duration
}

const defaultTimeout = 20 * time.Second

// Validate names a code that is in no catalogue.
func (s Selection) Validate() error {
	catalogue := All()
	for _, code := range slices.Concat(s.Only, s.Skip) {
		if !slices.ContainsFunc(catalogue, func(c decide.Check) bool { return matches(code, c.Code) }) {
			return fmt.Errorf("check %q is not known, did you mean %s?", code, strings.Join(nearest(code, catalogue), " or "))
		}
	}
	return nil
}

func matches(pattern, code string) bool {
	p := strings.ToUpper(pattern)
	return p == code || strings.HasPrefix(code, p+"-")
}

func matchesAny(patterns []string, code string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, code) })
}

// Run runs the selected checks in parallel and gives their results in the catalogue's order.
// progress, if not nil, gets each result as soon as it and all before it are there; it is called
// from one goroutine at a time. When ctx ends, what has not ended is reported as unknown.
func Run(ctx context.Context, env *Env, sel Selection, progress func(Result)) Report {
	r, _ := run(ctx, env, All(), allSources(), sel, progress)
	return r
}

// Inspect is Run that also gives the facts that the report rests on. They belong to the caller.
func Inspect(ctx context.Context, env *Env, sel Selection, progress func(Result)) (Report, *Facts) {
	r, reading := run(ctx, env, All(), allSources(), sel, progress)
	return r, reading.finish()
}

// task is one check of a run.
type task struct {
	check  decide.Check
	hidden bool // runs only because a selected check needs it, and is shown if it does not pass
	ended  chan struct{}
	result Result
}

func run(ctx context.Context, env *Env, catalogue []decide.Check, sources map[decide.Source]source, sel Selection, progress func(Result)) (Report, *reading) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends what is still read for checks that have given up
	r := newReading(ctx, env, sources)
	r.f.Phase, r.allMembers = sel.Phase, sel.AllMembers || matchesAny(sel.Only, "LB-001")
	tasks := plan(catalogue, sel)
	byCode := make(map[string]*task, len(tasks))
	for _, t := range tasks {
		byCode[t.check.Code] = t
	}
	timeout := cmp.Or(sel.Timeout, defaultTimeout)
	var wg sync.WaitGroup
	for _, t := range tasks {
		wg.Go(func() {
			defer close(t.ended)
			t.result = t.do(ctx, r, byCode, timeout).without(r.f.Config.APIKey, r.f.Config.SecretKey)
		})
	}
	var results []Result
	for _, t := range tasks {
		<-t.ended
		if t.hidden && t.result.Outcome != Failed && t.result.Outcome != Unknown {
			continue // as it should be; else it says why the selected ones were skipped
		}
		results = append(results, t.result)
		if progress != nil {
			progress(t.result)
		}
	}
	wg.Wait()
	return newReport(r, sel, results), r
}

// plan chooses the checks of a selection, and those that they need, in the catalogue's order.
func plan(catalogue []decide.Check, sel Selection) []*task {
	chosen := func(c *decide.Check) bool {
		return c.In(sel.Phase) && (len(sel.Only) == 0 || matchesAny(sel.Only, c.Code)) && !matchesAny(sel.Skip, c.Code)
	}
	needed := map[string]bool{}
	var need func(code string)
	need = func(code string) {
		i := slices.IndexFunc(catalogue, func(c decide.Check) bool { return c.Code == code })
		// What the user skips on purpose counts as passed.
		if i < 0 || needed[code] || matchesAny(sel.Skip, code) {
			return
		}
		needed[code] = true
		for _, n := range catalogue[i].Needs {
			need(n)
		}
	}
	for i := range catalogue {
		if chosen(&catalogue[i]) {
			need(catalogue[i].Code)
		}
	}
	var tasks []*task
	for _, c := range catalogue {
		if needed[c.Code] {
			tasks = append(tasks, &task{check: c, hidden: !chosen(&c), ended: make(chan struct{})})
		}
	}
	return tasks
}

func (t *task) do(ctx context.Context, r *reading, all map[string]*task, timeout time.Duration) Result {
	for _, code := range t.check.Needs {
		dep := all[code]
		if dep == nil {
			continue
		}
		select {
		case <-dep.ended:
		case <-ctx.Done():
			return resultOf(&t.check, stopped(ctx), 0)
		}
		if dep.result.Unfinished {
			return resultOf(&t.check, stopped(ctx), 0)
		}
		if o := dep.result.Outcome; o != OK && o != Warning {
			out := resultOf(&t.check, decide.Skipf("needs %s, which %s", code, pastTense[o]), 0)
			out.needs = cmp.Or(dep.result.needs, code)
			return out
		}
	}
	began := r.Clock.Now()
	out := resultOf(&t.check, t.within(ctx, r, timeout), r.Clock.Since(began))
	out.Remedy = r.fill(out.Remedy, out.Objects)
	return out
}

// within gives the check a time-out of its own, whatever it waits for.
func (t *task) within(ctx context.Context, r *reading, timeout time.Duration) Finding {
	cctx, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := r.Clock.NewTimer(timeout)
	defer timer.Stop()
	done := make(chan Finding, 1)
	go func() { done <- r.judge(cctx, &t.check) }()
	select {
	case f := <-done:
		if ctx.Err() != nil && f.Outcome != OK { // what it could not read by then is no finding
			return stopped(ctx)
		}
		return f
	case <-timer.C():
		return decide.Unknownf("no result within %s", timeout)
	case <-ctx.Done():
		return stopped(ctx)
	}
}

// judge reads what the check needs, and lets it decide. A panic is a finding about csccm, not the end of it.
func (r *reading) judge(ctx context.Context, c *decide.Check) (f Finding) {
	defer func() {
		if p := recover(); p != nil {
			f = decide.Unknownf("the check itself broke (%v): please report this", p)
		}
	}()
	err := r.all(ctx, c.Reads)
	if err != nil {
		return decide.Unread(err)
	}
	if _ = r.all(ctx, c.Tries); ctx.Err() != nil {
		return decide.Unread(ctx.Err())
	}
	return c.Judge(r.f)
}

func stopped(ctx context.Context) Finding {
	f := decide.Unknownf("not finished: interrupted")
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		f = decide.Unknownf("not finished: the time for the whole run is over")
	}
	f.Unfinished = true
	return f
}

// pastTense says of an outcome why another check was skipped.
var pastTense = map[Outcome]string{Failed: "failed", Skipped: "was skipped", Unknown: "could not be judged"}
