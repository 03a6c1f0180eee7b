// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

//go:generate go run ./internal/policydoc ../../docs/support-policy.md

import (
	"io"

	"github.com/csccm/csccm/pkg/simulator/internal/catalogue"
	"github.com/csccm/csccm/pkg/simulator/internal/fault"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
	"github.com/csccm/csccm/pkg/simulator/internal/world"
)

type (
	// World describes a simulated CloudStack at its start.
	World = world.World
	// Zone is a zone.
	Zone = world.Zone
	// ServiceOffering is a compute offering.
	ServiceOffering = world.ServiceOffering
	// Template is a template of VMs.
	Template = world.Template
	// KubernetesVersion is a supported version of CloudStack Kubernetes Service.
	KubernetesVersion = world.KubernetesVersion
	// Domain is a domain.
	Domain = world.Domain
	// Role is a role with its rules.
	Role = world.Role
	// RoleRule allows or denies commands that match a pattern.
	RoleRule = world.RoleRule
	// Account is an account with its users.
	Account = world.Account
	// User is a user with its API keys.
	User = world.User
	// Project is a project.
	Project = world.Project
	// VPC is a VPC.
	VPC = world.VPC
	// ACLList is a list of network ACL items.
	ACLList = world.ACLList
	// ACLItem is one network ACL item.
	ACLItem = world.ACLItem
	// Network is a guest network or a VPC tier.
	Network = world.Network
	// VirtualMachine is a VM.
	VirtualMachine = world.VirtualMachine
	// NIC is a network interface of a VM.
	NIC = world.NIC
	// PublicIP is a public IP address.
	PublicIP = world.PublicIP
	// LoadBalancerRule is a load balancer rule.
	LoadBalancerRule = world.LoadBalancerRule
	// FirewallRule is a firewall rule.
	FirewallRule = world.FirewallRule
)

type (
	// ClusterInside simulates what happens inside the VMs of CloudManaged Kubernetes clusters.
	ClusterInside = wire.ClusterInside
	// InsideCluster is a cluster as ClusterInside sees it.
	InsideCluster = wire.InsideCluster
	// InsideNode is a VM of a cluster as ClusterInside sees it.
	InsideNode = wire.InsideNode
)

// ErrNodesNotReady is what ClusterInside.Start returns if the API answers but nodes are missing.
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

	FaultNodesNotReady  = fault.NodesNotReady
	FaultAPIUnreachable = fault.APIUnreachable
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
