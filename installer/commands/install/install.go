// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package install brings the controller into a cluster. It looks at what is there (facts), gets access to CloudStack (access), makes
// a plan, and carries it out step by step. Every step looks first and does only what is missing, so a run that
// ended early is continued by running again.
package install

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/check/tenants"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// Config is what the operator wants: flags, answers, and what the cluster decides where neither says anything. Zero values are
// asked for on a terminal, or have the default that the comment names.
type Config struct {
	Credentials Credentials

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

	// checks runs checks; nil = check.Run.
	checks func(ctx context.Context, env *check.Env, sel check.Selection, progress func(check.Result)) check.Report
}

// fill takes what no flag has given from a configuration.
func (c *Config) fill(cfg *cloudstack.Config) {
	for to, from := range map[*string]string{
		&c.Credentials.APIURL: cfg.APIURL, &c.Project: cfg.ProjectID, &c.Zone: cfg.Zone, &c.Region: cfg.Region, &c.ClusterID: cfg.ClusterID,
	} {
		*to = cmp.Or(*to, from)
	}
	c.Credentials.Keys = credentials.Keys{APIKey: cfg.APIKey, SecretKey: cfg.SecretKey}
	c.Credentials.SSLNoVerify = c.Credentials.SSLNoVerify || cfg.SSLNoVerify
}

// run is one install: what is wanted, what was found, and what was decided.
type run struct {
	*engine.Env
	*Config
	session *engine.Session
	facts
	access
	plan
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
		c.checks = check.Run
	}
	r := &run{Env: e, Config: &c, session: e.Session("install", "csccm uninstall takes the controller away again")}
	e.Scrub = r.scrub
	defer func() {
		r.session.Close(err)
		r.close(err)
	}()
	if err := r.session.Run(ctx, read("looking at the cluster", r.detect), read("credentials", r.findAccess), read("plan", r.render)); err != nil {
		return err
	}
	if err := r.prepare(ctx); err != nil || e.DryRun {
		return err
	}
	var before, after []engine.Step
	if r.taker != nil {
		before, after = r.taker.Before(), r.taker.After()
		for _, steps := range [][]engine.Step{before, after} {
			for i := range steps {
				steps[i].Name = "takeover: " + steps[i].Name
			}
		}
	}
	return r.session.Run(ctx, slices.Concat(
		[]engine.Step{{Name: "namespace", Do: func(ctx context.Context, _ engine.Note) error {
			return e.Cluster.Explain(credentials.EnsureNamespace(ctx, e.Cluster.Kube, e.Cluster.Namespace))
		}}},
		before,
		[]engine.Step{
			{Name: "Secret", Do: r.applySecret}, {Name: "Helm release", Do: r.applyChart},
			{Name: "rollout", Do: func(ctx context.Context, _ engine.Note) error { return r.Rollout(ctx) }},
			{Name: "self-test in the cluster", Do: r.selfTest},
		},
		after,
		[]engine.Step{
			{Name: "initialisation of nodes", Do: r.initialiseNodes},
			{Name: "leader", Do: func(ctx context.Context, _ engine.Note) error {
				// After the limit it goes on: the checks after the install say what is wrong.
				_, err := check.AwaitLeader(ctx, r.checkEnv(), r.checks, r.SkipChecks, r.Progress)
				return err
			}},
			{Name: "checks after the install", Do: func(ctx context.Context, _ engine.Note) error {
				r.Progress.Step("Checks after the install")
				return r.runChecks(ctx, r.checkEnv(), check.PhaseInstalled)
			}},
			read("summary", r.summary),
		},
	)...)
}

// prepare plans and checks what is changed later, and makes the user in CloudStack, whose keys that needs. A dry run goes as far
// as reading goes: without keys, what needs them is left out, and a check or gate that does not pass is said after the plan is shown.
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
		{"consent to the takeover", func(ctx context.Context) error {
			if !r.DryRun {
				return nil // a run asks when the plan is shown
			}
			return r.consent(ctx)
		}, true, true},
		{"policy for tenants", func(ctx context.Context) (err error) {
			r.refused, err = tenants.Decide(ctx, r.Env, r.manifest)
			return err
		}, false, false},
		{"checks before the install", r.preflight, false, true},
		{"plan of Secret and nodes", r.planNodes, true, true},
		{"dry run on the API server", r.diffObjects, false, true},
	} {
		if step.needs && !keys {
			continue
		}
		err := r.session.Run(ctx, read(step.name, step.do))
		if err != nil && (!step.gate || !r.DryRun) {
			return err
		}
		if unfit == nil {
			unfit = err
		}
	}
	if unfit == nil {
		unfit = r.overwrites()
	}
	if r.DryRun {
		if err := r.Show(r.shown()); err != nil {
			return err
		}
		return unfit
	}
	if unfit != nil {
		return unfit
	}
	return r.session.Run(ctx, read("confirmation", r.confirm))
}

// read makes a step that changes nothing.
func read(name string, do func(context.Context) error) engine.Step {
	return engine.Step{Name: name, ReadOnly: true, Do: func(ctx context.Context, _ engine.Note) error { return do(ctx) }}
}
