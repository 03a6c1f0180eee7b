// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package check runs the checks that csccm doctor, install and status share. Package decide has the catalogue and judges;
// this one reads what the checks of a run need, each source once.
package check

import (
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/installer/check/ckscheck"
	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// Types of package decide, for the callers of this one.
type (
	// Severity is decide.Severity.
	Severity = decide.Severity
	// Phase is decide.Phase.
	Phase = decide.Phase
	// Finding is decide.Finding.
	Finding = decide.Finding
	// Object is decide.Object.
	Object = decide.Object
	// Outcome is decide.Outcome.
	Outcome = decide.Outcome
	// Setup is decide.Setup.
	Setup = decide.Setup
	// Facts is decide.Facts.
	Facts = decide.Facts
	// Controller is decide.Workload.
	Controller = decide.Workload
)

// Names of package decide.
const (
	SeverityError   = decide.SeverityError
	SeverityWarning = decide.SeverityWarning
	PhasePreflight  = decide.Preflight
	PhaseInstalled  = decide.Installed
	OK              = decide.OK
	Warning         = decide.Warning
	Failed          = decide.Failed
	Skipped         = decide.Skipped
	Unknown         = decide.Unknown
	HintBase        = decide.HintBase
)

// All is the catalogue, in the order in which it is shown.
func All() []decide.Check { return decide.All() }

// Misplaced is decide.Misplaced.
var Misplaced = decide.Misplaced

// Env is the environment of checks. The caller sets its fields; of Setup those that are not read from the others.
type Env struct {
	Setup

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

// Codes are the codes of the catalogue, each with its title for shell completion.
func Codes() []string {
	var out []string
	for _, c := range All() {
		out = append(out, c.Code+"\t"+c.Title)
	}
	return out
}
