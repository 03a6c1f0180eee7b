// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

//go:generate go run ./internal/schemagen
//go:generate go run ./internal/policydoc ../../docs/support-policy.md

import (
	"io"

	"github.com/csccm/csccm/pkg/simulator/internal/catalogue"
	"github.com/csccm/csccm/pkg/simulator/internal/dump"
	"github.com/csccm/csccm/pkg/simulator/internal/fault"
	"github.com/csccm/csccm/pkg/simulator/internal/settings"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
	"github.com/csccm/csccm/pkg/simulator/internal/world"
)

type (
	// World describes a simulated CloudStack at its start.
	World            = world.World
	Settings         = settings.Settings
	Zone             = world.Zone
	ServiceOffering  = world.ServiceOffering
	Template         = world.Template
	Domain           = world.Domain
	Role             = world.Role
	RoleRule         = world.RoleRule
	Account          = world.Account
	User             = world.User
	Project          = world.Project
	VPC              = world.VPC
	ACLList          = world.ACLList
	ACLItem          = world.ACLItem
	Network          = world.Network
	VirtualMachine   = world.VirtualMachine
	NIC              = world.NIC
	PublicIP         = world.PublicIP
	LoadBalancerRule = world.LoadBalancerRule
	FirewallRule     = world.FirewallRule
)

type (
	// Fault is a fault to inject into calls.
	Fault          = fault.Fault
	FaultKind      = fault.Kind
	ArmedFault     = fault.Armed
	LatencyProfile = wire.Profile
	DumpOptions    = dump.Options
	Difference     = catalogue.Difference
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
)

// ParseFault parses COMMAND:KIND:OPTION=VALUE,... such as createLoadBalancerRule:job-fails:nth=3.
func ParseFault(s string) (Fault, error) { return fault.Parse(s) }

// Profile returns one of the named latency profiles: instant, simulator or production.
func Profile(name string) (LatencyProfile, error) { return wire.NamedProfile(name) }

// LoadWorld reads a world from YAML. It returns an error for unknown keys and for invalid objects.
func LoadWorld(r io.Reader) (*World, error) { return world.LoadWorld(r) }

// FreshWorld returns the world of a fresh CloudStack installation: one enabled advanced zone, the built-in offerings,
// roles and template, and the user admin with a password but without API keys.
func FreshWorld() *World { return world.FreshWorld() }

// FreshYAML returns the world of a fresh installation as YAML.
func FreshYAML() []byte { return world.FreshYAML() }

// ExampleWorld returns the embedded example world: one zone, a network with three VMs of a Kubernetes cluster, and an
// address with load balancer rules of an old provider.
func ExampleWorld() *World { return world.ExampleWorld() }

// ExampleYAML returns the embedded example world as YAML.
func ExampleYAML() []byte { return world.ExampleYAML() }

// Releases returns the valid values of --cloudstack-version, the oldest first.
func Releases() []string { return catalogue.Releases() }

// FullVersion returns a release in the format of listCapabilities: 4.19 is 4.19.0.0.
func FullVersion(version string) (string, error) { return catalogue.FullVersion(version) }

// DifferencesPart is the name of the section of docs/support-policy.md that DifferencesTable generates.
const DifferencesPart = catalogue.DifferencesPart

// DifferencesTable returns the differences of the releases as a Markdown table.
func DifferencesTable() string { return catalogue.DifferencesTable() }
