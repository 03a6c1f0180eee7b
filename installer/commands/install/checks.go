// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/ui/terminal"
)

// preflight runs the checks that make sense before an install; a failed one
// ends it.
func (in *Installer) preflight(ctx context.Context) error {
	in.Progress.Step("Checks before the install")
	env := in.checkEnv()
	env.Manifest, env.Replaces = in.plan.manifest, in.replaces()
	if in.cloud == nil {
		env.CloudStack, env.CloudConfig, env.NoCloud = nil, nil, "the controller's user is not made yet"
	}
	return in.runChecks(ctx, env, check.PhasePreflight)
}

// checkEnv is what the checks work with.
func (in *Installer) checkEnv() *check.Env {
	return &check.Env{
		Cluster: in.Cluster, Style: in.StyleOf(in.Out), CloudStack: in.cloud, CloudConfig: in.config, Clock: in.Clock,
		Setup: check.Setup{Namespace: in.Cluster.Namespace, Release: in.Release, SelfTest: in.tested},
	}
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
			what += "\n  " + c.Code + ": " + terminal.Cut(c.Message, briefly)
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
	if refusal := in.overwritesLater(); refusal != nil && in.Yes {
		return refusal
	}
	return in.preflight(ctx)
}

func (in *Installer) runChecks(ctx context.Context, env *check.Env, phase check.Phase) error {
	result := in.checks(ctx, env, check.Selection{Phase: phase, Skip: in.SkipChecks}, nil)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var failed []check.Result
	for i := range result.Checks {
		c := &result.Checks[i]
		switch {
		case c.Outcome == check.Failed:
			failed = append(failed, *c)
		case c.Outcome != check.Warning, in.warned[c.Code+c.Message]: // said before the install already
			continue
		default:
			in.warned[c.Code+c.Message] = true
		}
		in.Progress.Warn("%s %s: %s", c.Code, c.Title, c.Message)
		in.sayObjects(c)
		if c.Outcome == check.Warning && c.Remedy != "" {
			in.Progress.Info("fix: %s", c.Remedy)
		}
	}
	s := result.Summary
	text := fmt.Sprintf("%d ok, %s, %d failed", s.OK, english.Plural(s.Warning, "warning", ""), s.Failed)
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

// matchesVMs is the check that matchNodes stands for before there are keys.
const matchesVMs = "NODE-002"

// matchNodes refuses an account or project that does not own the VMs of the nodes, before a user is made in it. On a
// terminal it offers those that do; moved reports whether one was chosen. The
// administrator's login lists its VMs; where it may not, the checks with the user's keys judge later.
func (in *Installer) matchNodes(ctx context.Context, plan *credentials.Provision) (moved bool, err error) {
	if slices.Contains(in.SkipChecks, matchesVMs) || len(in.facts.nodes) == 0 {
		return false, nil
	}
	place := credentials.Place{Account: plan.Account, Domain: plan.Domain.Path}
	query := cloudstack.VMQuery{Account: plan.Account, DomainID: plan.Domain.ID}
	if plan.Project.ID != "" {
		place, query = credentials.Place{Project: plan.Project.Name}, cloudstack.VMQuery{ProjectID: plan.Project.ID}
	}
	vms, err := in.admin.ListVirtualMachines(ctx, query)
	if cloudstack.IsKind(err, cloudstack.KindNotPermitted) || cloudstack.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var places []credentials.Place
	finding, ok := check.Misplaced(in.facts.nodes, vms, place, in.newConfig().Zone, func() []credentials.Place {
		places = credentials.AdminPlaces(ctx, in.admin)
		return places
	})
	if ok {
		return false, nil
	}
	if in.Interactive {
		if moved, err = in.askOwner(ctx, finding.Message, places); moved || err != nil {
			return moved, err
		}
	}
	return false, checksFailed(check.PhasePreflight, check.Result{
		Code: matchesVMs, Outcome: check.Failed, Message: finding.Message, Remedy: finding.Remedy, Objects: finding.Objects,
	})
}
