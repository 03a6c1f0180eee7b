// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package install installs the controller into a cluster, upgrades its release and rolls it back. An install reads the
// cluster, gets access to CloudStack, makes a plan, and carries the plan out step by step. Every step does only what is
// missing, so an install that was interrupted continues when the command is run again.
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
	"github.com/csccm/csccm/installer/prompt"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/installer/taint"
	"github.com/csccm/csccm/installer/takeover"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// Config is what the operator wants, from flags and answers. Missing values are asked for at a terminal, follow from
// the cluster, or have a default.
type Config struct {
	access.Layers        // values for the controller's cloud-config
	Source        Source // where the controller's keys come from

	// config is the controller's cloud-config as this machine uses it: the operator's values merged over those that
	// were found. Questions complete it.
	config *cloudstack.Config

	// For SourceAdmin: an administrator's login or keys, and the user to create.
	AdminUser, AdminPassword, AdminDomain string
	AdminKeys                             credentials.Keys
	Account, Domain, User, Role           string
	CreateAccount                         bool
	// AllowHTTP allows an http:// URL for the login, or for calls with an administrator's keys.
	AllowHTTP bool
	// AnyUser allows the login of a user who is not an administrator.
	AnyUser         bool
	FromPredecessor bool // use the keys of the provider that the install replaces

	// Files with passwords and keys, and whether to read the password from stdin; see Read.
	AdminPasswordFile, AdminAPIKeyFile, AdminSecretKeyFile string
	AdminPasswordStdin                                     bool
	APIKeyFile, SecretKeyFile, CloudConfig                 string

	OverwriteSecret bool
	Chart           *helm.Chart
	Values          map[string]any
	Typed           []string // flags on the command line, for FlagLine

	ResetValues    bool // an upgrade drops the values of the release
	AllowDowngrade bool

	SkipChecks   []string
	SkipTaint    bool // leave existing nodes as they are
	SkipSelfTest bool // do not run the controller's self-test in the cluster

	// Accept and Pin name Services (namespace/name, or takeover.All). In a takeover from another provider, the load
	// balancers of accepted Services may change; those of pinned Services keep their current state by annotations.
	Accept, Pin []string
	Adopt       string // see takeover.Options

	taint.Limits // for existing nodes

	// checks runs checks; nil means inspect.Run.
	checks checker
}

// run is the state of one install.
type run struct {
	*engine.Env
	*Config
	change

	// Found in the cluster.
	nodes          []corev1.Node
	previousValues map[string]any // values of the current release
	secret         *access.Secret
	created        *credentials.Created
	controllers    *family.Controllers
	decided        *decided

	// The controller's access to CloudStack, and that of the administrator who makes the controller's user.
	api   *cloudapi.Client       // with the controller's keys; nil until they are verified
	caPEM []byte                 // CA certificates of --ca-file
	admin *cloudapi.Client       // with the administrator's session or keys
	user  *credentials.Provision // plan of the controller's user; nil if keys are given
	ends  []func()               // close sessions

	// Planned before the cluster is changed. newSecret and taints are nil without the controller's credentials.
	newSecret *access.SecretPlan
	taints    *taint.Plan
	// order is the plan of the takeover; nil if there is no other provider. It contains no Services until there are
	// credentials.
	order   *takeover.Plan
	taker   *takeover.Taker // carries out order; nil until there are credentials
	warned  map[string]bool // warnings of checks that were already shown
	invalid error           // why the plan cannot be carried out

	release *helm.Release // the release after the install
}

// chartValues returns the values of the new release: those of the current release, overridden by the operator's.
func (r *run) chartValues() map[string]any { return helm.MergeValues(r.previousValues, r.Values) }

// setDefault sets a chart value, unless the operator or the current release sets it.
func (r *run) setDefault(name string, value any) {
	if _, set := r.chartValues()[name]; !set {
		r.Values = helm.MergeValues(r.Values, map[string]any{name: value})
	}
}

// Run runs the install. It reads the cluster, creates the controller's user in CloudStack if there is none, and
// then plans and makes the other changes, because their plan needs the user's keys.
func Run(ctx context.Context, e *engine.Env, c Config) (err error) {
	if c.checks == nil {
		c.checks = inspect.Run
	}

	r := &run{Env: e, Config: &c, warned: map[string]bool{}}
	e.Scrub, r.given = r.scrub, c.Values
	defer func() { r.close(err) }()

	for _, read := range []func(context.Context) error{r.detect, r.findAccess, r.planRelease} {
		if err := read(ctx); err != nil {
			return err
		}
	}

	r.invalid = cmp.Or(r.planOrder(), r.overwrites())

	op := r.operation("create the user in CloudStack for the controller")
	op.Then = r.changes
	if r.pending() && !r.DryRun {
		op.Check = r.judgeUser
		op.Steps = []engine.Step{{Name: "the user in CloudStack", Shielded: true, Do: r.takeKeys}}
	}

	return e.Run(ctx, op)
}

// operation returns an operation with the plan as far as it is known.
func (r *run) operation(what string) engine.Operation {
	return engine.Operation{
		Name:     "install",
		What:     what,
		Back:     "or go back with " + r.back,
		Question: prompt.Question{Default: "yes"},
		Plan:     r.shown(),
	}
}

// judgeUser returns an error if the install could not continue after the controller's user is created.
func (r *run) judgeUser(ctx context.Context) error {
	if r.invalid != nil {
		return r.invalid
	}
	return r.preflight(ctx)
}

// changes plans all changes but those that create the controller's user. In a dry run that user may not exist yet: the
// plan then lacks what needs the keys.
func (r *run) changes(ctx context.Context) (*engine.Operation, error) {
	if !r.pending() {
		if err := r.useKeys(ctx); err != nil {
			return nil, err
		}
	}

	// The plan is shown also if one of these fails.
	for _, judge := range []func(context.Context) error{r.preflight, r.planNodes, r.diffObjects} {
		err := judge(ctx)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		r.invalid = cmp.Or(r.invalid, err)
	}

	r.invalid = cmp.Or(r.invalid, r.overwrites())
	op := r.operation(fmt.Sprintf("%s release %s/%s", r.action, r.Cluster.Namespace, r.Release))
	op.Question.Message = "Go on"
	op.Check = r.consent
	op.Looks = r.newSecret != nil &&
		r.newSecret.Action == access.SecretKeep &&
		r.action == actionKeep &&
		r.order == nil &&
		r.caPEM == nil &&
		(r.SkipTaint || r.taints != nil && len(r.taints.Order) == 0)

	release := []engine.Step{
		{Name: "Helm release", Do: r.applyChart},
		{
			Name: "rollout",
			Back: op.Back,
			Do:   func(ctx context.Context) error { return awaitPods(ctx, r.Env, r.release, r.given) },
		},
	}

	if r.taker != nil {
		release, op.Back = r.taker.Around(release), takeover.WayBack
	}

	op.Done = r.summary
	op.Steps = slices.Concat(
		[]engine.Step{
			{Name: "Secret", Shielded: true, Do: r.applySecret},
			{Name: "self-test in the cluster", Do: r.selfTest},
		},
		release,
		[]engine.Step{
			{Name: "initialisation of nodes", Do: r.initialiseNodes},
			{Name: "leader", Do: func(ctx context.Context) error {
				// Without a leader the install continues after a timeout: the checks at its end report the problem.
				open, err := awaitLeader(ctx, r.checkEnv(), r.checks, r.SkipChecks, r.Progress)
				if err == nil && open == nil && r.taker != nil {
					err = r.settleServices(ctx)
				}
				return err
			}},
			{Name: "checks after the install", Do: func(ctx context.Context) (err error) {
				r.Progress.Step("Checks after the install")
				if err = r.runChecks(ctx, r.checkEnv(), check.PhaseInstalled); err == nil {
					r.taints, err = r.taintPlan(ctx) // for the summary
				}
				return err
			}},
		},
	)

	return &op, nil
}

// useKeys verifies the controller's keys, and plans what only they can read.
func (r *run) useKeys(ctx context.Context) error {
	if r.user != nil && r.config.APIKey == "" { // the user and its keys exist already
		if err := r.takeKeys(ctx); err != nil {
			return err
		}
	}

	if err := r.verify(ctx); err != nil {
		return err
	}

	return r.planTakeover(ctx)
}

// preflight runs the checks of the preflight phase; a failed check ends the install. The checks ignore the workloads
// that the install replaces.
func (r *run) preflight(ctx context.Context) error {
	r.Progress.Step("Checks before the install")
	env := r.checkEnv()
	env.Manifest = r.manifest
	for _, p := range r.controllers.Predecessors {
		env.Replaces = append(env.Replaces, check.Object{Kind: p.Kind, Namespace: p.Namespace, Name: p.Name})
	}

	if r.api == nil {
		env.CloudStack, env.CloudConfig, env.NoCloud = nil, nil, "the controller's user is not created yet"
	}

	return r.runChecks(ctx, env, check.PhasePreflight)
}

// checkEnv returns the environment of checks that do not use CloudStack.
func checkEnv(e *engine.Env) *inspect.Env {
	return &inspect.Env{
		Cluster: e.Cluster,
		Style:   e.Style,
		Clock:   e.Clock,
		Setup:   check.Setup{Namespace: e.Cluster.Namespace, Release: e.Release},
	}
}

// checkEnv returns the environment of all checks.
func (r *run) checkEnv() *inspect.Env {
	env := checkEnv(r.Env)
	env.CloudStack, env.CloudConfig = r.api, r.config
	return env
}

// runChecks runs the checks of a phase, and shows failures and warnings. It shows a warning only once in a run.
func (r *run) runChecks(ctx context.Context, env *inspect.Env, phase check.Phase) error {
	result, _ := r.checks(ctx, env, check.Selection{Phase: phase, Skip: r.SkipChecks}, nil)
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

// checksFailed returns the error for failed checks.
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
		strings.TrimSpace(fmt.Sprintf("%s (or skip it with --skip-check %s)", fix, strings.Join(codes, ","))),
		"nothing was installed: %s", strings.Join(texts, "; "),
	)
}
