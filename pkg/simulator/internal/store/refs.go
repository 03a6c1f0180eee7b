// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"strings"
)

// RefKind is the kind of object that a uuid parameter refers to.
type RefKind int

// Kinds of objects.
const (
	RefNone RefKind = iota // a kind of which the simulator has no objects
	RefZone
	RefNetwork
	RefVPC
	RefDomain
	RefProject
	RefAccount
	RefUser
	RefRole
	RefVM
	RefIP
	RefLBRule
	RefFWRule
	RefRule // any kind of rule
	RefACLList
	RefACLItem
	RefOffering
	RefNetOffering
	RefTemplate
	RefHost
	RefSticky
	RefSSLCert
	RefKubernetesVersion
	RefCNIConfig
	RefKubernetesCluster
	RefNIC
	RefSecondaryIP
	refJob
	RefPFRule
	RefVPCOffering
	RefPhysicalNet // a zone, by the id of its physical network
	RefPublicNet   // the public network of a zone's public addresses
	RefEvent
)

// CommonRefs are the parameters with the same meaning in every command.
var CommonRefs = map[string]RefKind{
	"zoneid":                     RefZone,
	"networkid":                  RefNetwork,
	"associatednetworkid":        RefNetwork,
	"vpcid":                      RefVPC,
	"domainid":                   RefDomain,
	"projectid":                  RefProject,
	"accountid":                  RefAccount,
	"userid":                     RefUser,
	"parentdomainid":             RefDomain,
	"roleid":                     RefRole,
	"virtualmachineid":           RefVM,
	"virtualmachineids":          RefVM,
	"publicipid":                 RefIP,
	"ipaddressid":                RefIP,
	"serviceofferingid":          RefOffering,
	"networkofferingid":          RefNetOffering,
	"vpcofferingid":              RefVPCOffering,
	"physicalnetworkid":          RefPhysicalNet,
	"templateid":                 RefTemplate,
	"hostid":                     RefHost,
	"aclid":                      RefACLList,
	"jobid":                      refJob,
	"nicid":                      RefNIC,
	"networkids":                 RefNetwork,
	"sourceipaddressnetworkid":   RefNetwork,
	"certid":                     RefSSLCert,
	"lbruleid":                   RefRule,
	"startid":                    RefEvent,
	"cniconfigurationid":         RefCNIConfig,
	"kubernetesversionid":        RefKubernetesVersion,
	"minimumkubernetesversionid": RefKubernetesVersion,
	"nodeids":                    RefVM,
}

// ResourceKinds maps the resource types of events, as answers name them, to the kinds of objects.
var ResourceKinds = map[string]RefKind{
	"VirtualMachine":    RefVM,
	"IpAddress":         RefIP,
	"FirewallRule":      RefRule,
	"LoadBalancerRule":  RefRule,
	"Network":           RefNetwork,
	"Vpc":               RefVPC,
	"Project":           RefProject,
	"Account":           RefAccount,
	"User":              RefUser,
	"Domain":            RefDomain,
	"Role":              RefRole,
	"NetworkAcl":        RefACLList,
	"Nic":               RefNIC,
	"ServiceOffering":   RefOffering,
	"Template":          RefTemplate,
	"NetworkOffering":   RefNetOffering,
	"VpcOffering":       RefVPCOffering,
	"NetworkAclItem":    RefACLItem,
	"PhysicalNetwork":   RefPhysicalNet,
	"Zone":              RefZone,
	"KubernetesCluster": RefKubernetesCluster,
}

// Ref is a resolved uuid parameter. Obj is nil if no row has the internal id.
type Ref struct {
	ID  int64
	Obj any
}

// finder looks up objects of one kind.
type finder interface {
	FindUUID(v string) (any, int64) // finds soft-deleted rows, too
	findID(n int64) any             // nil if there is none
}

// FindUUID finds a row by its UUID, including soft-deleted rows.
func (t *Table[T]) FindUUID(v string) (any, int64) {
	if r, ok := t.Get(v); ok {
		return r, r.Ent().ID
	}
	return nil, 0
}

func (t *Table[T]) findID(n int64) any {
	if r, ok := t.ByID(n); ok {
		return r
	}
	return nil
}

// tables maps each kind to a function that returns its finder.
var tables = map[RefKind]func(*State) finder{
	RefZone:        func(st *State) finder { return st.Zones },
	RefNetwork:     func(st *State) finder { return st.Networks },
	RefVPC:         func(st *State) finder { return st.VPCs },
	RefDomain:      func(st *State) finder { return st.Domains },
	RefProject:     func(st *State) finder { return st.Projects },
	RefAccount:     func(st *State) finder { return st.Accounts },
	RefUser:        func(st *State) finder { return st.Users },
	RefRole:        func(st *State) finder { return st.Roles },
	RefVM:          func(st *State) finder { return st.VMs },
	RefIP:          func(st *State) finder { return st.IPs },
	RefLBRule:      func(st *State) finder { return st.LBRules },
	RefFWRule:      func(st *State) finder { return st.FWRules },
	RefACLList:     func(st *State) finder { return st.ACLLists },
	RefACLItem:     func(st *State) finder { return st.ACLItems },
	RefOffering:    func(st *State) finder { return st.Offerings },
	RefNetOffering: func(st *State) finder { return st.NetOffs },
	RefTemplate:    func(st *State) finder { return st.Templates },
	RefHost:        func(st *State) finder { return st.Hosts },
	RefPFRule:      func(st *State) finder { return st.PFRules },
	RefVPCOffering: func(st *State) finder { return st.VPCOffs },
	refJob:         func(st *State) finder { return st.Jobs },
	RefRule:        func(st *State) finder { return AnyRule{st} },
	RefPublicNet:   func(st *State) finder { return zonesBy{st, func(z *Zone) string { return z.PublicNetID }} },
	RefPhysicalNet: func(st *State) finder {
		return zonesBy{st, func(z *Zone) string { return z.PhysicalNetID }}
	},
	RefSSLCert:           func(st *State) finder { return st.Certs },
	RefKubernetesVersion: func(st *State) finder { return st.KubernetesVersions },
	RefCNIConfig:         func(st *State) finder { return st.CNIConfigs },
	RefSticky:            func(st *State) finder { return st.Policies },
	RefKubernetesCluster: func(st *State) finder { return st.KubernetesClusters },
	RefNIC:               func(st *State) finder { return st.NICs },
	RefSecondaryIP:       func(st *State) finder { return st.Secondary },
	RefEvent:             func(st *State) finder { return st.Events },
}

// ByUUID finds an object of a kind, including soft-deleted rows.
func (st *State) ByUUID(kind RefKind, v string) (any, int64) {
	if t := tables[kind]; t != nil {
		return t(st).FindUUID(v)
	}
	return nil, 0
}

// ByInternalID finds an object by its internal id, or returns nil.
func (st *State) ByInternalID(kind RefKind, n int64) any {
	if t := tables[kind]; t != nil {
		return t(st).findID(n)
	}
	return nil
}

// AnyRule finds rules of the kinds that share one id sequence.
type AnyRule struct{ St *State }

func (r AnyRule) tables() []finder {
	return []finder{r.St.FWRules, r.St.LBRules, r.St.PFRules}
}

// FindUUID finds a rule of any kind by its UUID.
func (r AnyRule) FindUUID(v string) (any, int64) {
	for _, t := range r.tables() {
		if o, id := t.FindUUID(v); o != nil {
			return o, id
		}
	}
	return nil, 0
}

func (r AnyRule) findID(n int64) any {
	for _, t := range r.tables() {
		if o := t.findID(n); o != nil {
			return o
		}
	}
	return nil
}

// zonesBy finds a zone by the id of a part that each zone has exactly once.
type zonesBy struct {
	st   *State
	part func(*Zone) string
}

func (p zonesBy) FindUUID(v string) (any, int64) {
	if z, ok := p.st.Zones.Find(func(z *Zone) bool { return strings.EqualFold(p.part(z), v) }); ok {
		return z, z.ID
	}
	return nil, 0
}

func (zonesBy) findID(int64) any { return nil }
