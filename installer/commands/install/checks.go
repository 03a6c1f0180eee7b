// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/ui/terminal"
)

// preflight runs the checks that make sense before an install; a failed one ends it.
func (p *plan) preflight(ctx context.Context, e *engine.Env, c *Config, f *facts, a *access) error {
	e.Progress.Step("Checks before the install")
	env := checkEnv(e, a)
	env.Manifest, env.Replaces = p.manifest, f.replaces()
	if a.api == nil {
		env.CloudStack, env.CloudConfig, env.NoCloud = nil, nil, "the controller's user is not made yet"
	}
	return p.runChecks(ctx, e, c, env, check.PhasePreflight)
}

// checkEnv is what the checks work with.
func checkEnv(e *engine.Env, a *access) *check.Env {
	return &check.Env{
		Cluster: e.Cluster, Style: e.StyleOf(e.Out), CloudStack: a.api, CloudConfig: a.config, Clock: e.Clock,
		Setup: check.Setup{Namespace: e.Cluster.Namespace, Release: e.Release},
	}
}

// checksFailed is the error of checks that do not pass.
func checksFailed(phase check.Phase, failed ...check.Result) error {
	const briefly = 160 // of a message among several
	var codes, each []string
	for i := range failed {
		r := &failed[i]
		codes, each = append(codes, r.Code), append(each, r.Code+": "+terminal.Cut(r.Message, briefly))
		if r.Remedy != "" {
			each = append(each, "  fix: "+r.Remedy)
		}
	}
	what, fix := strings.Join(codes, ", ")+" failed\n  "+strings.Join(each, "\n  "), "one after the other; csccm doctor looks again"
	if len(failed) == 1 {
		what, fix = failed[0].Code+" failed: "+failed[0].Message, failed[0].Remedy
	}
	if phase == check.PhasePreflight {
		return &report.Error{
			What: "nothing was installed: " + what, Code: report.ExitCheckFailed,
			Fix: strings.TrimSpace(fmt.Sprintf("%s (or pass over it with --skip-check %s)", fix, strings.Join(codes, ","))),
		}
	}
	return &report.Error{What: "installed, but " + what, Fix: fix, Code: report.ExitCheckFailed}
}

// runChecks runs the checks of a phase. A warning is shown once in a run.
func (p *plan) runChecks(ctx context.Context, e *engine.Env, c *Config, env *check.Env, phase check.Phase) error {
	result := c.checks(ctx, env, check.Selection{Phase: phase, Skip: c.SkipChecks}, nil)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var failed []check.Result
	for i := range result.Checks {
		r := &result.Checks[i]
		switch {
		case r.Outcome == check.Failed:
			failed = append(failed, *r)
		case r.Outcome != check.Warning, p.warned[r.Code+r.Message]:
			continue
		default:
			p.warned[r.Code+r.Message] = true
		}
		e.Progress.Warn("%s %s: %s", r.Code, r.Title, r.Message)
		const most = 5
		for _, o := range r.Objects[:min(len(r.Objects), most)] {
			e.Progress.Info("%s %s", o.String(), o.Message)
		}
		if n := len(r.Objects) - most; n > 0 {
			e.Progress.Info("... and %d more", n)
		}
		if r.Outcome == check.Warning && r.Remedy != "" {
			e.Progress.Info("fix: %s", r.Remedy)
		}
	}
	s := result.Summary
	text := fmt.Sprintf("%d ok, %s, %d failed", s.OK, english.Plural(s.Warning, "warning", ""), s.Failed)
	if len(failed) > 0 {
		e.Progress.Fail("%s", text)
		return checksFailed(phase, failed...)
	}
	e.Progress.Done("%s", text)
	return nil
}
