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

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/commands/takeover"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/installer/kube/selftest"
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
	ChartRef        string // as given, for the flag line; "" = embedded
	Values          map[string]any
	ValueFlags      []string // --set and the like as typed, for the flag line

	SkipChecks      []string
	RequireExternal bool // a kubelet that is not external, or unknown, stops the install
	SkipTaint       bool // leave existing nodes as they are
	SkipSelfTest    bool // do not run the controller's self-test in the cluster

	// Accept and Pin name Services (namespace/name, or takeover.All) of which the takeover from another
	// provider may change what runs, or is to keep it by an annotation. KeepOld leaves the other
	// controller in the cluster, with no Pods.
	Accept, Pin []string
	KeepOld     bool

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

	// Tests replace them.
	checks   func(ctx context.Context, env *check.Env, sel check.Selection, progress func(check.Result)) check.Report
	kubelets func(ctx context.Context, c *cluster.Cluster, nodes []corev1.Node) []kubelet.NodeVerdict

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
		Env: e, Options: o, checks: check.Run, kubelets: kubelet.Verify, warned: map[string]bool{}, note: func(string, ...any) {},
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
	if in.DryRun {
		return in.dryRun(ctx)
	}
	if err := in.session.Run(ctx,
		read("takeover", in.planControllers),
		read("checks before the user is made", in.checksBeforeUser),
		read("the user in CloudStack", in.provisionKeys),
		read("checking the credentials", in.verify),
		read("plan of the takeover", in.planTakeover),
		read("policy for tenants", in.planTenants),
		read("checks before the install", in.preflight),
		read("plan of the nodes", in.planNodes),
		read("dry run on the API server", in.diffObjects),
		read("confirmation", in.confirm),
	); err != nil {
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
			in.recorded("initialisation of new nodes", in.awaitNodes),
			in.recorded("initialisation of existing nodes", in.taintNodes),
			in.recorded("leader", in.awaitLeader),
			in.recorded("checks after the install", in.postflight),
			read("summary", in.summary),
		},
	)...)
}

// dryRun goes as far as reading goes: without keys, what needs them is left
// out. A check or gate that does not pass is said after the plan is shown.
func (in *Installer) dryRun(ctx context.Context) error {
	keys := in.provision == nil || !in.provision.Changes()
	if keys {
		if err := in.session.Run(ctx,
			read("keys of the user", in.provisionKeys), // they exist: nothing is made
			read("checking the credentials", in.verify),
		); err != nil {
			return err
		}
	}
	unfit := in.session.Run(ctx, read("takeover", in.planControllers))
	if keys && unfit == nil {
		if err := in.session.Run(ctx, read("plan of the takeover", in.planTakeover)); err != nil {
			return err
		}
		unfit = in.session.Run(ctx, read("consent to the takeover", in.consent))
	}
	if err := in.session.Run(ctx, read("policy for tenants", in.planTenants)); err != nil {
		return err
	}
	if err := in.session.Run(ctx, read("checks before the install", in.preflight)); unfit == nil {
		unfit = err
	}
	if keys {
		if err := in.session.Run(ctx, read("plan of the nodes", in.planNodes)); unfit == nil {
			unfit = err
		}
	}
	if in.Diff != nil {
		if err := in.session.Run(ctx, read("dry run on the API server", in.diffObjects)); unfit == nil {
			unfit = err
		}
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
