// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import "strings"

// refKind is the kind of object a uuid parameter names.
type refKind int

const (
	refNone refKind = iota // a kind that this world has no object of
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
	refJob
	refPublicNet // the public network that the addresses of a zone come from
	refProjectRole
	refRolePermission
	refProjectPermission
	refEvent
	refManagement
)

// commonRefs are the parameters that mean the same in every command.
var commonRefs = map[string]refKind{
	"zoneid": refZone, "networkid": refNetwork, "associatednetworkid": refNetwork, "vpcid": refVPC, "domainid": refDomain,
	"projectid": refProject, "accountid": refAccount, "userid": refUser, "projectroleid": refProjectRole, "parentdomainid": refDomain, "roleid": refRole, "virtualmachineid": refVM,
	"virtualmachineids": refVM, "publicipid": refIP, "ipaddressid": refIP, "serviceofferingid": refOffering,
	"networkofferingid": refNetOffering, "templateid": refTemplate, "hostid": refHost, "aclid": refACLList, "jobid": refJob,
	"managementserverid": refManagement,
}

// ref is a resolved uuid parameter. obj is nil for an internal id that no row has.
type ref struct {
	id  int64
	obj any
}

// finder looks up the rows of one kind.
type finder interface {
	findUUID(v string) (any, int64) // soft deleted rows are found too
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

// tables says where the objects of a kind are kept.
var tables = map[refKind]func(*state) finder{
	refZone:        func(st *state) finder { return st.zones },
	refNetwork:     func(st *state) finder { return st.networks },
	refVPC:         func(st *state) finder { return st.vpcs },
	refDomain:      func(st *state) finder { return st.domains },
	refProject:     func(st *state) finder { return st.projects },
	refAccount:     func(st *state) finder { return st.accounts },
	refUser:        func(st *state) finder { return st.users },
	refRole:        func(st *state) finder { return st.roles },
	refVM:          func(st *state) finder { return st.vms },
	refIP:          func(st *state) finder { return st.ips },
	refLBRule:      func(st *state) finder { return st.lbRules },
	refFWRule:      func(st *state) finder { return st.fwRules },
	refACLList:     func(st *state) finder { return st.aclLists },
	refACLItem:     func(st *state) finder { return st.aclItems },
	refOffering:    func(st *state) finder { return st.offerings },
	refNetOffering: func(st *state) finder { return st.netOffs },
	refTemplate:    func(st *state) finder { return st.templates },
	refHost:        func(st *state) finder { return st.hosts },
	refJob:         func(st *state) finder { return st.jobs },
	refRule:        func(st *state) finder { return anyRule{st} },
	refPublicNet:   func(st *state) finder { return publicNets{st} },
	refProjectRole: func(st *state) finder { return st.projectRoles },
	refEvent:       func(st *state) finder { return st.events },

	refManagement:        func(st *state) finder { return managementRows{st} },
	refRolePermission:    func(st *state) finder { return permissionsOf(st.rolePermissions) },
	refProjectPermission: func(st *state) finder { return permissionsOf(st.projectPermissions) },
}

// byUUID finds an object of a kind; soft deleted rows are found too.
func (st *state) byUUID(kind refKind, v string) (any, int64) {
	if t := tables[kind]; t != nil {
		return t(st).findUUID(v)
	}
	return nil, 0
}

// byInternalID finds an object by its internal number; nil if there is none.
func (st *state) byInternalID(kind refKind, n int64) any {
	if t := tables[kind]; t != nil {
		return t(st).findID(n)
	}
	return nil
}

// anyRule finds the rules that share one sequence of ids.
type anyRule struct{ st *state }

func (r anyRule) tables() []finder { return []finder{r.st.fwRules, r.st.lbRules} }

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

// publicNets finds a zone by the id of its public network.
type publicNets struct{ st *state }

func (p publicNets) findUUID(v string) (any, int64) {
	if z, ok := p.st.zones.find(func(z *zone) bool { return strings.EqualFold(z.publicNetID, v) }); ok {
		return z, z.id
	}
	return nil, 0
}

func (publicNets) findID(int64) any { return nil }
