// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

//go:generate go run ./internal/policydoc ../../docs/support-policy.md

import (
	"github.com/csccm/csccm/pkg/simulator/internal/catalogue"
	"github.com/csccm/csccm/pkg/simulator/internal/fault"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

type (
	// ClusterInside simulates what happens inside the VMs of CloudManaged Kubernetes clusters.
	ClusterInside = wire.ClusterInside
	// InsideCluster is a cluster as ClusterInside sees it.
	InsideCluster = wire.InsideCluster
	// InsideNode is a VM of a cluster as ClusterInside sees it.
	InsideNode = wire.InsideNode
)

// ErrNodesNotReady is returned by ClusterInside.Start if the API answers but nodes are missing.
var ErrNodesNotReady = wire.ErrNodesNotReady

type (
	// Fault is a fault to inject into calls.
	Fault = fault.Fault
	// FaultKind is what a fault does to a call.
	FaultKind = fault.Kind
	// ArmedFault is a fault with the number of calls that it has hit.
	ArmedFault = fault.Armed
	// LatencyProfile is how long the answers of commands take.
	LatencyProfile = wire.Profile
	// Difference is a parameter or command that differs between CloudStack releases.
	Difference = catalogue.Difference
)

// Kinds of faults; package fault describes them.
const (
	FaultErrorBefore   = fault.ErrorBefore
	FaultLostAnswer    = fault.LostAnswer
	FaultCutBefore     = fault.CutBefore
	FaultJobFails      = fault.JobFails
	FaultDelay         = fault.Delay
	FaultJobNeverEnds  = fault.JobNeverEnds
	FaultRestart       = fault.Restart
	FaultThrottled     = fault.Throttled
	FaultMaintenance   = fault.Maintenance
	FaultQuota         = fault.Quota
	FaultCapacity      = fault.Capacity
	FaultRouterRefuses = fault.RouterRefuses
	FaultRouterLoses   = fault.RouterLoses

	FaultNodesNotReady  = fault.NodesNotReady
	FaultAPIUnreachable = fault.APIUnreachable
)

// ParseFault parses COMMAND:KIND:OPTION=VALUE,... such as createLoadBalancerRule:job-fails:nth=3.
func ParseFault(s string) (Fault, error) { return fault.Parse(s) }

// Profile returns one of the named latency profiles: instant, simulator or production.
func Profile(name string) (LatencyProfile, error) { return wire.NamedProfile(name) }

// Releases returns the valid values of --cloudstack-version, the oldest first.
func Releases() []string { return catalogue.Releases() }

// FullVersion returns a release in the format of listCapabilities: 4.19 is 4.19.0.0.
func FullVersion(version string) (string, error) { return catalogue.FullVersion(version) }

// DifferencesPart is the name of the section of docs/support-policy.md that DifferencesTable generates.
const DifferencesPart = catalogue.DifferencesPart

// DifferencesTable returns the differences of the releases as a Markdown table.
func DifferencesTable() string { return catalogue.DifferencesTable() }
