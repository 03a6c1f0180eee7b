// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"strconv"
	"strings"
)

// TagKind is a type of resource, with the name that the parameter resourcetype uses.
type TagKind struct {
	Name       string
	Untaggable bool // CloudStack knows the type, but its resources cannot have tags
	find       func(st *State, id string) (TagTarget, bool)
	each       func(st *State, visit func(TagTarget))
}

// TagTarget is a resource with its tags and its owner; a nil owner is the system account.
type TagTarget struct {
	Typ, UUID string
	Owner     *Account
	Tags      *[]Tag
}

// taggedRow is a row that embeds Tagged.
type taggedRow interface {
	Row
	tagList() *[]Tag
}

// taggable returns the kind of resources whose rows are in one or more tables. The second result of owner reports
// whether the resource can currently have tags.
func taggable[T taggedRow](name string, owner func(T) (*Account, bool), tables ...func(*State) *Table[T]) TagKind {
	target := func(v T) (TagTarget, bool) {
		a, ok := owner(v)
		return TagTarget{Typ: name, UUID: v.Ent().UUID, Owner: a, Tags: v.tagList()}, ok && !v.Ent().Removed
	}

	return TagKind{
		Name: name,
		find: func(st *State, id string) (TagTarget, bool) {
			n, err := strconv.ParseInt(id, 10, 64)
			for _, rows := range tables {
				v, ok := rows(st).Get(id)
				if err == nil {
					v, ok = rows(st).ByID(n)
				}
				if ok {
					return target(v)
				}
			}
			return TagTarget{}, false
		},
		each: func(st *State, visit func(TagTarget)) {
			for _, rows := range tables {
				for _, v := range rows(st).Rows {
					if len(*v.tagList()) == 0 {
						continue
					}
					if t, ok := target(v); ok {
						visit(t)
					}
				}
			}
		},
	}
}

// TagKinds are the types of resources. The simulator has no resources of the types at the end, which only CloudStack
// knows.
var TagKinds = []TagKind{
	taggable("UserVm", func(v *VM) (*Account, bool) { return v.Owner, true },
		func(st *State) *Table[*VM] { return st.VMs }),
	taggable("LoadBalancer", func(r *LBRule) (*Account, bool) { return r.Account, true },
		func(st *State) *Table[*LBRule] { return st.LBRules }),
	taggable("FirewallRule", func(r *FWRule) (*Account, bool) { return r.Account, true },
		func(st *State) *Table[*FWRule] { return st.FWRules }),
	taggable("PortForwardingRule", func(r *PFRule) (*Account, bool) { return r.Account, true },
		func(st *State) *Table[*PFRule] { return st.PFRules }),
	taggable("PublicIpAddress", func(ip *PublicIP) (*Account, bool) { return ip.Owner, ip.Owner != nil },
		func(st *State) *Table[*PublicIP] { return st.IPs }),
	taggable("Network", func(n *Network) (*Account, bool) { return n.Owner, true },
		func(st *State) *Table[*Network] { return st.Networks }),
	taggable("Vpc", func(v *VPC) (*Account, bool) { return v.Owner, true },
		func(st *State) *Table[*VPC] { return st.VPCs }),
	taggable("Project", func(p *Project) (*Account, bool) { return p.Account, true },
		func(st *State) *Table[*Project] { return st.Projects }),
	taggable("NetworkACL", func(i *ACLItem) (*Account, bool) {
		if i.List.VPC == nil {
			return nil, false
		}
		return i.List.VPC.Owner, true
	}, func(st *State) *Table[*ACLItem] { return st.ACLItems }),
	taggable("Account", func(a *Account) (*Account, bool) { return a, true },
		func(st *State) *Table[*Account] { return st.Accounts }),
	taggable("User", func(u *User) (*Account, bool) { return u.Account, true },
		func(st *State) *Table[*User] { return st.Users }),

	{Name: "Volume"}, {Name: "StaticRoute"}, {Name: "SecurityGroup"}, {Name: "SecurityGroupRule"}, {Name: "Snapshot"},
	{Name: "SnapshotPolicy"}, {Name: "VMSnapshot"}, {Name: "Backup"}, {Name: "Template"}, {Name: "ISO"},
	{Name: "RemoteAccessVpn"}, {Name: "VpcOffering"},

	{Name: "Zone", Untaggable: true}, {Name: "Nic", Untaggable: true}, {Name: "NetworkACLList", Untaggable: true},
	{Name: "ServiceOffering", Untaggable: true}, {Name: "DiskOffering", Untaggable: true},
	{Name: "NetworkOffering", Untaggable: true}, {Name: "Host", Untaggable: true}, {Name: "Storage", Untaggable: true},
	{Name: "Cluster", Untaggable: true}, {Name: "Pod", Untaggable: true}, {Name: "Domain", Untaggable: true},
	{Name: "PrivateGateway", Untaggable: true}, {Name: "VpnGateway", Untaggable: true},
	{Name: "VpnConnection", Untaggable: true}, {Name: "CustomerGateway", Untaggable: true},
	{Name: "AutoScaleVmProfile", Untaggable: true}, {Name: "AutoScaleVmGroup", Untaggable: true},
	{Name: "LBStickinessPolicy", Untaggable: true}, {Name: "LBHealthCheckPolicy", Untaggable: true},
	{Name: "GuestOs", Untaggable: true},
}

// TagTarget finds a resource by UUID or internal id.
func (st *State) TagTarget(kind *TagKind, id string) (TagTarget, bool) {
	if kind.find == nil {
		return TagTarget{}, false
	}
	return kind.find(st, id)
}

// EachTagged calls visit for every resource that has tags.
func (st *State) EachTagged(visit func(TagTarget)) {
	for i := range TagKinds {
		if TagKinds[i].each != nil {
			TagKinds[i].each(st, visit)
		}
	}
}

// leaveTags keeps the tags of a load balancer rule that is deleted: CloudStack never deletes them.
func (st *State) leaveTags(r *LBRule) {
	if len(r.Tags) > 0 {
		tags := r.Tags
		st.OrphanedTags = append(st.OrphanedTags,
			TagTarget{Typ: "LoadBalancer", UUID: r.UUID, Owner: r.Account, Tags: &tags})
	}
}

// TagTargetOrOrphaned is like TagTarget, but also finds deleted rules whose tags remain.
func (st *State) TagTargetOrOrphaned(kind *TagKind, id string) (TagTarget, bool) {
	for _, t := range st.OrphanedTags {
		if t.Typ == kind.Name && strings.EqualFold(t.UUID, id) {
			return t, true
		}
	}
	return st.TagTarget(kind, id)
}
