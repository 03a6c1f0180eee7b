// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"strings"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/engine/report"
)

// preflight runs the checks that make sense before an install; a failed one
// ends it.
func (in *Installer) preflight(ctx context.Context) error {
	in.Progress.Step("Checks before the install")
	env := &check.Env{
		Cluster: in.Cluster, CloudConfig: in.config, Namespace: in.Cluster.Namespace, Release: in.Options.Release,
		RequiredCommands: in.Required, OptionalCommands: in.Optional, Manifest: in.plan.manifest, Clock: in.Clock,
		Replaces: in.replaces(),
	}
	if in.cloud != nil {
		env.CloudStack = in.cloud
	} else {
		env.CloudConfig = nil
		env.NoCloudStack = "the controller's user is not made yet"
	}
	return in.runChecks(ctx, env, check.PhasePreflight)
}

// briefly is how much of a message is said again at the end.
const briefly = 160

// checksFailed is the error of checks that do not pass.
func checksFailed(phase check.Phase, failed ...check.Result) error {
	codes := make([]string, len(failed))
	for i := range failed {
		codes[i] = failed[i].Code
	}
	before := phase == check.PhasePreflight
	what := "installed, but "
	if before {
		what = "nothing was installed: "
	}
	what += strings.Join(codes, ", ") + " failed"
	fix, it := failed[0].Remedy, "it"
	if len(failed) == 1 {
		what += ": " + failed[0].Message
	} else {
		for i := range failed {
			c := &failed[i]
			what += "\n  " + c.Code + ": " + report.Cut(c.Message, briefly)
			if c.Remedy != "" {
				what += "\n    fix: " + c.Remedy
			}
		}
		fix, it = "one after the other; csccm doctor looks again", "them"
	}
	if before {
		fix += fmt.Sprintf(" (or pass over %s with --skip-check %s)", it, strings.Join(codes, ","))
	}
	return &report.Error{What: what, Fix: strings.TrimSpace(fix), Code: report.ExitCheckFailed}
}

// checksBeforeUser has the cluster judged before CloudStack is changed for it.
func (in *Installer) checksBeforeUser(ctx context.Context) error {
	if in.provision == nil || !in.provision.Changes() {
		return nil // nothing is changed before the checks
	}
	if refusal := in.overwritesLater(); refusal != nil && in.Options.Yes {
		return refusal
	}
	return in.preflight(ctx)
}

func (in *Installer) runChecks(ctx context.Context, env *check.Env, phase check.Phase) error {
	result := in.Checks(ctx, env, check.Selection{Phase: phase, Skip: in.Options.SkipChecks}, nil)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var failed []check.Result
	for i := range result.Checks {
		c := &result.Checks[i]
		switch c.Outcome {
		case check.Failed:
			failed = append(failed, *c)
			in.Progress.Warn("%s %s: %s", c.Code, c.Title, c.Message)
			in.sayObjects(c)
		case check.Warning:
			if in.warned[c.Code+c.Message] {
				continue // said before the install already
			}
			in.warned[c.Code+c.Message] = true
			in.Progress.Warn("%s %s: %s", c.Code, c.Title, c.Message)
			in.sayObjects(c)
		case check.OK, check.Skipped, check.Unknown:
		}
	}
	s := result.Summary
	text := fmt.Sprintf("%d ok, %s, %d failed", s.OK, count(s.Warning, "warning"), s.Failed)
	if len(failed) > 0 {
		in.Progress.Fail("%s", text)
		return checksFailed(phase, failed...)
	}
	in.Progress.Done("%s", text)
	return nil
}

func (in *Installer) sayObjects(c *check.Result) {
	for i, o := range c.Objects {
		if i == 5 {
			in.Progress.Info("... and %d more", len(c.Objects)-i)
			return
		}
		in.Progress.Info("%s %s", o.String(), o.Message)
	}
}
