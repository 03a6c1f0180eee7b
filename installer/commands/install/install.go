// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package install brings the controller into a cluster, and its release to another version and back. An install looks
// at what is there, gets access to CloudStack, makes a plan, and carries it out step by step. Every step looks first
// and does only what is missing, so a run that ended early is continued by running again.
package install

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/check/inspect"
	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/installer/taint"
	"github.com/csccm/csccm/installer/takeover"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// Config is what the operator wants: flags, answers, and what the cluster decides where neither says anything. Zero
// values are asked for on a terminal, or have the default that the comment names.
type Config struct {
	access.Layers        // what is wanted of the controller's cloud-config; Found is read from the cluster
	Source        Source // where the controller's keys come from

	// SourceAdmin: a login, or an administrator's keys.
	AdminUser, AdminPassword, AdminDomain string
	AdminKeys                             credentials.Keys
	Account, Domain, User, Role           string
	CreateAccount                         bool
	// AllowHTTP lets the login, or the calls with an administrator's keys, go to an http:// URL.
	AllowHTTP bool
	// AnyUser lets a user log in who is no administrator.
	AnyUser         bool
	FromPredecessor bool // the keys are those of the provider that the install replaces

	// Where the flags say that passwords and keys are; see Read.
	AdminPasswordFile, AdminAPIKeyFile, AdminSecretKeyFile string
	AdminPasswordStdin                                     bool
	APIKeyFile, SecretKeyFile, CloudConfig                 string

	OverwriteSecret bool
	Chart           *helm.Chart
	Values          map[string]any
	Typed           []string // flags that were given, for the line that repeats the install

	ResetValues    bool // an upgrade forgets the release's values
	AllowDowngrade bool

	SkipChecks   []string
	SkipTaint    bool // leave existing nodes as they are
	SkipSelfTest bool // do not run the controller's self-test in the cluster

	// Accept and Pin name Services (namespace/name, or takeover.All) of which the takeover from another
	// provider may change what runs, or is to keep it by an annotation.
	Accept, Pin []string
	Adopt       string // see takeover.Options

	taint.Pace // of existing nodes

	// checks runs checks; nil = inspect.Run.
	checks checker
}

// run is one install: what is wanted, what was found, and what was decided.
type run struct {
	*engine.Env
	*Config
	session *engine.Session
	change

	// Found in the cluster.
	nodes       []corev1.Node
	kept        map[string]any // values that the release keeps
	secret      *access.Secret
	made        *credentials.Made
	controllers *family.Controllers
	decided     *decided

	// The controller's access to CloudStack, and that of the administrator who makes its user.
	config *cloudstack.Config // of the controller, for this machine; without keys as long as they are to be made
	api    *cloudapi.Client   // with the controller's keys, when they are verified
	caPEM  []byte
	admin  *cloudapi.Client       // an administrator's session
	user   *credentials.Provision // what makes the user; nil where keys were given
	ends   []func()

	// Decided before the cluster is changed. Without the controller's credentials newSecret and taints are nil.
	newSecret *access.SecretPlan
	taints    *taint.Plan
	// nil where no other provider is there. Its Services are compared once there are credentials
	order  *takeover.Plan
	taker  *takeover.Taker // of order, with its Services; nil before
	warned map[string]bool // warnings of checks that were shown

	release *helm.Release // as it is at the end
}

// chartValues are those that the release will have: those that it has, and over them the operator's.
func (r *run) chartValues() map[string]any { return helm.MergeValues(r.kept, r.Values) }

// setDefault sets a chart value that neither the operator nor the release sets.
func (r *run) setDefault(name string, value any) {
	if _, set := r.chartValues()[name]; !set {
		r.Values = helm.MergeValues(r.Values, map[string]any{name: value})
	}
}

// Run is the whole install. Its errors have a remedy and an exit code where they can.
func Run(ctx context.Context, e *engine.Env, c Config) (err error) {
	if c.checks == nil {
		c.checks = inspect.Run
	}

	r := &run{
		Env:     e,
		Config:  &c,
		warned:  map[string]bool{},
		session: e.Session("install", "csccm uninstall takes the controller away again"),
	}

	e.Scrub, r.given = r.scrub, c.Values
	defer func() {
		r.session.Close(err)
		r.close(err)
	}()

	err = r.session.Run(ctx,
		engine.Read("looking at the cluster", r.detect),
		engine.Read("credentials", r.findAccess),
		engine.Read("plan", r.planRelease),
	)
	if err != nil {
		return err
	}
	defer func() { // programs get the plan, however the run ends
		if e.Structured() {
			out := r.shown()
			out.Done = r.session.Done()
			if werr := report.Encode(e.Out, e.Output, out); err == nil {
				err = werr
			}
		}
	}()

	if err := r.prepare(ctx); err != nil || e.DryRun {
		return err
	}

	release := []engine.Step{
		{Name: "Helm release", Do: r.applyChart},
		{Name: "rollout", Do: func(ctx context.Context) error { return awaitPods(ctx, e, r.release, r.given) }},
	}

	if r.taker != nil {
		release, r.session.Back = r.taker.Around(release), takeover.WayBack
	}

	return r.session.Run(ctx, slices.Concat(
		[]engine.Step{{Name: "Secret", Do: r.applySecret}, {Name: "self-test in the cluster", Do: r.selfTest}},
		release,
		[]engine.Step{
			{Name: "initialisation of nodes", Do: r.initialiseNodes},
			{Name: "leader", Do: func(ctx context.Context) error {
				// After the limit it goes on: the checks after the install say what is wrong.
				open, err := awaitLeader(ctx, r.checkEnv(), r.checks, r.SkipChecks, r.Progress)
				if err == nil && open == nil && r.taker != nil {
					err = r.settleServices(ctx)
				}
				return err
			}},
			{Name: "checks after the install", Do: func(ctx context.Context) error {
				r.Progress.Step("Checks after the install")
				return r.runChecks(ctx, r.checkEnv(), check.PhaseInstalled)
			}},
			engine.Read("summary", r.summary),
		},
	)...)
}

// prepare plans and checks what is changed later, and makes the user in CloudStack, whose keys that needs. A dry run
// goes as far as reading goes: without keys, what needs them is left out, and a check or gate that does not pass is
// said after the plan is shown.
func (r *run) prepare(ctx context.Context) error {
	keys := !r.DryRun || !r.pending()
	var unfit error
	for _, step := range []struct {
		name        string
		do          func(context.Context) error
		needs, gate bool // keys; and whether a dry run goes on where it refuses
	}{
		{"takeover", r.planOrder, false, true},
		{"the user in CloudStack", r.makeUser, true, false}, // never made in a dry run
		{"checking the credentials", r.verify, true, false},
		{"plan of the takeover", r.planTakeover, true, false},
		{"checks before the install", r.preflight, false, true},
		{"plan of Secret and nodes", r.planNodes, true, true},
		{"dry run on the API server", r.diffObjects, false, true},
	} {
		if step.needs && !keys {
			continue
		}
		err := r.session.Run(ctx, engine.Read(step.name, step.do))
		if err != nil && (!step.gate || !r.DryRun) {
			return err
		}
		unfit = cmp.Or(unfit, err)
	}

	if r.DryRun {
		if err := r.Print(r.shown().Text(r.StyleOf(r.Out))); err != nil {
			return err
		}
		return cmp.Or(unfit, r.overwrites(), r.consent(ctx))
	}

	if err := r.overwrites(); err != nil {
		return err
	}

	return r.session.Run(ctx, engine.Read("confirmation", r.confirm))
}

// preflight runs the checks that make sense before an install; a failed one ends it. It lets the workloads pass whose
// place is taken.
func (r *run) preflight(ctx context.Context) error {
	r.Progress.Step("Checks before the install")
	env := r.checkEnv()
	env.Manifest = r.manifest
	for _, p := range r.controllers.Predecessors {
		env.Replaces = append(env.Replaces, check.Object{Kind: p.Kind, Namespace: p.Namespace, Name: p.Name})
	}
	if r.api == nil {
		env.CloudStack, env.CloudConfig, env.NoCloud = nil, nil, "the controller's user is not made yet"
	}
	return r.runChecks(ctx, env, check.PhasePreflight)
}

// checkEnv is what the checks work with.
func (r *run) checkEnv() *inspect.Env {
	return &inspect.Env{
		Cluster: r.Cluster, Style: r.StyleOf(r.Out), CloudStack: r.api, CloudConfig: r.config, Clock: r.Clock,
		Setup: check.Setup{Namespace: r.Cluster.Namespace, Release: r.Release},
	}
}

// runChecks runs the checks of a phase. A warning is shown once in a run.
func (r *run) runChecks(ctx context.Context, env *inspect.Env, phase check.Phase) error {
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
			if i == 5 {
				r.Progress.Info("... and %d more", len(c.Objects)-i)
				break
			}
			r.Progress.Info("%s %s", o.String(), o.Message)
		}
		if c.Remedy != "" {
			r.Progress.Info("fix: %s", c.Remedy)
		}
	}

	text := fmt.Sprintf("%d ok, %s, %d failed", result.Summary.OK, report.Count(result.Summary.Warning, "warning"),
		result.Summary.Failed)
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
	for _, f := range failed {
		codes, texts = append(codes, f.Code), append(texts, f.Code+" failed: "+f.Message)
	}
	fix := failed[0].Remedy
	if len(failed) > 1 {
		fix = "see the remedy of each check above"
	}
	if phase != check.PhasePreflight {
		return report.CheckFailed(fix, "installed, but %s", strings.Join(texts, "; "))
	}
	return report.CheckFailed(
		strings.TrimSpace(fmt.Sprintf("%s (or pass over it with --skip-check %s)", fix, strings.Join(codes, ","))),
		"nothing was installed: %s", strings.Join(texts, "; "),
	)
}
