// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"time"

	"sigs.k8s.io/yaml"
)

// World describes all objects of a simulated CloudStack at its start. Objects refer to each other by name. Unless an
// id is specified, ids are derived from kind and name, so that they are the same in every run. Everything else is
// created by API calls. See example-world.yaml.
type World struct {
	// Version is the CloudStack release to simulate, 4.16 to 4.22.0.0 (default). docs/support-policy.md lists the
	// differences.
	Version string `json:"version,omitempty"`
	// Settings are global settings of the management server that differ from the default, by CloudStack's name, such as
	// endpoint.url.
	Settings map[string]string `json:"settings,omitempty"`
	// Zones are advanced zones; at least one.
	Zones []Zone `json:"zones,omitempty"`
	// ServiceOfferings are the sizes of VMs (default: Small Instance and Medium Instance).
	ServiceOfferings []ServiceOffering `json:"serviceOfferings,omitempty"`
	// CKSTemplates are the names of templates that are marked for nodes of Kubernetes clusters.
	CKSTemplates []string `json:"cksTemplates,omitempty"`
	// KubernetesVersions are the supported versions of CloudStack Kubernetes Service.
	KubernetesVersions []KubernetesVersion `json:"kubernetesVersions,omitempty"`
	// Domains below ROOT, parents before children.
	Domains []Domain `json:"domains,omitempty"`
	// Roles in addition to the default ones (Root Admin, Domain Admin, User ...).
	Roles []Role `json:"roles,omitempty"`
	// Accounts are accounts with their users. The account admin with role Root Admin is created if it is missing.
	Accounts []Account `json:"accounts,omitempty"`
	// Projects of accounts.
	Projects []Project `json:"projects,omitempty"`
	// VPCs with their ACL lists.
	VPCs []VPC `json:"vpcs,omitempty"`
	// Networks are guest networks, including VPC tiers. A network that has VMs is in state Implemented.
	Networks []Network `json:"networks,omitempty"`
	// VirtualMachines are VMs with their NICs. They are running.
	VirtualMachines []VirtualMachine `json:"virtualMachines,omitempty"`
	// PublicIPs are allocated addresses with their rules.
	PublicIPs []PublicIP `json:"publicIPs,omitempty"`
	// Faults are armed at start, each COMMAND:KIND:OPTION=VALUE,... such as createLoadBalancerRule:job-fails:nth=3.
	Faults []string `json:"faults,omitempty"`
}

// Zone is an advanced zone.
type Zone struct {
	Name     string `json:"name"`
	Disabled bool   `json:"disabled,omitempty"`
	DNS1     string `json:"dns1,omitempty"`
	// PublicRanges are ranges of public addresses, each "first-last" or a single address.
	PublicRanges []string `json:"publicRanges"`
	Hosts        []string `json:"hosts,omitempty"`
}

// ServiceOffering is a size of VMs.
type ServiceOffering struct {
	Name     string `json:"name"`
	CPUs     int    `json:"cpus"`
	CPUSpeed int    `json:"cpuSpeed"`  // MHz
	Memory   int    `json:"memoryMiB"` // MiB
}

// KubernetesVersion is a supported version of CloudStack Kubernetes Service, in all zones.
type KubernetesVersion struct {
	Semantic string `json:"semanticVersion"`        // such as 1.33.1
	MinCPUs  int    `json:"minCPUs,omitempty"`      // of a node (default 2)
	MinMem   int    `json:"minMemoryMiB,omitempty"` // of a node (default 2048)
	// ISOState is the state of the ISO with the binaries: Ready (default), Allocated, Creating or Failed, or Missing if
	// the ISO was deleted.
	ISOState string `json:"isoState,omitempty"`
}

// Domain is a domain below ROOT.
type Domain struct {
	Path string `json:"path"` // "ROOT/k8s" or "k8s"
}

// Role is a custom role.
type Role struct {
	Name  string     `json:"name"`
	Type  string     `json:"type"` // Admin, ResourceAdmin, DomainAdmin or User
	Rules []RoleRule `json:"rules,omitempty"`
}

// RoleRule allows or denies commands: exactly one of its two fields is set.
type RoleRule struct {
	Allow string `json:"allow,omitempty"` // command or pattern with *
	Deny  string `json:"deny,omitempty"`
}

// Account is an owner of resources.
type Account struct {
	Name   string `json:"name"`
	Domain string `json:"domain,omitempty"` // default ROOT
	Role   string `json:"role,omitempty"`   // default User
	// Limits maps resource names (publicIPs, virtualMachines ...) to maximums; -1 is unlimited.
	Limits map[string]int64 `json:"limits,omitempty"`
	Users  []User           `json:"users,omitempty"`
}

// User is a login of an account.
type User struct {
	Name     string `json:"name"`
	Password string `json:"password,omitempty"` // without a password the user cannot log in
	State    string `json:"state,omitempty"`    // enabled, disabled or locked
	// APIKey and SecretKey must be set together. Without them a pair is generated, unless NoKeys is set.
	APIKey    string `json:"apiKey,omitempty"`
	SecretKey string `json:"secretKey,omitempty"`
	NoKeys    bool   `json:"noKeys,omitempty"`
}

// Project is a group of accounts with its own resources.
type Project struct {
	ID      string   `json:"id,omitempty"`
	Name    string   `json:"name"`
	Owner   string   `json:"owner"`             // account
	Members []string `json:"members,omitempty"` // additional accounts
}

// VPC is a virtual private cloud.
type VPC struct {
	Name     string    `json:"name"`
	CIDR     string    `json:"cidr"`
	Account  string    `json:"account"`
	ACLLists []ACLList `json:"aclLists,omitempty"`
}

// ACLList is a list of network ACL items of a VPC.
type ACLList struct {
	Name  string    `json:"name"`
	Items []ACLItem `json:"items,omitempty"`
}

// ACLItem is one item of an ACL list.
type ACLItem struct {
	Number      int      `json:"number"`
	Protocol    string   `json:"protocol"`
	StartPort   *int     `json:"startPort,omitempty"`
	EndPort     *int     `json:"endPort,omitempty"`
	CIDRs       []string `json:"cidrs,omitempty"`       // default 0.0.0.0/0
	TrafficType string   `json:"trafficType,omitempty"` // Ingress (default) or Egress
	Action      string   `json:"action,omitempty"`      // Allow (default) or Deny
	Reason      string   `json:"reason,omitempty"`
}

// Network is a guest network.
type Network struct {
	ID   string `json:"id,omitempty"`
	Name string `json:"name"`
	Type string `json:"type,omitempty"` // Isolated (default), Shared or L2
	Zone string `json:"zone,omitempty"` // default: the first zone
	// Offering is the name of a network offering; the default is CloudStack's default offering for the type.
	Offering string `json:"offering,omitempty"`
	// NoConserveMode makes the network use a copy of the offering without conserve mode.
	NoConserveMode bool   `json:"noConserveMode,omitempty"`
	Account        string `json:"account,omitempty"`
	Project        string `json:"project,omitempty"`
	// Domain owns a shared network; its subdomains have access.
	Domain string `json:"domain,omitempty"`
	CIDR   string `json:"cidr,omitempty"`
	VPC    string `json:"vpc,omitempty"`
	ACL    string `json:"acl,omitempty"` // ACL list of the VPC, default_allow or default_deny
	// SourceNAT is the source NAT address of an implemented isolated network; default: the next free address.
	SourceNAT string `json:"sourceNAT,omitempty"`
}

// VirtualMachine is a VM.
type VirtualMachine struct {
	ID       string `json:"id,omitempty"`
	Name     string `json:"name"`
	Account  string `json:"account,omitempty"`
	Project  string `json:"project,omitempty"`
	Zone     string `json:"zone,omitempty"`     // default: the first zone
	Offering string `json:"offering,omitempty"` // service offering; default: the first
	// RootDiskGiB is the size of the root disk (default that of the template).
	RootDiskGiB int   `json:"rootDiskGiB,omitempty"`
	NICs        []NIC `json:"nics"` // the default NIC is the first, unless another is marked
}

// NIC connects a VM to a network.
type NIC struct {
	ID        string   `json:"id,omitempty"`
	Network   string   `json:"network"`
	IP        string   `json:"ip,omitempty"` // default: the next free address
	MAC       string   `json:"mac,omitempty"`
	Secondary []string `json:"secondary,omitempty"`
	Default   bool     `json:"default,omitempty"`
}

// PublicIP is an allocated public address.
type PublicIP struct {
	ID      string `json:"id,omitempty"`
	Address string `json:"address"`
	// Network is the isolated network that uses the address; for a VPC address, the tier.
	Network           string             `json:"network,omitempty"`
	VPC               string             `json:"vpc,omitempty"`       // instead of a network
	StaticNAT         string             `json:"staticNAT,omitempty"` // the VM to which static NAT maps the address
	Tags              map[string]string  `json:"tags,omitempty"`
	LoadBalancerRules []LoadBalancerRule `json:"loadBalancerRules,omitempty"`
	FirewallRules     []FirewallRule     `json:"firewallRules,omitempty"`
}

// LoadBalancerRule is a rule of a public address.
type LoadBalancerRule struct {
	ID          string   `json:"id,omitempty"`
	Name        string   `json:"name"`
	PublicPort  int      `json:"publicPort"`
	PrivatePort int      `json:"privatePort"`
	Protocol    string   `json:"protocol,omitempty"`  // tcp, tcp-proxy, ssl; empty: like rules of old providers
	Algorithm   string   `json:"algorithm,omitempty"` // roundrobin (default), leastconn, source
	CIDRs       []string `json:"cidrs,omitempty"`
	Members     []string `json:"members,omitempty"` // VMs by name
}

// FirewallRule is an ingress rule of a public address.
type FirewallRule struct {
	ID        string   `json:"id,omitempty"`
	Protocol  string   `json:"protocol"`
	StartPort *int     `json:"startPort,omitempty"`
	EndPort   *int     `json:"endPort,omitempty"`
	CIDRs     []string `json:"cidrs,omitempty"` // default 0.0.0.0/0
}

//go:embed example-world.yaml
var exampleWorld []byte

//go:embed fresh-world.yaml
var freshWorld []byte

// FreshYAML returns the world of a fresh installation as YAML.
func FreshYAML() []byte { return bytes.Clone(freshWorld) }

// FreshWorld returns the world of a fresh CloudStack installation: one enabled advanced zone, the built-in offerings,
// roles and template, and the user admin with a password but without API keys.
func FreshWorld() *World { return embeddedWorld(freshWorld) }

// ExampleYAML returns the embedded example world as YAML.
func ExampleYAML() []byte { return bytes.Clone(exampleWorld) }

// ExampleWorld returns the embedded example world: one zone, a network with three VMs of a Kubernetes cluster, and an
// address with load balancer rules of an old provider.
func ExampleWorld() *World { return embeddedWorld(exampleWorld) }

func embeddedWorld(text []byte) *World {
	w, err := LoadWorld(bytes.NewReader(text))
	if err != nil {
		panic(fmt.Sprintf("an embedded world: %v", err)) // cannot happen: a test loads the embedded worlds
	}
	return w
}

// LoadWorld reads a world from YAML. It returns an error for unknown keys and for invalid objects.
func LoadWorld(r io.Reader) (*World, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read the world: %w", err)
	}
	var w World
	if err := yaml.UnmarshalStrict(data, &w); err != nil {
		return nil, fmt.Errorf("read the world: %w", err)
	}
	if _, err := w.build(time.Unix(0, 0)); err != nil {
		return nil, err
	}
	return &w, nil
}
