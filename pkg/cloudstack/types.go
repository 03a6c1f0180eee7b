// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import "time"

// The types of this file are what the rest of csccm sees of CloudStack: small
// values without SDK types, so that an SDK trap or a server quirk is dealt
// with once, at this door. All ids are UUID strings, all ports integers.

// VirtualMachine is an instance as listVirtualMachines shows it.
type VirtualMachine struct {
	ID          string
	Name        string // host name inside the guest; can change while the VM runs
	DisplayName string
	State       VMState
	ZoneID      string
	ZoneName    string
	ProjectID   string
	Account     string // "" for one of a project
	DomainID    string
	// ServiceOfferingID and ServiceOfferingName are empty when the query did not ask for servoff.
	ServiceOfferingID   string
	ServiceOfferingName string
	HostID, HostName    string // hypervisor host; root admin only, and only while the VM runs
	Hypervisor          string
	AffinityGroups      []AffinityGroup // empty when the query did not ask for them
	PublicIP            string          // static NAT address, if any
	NICs                []NIC           // default NIC first, then by device id
	Tags                map[string]string
}

// AffinityGroup is a group that tells where its VMs may run.
type AffinityGroup struct{ ID, Name string }

// VMState is the state of a virtual machine (reference: listVirtualMachines).
type VMState string

// States of virtual machines that csccm distinguishes.
const (
	VMRunning   VMState = "Running"
	VMStarting  VMState = "Starting"
	VMStopping  VMState = "Stopping"
	VMStopped   VMState = "Stopped"
	VMShutdown  VMState = "Shutdown" // powered off from inside the guest
	VMMigrating VMState = "Migrating"
	VMDestroyed VMState = "Destroyed"
	VMExpunging VMState = "Expunging"
	VMError     VMState = "Error"
)

// NIC is one network interface of a VM.
type NIC struct {
	ID          string
	NetworkID   string
	NetworkName string
	DeviceID    int
	Default     bool
	Type        string // Isolated, Shared, L2
	IPv4        string // empty on L2 networks
	IPv6        string
	MAC         string
	SecondaryIP []string
	PublicIP    string // static NAT
}

// Zone is an availability zone.
type Zone struct {
	ID              string `json:"id"`
	Name            string `json:"name"`
	NetworkType     string `json:"networktype"`
	AllocationState string `json:"allocationstate"`
}

// Project is a CloudStack project.
type Project struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	State    string `json:"state"`
	DomainID string `json:"domainid"`
}

// Network is a guest network.
type Network struct {
	ID, Name, Type, State string
	ZoneID, ZoneName      string
	VPCID                 string
	ProjectID, Account    string
	DomainID              string
	CIDR                  string
	ACLID, ACLName        string
	ConserveMode          bool
	// Services maps a service name ("Lb", "Firewall", "NetworkACL", ...) to its capabilities.
	// Its providers are in ServiceProviders.
	Services         map[string]map[string]string
	ServiceProviders map[string][]string
}

// HasService reports whether the network's offering has the named service.
func (n *Network) HasService(name string) bool { _, ok := n.Services[name]; return ok }

// PublicIP is a public IP address.
type PublicIP struct {
	ID, Address, State  string
	Allocated           string // when the account acquired it, as the server writes it; an address keeps its id when it changes hands
	ZoneID              string
	AssociatedNetworkID string // guest network it serves; empty for a VPC address without rules
	VPCID               string
	ProjectID, Account  string
	SourceNAT           bool
	StaticNAT           bool
	System              bool
	HasRules            bool
	Tags                map[string]string
}

// LoadBalancerRule is one public port of one public IP.
type LoadBalancerRule struct {
	ID, Name, Description   string
	PublicIPID, PublicIP    string
	PublicPort, PrivatePort int
	// Protocol is tcp, udp, tcp-proxy or ssl; empty when the rule was created without one.
	Protocol  string
	Algorithm string
	// CIDRs are the rule's source ranges; nil when never set, empty when set to nothing.
	CIDRs     []string
	NetworkID string
	State     string // Add, Active, Deleting
	ProjectID string
	Tags      map[string]string
}

// LoadBalancerMember is one VM behind a rule with the addresses used there.
type LoadBalancerMember struct {
	VMID      string
	Name      string
	State     VMState
	Addresses []string
}

// FirewallRule is an ingress rule on a public IP of an isolated network.
type FirewallRule struct {
	ID                 string
	PublicIPID         string
	Protocol           string
	StartPort, EndPort int // 0,0 means all ports
	CIDRs              []string
	State              string
	NetworkID          string
	Tags               map[string]string
}

// Capabilities is what listCapabilities says of the server.
type Capabilities struct {
	Version           string // for example 4.22.0.0
	KubernetesService bool
	DynamicRoles      bool
	RateLimit         int           // requests per interval; 0 when off
	RateInterval      time.Duration // of RateLimit
}

// API is one command that the caller's role allows, as listApis shows it.
type API struct {
	Name   string
	Async  bool
	Params map[string]bool
}

// The types of this group are what the installer needs of the identity calls.
type (
	// Role is a role that accounts have.
	Role struct {
		ID, Name, Type, Description string
		Default                     bool // built in, cannot be changed
	}
	// RolePermission is one rule of a role; Permission is allow or deny.
	RolePermission struct {
		ID          string `json:"id"`
		Rule        string `json:"rule"`
		Permission  string `json:"permission"`
		Description string `json:"description"`
	}
	// Account owns resources; Type is 0 user, 1 root admin, 2 domain admin, 3 resource admin.
	Account struct {
		ID, Name, DomainID, Domain, RoleID, RoleName, State string
		Type                                                int
		Users                                               []User
		// Resources are how many VMs, networks and so on it owns, by their noun; none are left out.
		Resources map[string]int
	}
	// User is one login of an account; APIKey is empty while it has no keys.
	User struct {
		ID        string `json:"id"`
		Username  string `json:"username"`
		Account   string `json:"account"`
		AccountID string `json:"accountid"`
		DomainID  string `json:"domainid"`
		Domain    string `json:"domain"`
		State     string `json:"state"`
		RoleID    string `json:"roleid"`
		RoleName  string `json:"rolename"`
		RoleType  string `json:"roletype"`
		APIKey    string `json:"apikey"`
	}
	// UserKeys are secret; they print redacted.
	UserKeys struct {
		APIKey, SecretKey string
	}
	// Domain is a domain of accounts; Path is like ROOT/a/b.
	Domain struct {
		ID   string `json:"id"`
		Name string `json:"name"`
		Path string `json:"path"`
	}
)

// Submitted is the first answer of an asynchronous call. ID is the object's id
// where the call creates one, JobID the job to wait for.
type Submitted struct {
	ID    string `json:"id"`
	JobID string `json:"jobid"`
}

// JobStatus is the state of an asynchronous job.
type JobStatus int

// The states of queryAsyncJobResult.
const (
	JobPending   JobStatus = 0
	JobSucceeded JobStatus = 1
	JobFailed    JobStatus = 2
	JobCancelled JobStatus = 3
)

// Job is the answer of queryAsyncJobResult.
type Job struct {
	ID           string
	Command      string // Java class name as the server gives it
	Status       JobStatus
	ResultCode   int
	ErrorText    string // of a failed job; empty when the server gave none
	InstanceType string
	InstanceID   string // object that the job works on; empty when the server does not say
}
