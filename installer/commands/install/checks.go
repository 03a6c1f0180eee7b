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

// ChecksError is checks that do not pass.
type ChecksError struct {
	Failed []check.Result
	Phase  check.Phase
}

func (e *ChecksError) codes(separator string) string {
	codes := make([]string, len(e.Failed))
	for i := range e.Failed {
		codes[i] = e.Failed[i].Code
	}
	return strings.Join(codes, separator)
}

func (e *ChecksError) Error() string {
	what := "installed, but "
	if e.Phase == check.PhasePreflight {
		what = "nothing was installed: "
	}
	what += e.codes(", ") + " failed"
	if len(e.Failed) == 1 {
		return what + ": " + e.Failed[0].Message
	}
	for i := range e.Failed {
		c := &e.Failed[i]
		what += "\n  " + c.Code + ": " + report.Cut(c.Message, briefly)
		if c.Remedy != "" {
			what += "\n    fix: " + c.Remedy
		}
	}
	return what
}

// Remedy is that of the failed check; of several, Error has said each.
func (e *ChecksError) Remedy() string {
	fix, it := e.Failed[0].Remedy, "it"
	if len(e.Failed) > 1 {
		fix, it = "one after the other; csccm doctor looks again", "them"
	}
	if e.Phase == check.PhasePreflight {
		fix += fmt.Sprintf(" (or pass over %s with --skip-check %s)", it, e.codes(","))
	}
	return strings.TrimSpace(fix)
}

// ExitCode is that of a failed check.
func (e *ChecksError) ExitCode() int { return report.ExitCheckFailed }

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
		in.Progress.Fail("")
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
		return &ChecksError{Failed: failed, Phase: phase}
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
