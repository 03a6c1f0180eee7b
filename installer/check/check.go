// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package check runs the checks that csccm doctor, install and status share. Package decide has the catalogue and judges;
// this one reads what the checks of a run need, each source once.
package check

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/installer/check/ckscheck"
	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
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
	CloudStack API
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

// API is the part of *cloudapi.Client that checks read with.
type API interface {
	credentials.Lister
	Capabilities(ctx context.Context) (*cloudstack.Capabilities, error)
	ListAPIs(ctx context.Context) (sets.Set[string], error)
	ListZones(ctx context.Context) ([]cloudstack.Zone, error)
	ListNetworks(ctx context.Context, q cloudstack.NetworkQuery) ([]cloudstack.Network, error)
	ListUsers(ctx context.Context, username, account, domainID string) ([]cloudapi.User, error)
	ListPublicIPs(ctx context.Context, q cloudstack.PublicIPQuery) ([]cloudstack.PublicIP, error)
	ListLoadBalancerRules(ctx context.Context, q cloudstack.LoadBalancerRuleQuery) ([]cloudstack.LoadBalancerRule, error)
	ListLoadBalancerMembers(ctx context.Context, ruleID string) ([]cloudstack.LoadBalancerMember, error)
	ListKubernetesClusters(ctx context.Context, projectID string) ([]cloudapi.KubernetesCluster, error)
	ListFirewallRules(ctx context.Context, q cloudstack.FirewallRuleQuery) ([]cloudstack.FirewallRule, error)
	ListPortForwardings(ctx context.Context, q cloudstack.PortForwardingQuery) ([]cloudstack.PortForwarding, error)
	ClockOffset() (ahead time.Duration, known bool)
}

// Codes are the codes of the catalogue, each with its title for shell completion.
func Codes() []string {
	var out []string
	for _, c := range All() {
		out = append(out, c.Code+"\t"+c.Title)
	}
	return out
}
