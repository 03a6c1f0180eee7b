// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/engine/report"
)

// preflight runs the checks that make sense before an install; a failed one ends it. It lets the workloads pass whose place is taken.
func (r *run) preflight(ctx context.Context) error {
	r.Progress.Step("Checks before the install")
	env := r.checkEnv()
	env.Manifest = r.manifest
	for i := range r.controllers.Predecessors {
		if p := &r.controllers.Predecessors[i]; p.Replaceable() {
			env.Replaces = append(env.Replaces, check.Object{Kind: p.Kind, Namespace: p.Namespace, Name: p.Name})
		}
	}
	if r.api == nil {
		env.CloudStack, env.CloudConfig, env.NoCloud = nil, nil, "the controller's user is not made yet"
	}
	return r.runChecks(ctx, env, check.PhasePreflight)
}

// checkEnv is what the checks work with.
func (r *run) checkEnv() *check.Env {
	return &check.Env{
		Cluster: r.Cluster, Style: r.StyleOf(r.Out), CloudStack: r.api, CloudConfig: r.config, Clock: r.Clock,
		Setup: check.Setup{Namespace: r.Cluster.Namespace, Release: r.Release},
	}
}

// maxObjects is how many objects of a check are listed.
const maxObjects = 5

// runChecks runs the checks of a phase. A warning is shown once in a run.
func (r *run) runChecks(ctx context.Context, env *check.Env, phase check.Phase) error {
	result := r.checks(ctx, env, check.Selection{Phase: phase, Skip: r.SkipChecks}, nil)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var failed []check.Result
	for _, c := range result.Checks {
		if c.Outcome == check.Failed {
			failed = append(failed, c)
		} else if c.Outcome != check.Warning || r.warned[c.Code+c.Message] {
			continue
		}
		r.warned[c.Code+c.Message] = true
		r.Progress.Warn("%s %s: %s", c.Code, c.Title, c.Message)
		for i, o := range c.Objects {
			if i == maxObjects {
				r.Progress.Info("... and %d more", len(c.Objects)-i)
				break
			}
			r.Progress.Info("%s %s", o.String(), o.Message)
		}
		if c.Remedy != "" {
			r.Progress.Info("fix: %s", c.Remedy)
		}
	}
	text := fmt.Sprintf("%d ok, %s, %d failed", result.Summary.OK, english.Plural(result.Summary.Warning, "warning", ""), result.Summary.Failed)
	if len(failed) > 0 {
		r.Progress.Fail("%s", text)
		return checksFailed(phase, failed...)
	}
	r.Progress.Done("%s", text)
	return nil
}

// checksFailed is the error of checks that do not pass.
func checksFailed(phase check.Phase, failed ...check.Result) error {
	var codes, texts []string
	for i := range failed {
		codes, texts = append(codes, failed[i].Code), append(texts, failed[i].Code+" failed: "+failed[i].Message)
	}
	fix := failed[0].Remedy
	if len(failed) > 1 {
		fix = "see the remedy of each check above"
	}
	if phase != check.PhasePreflight {
		return &report.Error{What: "installed, but " + strings.Join(texts, "; "), Fix: fix, Code: report.ExitCheckFailed}
	}
	return &report.Error{
		What: "nothing was installed: " + strings.Join(texts, "; "), Code: report.ExitCheckFailed,
		Fix: strings.TrimSpace(fmt.Sprintf("%s (or pass over it with --skip-check %s)", fix, strings.Join(codes, ","))),
	}
}
