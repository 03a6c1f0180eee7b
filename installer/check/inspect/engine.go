// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"context"
	"errors"

	"github.com/csccm/csccm/installer/check"
)

// Run reads what the selected checks need, all sources at the same time, and judges the checks in the catalogue's
// order. progress, if not nil, gets each result at once. When ctx ends, checks whose facts were not read by then are
// reported as unknown.
func Run(ctx context.Context, env *Env, sel check.Selection, progress func(check.Result)) check.Report {
	r, _ := Facts(ctx, env, sel, progress)
	return r
}

// Facts is Run that also gives the facts that the report rests on. They belong to the caller.
func Facts(ctx context.Context, env *Env, sel check.Selection, progress func(check.Result)) (check.Report, *check.Facts) {
	return newReading(ctx, env, allSources(), sel).run(ctx, check.All(), progress)
}

func (r *reading) run(ctx context.Context, catalogue []check.Check, progress func(check.Result)) (check.Report, *check.Facts) {
	checks := r.sel.Plan(catalogue)
	for _, c := range checks {
		r.start(c.Reads...)
		r.start(c.Tries...)
	}
	results := []check.Result{}
	byCode := map[string]check.Result{}
	for _, c := range checks {
		result := r.result(ctx, &c, byCode).Without(r.f.Config.APIKey, r.f.Config.SecretKey)
		byCode[c.Code] = result
		if !r.sel.Chooses(&c) && result.Outcome != check.Failed && result.Outcome != check.Unknown {
			continue // a chosen check needs it, and it passed; else it says why the chosen ones were skipped
		}
		results = append(results, result)
		if progress != nil {
			progress(result)
		}
	}
	r.reads.Wait() // also for checks that were skipped
	return check.NewReport(r.f, r.Clock.Since(r.f.At), results), r.f
}

// result judges a check, unless one that it needs did not pass.
func (r *reading) result(ctx context.Context, c *check.Check, before map[string]check.Result) check.Result {
	for _, code := range c.Needs {
		needed, ran := before[code]
		switch o := needed.Outcome; {
		case !ran || o == check.OK || o == check.Warning:
		case needed.Unfinished:
			return check.ResultOf(c, stopped(ctx), 0)
		default:
			why := map[check.Outcome]string{check.Failed: "failed", check.Skipped: "was skipped", check.Unknown: "could not be judged"}[o]
			out := check.ResultOf(c, check.Skipf("needs %s, which %s", code, why), 0)
			out.Needs = cmp.Or(needed.Needs, code)
			return out
		}
	}
	began := r.Clock.Now()
	out := check.ResultOf(c, r.judge(ctx, c), r.Clock.Since(began))
	out.Remedy = r.fill(out.Remedy, out.Objects)
	return out
}

// judge waits for what the check needs to know, and lets it decide. A panic is a finding about csccm, not the end of it.
func (r *reading) judge(ctx context.Context, c *check.Check) (f check.Finding) {
	defer func() {
		if p := recover(); p != nil {
			f = check.Unknownf("the check itself broke (%v): please report this", p)
		}
	}()
	err, tried := r.wait(c.Reads...), r.wait(c.Tries...)
	switch {
	case errors.Is(err, errEnded) || errors.Is(tried, errEnded):
		return stopped(ctx)
	case err != nil:
		return check.Unread(err)
	}
	return c.Judge(r.f)
}

// stopped is the finding of a check for which the run ended too early.
func stopped(ctx context.Context) check.Finding {
	f := check.Unknownf("not finished: interrupted")
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		f = check.Unknownf("not finished: the time for the whole run is over")
	}
	f.Unfinished = true
	return f
}
