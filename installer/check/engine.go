// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/typo"
)

// Selection says which checks to run and how.
type Selection struct {
	// Phase "" means all phases.
	Phase Phase
	// Only and Skip hold codes, in any case; Only empty means all. A code may be a prefix up to a
	// dash ("NODE" for all NODE checks).
	Only, Skip []string
	// AllMembers reads the members of every load balancer rule. Else, where that takes many calls, a sample shows
	// whether it is needed. So does Only with LB-001 in it.
	AllMembers bool
	// Timeout is that of reading one source; 0 means 20 s.
	Timeout time.Duration
}

const defaultTimeout = 20 * time.Second

// Validate names a code that is in no catalogue.
func (s Selection) Validate() error {
	var known []string
	for _, c := range All() {
		group, _, _ := strings.Cut(c.Code, "-")
		known = append(known, group, c.Code)
	}
	for _, code := range slices.Concat(s.Only, s.Skip) {
		if !slices.Contains(known, strings.ToUpper(code)) {
			return fmt.Errorf("check %q is not known, did you mean %s?", code, strings.Join(typo.Nearest(code, known, math.MaxInt), " or "))
		}
	}
	return nil
}

// matches reports whether one of the patterns is a code or its group.
func matches(patterns []string, code string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		p = strings.ToUpper(p)
		return p == code || strings.HasPrefix(code, p+"-")
	})
}

// chooses reports whether a check was selected itself.
func (s Selection) chooses(c *Check) bool {
	return c.In(s.Phase) && (len(s.Only) == 0 || matches(s.Only, c.Code)) && !matches(s.Skip, c.Code)
}

// plan returns the checks of a selection, and those that they need, in the catalogue's order. A check needs earlier
// ones only. What the user skips on purpose counts as passed.
func (s Selection) plan(catalogue []Check) (out []Check) {
	var needed []string
	for _, c := range slices.Backward(catalogue) {
		if s.chooses(&c) || slices.Contains(needed, c.Code) && !matches(s.Skip, c.Code) {
			needed = append(needed, c.Needs...)
			out = append(out, c)
		}
	}
	slices.Reverse(out)
	return out
}

// Run reads what the selected checks need, all sources at the same time, and judges the checks in the catalogue's
// order. progress, if not nil, gets each result at once. When ctx ends, checks whose facts were not read by then are
// reported as unknown.
func Run(ctx context.Context, env *Env, sel Selection, progress func(Result)) Report {
	r, _ := Inspect(ctx, env, sel, progress)
	return r
}

// Inspect is Run that also gives the facts that the report rests on. They belong to the caller.
func Inspect(ctx context.Context, env *Env, sel Selection, progress func(Result)) (Report, *Facts) {
	return run(ctx, env, All(), allSources(), sel, progress)
}

func run(ctx context.Context, env *Env, catalogue []Check, sources map[Source]source, sel Selection, progress func(Result)) (Report, *Facts) {
	r := newReading(ctx, env, sources, cmp.Or(sel.Timeout, defaultTimeout))
	r.f.Phase, r.allMembers = sel.Phase, sel.AllMembers || matches(sel.Only, "LB-001")
	checks := sel.plan(catalogue)
	for _, c := range checks {
		r.start(c.Reads...)
		r.start(c.Tries...)
	}
	results := []Result{}
	byCode := map[string]Result{}
	for _, c := range checks {
		result := r.result(ctx, &c, byCode).without(r.f.Config.APIKey, r.f.Config.SecretKey)
		byCode[c.Code] = result
		if !sel.chooses(&c) && result.Outcome != Failed && result.Outcome != Unknown {
			continue // a chosen check needs it, and it passed; else it says why the chosen ones were skipped
		}
		results = append(results, result)
		if progress != nil {
			progress(result)
		}
	}
	r.reads.Wait() // also for checks that were skipped
	return newReport(r, sel, results), r.f
}

// result judges a check, unless one that it needs did not pass.
func (r *reading) result(ctx context.Context, c *Check, before map[string]Result) Result {
	for _, code := range c.Needs {
		needed, ran := before[code]
		switch o := needed.Outcome; {
		case !ran || o == OK || o == Warning:
		case needed.Unfinished:
			return resultOf(c, stopped(ctx), 0)
		default:
			why := map[Outcome]string{Failed: "failed", Skipped: "was skipped", Unknown: "could not be judged"}[o]
			out := resultOf(c, Skipf("needs %s, which %s", code, why), 0)
			out.needs = cmp.Or(needed.needs, code)
			return out
		}
	}
	began := r.Clock.Now()
	out := resultOf(c, r.judge(ctx, c), r.Clock.Since(began))
	out.Remedy = r.fill(out.Remedy, out.Objects)
	return out
}

// judge waits for what the check needs to know, and lets it  A panic is a finding about csccm, not the end of it.
func (r *reading) judge(ctx context.Context, c *Check) (f Finding) {
	defer func() {
		if p := recover(); p != nil {
			f = Unknownf("the check itself broke (%v): please report this", p)
		}
	}()
	err, tried := r.wait(c.Reads...), r.wait(c.Tries...)
	switch {
	case errors.Is(err, errEnded) || errors.Is(tried, errEnded):
		return stopped(ctx)
	case err != nil:
		return Unread(err)
	}
	return c.Judge(r.f)
}

// stopped is the finding of a check for which the run ended too early.
func stopped(ctx context.Context) Finding {
	f := Unknownf("not finished: interrupted")
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		f = Unknownf("not finished: the time for the whole run is over")
	}
	f.Unfinished = true
	return f
}
