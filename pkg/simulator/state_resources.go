// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/netip"
	"slices"
	"strings"
	"time"
)

// zone is an advanced zone.
type zone struct {
	entity
	tagged
	name, description, dns1, dns2, internalDNS1 string
	networkDomain, guestCIDR                    string
	enabled                                     bool
	publicNetID, physicalNetID                  string
	zonetoken                                   string
}

// serviceOffering is a service offering: the size of VMs.
type serviceOffering struct {
	entity
	name, display              string
	cpuNumber, cpuSpeed, memMB int
	diskOfferingID             string
	system                     bool
	offerHA                    bool
}

// template is a template of VMs; it has no content, only its description.
type template struct {
	entity
	tagged
	name, display, osName, format, typ, guestOSID string
	forCKS                                        bool // usable for nodes of Kubernetes clusters
}

// host is a hypervisor host; only root admins see it.
type host struct {
	entity
	name    string
	ip      string // empty: derived from the id
	zone    *zone
	cluster *cluster
}

const (
	netAllocated   = "Allocated"
	netImplemented = "Implemented"
	netSetup       = "Setup"
	netDestroy     = "Destroy"

	typeIsolated = "Isolated"
	typeShared   = "Shared"
	typeL2       = "L2"
)

// network is a guest network: isolated, shared, L2 or a VPC tier.
type network struct {
	entity
	tagged
	name, display string
	zone          *zone
	offering      *networkOffering
	owner         *account // nil: owned by the domain
	domain        *domain
	subdomains    bool
	typ, state    string
	cidr          netip.Prefix
	gateway       string
	routerID      int64 // number of its latest virtual router; 0: none yet
	domainName    string
	vlan          int
	vpc           *vpc
	acl           *aclList
	used          []*nic
	first, last   netip.Addr // guest range of a shared network; zero: the whole cidr
	wholeCIDR     string     // the CIDR before guestvmcidr reserved a part of it
	dns1, dns2    string     // "": those of the zone
	externalID    string
	givenVLAN     bool     // the VLAN was chosen by the admin
	base          *network // the network with which a shared network is associated
	hidden        bool
	hideUsage     string // hideipaddressusage as shown in the details
	redundant     bool
	restart       bool        // restartrequired
	lbSources     []*publicIP // addresses of the tier on which internal load balancers listen
	macs          int         // number of MAC addresses assigned so far
}

func (n *network) provides(service string) bool {
	_, ok := n.offering.service(service)
	return ok
}

// vpc is a virtual private cloud: tiers behind one router.
type vpc struct {
	entity
	tagged
	name, display, cidr, domainName string
	zone                            *zone
	owner                           *account
	enabled                         bool
	started                         bool // its router is running
	routerID                        int64
	offering                        *vpcOffering
	dns1, dns2                      string
	mtu                             int // MTU of the public interfaces; 0: that of the zone
	hidden                          bool
	redundant                       bool
}

// aclList is a list of network ACL items. The two default lists have no VPC and are read-only.
type aclList struct {
	entity
	name, description string
	vpc               *vpc
	hidden            bool
}

// aclItem is one numbered item of an ACL list.
type aclItem struct {
	entity
	tagged
	list                      *aclList
	number                    int
	protocol, traffic, action string
	startPort, endPort        *int
	icmpType, icmpCode        *int
	cidrs                     []string
	reason, state             string
	hidden                    bool
}

// States of a VM.
const (
	vmStarting  = "Starting"
	vmRunning   = "Running"
	vmStopping  = "Stopping"
	vmStopped   = "Stopped"
	vmDestroyed = "Destroyed"
	vmExpunging = "Expunging"
	vmError     = "Error"
	vmMigrating = "Migrating"
	vmUnknown   = "Unknown"
	vmShutdown  = "Shutdown"
)

// vm is a user's virtual machine.
type vm struct {
	entity
	tagged
	name, display string
	owner         *account
	user          *user
	zone          *zone
	offering      *serviceOffering
	template      *template
	host          *host
	state         string
	updated       time.Time
	nics          []*nic
	details       map[string]string
	hypervisor    string
	haEnabled     bool
	dynScalable   bool
	protected     bool
	hidden        bool // displayvm=false
	sampled       bool // it had statistics before its last stop
	bootKnown     bool // answers show bootmode from the deployment until the first stop
	unplaced      bool // the root volume is on no storage pool before the first start
	wantHost      *host
	group         *instanceGroup
	affinity      []*affinityGroup
	keypairs      []string
	userdata      string
	guestOS       *osType // nil: that of the template
	volumes       []*volume
}

// gone reports whether the VM is removed, destroyed or being expunged, so that load balancers do not reach it.
func (v *vm) gone() bool {
	return v.removed || v.state == vmDestroyed || v.state == vmExpunging
}

// placed reports whether the VM is on a host.
func (v *vm) placed() bool {
	switch v.state {
	case vmRunning, vmStarting, vmStopping, vmMigrating:
		return true
	}
	return false
}

// nicIn returns the VM's NIC in the network, or nil.
func (v *vm) nicIn(n *network) *nic {
	for _, c := range v.nics {
		if c.network == n {
			return c
		}
	}
	return nil
}

// nic connects a VM to a network.
type nic struct {
	entity
	vm         *vm
	network    *network
	device     int
	isDefault  bool
	prepared   bool // its VLAN is assigned before the VM runs
	ip, mac    string
	ip6        string
	secondary  []*secondaryIP
	staticNAT  *publicIP
	extraDHCPs []extraDHCP
}

// secondaryIP is a secondary address of a NIC.
type secondaryIP struct {
	entity
	nic *nic
	ip  string
}

type extraDHCP struct {
	uuid, name, value string
	code              int
}

// States of a public address.
const (
	ipFree       = "Free"
	ipAllocating = "Allocating"
	ipAllocated  = "Allocated"
	ipReleasing  = "Releasing"
	ipReserved   = "Reserved"
)

// publicIP is one address of a zone's public range. The row is permanent, whether the address is allocated or free.
type publicIP struct {
	entity
	tagged
	addr      netip.Addr
	zone      *zone
	state     string
	owner     *account
	allocated time.Time
	network   *network
	vpc       *vpc
	sourceNAT bool
	system    bool
	staticVM  *vm // static NAT target
	staticIP  string
	systemVM  *systemVM // the system VM that uses the address
	hidden    bool
	lbRules   []*lbRule
	fwRules   []*fwRule
	pfRules   []*pfRule
}

// States of a rule.
const (
	ruleAdd    = "Add"
	ruleActive = "Active"
	ruleRevoke = "Deleting"
)

// lbRule is a load balancer rule of a public address, or an internal load balancer of a tier.
type lbRule struct {
	entity
	tagged
	name, description, algorithm string
	protocol                     string
	hasProtocol                  bool
	cidrs                        string
	hasCIDRs                     bool
	ip                           *publicIP
	network                      *network
	publicPort, privatePort      int
	state                        string
	deleting                     int // deletions that run
	members                      []*lbMember
	related                      *fwRule // created by openfirewall=true
	account                      *account
	hidden                       bool
	internal                     bool // ip is then an address of the tier, which is in no table
	policies                     []*stickyPolicy
	cert                         *sslCert
}

type lbMember struct {
	vm    *vm
	ip    string
	since time.Time
	raced int // jobs that tried to add it while the one that did was running
}

// fwRule is a firewall rule: an ingress rule of a public address, or an egress rule of a network.
type fwRule struct {
	entity
	tagged
	ip                 *publicIP // nil: an egress rule
	destCIDRs          []string  // only of egress rules
	system             bool      // type=system
	network            *network
	protocol           string
	startPort, endPort *int
	icmpType, icmpCode *int
	cidrs              []string
	state              string
	account            *account
	hidden             bool
}

// addLBRule stores a rule and adds it to its address.
func (st *state) addLBRule(r *lbRule) {
	st.lbRules.addWithID(r, st.ruleID())
	r.ip.lbRules = append(r.ip.lbRules, r)
}

// dropLBRule deletes a rule permanently, with its members and tags.
func (st *state) dropLBRule(r *lbRule) {
	if r.removed {
		return
	}
	st.lbRules.drop(r)
	st.leaveTags(r)
	r.ip.lbRules = slices.DeleteFunc(r.ip.lbRules, func(o *lbRule) bool { return o == r })
	r.members, r.cert = nil, nil
	for _, p := range slices.Clone(r.policies) {
		st.dropPolicy(p)
	}
	if source := r.ip.network; r.internal && len(r.ip.lbRules) == 0 {
		source.lbSources = slices.DeleteFunc(source.lbSources, func(o *publicIP) bool { return o == r.ip })
	}
}

// addFWRule stores a rule and adds it to its address.
func (st *state) addFWRule(r *fwRule) {
	st.fwRules.addWithID(r, st.ruleID())
	r.ip.fwRules = append(r.ip.fwRules, r)
}

// dropFWRule deletes a rule permanently, with its tags.
func (st *state) dropFWRule(r *fwRule) {
	if r.removed {
		return
	}
	st.firewallTable(r).drop(r)
	if r.ip == nil {
		return
	}
	r.ip.fwRules = slices.DeleteFunc(r.ip.fwRules, func(o *fwRule) bool { return o == r })
}

// hasRules reports whether the address has any rule.
func (ip *publicIP) hasRules() bool { return len(ip.lbRules)+len(ip.fwRules)+len(ip.pfRules) > 0 }

// like implements SQL's LIKE %k% with a case-insensitive collation, like the database; _ and % in k are wildcards.
func like(s, k string) bool {
	s, k = strings.ToLower(s), strings.ToLower(k)
	if !strings.ContainsAny(k, "_%") {
		return strings.Contains(s, k)
	}
	return likeMatch([]rune(s), []rune("%"+k+"%"))
}

// likeMatch reports whether s matches a LIKE pattern, in time proportional to the product of their lengths.
func likeMatch(s, p []rune) bool {
	i, j, star, mark := 0, 0, -1, 0
	for i < len(s) {
		switch {
		case j < len(p) && p[j] == '%':
			star, mark = j, i
			j++
		case j < len(p) && (p[j] == '_' || p[j] == s[i]):
			i++
			j++
		case star >= 0:
			mark++
			i, j = mark, star+1
		default:
			return false
		}
	}
	for j < len(p) && p[j] == '%' {
		j++
	}
	return j == len(p)
}
