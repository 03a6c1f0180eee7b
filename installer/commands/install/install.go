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

// values are the chart values that the release will have: those that it has, and over them the operator's.
func (c *Config) values(f *facts) map[string]any { return helm.MergeValues(f.kept, c.Values) }

// setDefault sets a chart value that neither the operator nor the release sets.
func (c *Config) setDefault(f *facts, name string, value any) {
	if _, set := c.values(f)[name]; !set {
		c.Values = helm.MergeValues(c.Values, map[string]any{name: value})
	}
}

// Run is the whole install. Its errors have a remedy and an exit code where they can.
func Run(ctx context.Context, e *engine.Env, c Config) (err error) {
	if c.checks == nil {
		c.checks = check.Run
	}
	s := e.Session("install", "csccm uninstall takes the controller away again")
	a := &access{}
	e.Scrub = a.scrub
	defer func() {
		s.Close(err)
		a.close(e, err)
	}()
	var f *facts
	var p *plan
	if err := s.Run(ctx,
		read("looking at the cluster", func(ctx context.Context) (err error) {
			f, err = detect(ctx, e, &c)
			return err
		}),
		read("credentials", func(ctx context.Context) error { return a.find(ctx, e, &c, f) }),
		read("plan", func(ctx context.Context) (err error) {
			p, err = newPlan(ctx, e, &c, f, a)
			return err
		}),
	); err != nil {
		return err
	}
	if err := prepare(ctx, e, s, &c, f, a, p); err != nil || e.DryRun {
		return err
	}
	w := &work{Env: e, Config: &c, facts: f, access: a, plan: p, release: f.release}
	var before, after []engine.Step
	if p.taker != nil {
		before, after = p.taker.Before(), p.taker.After()
		for _, step := range [][]engine.Step{before, after} {
			for i := range step {
				step[i].Name = "takeover: " + step[i].Name
			}
		}
	}
	return s.Run(ctx, slices.Concat(
		[]engine.Step{{Name: "namespace", Do: func(ctx context.Context, _ engine.Note) error {
			return e.Cluster.Explain(credentials.EnsureNamespace(ctx, e.Cluster.Kube, e.Cluster.Namespace))
		}}},
		before,
		[]engine.Step{{Name: "Secret", Do: w.applySecret}, {Name: "Helm release", Do: w.applyChart}, {Name: "rollout", Do: func(ctx context.Context, _ engine.Note) error { return w.Rollout(ctx) }}, {Name: "self-test in the cluster", Do: w.selfTest}},
		after,
		[]engine.Step{
			{Name: "initialisation of nodes", Do: w.initialiseNodes}, {Name: "leader", Do: w.awaitLeader},
			{Name: "checks after the install", Do: w.postflight}, read("summary", w.summary),
		},
	)...)
}

// prepare plans and checks what is changed later, and makes the user in CloudStack, whose keys that needs. A dry run goes as far
// as reading goes: without keys, what needs them is left out, and a check or gate that does not pass is said after the plan is shown.
func prepare(ctx context.Context, e *engine.Env, s *engine.Session, c *Config, f *facts, a *access, p *plan) error {
	keys := !e.DryRun || !a.pending()
	var unfit error
	for _, step := range []struct {
		name        string
		do          func(context.Context) error
		needs, gate bool // keys; and whether a dry run goes on where it refuses
	}{
		{"takeover", func(context.Context) error { return p.planOrder(e, f, a) }, false, true},
		{"the user in CloudStack", func(ctx context.Context) error { return a.makeUser(ctx, e, s, c, f, p) }, true, false}, // never made in a dry run
		{"checking the credentials", func(ctx context.Context) error { return a.verify(ctx, e, c) }, true, false},
		{"plan of the takeover", func(ctx context.Context) error { return p.planTakeover(ctx, e, c, f, a) }, true, false},
		{"consent to the takeover", func(ctx context.Context) error {
			if !e.DryRun {
				return nil // a run asks when the plan is shown
			}
			return p.consent(ctx, c)
		}, true, true},
		{"policy for tenants", func(ctx context.Context) error { return p.planTenants(ctx, e, a) }, false, false},
		{"checks before the install", func(ctx context.Context) error { return p.preflight(ctx, e, c, f, a) }, false, true},
		{"plan of Secret and nodes", func(ctx context.Context) error { return p.planNodes(ctx, e, c, f, a) }, true, true},
		{"dry run on the API server", func(ctx context.Context) error { return p.diffObjects(ctx, e, f) }, false, true},
	} {
		if step.needs && !keys {
			continue
		}
		err := s.Run(ctx, read(step.name, step.do))
		if err != nil && (!step.gate || !e.DryRun) {
			return err
		}
		if unfit == nil {
			unfit = err
		}
	}
	if !e.DryRun {
		return s.Run(ctx, read("confirmation", func(ctx context.Context) error { return p.confirm(ctx, e, c, f, a) }))
	}
	if unfit == nil && !e.Interactive { // a person would be asked
		unfit = p.overwrites(c, f, a)
	}
	if err := e.Show(p.show(e, c, f, a)); err != nil {
		return err
	}
	return unfit
}

// read makes a step that changes nothing.
func read(name string, do func(context.Context) error) engine.Step {
	return engine.Step{Name: name, ReadOnly: true, Do: func(ctx context.Context, _ engine.Note) error { return do(ctx) }}
}
