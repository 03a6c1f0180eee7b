// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import "time"

// The types of this file are what the rest of csccm sees of CloudStack: small
// values without SDK types, so that an SDK trap or a server quirk is dealt
// with once, at this door. All ids are UUID strings, all ports integers.

// VirtualMachine is an instance as listVirtualMachines shows it.
type VirtualMachine struct {
	ID          string  `json:"id"`
	Name        string  `json:"name"` // host name inside the guest; can change while the VM runs
	DisplayName string  `json:"displayname"`
	State       VMState `json:"state"`
	ZoneID      string  `json:"zoneid"`
	ZoneName    string  `json:"zonename"`
	ProjectID   string  `json:"projectid"`
	Account     string  `json:"account"` // "" for one of a project
	DomainID    string  `json:"domainid"`
	// ServiceOfferingID and ServiceOfferingName are empty when the query did not ask for servoff.
	ServiceOfferingID   string `json:"serviceofferingid"`
	ServiceOfferingName string `json:"serviceofferingname"`
	// HostID and HostName are the hypervisor host; root admin only, and only while the VM runs.
	HostID         string            `json:"hostid"`
	HostName       string            `json:"hostname"`
	Hypervisor     string            `json:"hypervisor"`
	AffinityGroups []AffinityGroup   `json:"affinitygroup"` // empty when the query did not ask for them
	PublicIP       string            `json:"publicip"`      // static NAT address, if any
	NICs           []NIC             `json:"-"`             // default NIC first, then by device id
	Tags           map[string]string `json:"-"`
}

// AffinityGroup is a group that tells where its VMs may run.
type AffinityGroup struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

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
	ID          string   `json:"id"`
	NetworkID   string   `json:"networkid"`
	NetworkName string   `json:"networkname"`
	DeviceID    int      `json:"-"`
	Default     bool     `json:"-"`
	Type        string   `json:"type"`      // Isolated, Shared, L2
	IPv4        string   `json:"ipaddress"` // empty on L2 networks
	IPv6        string   `json:"ip6address"`
	MAC         string   `json:"macaddress"`
	SecondaryIP []string `json:"-"`
	PublicIP    string   `json:"publicip"` // static NAT
}

// Zone is an availability zone.
type Zone struct {
	ID   string `json:"id"`
	Name string `json:"name"`
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
	ID           string `json:"id"`
	Name         string `json:"name"`
	Type         string `json:"type"`
	VPCID        string `json:"vpcid"`
	ACLID        string `json:"aclid"`
	ACLName      string `json:"aclname"`
	ZoneID       string `json:"zoneid"`
	State        string `json:"state"` // Allocated until the first VM, then Implemented
	OfferingName string `json:"networkofferingname"`
	EgressDenied bool   `json:"-"` // VMs of this isolated network reach the internet only by rules
	ConserveMode bool   `json:"-"`
	// Services maps a service name ("Lb", "Firewall", "NetworkACL", ...) to its capabilities.
	// Its providers are in ServiceProviders.
	Services         map[string]map[string]string `json:"-"`
	ServiceProviders map[string][]string          `json:"-"`
}

// HasService reports whether the network's offering has the named service.
func (n *Network) HasService(name string) bool { _, ok := n.Services[name]; return ok }

// PublicIP is a public IP address.
type PublicIP struct {
	ID        string `json:"id"`
	Address   string `json:"ipaddress"`
	State     string `json:"state"`
	Allocated string `json:"allocated"` // when the account acquired it, as the server writes it; an address keeps its id when it changes hands
	// AssociatedNetworkID is the guest network that it serves; empty for a VPC address without rules.
	AssociatedNetworkID string            `json:"associatednetworkid"`
	VPCID               string            `json:"vpcid"`
	SourceNAT           bool              `json:"-"`
	StaticNAT           bool              `json:"-"`
	Tags                map[string]string `json:"-"`
}

// LoadBalancerRule is one public port of one public IP.
type LoadBalancerRule struct {
	ID          string            `json:"id"`
	Name        string            `json:"name"`
	Description string            `json:"description"`
	PublicIPID  string            `json:"publicipid"`
	PublicIP    string            `json:"publicip"`
	PublicPort  int               `json:"-"`
	PrivatePort int               `json:"-"`
	Protocol    string            `json:"protocol"` // tcp, udp, tcp-proxy or ssl; empty when the rule was created without one
	Algorithm   string            `json:"algorithm"`
	CIDRs       []string          `json:"-"` // source ranges; nil when never set, empty when set to nothing
	NetworkID   string            `json:"networkid"`
	State       string            `json:"state"` // Add, Active, Deleting
	Tags        map[string]string `json:"-"`
	// IdleTimeout is in milliseconds, 0 for the server's default, as is nil of KeepAlive. No release has them yet: see
	// RuleTimeouts.
	IdleTimeout int64 `json:"-"`
	KeepAlive   *bool `json:"keepalive"`
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
	ID         string   `json:"id"`
	PublicIPID string   `json:"ipaddressid"`
	Protocol   string   `json:"protocol"`
	StartPort  int      `json:"-"` // with EndPort 0,0 means all ports
	EndPort    int      `json:"-"`
	CIDRs      []string `json:"-"`
	State      string   `json:"state"`
}

// Capabilities is what listCapabilities says of the server.
type Capabilities struct {
	Version string `json:"cloudstackversion"` // for example 4.22.0.0
	// RateMax calls of an account may be made in each RateInterval; 0 without API throttling.
	RateMax      int           `json:"-"`
	RateInterval time.Duration `json:"-"`
}

// API is one command that the caller's role allows, as listApis shows it.
type API struct {
	Name string `json:"name"`
	// Params are the parameters that the caller may send, Fields those of the answer.
	Params []APIField `json:"params"`
	Fields []APIField `json:"response"`
}

// APIField is a parameter of a command or a field of its answer.
type APIField struct {
	Name string `json:"name"`
}

// The types of this group are what the installer needs of the identity calls.
type (
	// Role is a role that accounts have.
	Role struct {
		ID          string `json:"id"`
		Name        string `json:"name"`
		Type        string `json:"type"`
		Description string `json:"description"`
	}
	// RolePermission is one rule of a role; Permission is allow or deny.
	RolePermission struct {
		Rule       string `json:"rule"`
		Permission string `json:"permission"`
	}
	// Account owns resources.
	Account struct {
		ID       string `json:"id"`
		Name     string `json:"name"`
		DomainID string `json:"domainid"`
		RoleID   string `json:"roleid"`
		RoleName string `json:"rolename"`
		Users    []User `json:"user"`
		// Resources are how many VMs, networks and so on it owns, by their noun; none are left out.
		Resources map[string]int `json:"-"`
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
	ID         string
	Status     JobStatus
	ResultCode int
	ErrorText  string // of a failed job; empty when the server gave none
	InstanceID string // object that the job works on; empty when the server does not say
	// Acquired is the address as a job of associateIpAddress left it; nil for other jobs. Its State may be out of date.
	Acquired *PublicIP
}
