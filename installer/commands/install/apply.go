// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/check/inspect"
	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/diff"
	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/poll"
	"github.com/csccm/csccm/installer/prompt"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/installer/rollout"
	"github.com/csccm/csccm/installer/taint"
	"github.com/csccm/csccm/pkg/service"
)

// applySecret writes the Secret with the credentials. The Secret is not part of the chart, because Helm would store the
// credentials in its release records.
func (r *run) applySecret(ctx context.Context) error {
	r.Progress.Step("Secret %s", r.secret)
	r.Note("%s %s", r.newSecret.Action, r.secret)

	err := access.EnsureNamespace(ctx, r.Cluster.Kube, r.Cluster.Namespace)
	if err == nil && r.caPEM != nil {
		err = access.ApplyCA(ctx, r.Cluster.Kube, r.Cluster.Namespace, r.caPEM)
	}
	if err == nil {
		err = r.newSecret.Apply(ctx, r.Cluster.Kube)
	}

	if err == nil {
		r.Progress.Done("%s", map[access.SecretAction]string{
			access.SecretKeep:      "kept",
			access.SecretCreate:    "created",
			access.SecretOverwrite: "overwritten",
		}[r.newSecret.Action])
	}

	return err
}

// applyChart installs or upgrades the release. It does not wait for the Pods; the step "rollout" does.
func (r *run) applyChart(ctx context.Context) (err error) {
	r.Progress.Step("Helm release %s/%s", r.Cluster.Namespace, r.Release)
	if r.release = r.was; r.action == actionKeep {
		r.Progress.Done("revision %d is what is wanted", r.was.Revision)
	} else {
		if r.release, err = r.Helm.Apply(ctx, r.request); err != nil {
			return err
		}
		r.Note("revision %d, chart %s", r.release.Revision, r.release.ChartVersion)
		r.Progress.Done("revision %d, chart %s", r.release.Revision, r.release.ChartVersion)
	}

	// The controller reads some settings of the cloud-config, such as the zone, only when it starts. Pods of a first
	// release start with the new Secret and need no restart.
	was, keys := r.secret.Config, ""
	if r.newSecret.Action == access.SecretOverwrite && was != nil && r.was != nil {
		keys = strings.Join(was.NeedsRestart(r.config), ", ")
	}

	if keys == "" {
		return nil
	}

	r.Progress.Step("Restarting the controller, which reads %s when it starts", keys)
	if err := rollout.Restart(ctx, r.Env); err != nil {
		return err
	}

	r.Note("restarted for %s", keys)
	return nil
}

// initialiseNodes first waits until the controller has initialised the nodes that already have the taint, which
// kubelets with --cloud-provider=external set. It then taints the other existing nodes so that the controller
// initialises them too: one node first, then the others.
func (r *run) initialiseNodes(ctx context.Context) error {
	p, err := r.taintPlan(ctx)
	if err != nil {
		return err
	}

	e := &taint.Executor{Env: r.Env, Limits: r.Limits}
	if waiting := p.In(taint.StateWaiting); len(waiting) > 0 {
		r.Progress.Step("Waiting for the controller to initialise %s", report.Count(len(waiting), "node"))
		if _, err := cluster.Each(ctx, waiting, func(ctx context.Context, name *string) (struct{}, error) {
			err := e.Await(ctx, *name)
			if err == nil {
				r.Progress.Info("node %s", *name)
			}
			return struct{}{}, err
		}); err != nil {
			return err
		}

		r.Progress.Done("")
	}

	if r.SkipTaint && len(p.Order) > 0 {
		r.Progress.Info("%s left as before (--skip-taint): csccm taint has the controller initialise them",
			report.Count(len(p.Order), "node"))
		return nil
	}

	return e.Initialise(ctx, p)
}

// summary returns what runs now, as text.
func (r *run) summary() string {
	text := ""
	if r.taker != nil {
		names := cloudapi.Names(r.taker.Plan.Predecessors, func(p *family.Predecessor) string { return p.String() })
		text = "Replaced " + strings.Join(names, ", ") + ".\n" + r.taker.Afterwards()
	}

	return text + fmt.Sprintf(`cloudstack-ccm %s runs in namespace %s; %d of %s initialised.
Check it at any time:  csccm doctor
Repeat this install:   %s
`, r.release.AppVersion, r.Cluster.Namespace, len(r.taints.In(taint.StateDone)),
		report.Count(len(r.taints.Items), "node"), report.ShellLine(r.FlagLine(r.Env)...))
}

// FlagLine returns the command that repeats this install without questions: its flags, and flags for the answers. It
// contains the names of files with secrets, never secrets. It leaves out --from-predecessor, because the Secret now
// holds the keys, and those of the other provider may be deleted together with it.
func (c *Config) FlagLine(e *engine.Env) []string {
	line := slices.Concat([]string{"csccm", "install"}, e.Cluster.Args(e.Release), c.Typed)
	given := func(flag string) bool { return slices.Contains(c.Typed, flag) }
	admin, keys := c.Source == SourceAdmin, c.Source == SourceKeys && !c.FromPredecessor
	login, files := admin && !given("--admin-api-key-file"), keys && !given("--cloud-config")
	for _, a := range []struct {
		is          bool
		flag, value string
	}{
		{admin || keys, "--api-url", c.Answers["api-url"]},
		{login, "--admin-user", c.AdminUser},
		{login, "--admin-domain", c.AdminDomain},
		{login && !given("--admin-password-stdin"), "--admin-password-file", "FILE"},
		{admin, "--domain", c.Domain},
		{admin, "--account", c.Account},
		{files, "--api-key-file", "FILE"},
		{files, "--secret-key-file", "FILE"},
		{true, "--project", c.Answers["project-id"]},
		{true, "--zone", c.Answers["zone"]},
		{true, "--accept", strings.Join(c.Accept, ",")},
		{true, "--pin", strings.Join(c.Pin, ",")},
		{true, "--adopt-addresses", c.Adopt},
	} {
		if a.is && a.value != "" && !given(a.flag) {
			line = append(line, a.flag, a.value)
		}
	}

	return append(line, "--yes")
}

// Upgrade changes the release to another version of the chart. It keeps the values of the release, unless
// o.ResetValues is set.
func Upgrade(ctx context.Context, e *engine.Env, o Config) error {
	history, err := e.Deployed(ctx)
	if err != nil {
		return err
	}

	values := helm.Values(history)
	if o.ResetValues {
		values = nil
	}

	values = helm.MergeValues(values, o.Values)

	d := &decided{}
	if len(helm.Current(history).Decided) > 0 {
		if d, err = decideFor(ctx, e.Cluster, values); err != nil {
			return err
		}
	}

	c := &change{was: &history[0], back: wayBack(history), given: o.Values, request: helm.ApplyRequest{
		Name:        e.Release,
		Chart:       o.Chart,
		Values:      helm.MergeValues(d.values, values),
		KubeVersion: e.Cluster.Version,
		Description: "csccm upgrade",
		Decided:     d.names(),
	}}

	if err := c.render(ctx, e); err != nil {
		return err
	}

	from, ferr := semver.NewVersion(c.was.ChartVersion)
	to, err := semver.NewVersion(o.Chart.Version())
	if err = errors.Join(ferr, err); err != nil {
		return fmt.Errorf("chart %s after %s: %w", o.Chart.Version(), c.was.ChartVersion, err)
	}

	switch d := to.Compare(from); {
	case d < 0 && !o.AllowDowngrade:
		return report.Usage(
			"add --allow-downgrade, or go back to a revision that worked with csccm rollback",
			"chart %s is older than %s, which is installed", o.Chart.Version(), c.was.ChartVersion,
		)
	case d < 0:
		c.action = "downgrade"
	case d == 0 && c.action == actionUpgrade:
		c.action = diff.Update
	}

	return c.carryOut(
		ctx, e, "upgrade",
		fmt.Sprintf("chart %s, controller %s", o.Chart.Version(), o.Chart.AppVersion()),
		func(ctx context.Context) (*helm.Release, error) { return e.Helm.Apply(ctx, c.request) },
	)
}

// Rollback makes a new revision with the content of an earlier one. Revision 0 means the newest revision before the
// latest that worked.
func Rollback(ctx context.Context, e *engine.Env, revision int) error {
	history, err := e.Deployed(ctx)
	if err != nil {
		return err
	}

	target, err := pick(history, revision)
	if err != nil {
		return err
	}

	c := &change{
		was:      &history[0],
		back:     wayBack(history),
		action:   "rollback",
		manifest: target.Manifest,
		request:  helm.ApplyRequest{Values: target.Values},
	}

	return c.carryOut(
		ctx, e, "rollback",
		fmt.Sprintf("revision %d, chart %s, controller %s", target.Revision, target.ChartVersion, target.AppVersion),
		func(ctx context.Context) (*helm.Release, error) {
			return e.Helm.Rollback(ctx, e.Release, target.Revision)
		},
	)
}

// pick returns the revision to go back to; history is newest first.
func pick(history []helm.Release, revision int) (*helm.Release, error) {
	var known []string
	for _, r := range history {
		status := r.Status
		if r.NeverRan {
			status += ", never ran"
		}
		known = append(known, fmt.Sprintf("%d (%s, chart %s)", r.Revision, status, r.ChartVersion))
	}

	i := slices.IndexFunc(history, func(r helm.Release) bool {
		return r.Revision == revision || revision == 0 && r.Revision != history[0].Revision && r.Worked()
	})
	switch {
	case i >= 0:
		return &history[i], nil
	case revision == 0:
		return nil, report.Usage(
			"revisions: "+strings.Join(known, ", ")+"; csccm uninstall removes the controller",
			"there is no earlier revision that worked",
		)
	}

	return nil, report.Usage("name one of "+strings.Join(known, ", "), "there is no revision %d", revision)
}

// wayBack returns the command that goes back to the newest revision that worked; csccm uninstall if none did. history
// is newest first.
func wayBack(history []helm.Release) string {
	for _, revision := range history {
		if revision.Worked() {
			return fmt.Sprintf("csccm rollback %d", revision.Revision)
		}
	}
	return "csccm uninstall"
}

// awaitPods waits until the Pods of a revision run. If they do not run, it marks the revision so that no rollback
// chooses it. Its error then names the values on the command line, because one of them may be the cause.
func awaitPods(ctx context.Context, e *engine.Env, now *helm.Release, given map[string]any) error {
	err := rollout.Wait(ctx, e)
	if err == nil || ctx.Err() != nil {
		return err
	}

	if noted := e.Helm.NeverRan(ctx, e.Release, now.Revision); noted != nil {
		e.Progress.Warn("revision %d is not marked as one that never ran: %v", now.Revision, noted)
	}

	fix := report.RemedyOf(err)
	var set []string
	for name, value := range helm.Flat(given) {
		set = append(set, fmt.Sprintf("--set %s=%v", name, value))
	}

	slices.Sort(set)
	if len(set) > 0 {
		fix += "; the cause may be " + strings.Join(set, " ")
	}

	return report.Remedied(err, fix)
}

// carryOut calls do, which changes the release, and waits until the controller's Pods run and one of them leads. to
// describes the target for the plan: the chart and its controller, with the revision for a rollback.
func (c *change) carryOut(
	ctx context.Context, e *engine.Env, command, to string, do func(context.Context) (*helm.Release, error),
) error {
	if err := c.compare(ctx, e); err != nil {
		return err
	}

	now, what := c.was, fmt.Sprintf("%s release %s/%s", c.action, e.Cluster.Namespace, e.Release)
	plan := e.NewPlan()
	plan.Add(
		"Helm", what+":", c.request.Values,
		fmt.Sprintf("from  revision %d, chart %s, controller %s", c.was.Revision, c.was.ChartVersion, c.was.AppVersion),
		"to    "+to,
	)
	plan.Add("Objects", diff.Summary(c.objects), c.objects, diff.Text(c.objects, e.Verbose)...)
	plan.Warnings = c.warnings

	back := "or go back with " + c.back
	var steps []engine.Step
	if c.action != actionKeep {
		steps = []engine.Step{
			{Name: "Helm release", Do: func(ctx context.Context) (err error) {
				e.Progress.Step("Helm release %s/%s: %s", e.Cluster.Namespace, e.Release, to)
				if now, err = do(ctx); err != nil {
					return err
				}

				e.Note(
					"revision %d after %d, chart %s after %s",
					now.Revision, c.was.Revision, now.ChartVersion, c.was.ChartVersion,
				)
				e.Progress.Done("revision %d, chart %s", now.Revision, now.ChartVersion)
				return nil
			}},
			{Name: "rollout", Back: back, Do: func(ctx context.Context) error {
				return awaitPods(ctx, e, now, c.given)
			}},
			{Name: "leader", Back: back, Do: func(ctx context.Context) error {
				open, err := awaitLeader(ctx, checkEnv(e), inspect.Run, nil, e.Progress)
				if err == nil && open != nil {
					late := report.Errorf(open.Remedy, "the new Pods run, but none of them leads: %s", open.Message)
					late.Code = report.ExitTimeout
					err = late
				}

				return err
			}},
		}
	}

	return e.Run(ctx, engine.Operation{
		Name:     command,
		What:     what,
		Back:     back,
		Question: prompt.Question{Message: "Go on"},
		Plan:     plan,
		Steps:    steps,
		Done: func() string {
			return fmt.Sprintf(
				"release %s/%s revision %d runs: chart %s, controller %s\n"+
					"Check it:  csccm doctor\n"+
					"Go back:   %s\n",
				e.Cluster.Namespace, e.Release, now.Revision, now.ChartVersion, now.AppVersion, c.back,
			)
		},
	})
}

// settleTime is how long the controller may take until it has handled all existing Services.
const settleTime = 5 * time.Minute

// settleServices waits until the controller has set the Ready condition of each Service, so that the checks that follow
// see the result.
func (r *run) settleServices(ctx context.Context) error {
	begun, waiting := false, 0 // waiting is the number of Services without a condition

	_, err := poll.Until(ctx, r.Clock, leaderPoll, settleTime, func() (bool, error) {
		var err error
		all := check.Balanced(cluster.Services(ctx, &err, r.Cluster.Kube), family.ArgumentsOfChart(r.manifest))

		remaining := 0
		for _, s := range all {
			if service.Ready(s).Type == "" {
				remaining++
			}
		}

		if remaining > 0 && !begun {
			r.Progress.Step("Waiting for the controller to serve %s", report.Count(len(all), "Service"))
			begun = true
		}

		if remaining != waiting {
			r.Progress.Info("%d of %d done", len(all)-remaining, len(all))
		}

		waiting = remaining
		return remaining == 0, err
	})

	switch {
	case err != nil:
		return err
	case waiting > 0: // not an error: the checks after the install say what is wrong
		r.Progress.Fail("%d not within %s", waiting, settleTime)
	}

	return nil
}

// checker runs checks. It is inspect.Run, except in tests.
type checker func(context.Context, *inspect.Env, check.Selection, func(check.Result)) (check.Report, *check.Facts)

const (
	// leaderTimeout covers a lease that was not released: 15 s for a controller by default, 60 s for a csccm that was
	// killed during a takeover. It adds the time until a Pod tries again to acquire the lease.
	leaderTimeout = 90 * time.Second
	leaderPoll    = 2 * time.Second
)

// awaitLeader waits until a Pod of the controller leads. A Pod can be ready before it leads, because the lease of a
// previous controller must expire first. After leaderTimeout, awaitLeader returns the result of the check that still
// fails.
func awaitLeader(
	ctx context.Context, env *inspect.Env, run checker, skip []string, p *report.Progress,
) (open *check.Result, err error) {
	const code = "CCM-002"
	waited := false

	_, err = poll.Until(ctx, env.Clock, leaderPoll, leaderTimeout, func() (bool, error) {
		r, _ := run(ctx, env, check.Selection{Phase: check.PhaseInstalled, Only: []string{code}, Skip: skip}, nil)
		open = check.Find(r.Checks, func(c *check.Result) bool { return c.Code == code && c.Outcome == check.Failed })
		if open != nil && !waited {
			p.Step("Waiting for a leader")
			waited = true
		}
		return open == nil, context.Cause(ctx)
	})

	switch {
	case err != nil || !waited:
	case open == nil:
		p.Done("")
	default:
		p.Fail("not within %s", leaderTimeout)
	}

	return open, err
}
