// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import "strings"

// refKind is the kind of object that a uuid parameter refers to.
type refKind int

const (
	refNone refKind = iota // a kind of which the simulator has no objects
	refZone
	refNetwork
	refVPC
	refDomain
	refProject
	refAccount
	refUser
	refRole
	refVM
	refIP
	refLBRule
	refFWRule
	refRule // any kind of rule
	refACLList
	refACLItem
	refOffering
	refNetOffering
	refTemplate
	refHost
	refSticky
	refSSLCert
	refKubernetesVersion
	refKubernetesCluster
	refNIC
	refSecondaryIP
	refVolume
	refDiskOffering
	refAffinityGroup
	refInstanceGroup
	refKeyPair
	refPod
	refCluster
	refPool
	refSystemVM
	refOSType
	refOSCategory
	refJob
	refPFRule
	refEgressRule
	refVPCOffering
	refPhysicalNet // a zone, by the id of its physical network
	refRouter
	refAnyNetwork // a guest network, or a zone by its public network
	refVLAN       // a zone, by the id of its public range
	refPublicNet  // the public network of a zone's public addresses
	refProjectRole
	refRolePermission
	refProjectPermission
	refEvent
	refManagement
)

// commonRefs are the parameters with the same meaning in every command.
var commonRefs = map[string]refKind{
	"zoneid": refZone, "networkid": refNetwork, "associatednetworkid": refNetwork, "vpcid": refVPC, "domainid": refDomain,
	"projectid": refProject, "accountid": refAccount, "userid": refUser, "projectroleid": refProjectRole, "parentdomainid": refDomain, "roleid": refRole, "virtualmachineid": refVM,
	"virtualmachineids": refVM, "publicipid": refIP, "ipaddressid": refIP, "serviceofferingid": refOffering,
	"networkofferingid": refNetOffering, "vpcofferingid": refVPCOffering, "physicalnetworkid": refPhysicalNet, "vlanid": refVLAN, "templateid": refTemplate, "hostid": refHost, "aclid": refACLList, "jobid": refJob,
	"nicid": refNIC, "podid": refPod, "clusterid": refCluster, "storageid": refPool, "volumeid": refVolume, "diskofferingid": refDiskOffering,
	"overridediskofferingid": refDiskOffering, "affinitygroupid": refAffinityGroup, "groupid": refInstanceGroup, "ostypeid": refOSType,
	"oscategoryid":       refOSCategory,
	"managementserverid": refManagement,
}

// ref is a resolved uuid parameter. obj is nil if no row has the internal id.
type ref struct {
	id  int64
	obj any
}

// finder looks up objects of one kind.
type finder interface {
	findUUID(v string) (any, int64) // finds soft-deleted rows too
	findID(n int64) any             // nil if there is none
}

func (t *table[T]) findUUID(v string) (any, int64) {
	if r, ok := t.get(v); ok {
		return r, r.ent().id
	}
	return nil, 0
}

func (t *table[T]) findID(n int64) any {
	if r, ok := t.byID(n); ok {
		return r
	}
	return nil
}

// tables maps each kind to a function that returns its finder.
var tables = map[refKind]func(*state) finder{
	refZone:              func(st *state) finder { return st.zones },
	refNetwork:           func(st *state) finder { return st.networks },
	refVPC:               func(st *state) finder { return st.vpcs },
	refDomain:            func(st *state) finder { return st.domains },
	refProject:           func(st *state) finder { return st.projects },
	refAccount:           func(st *state) finder { return st.accounts },
	refUser:              func(st *state) finder { return st.users },
	refRole:              func(st *state) finder { return st.roles },
	refVM:                func(st *state) finder { return st.vms },
	refIP:                func(st *state) finder { return st.ips },
	refLBRule:            func(st *state) finder { return st.lbRules },
	refFWRule:            func(st *state) finder { return st.fwRules },
	refACLList:           func(st *state) finder { return st.aclLists },
	refACLItem:           func(st *state) finder { return st.aclItems },
	refOffering:          func(st *state) finder { return st.offerings },
	refNetOffering:       func(st *state) finder { return st.netOffs },
	refTemplate:          func(st *state) finder { return st.templates },
	refHost:              func(st *state) finder { return st.hosts },
	refPFRule:            func(st *state) finder { return st.pfRules },
	refEgressRule:        func(st *state) finder { return st.egress },
	refVPCOffering:       func(st *state) finder { return st.vpcOffs },
	refJob:               func(st *state) finder { return st.jobs },
	refRule:              func(st *state) finder { return anyRule{st} },
	refPublicNet:         func(st *state) finder { return zonesBy{st, func(z *zone) string { return z.publicNetID }} },
	refPhysicalNet:       func(st *state) finder { return zonesBy{st, func(z *zone) string { return z.physicalNetID }} },
	refVLAN:              func(st *state) finder { return zonesBy{st, (*zone).vlanID} },
	refSSLCert:           func(st *state) finder { return st.certs },
	refKubernetesVersion: func(st *state) finder { return st.kubernetesVersions },
	refAnyNetwork:        func(st *state) finder { return anyNetwork{st} },
	refSticky:            func(st *state) finder { return st.policies },
	refKubernetesCluster: func(st *state) finder { return st.kubernetesClusters },
	refRouter:            func(st *state) finder { return routerFinder{st} },
	refNIC:               func(st *state) finder { return st.nics },
	refSecondaryIP:       func(st *state) finder { return st.secondary },
	refVolume:            func(st *state) finder { return st.volumes },
	refDiskOffering:      func(st *state) finder { return st.diskOffs },
	refAffinityGroup:     func(st *state) finder { return st.affinity },
	refInstanceGroup:     func(st *state) finder { return st.groups },
	refKeyPair:           func(st *state) finder { return st.keypairs },
	refPod:               func(st *state) finder { return st.pods },
	refCluster:           func(st *state) finder { return st.clusters },
	refPool:              func(st *state) finder { return st.pools },
	refSystemVM:          func(st *state) finder { return st.systemVMs },
	refOSType:            func(st *state) finder { return st.osTypes },
	refOSCategory:        func(*state) finder { return osCategories },
	refProjectRole:       func(st *state) finder { return st.projectRoles },
	refEvent:             func(st *state) finder { return st.events },
	refManagement:        func(st *state) finder { return managementRows{st} },
	refRolePermission:    func(st *state) finder { return permissionsOf(st.rolePermissions) },
	refProjectPermission: func(st *state) finder { return permissionsOf(st.projectPermissions) },
}

// byUUID finds an object of a kind, including soft-deleted rows.
func (st *state) byUUID(kind refKind, v string) (any, int64) {
	if t := tables[kind]; t != nil {
		return t(st).findUUID(v)
	}
	return nil, 0
}

// byInternalID finds an object by its internal id, or returns nil.
func (st *state) byInternalID(kind refKind, n int64) any {
	if t := tables[kind]; t != nil {
		return t(st).findID(n)
	}
	return nil
}

// anyRule finds rules of the kinds that share one id sequence.
type anyRule struct{ st *state }

func (r anyRule) tables() []finder {
	return []finder{r.st.fwRules, r.st.lbRules, r.st.pfRules, r.st.egress}
}

func (r anyRule) findUUID(v string) (any, int64) {
	for _, t := range r.tables() {
		if o, id := t.findUUID(v); o != nil {
			return o, id
		}
	}
	return nil, 0
}

func (r anyRule) findID(n int64) any {
	for _, t := range r.tables() {
		if o := t.findID(n); o != nil {
			return o
		}
	}
	return nil
}

// zonesBy finds a zone by the id of a part that each zone has exactly once.
type zonesBy struct {
	st   *state
	part func(*zone) string
}

func (p zonesBy) findUUID(v string) (any, int64) {
	if z, ok := p.st.zones.find(func(z *zone) bool { return strings.EqualFold(p.part(z), v) }); ok {
		return z, z.id
	}
	return nil, 0
}

func (zonesBy) findID(int64) any { return nil }

// anyNetwork finds guest networks and the public networks of the zones.
type anyNetwork struct{ st *state }

func (a anyNetwork) findUUID(v string) (any, int64) {
	for _, kind := range []refKind{refNetwork, refPublicNet} {
		if o, id := a.st.byUUID(kind, v); o != nil {
			return o, id
		}
	}
	return nil, 0
}

func (anyNetwork) findID(int64) any { return nil }
