// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package install brings the controller into a cluster: it looks at what is
// there, gets credentials, checks, shows a plan, and carries it out step by
// step. Every step looks first and does only what is missing, so a run that
// ended early is continued by running again.
package install

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/kube/selftest"
	"github.com/csccm/csccm/installer/takeover"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// Command is the name of the command in the journal.
const Command = "install"

// Options is what the operator wants. Zero values are asked for where a
// terminal is there, or have the default that the comment names.
type Options struct {
	Credentials CredentialOptions

	Project   string // name or id of the project that owns the VMs
	Zone      string // name or id; "" = any
	Region    string
	ClusterID string

	OverwriteSecret bool
	Chart           *helm.Chart
	Values          map[string]any
	Typed           []string // flags that were given, for the line that repeats the install

	SkipChecks   []string
	SkipTaint    bool // leave existing nodes as they are
	SkipSelfTest bool // do not run the controller's self-test in the cluster

	// Accept and Pin name Services (namespace/name, or takeover.All) of which the takeover from another
	// provider may change what runs, or is to keep it by an annotation.
	Accept, Pin []string

	MaxParallel int           // nodes tainted at a time after the canary; 0 = 1
	PerNode     time.Duration // 0 = taint.DefaultPerNode
}

// fill takes what no flag has given from a configuration.
func (o *Options) fill(cfg *cloudstack.Config) {
	for to, from := range map[*string]string{
		&o.Credentials.APIURL: cfg.APIURL, &o.Project: cfg.ProjectID, &o.Zone: cfg.Zone, &o.Region: cfg.Region, &o.ClusterID: cfg.ClusterID,
	} {
		*to = cmp.Or(*to, from)
	}
	o.Credentials.Keys = credentials.Keys{APIKey: cfg.APIKey, SecretKey: cfg.SecretKey}
	o.Credentials.SSLNoVerify = o.Credentials.SSLNoVerify || cfg.SSLNoVerify
}

// Installer is one run.
type Installer struct {
	*engine.Env
	Options

	// Tests replace it.
	checks func(ctx context.Context, env *check.Env, sel check.Selection, progress func(check.Result)) check.Report

	admin     *cloudapi.Client // an administrator's session
	ends      []func()
	config    *cloudstack.Config // of the controller, for this machine
	existing  *credentials.Secret
	provision *credentials.Provision // nil when keys are there
	caPEM     []byte
	cloud     *cloudapi.Client // with the controller's keys; nil while they are still to be made
	tested    *selftest.Result // in the cluster; nil where it did not run
	facts     *facts
	plan      *Plan
	taker     *takeover.Taker // nil where no other provider is there
	session   *engine.Session
	note      engine.Note              // of the step in progress
	made      []credentials.MadeObject // in CloudStack by this run
	warned    map[string]bool          // warnings of checks that were shown
}

// New returns an install that has not begun.
func New(e *engine.Env, o Options) *Installer {
	in := &Installer{
		Env: e, Options: o, checks: check.Run, warned: map[string]bool{}, note: func(string, ...any) {},
		session: e.Session(Command, "csccm uninstall takes the controller away again"),
	}
	e.Scrub = in.scrub
	return in
}

// Run is the whole install. Its errors have a remedy and an exit code where
// they can.
func (in *Installer) Run(ctx context.Context) (err error) {
	defer func() {
		for _, end := range in.ends {
			end()
		}
	}()
	defer func() { in.sayMade(err) }()
	defer func() { in.session.Close(ctx, err) }()
	if err := in.session.Run(ctx,
		read("looking at the cluster", in.detect),
		read("credentials", in.credentials),
		read("plan", in.makePlan),
	); err != nil {
		return err
	}
	if err := in.prepare(ctx); err != nil || in.DryRun {
		return err
	}
	return in.session.Run(ctx, slices.Concat(
		in.takeoverSteps((*takeover.Taker).Before),
		[]engine.Step{
			in.recorded("Secret", in.applySecret),
			in.recorded("Helm release", in.applyChart),
			in.recorded("rollout", in.Rollout),
			in.recorded("self-test in the cluster", in.selfTest),
		},
		in.takeoverSteps((*takeover.Taker).After),
		[]engine.Step{
			in.recorded("initialisation of nodes", in.initialiseNodes),
			in.recorded("leader", in.awaitLeader),
			in.recorded("checks after the install", in.postflight),
			read("summary", in.summary),
		},
	)...)
}

// prepare plans and checks what is changed later, and makes the user in CloudStack, whose keys that needs. A dry run goes as far
// as reading goes: without keys, what needs them is left out, and a check or gate that does not pass is said after the plan is shown.
func (in *Installer) prepare(ctx context.Context) error {
	keys := !in.DryRun || in.provision == nil || !in.provision.Changes()
	var unfit error
	for _, s := range []struct {
		name       string
		do         func(context.Context) error
		keys, gate bool // what it needs, and whether a dry run goes on where it refuses
	}{
		{"takeover", in.planControllers, false, true},
		{"checks before the user is made", in.checksBeforeUser, true, false},
		{"the user in CloudStack", in.provisionKeys, true, false}, // in a dry run the keys exist: nothing is made
		{"checking the credentials", in.verify, true, false},
		{"plan of the takeover", in.planTakeover, true, false},
		{"consent to the takeover", in.planConsent, true, true},
		{"policy for tenants", in.planTenants, false, false},
		{"checks before the install", in.preflight, false, true},
		{"plan of the nodes", in.planNodes, true, true},
		{"dry run on the API server", in.diffObjects, false, true},
	} {
		if s.keys && !keys {
			continue
		}
		err := in.session.Run(ctx, read(s.name, s.do))
		if err != nil && (!s.gate || !in.DryRun) {
			return err
		}
		if unfit == nil {
			unfit = err
		}
	}
	if !in.DryRun {
		return in.session.Run(ctx, read("confirmation", in.confirm))
	}
	if unfit == nil && !in.Interactive { // a person would be asked
		if unfit = in.overwrites(); unfit == nil {
			unfit = in.overwritesLater()
		}
	}
	if err := in.printPlan(); err != nil {
		return err
	}
	return unfit
}

// read makes a step that changes nothing.
func read(name string, do func(context.Context) error) engine.Step {
	return engine.Step{Name: name, ReadOnly: true, Do: func(ctx context.Context, _ engine.Note) error { return do(ctx) }}
}

// recorded makes a step whose begin and end are in the journal. From its opening on, the run has changed something.
func (in *Installer) recorded(name string, do func(context.Context) error) engine.Step {
	return engine.Step{Name: name, Do: func(ctx context.Context, note engine.Note) error {
		in.note = note
		return do(ctx)
	}}
}
