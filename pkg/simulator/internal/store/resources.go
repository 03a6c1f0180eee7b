// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"net/netip"
	"slices"
	"time"
)

// Zone is an advanced zone.
type Zone struct {
	Entity
	Name, DNS1, InternalDNS1   string
	NetworkDomain, GuestCIDR   string
	Enabled                    bool
	PublicNetID, PhysicalNetID string
	Zonetoken                  string
}

// ServiceOffering is a service offering: the size of VMs.
type ServiceOffering struct {
	Entity
	Name                       string
	CPUNumber, CPUSpeed, MemMB int
	DiskOfferingID             string
}

// Template is a template of VMs; it has no content, only its description.
type Template struct {
	Entity
	Name, OSName, Format, Typ, GuestOSID string
	ForCKS                               bool // nodes of Kubernetes clusters can be made from it
}

// Host is a hypervisor host; only root admins see it.
type Host struct {
	Entity
	Name string
	Zone *Zone
}

// States and types of networks.
const (
	NetAllocated   = "Allocated"
	NetImplemented = "Implemented"
	NetSetup       = "Setup"
	netDestroy     = "Destroy"

	TypeIsolated = "Isolated"
	TypeShared   = "Shared"
	TypeL2       = "L2"
)

// Network is a guest network: isolated, shared, L2 or a VPC tier.
type Network struct {
	Entity
	Tagged
	Name, Display string
	Zone          *Zone
	Offering      *NetworkOffering
	Owner         *Account // nil: owned by the domain
	Domain        *Domain
	Subdomains    bool
	Typ, State    string
	CIDR          netip.Prefix
	Gateway       string
	routed        bool // a shared network has had its virtual router
	DomainName    string
	VLAN          int
	VPC           *VPC
	ACL           *ACLList
	Used          []*NIC
	First, Last   netip.Addr  // guest range of a shared network; zero: the whole cidr
	GivenVLAN     bool        // the VLAN was chosen by the admin
	LBSources     []*PublicIP // addresses of the tier on which internal load balancers listen
	macs          int         // number of MAC addresses assigned so far
}

// Provides reports whether the network has the service.
func (n *Network) Provides(service string) bool {
	_, ok := n.Offering.service(service)
	return ok
}

// VPC is a virtual private cloud: tiers behind one router.
type VPC struct {
	Entity
	Tagged
	Name, Display, CIDR, DomainName string
	Zone                            *Zone
	Owner                           *Account
	Enabled                         bool
	Started                         bool // its router is running
	Offering                        *VPCOffering
	Redundant                       bool
}

// ACLList is a list of network ACL items. The two default lists have no VPC and are read-only.
type ACLList struct {
	Entity
	Name, Description string
	VPC               *VPC
	Hidden            bool
}

// ACLItem is one numbered item of an ACL list.
type ACLItem struct {
	Entity
	Tagged
	List                      *ACLList
	Number                    int
	Protocol, Traffic, Action string
	StartPort, EndPort        *int
	IcmpType, IcmpCode        *int
	CIDRs                     []string
	Reason, State             string
	Hidden                    bool
}

// States of a VM.
const (
	VMStarting  = "Starting"
	VMRunning   = "Running"
	VMStopping  = "Stopping"
	VMStopped   = "Stopped"
	VMDestroyed = "Destroyed"
	VMExpunging = "Expunging"
	VMError     = "Error"
	vmMigrating = "Migrating"
	VMUnknown   = "Unknown"
	VMShutdown  = "Shutdown"
)

// VM is a user's virtual machine.
type VM struct {
	Entity
	Tagged
	Name, Display string
	Owner         *Account
	User          *User
	Zone          *Zone
	Offering      *ServiceOffering
	Template      *Template
	Host          *Host
	State         string
	Updated       time.Time
	NICs          []*NIC
	Details       map[string]string
	Hypervisor    string
	Sampled       bool // it had statistics before its last stop
	BootKnown     bool // answers show bootmode from the deployment until the first stop
	Unplaced      bool // the root volume is on no storage pool before the first start
}

// Gone reports whether the VM is removed, destroyed or being expunged, so that load balancers do not reach it.
func (v *VM) Gone() bool {
	return v.Removed || v.State == VMDestroyed || v.State == VMExpunging
}

// Placed reports whether the VM is on a host.
func (v *VM) Placed() bool {
	switch v.State {
	case VMRunning, VMStarting, VMStopping, vmMigrating:
		return true
	}
	return false
}

// NICIn returns the VM's NIC in the network, or nil.
func (v *VM) NICIn(n *Network) *NIC {
	for _, c := range v.NICs {
		if c.Network == n {
			return c
		}
	}
	return nil
}

// NIC connects a VM to a network.
type NIC struct {
	Entity
	VM        *VM
	Network   *Network
	Device    int
	IsDefault bool
	Prepared  bool // its VLAN is assigned before the VM runs
	IP, MAC   string
	IP6       string
	Secondary []*SecondaryIP
	StaticNAT *PublicIP
}

// SecondaryIP is a secondary address of a NIC.
type SecondaryIP struct {
	Entity
	NIC *NIC
	IP  string
}

// States of a public address.
const (
	IPFree       = "Free"
	IPAllocating = "Allocating"
	IPAllocated  = "Allocated"
	IPReleasing  = "Releasing"
	IPReserved   = "Reserved"
)

// PublicIP is one address of a zone's public range. The row is permanent, whether the address is allocated or free.
type PublicIP struct {
	Entity
	Tagged
	Addr      netip.Addr
	Zone      *Zone
	State     string
	Owner     *Account
	Allocated time.Time
	Network   *Network
	VPC       *VPC
	SourceNAT bool
	System    bool
	StaticVM  *VM // static NAT target
	StaticIP  string
	SystemVM  *SystemVM // the system VM that uses the address
	Hidden    bool
	LBRules   []*LBRule
	FWRules   []*FWRule
	PFRules   []*PFRule
}

// States of a rule.
const (
	RuleAdd    = "Add"
	RuleActive = "Active"
	RuleRevoke = "Deleting"
)

// LBRule is a load balancer rule of a public address, or an internal load balancer of a tier.
type LBRule struct {
	Entity
	Tagged
	Name, Description, Algorithm string
	Protocol                     string
	HasProtocol                  bool
	RouterProtocol               string // the router's current protocol, if it is not Protocol
	CIDRs                        string
	HasCIDRs                     bool
	IP                           *PublicIP
	Network                      *Network
	PublicPort, PrivatePort      int
	State                        string
	Deleting                     int // number of running delete jobs
	Members                      []*LBMember
	Related                      *FWRule // created by openfirewall=true
	Account                      *Account
	Hidden                       bool
	Internal                     bool // IP is then an address of the tier, which is in no table
	Policies                     []*StickyPolicy
	Cert                         *SSLCert
}

// LBMember is a VM of a load balancer rule, with one of its guest addresses.
type LBMember struct {
	VM    *VM
	IP    string
	Since time.Time
	Raced int // number of jobs that tried to add the member while the job that added it was running
}

// FWRule is a firewall rule of a public address.
type FWRule struct {
	Entity
	Tagged
	IP                 *PublicIP
	Network            *Network
	Protocol           string
	StartPort, EndPort *int
	IcmpType, IcmpCode *int
	CIDRs              []string
	State              string
	Account            *Account
	Hidden             bool
}

// AddLBRule stores a rule and adds it to its address.
func (st *State) AddLBRule(r *LBRule) {
	st.LBRules.AddWithID(r, st.RuleID())
	r.IP.LBRules = append(r.IP.LBRules, r)
}

// DeleteLBRule deletes a rule permanently, with its members and tags.
func (st *State) DeleteLBRule(r *LBRule) {
	if r.Removed {
		return
	}
	st.LBRules.Delete(r)
	st.leaveTags(r)
	r.IP.LBRules = slices.DeleteFunc(r.IP.LBRules, func(o *LBRule) bool { return o == r })
	r.Members, r.Cert = nil, nil
	for _, p := range slices.Clone(r.Policies) {
		st.DeletePolicy(p)
	}
	if source := r.IP.Network; r.Internal && len(r.IP.LBRules) == 0 {
		source.LBSources = slices.DeleteFunc(source.LBSources, func(o *PublicIP) bool { return o == r.IP })
	}
}

// AddFWRule stores a rule and adds it to its address.
func (st *State) AddFWRule(r *FWRule) {
	st.FWRules.AddWithID(r, st.RuleID())
	r.IP.FWRules = append(r.IP.FWRules, r)
}

// DeleteFWRule deletes a rule permanently, with its tags.
func (st *State) DeleteFWRule(r *FWRule) {
	if r.Removed {
		return
	}
	st.FWRules.Delete(r)
	r.IP.FWRules = slices.DeleteFunc(r.IP.FWRules, func(o *FWRule) bool { return o == r })
}

// OtherPurpose returns the service that the address already provides, if that is not the named service and the network
// allows an address to provide only one; otherwise "".
func (ip *PublicIP) OtherPurpose(n *Network, service string) string {
	if n.Offering.Spec.Conserve {
		return ""
	}
	used := map[string]bool{
		"SourceNat":      ip.SourceNAT && ip.Network != nil,
		"Lb":             len(ip.LBRules) > 0,
		"PortForwarding": len(ip.PFRules) > 0,
		"StaticNat":      ip.StaticVM != nil,
	}
	for _, s := range []string{"SourceNat", "Lb", "PortForwarding", "StaticNat"} {
		if used[s] && s != service {
			return s
		}
	}
	return ""
}

// HasRules reports whether the address has any rule.
func (ip *PublicIP) HasRules() bool { return len(ip.LBRules)+len(ip.FWRules)+len(ip.PFRules) > 0 }
