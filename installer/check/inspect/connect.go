// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inspect runs the checks of package check: it reads what they need to know, each source once, and reports.
package inspect

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/check/ckscheck"
	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
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
