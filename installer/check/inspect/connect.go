// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inspect runs the checks of package check: it reads what they need to know, each source once, and reports.
package inspect

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/check/ckscheck"
	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// Env is the environment of checks. The caller sets its fields; of Setup those that are not read from the others.
type Env struct {
	check.Setup

	Cluster *cluster.Cluster
	// CloudStack is nil where no credentials are known; then NoCloud or NoCloudErr says why.
	CloudStack *cloudapi.Client
	// CloudConfig is what CloudStack was made from; nil with it.
	CloudConfig *cloudstack.Config
	// Style has the command lines in remedies work where this run works.
	Style report.Style
	// ProbePod lets NODE-001 run a Pod on nodes whose kubelet cannot be asked; nil for never. It is the
	// only thing that a check changes.
	ProbePod *kubelet.ProbeOptions
	// DialAPI connects to the address of a CKS cluster's API server; nil for the network.
	DialAPI ckscheck.Dial
	// Clock is nil for the real one.
	Clock clock.WithTicker
}

// DefaultSecretName holds the cloud-config; every provider for CloudStack, and CKS, name it so.
const DefaultSecretName = "cloudstack-secret" //nolint:gosec // a name

// PhaseOf returns PhasePreflight where nothing shows that the controller runs here or should: no record of Helm, no
// workload of the release (GitOps and csccm template keep no record), no Secret with its credentials. A Secret beside
// another provider that runs is that provider's. Where something cannot be read, the checks say why.
func PhaseOf(ctx context.Context, c *cluster.Cluster, release string) check.Phase {
	env := &Env{Cluster: c, Setup: check.Setup{Namespace: c.Namespace, Release: release}}
	r := newReading(ctx, env, allSources(), check.Selection{})
	if err := r.wait(check.Releases, check.Controllers); err != nil || len(r.f.Records)+len(r.f.Ours()) > 0 {
		return check.PhaseInstalled
	}
	_, err := c.Kube.CoreV1().Secrets(c.Namespace).Get(ctx, DefaultSecretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || len(r.f.Others()) > 0 {
		return check.PhasePreflight
	}
	return check.PhaseInstalled
}

// Connect returns what checks work with, and a function that closes it, by the credentials of a cloud-config or,
// without one, of the cluster's Secret. Without credentials the checks of CloudStack are skipped before an installation,
// and fail after it.
func Connect(ctx context.Context, c *cluster.Cluster, style report.Style, release, cloudConfig string, phase check.Phase) (*Env, func()) {
	env := &Env{Cluster: c, Style: style, Setup: check.Setup{Namespace: c.Namespace, Release: release}}
	cs, err := cloud.Of(ctx, c, cloudConfig)
	if err == nil {
		env.CloudStack, env.CloudConfig = cs.Client, cs.Config
		return env, cs.Close
	}
	var unreachable *cluster.Error
	switch {
	case errors.As(err, &unreachable):
		env.NoCloud = "the credentials could not be read: " + err.Error()
	case errors.Is(err, cloud.ErrNoCredentials) && phase != check.PhaseInstalled:
		env.NoCloud = err.Error()
	default:
		env.NoCloudErr = err
	}
	return env, func() {}
}

const (
	// leaderTimeout covers the lease of a controller that ended without releasing it: 15 s by default, 60 s of
	// a csccm that was killed during a takeover, and the time until a Pod tries again.
	leaderTimeout = 90 * time.Second
	leaderPoll    = 2 * time.Second
)

// AwaitLeader waits until a Pod of the controller leads: a ready Pod need not lead yet, the lease of a controller that
// is gone must expire first. After a limit it returns the check that still fails. run is Run, or a test's.
func AwaitLeader(ctx context.Context, env *Env, run func(context.Context, *Env, check.Selection, func(check.Result)) check.Report,
	skip []string, p *report.Progress,
) (open *check.Result, err error) {
	const code = "CCM-002"
	waited := false
	_, err = engine.Poll(ctx, env.Clock, leaderPoll, leaderTimeout, func() (bool, error) {
		r := run(ctx, env, check.Selection{Phase: check.PhaseInstalled, Only: []string{code}, Skip: skip}, nil)
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

// Refused warns of each Service of the cluster that the policy of a rendered chart refuses, and returns the warnings.
// CloudStack is not asked about addresses: check TEN-002 is. The labels of namespaces are read if the policy needs
// them.
func Refused(ctx context.Context, e *engine.Env, manifest string) (warnings []string, _ error) {
	p, set, err := check.PolicyOf(family.ArgumentsOfChart(manifest))
	if err != nil {
		return nil, report.Usage(err.Error(), "correct the chart value tenancy")
	}
	if !set {
		return nil, nil // a chart whose controller has no policy
	}
	f := &check.Facts{Services: cluster.List(ctx, &err, e.Cluster.Kube.CoreV1().Services(metav1.NamespaceAll).List).Items}
	if err == nil && p.NeedsLabels() {
		f.Namespaces, err = cluster.NamespaceLabels(ctx, e.Cluster.Kube)
	}
	if err != nil {
		return nil, e.Cluster.Explain(err)
	}
	for _, r := range check.Refusals(p, f) {
		warnings = append(warnings, r.String())
		e.Progress.Warn("%s", &r)
	}
	return warnings, nil
}
