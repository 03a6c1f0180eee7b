// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package install brings the controller into a cluster: it looks at what is
// there, gets credentials, checks, shows a plan, and carries it out step by
// step. Every step looks first and does only what is missing, so a run that
// ended early is continued by running again.
package install

import (
	"context"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/commands/takeover"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/diff"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
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
	Release string // "" = engine.DefaultRelease

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
	StrictTenancy   bool // leave Services refused that the policy for tenants refuses
	SkipTaint       bool // leave existing nodes as they are
	SkipSelfTest    bool // do not run the controller's self-test in the cluster

	// Accept and Pin name Services (namespace/name, or takeover.All) of which the takeover from another
	// provider may change what runs, or is to keep it by an annotation. KeepOld leaves the other
	// controller in the cluster, with no Pods.
	Accept, Pin []string
	KeepOld     bool

	MaxParallel    int           // nodes tainted at a time after the canary; 0 = 1
	PerNode        time.Duration // 0 = taint.DefaultPerNode
	RolloutTimeout time.Duration // 0 = rollout.DefaultTimeout
	SnapshotDir    string        // of the nodes before they are tainted, and of what a takeover found
	Journal        string        // file for the record of the run; "" = only the cluster's copy

	DryRun       bool // stop after the plan
	DryRunServer bool // with DryRun: have the API server judge each object too
	Yes          bool
	Output       string // of plan and result: text (also ""), json, yaml
}

// CloudStack is what a running install asks of CloudStack with the
// controller's keys.
type CloudStack interface {
	credentials.User
	check.API
	takeover.API
}

// AdminSession is an administrator's session; Logout ends it.
type AdminSession interface {
	credentials.Admin
	ListZones(ctx context.Context) ([]cloudstack.Zone, error)
	Logout(ctx context.Context) error
}

// Helm is what an install asks of Helm. *helm.Client has it.
type Helm interface {
	Get(ctx context.Context, name string) (*helm.Release, error)
	Apply(ctx context.Context, r helm.ApplyRequest) (*helm.Release, error)
	Template(ctx context.Context, r helm.ApplyRequest) (string, error)
}

// Installer is one run. Connect, Login, Checks and Kubelets are the edges,
// which tests replace.
type Installer struct {
	Options  Options
	Cluster  *cluster.Cluster
	Helm     Helm
	Prompt   prompt.Prompter
	Progress report.Progress
	// Interactive: somebody is at the terminal and can choose.
	Interactive bool
	// Style is how to draw on Out or ErrOut; nil for plainly.
	Style  func(io.Writer) report.Style
	Out    io.Writer        // results
	ErrOut io.Writer        // plan before a confirmation, verdicts
	Clock  clock.WithTicker // nil = real

	// Connect makes a client that signs with cfg's keys.
	Connect func(cfg *cloudstack.Config) (CloudStack, error)
	// Login makes a session, or with keys in cfg and no password a client of these keys.
	Login func(ctx context.Context, cfg *cloudstack.Config, user, password, domain string) (AdminSession, error)
	// Commands that the controller calls, and those of them it can do without.
	Required, Optional []string

	Checks   func(ctx context.Context, env *check.Env, sel check.Selection, progress func(check.Result)) check.Report
	Kubelets func(ctx context.Context, c *cluster.Cluster, nodes []corev1.Node) []kubelet.NodeVerdict
	// Diff asks the API server what a manifest would change, without a change; old is the deployed one. nil = not asked.
	Diff func(ctx context.Context, namespace, old, manifest string) ([]diff.Change, error)
	// PodLogs returns the last lines of a container's log, for the cause of a failed rollout; may be nil.
	PodLogs func(ctx context.Context, pod *corev1.Pod, lines int64) (string, error)

	admin     AdminSession
	cleanups  []func()
	config    *cloudstack.Config // of the controller, for this machine
	existing  *credentials.Secret
	provision *credentials.Provision // nil when keys are there
	caPEM     []byte
	cloud     CloudStack // nil while keys are still to be made
	verified  *credentials.Verified
	tested    *selftest.Result // in the cluster; nil where it did not run
	facts     *facts
	plan      *Plan
	taker     *takeover.Taker // nil where no other provider is there
	env       *engine.Env
	session   *engine.Session
	note      engine.Note              // of the step in progress
	made      []credentials.MadeObject // in CloudStack by this run
	warned    map[string]bool          // warnings of checks that were shown
}

// Run is the whole install. Its errors have a remedy and an exit code where
// they can.
func (in *Installer) Run(ctx context.Context) (err error) {
	if in.Options.Release == "" {
		in.Options.Release = engine.DefaultRelease
	}
	if in.Clock == nil {
		in.Clock = clock.RealClock{}
	}
	in.warned, in.note = map[string]bool{}, func(string, ...any) {}
	o := &in.Options
	in.env = &engine.Env{
		Cluster: in.Cluster, Prompt: in.Prompt, Progress: in.Progress, Out: in.Out, ErrOut: in.ErrOut, Clock: in.Clock, Interactive: in.Interactive, Style: in.Style,
		Release: o.Release, Yes: o.Yes, DryRun: o.DryRun, Output: o.Output, Journal: o.Journal, RolloutTimeout: o.RolloutTimeout,
		PodLogs: in.PodLogs, Scrub: in.scrub,
	}
	in.session = in.env.Session(Command, "csccm uninstall takes the controller away again")
	defer in.cleanup(ctx)
	defer func() {
		if err != nil {
			in.sayMade(err)
		}
	}()
	defer func() { in.session.Close(ctx, err) }()
	if err := in.session.Run(ctx,
		read("looking at the cluster", in.detect),
		read("credentials", in.credentials),
		read("plan", in.makePlan),
	); err != nil {
		return err
	}
	if in.Options.DryRun {
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
			in.recorded("rollout", in.env.Rollout),
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
	if in.Options.DryRunServer {
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

func (in *Installer) endSession(ctx context.Context) {
	if in.admin == nil {
		return
	}
	lctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	_ = in.admin.Logout(lctx) // the session ends by itself otherwise
}

func (in *Installer) cleanup(ctx context.Context) {
	in.endSession(ctx)
	for _, c := range in.cleanups {
		c()
	}
}
