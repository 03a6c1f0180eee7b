// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/family"
)

// PhaseOf returns PhasePreflight where nothing shows that the controller runs here or should: no record of Helm, no
// workload of the release (GitOps and csccm template keep no record), no Secret with its credentials. A Secret beside
// another provider that runs is that provider's. Where something cannot be read, the checks say why.
func PhaseOf(ctx context.Context, c *cluster.Cluster, release string) Phase {
	r := newReading(ctx, &Env{Cluster: c, Setup: Setup{Namespace: c.Namespace, Release: release}}, allSources(), defaultTimeout)
	if err := r.wait(Releases, Controllers); err != nil || len(r.f.Records)+len(r.f.Ours()) > 0 {
		return PhaseInstalled
	}
	_, err := c.Kube.CoreV1().Secrets(c.Namespace).Get(ctx, DefaultSecretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || len(r.f.Others()) > 0 {
		return PhasePreflight
	}
	return PhaseInstalled
}

// Connect returns what checks work with, by the credentials of a cloud-config or, without one, of the cluster's Secret.
// Without credentials the checks of CloudStack are skipped before an installation, and fail after it.
func Connect(ctx context.Context, c *cluster.Cluster, style report.Style, release, cloudConfig string, phase Phase) (env *Env, closeEnv func()) {
	env = &Env{Cluster: c, Style: style, Setup: Setup{Namespace: c.Namespace, Release: release}}
	cs, err := cloud.Of(ctx, c, cloudConfig)
	if err == nil {
		env.CloudStack, env.CloudConfig = cs.Client, cs.Config
		return env, cs.Close
	}
	var unreachable *cluster.Error
	switch {
	case errors.As(err, &unreachable):
		env.NoCloud = "the credentials could not be read: " + err.Error()
	case errors.Is(err, cloud.ErrNoCredentials) && phase != PhaseInstalled:
		env.NoCloud = err.Error()
	default:
		env.NoCloudErr = err
	}
	return env, func() {}
}

// Open names the checks that did not pass.
func Open(results []Result) string {
	var codes []string
	for i := range results {
		if o := results[i].Outcome; o != OK && o != Skipped {
			codes = append(codes, results[i].Code)
		}
	}
	return strings.Join(codes, ", ")
}

// NotInstalled returns the error that says that what passed is not a working controller.
func NotInstalled(namespace string, skipped int) error {
	return &report.Error{
		What: fmt.Sprintf("the controller is not installed in namespace %s, and without credentials %s skipped",
			namespace, english.Plural(skipped, "check was", "checks were")),
		Fix: "run csccm install; to check before that, give --phase preflight --cloud-config FILE", Code: report.ExitCheckFailed,
	}
}

const (
	// leaderTimeout covers the lease of a controller that ended without releasing it: 15 s by default, 60 s of
	// a csccm that was killed during a takeover, and the time until a Pod tries again.
	leaderTimeout = 90 * time.Second
	leaderPoll    = 2 * time.Second
)

// AwaitLeader waits until a Pod of the controller leads: a ready Pod need not lead yet, the lease of a controller that
// is gone must expire first. After a limit it returns the check that still fails. run is Run, or a test's.
func AwaitLeader(ctx context.Context, env *Env, run func(context.Context, *Env, Selection, func(Result)) Report, skip []string, p *report.Progress) (open *Result, err error) {
	const code = "CCM-002"
	waited := false
	_, err = engine.Poll(ctx, env.Clock, leaderPoll, leaderTimeout, func() (bool, error) {
		r := run(ctx, env, Selection{Phase: PhaseInstalled, Only: []string{code}, Skip: skip}, nil)
		open = find(r.Checks, func(c *Result) bool { return c.Code == code && c.Outcome == Failed })
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
	p, set, err := PolicyOf(family.ArgumentsOfChart(manifest))
	if err != nil {
		return nil, report.Usage(err.Error(), "correct the chart value tenancy")
	}
	if !set {
		return nil, nil // a chart whose controller has no policy
	}
	f := &Facts{Services: cluster.List(ctx, &err, e.Cluster.Kube.CoreV1().Services(metav1.NamespaceAll).List).Items}
	if err == nil && p.NeedsLabels() {
		f.Namespaces, err = cluster.NamespaceLabels(ctx, e.Cluster.Kube)
	}
	if err != nil {
		return nil, e.Cluster.Explain(err)
	}
	for _, r := range Refusals(p, f) {
		warnings = append(warnings, r.String())
		e.Progress.Warn("%s", &r)
	}
	return warnings, nil
}
