// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"strconv"
	"strings"
)

// tagKind is a type of resource, with the name that the parameter resourcetype uses.
type tagKind struct {
	name       string
	untaggable bool // CloudStack knows the type, but its resources cannot have tags
	find       func(st *state, id string) (tagTarget, bool)
	each       func(st *state, visit func(tagTarget))
}

// tagTarget is a resource with its tags and its owner; a nil owner is the system account.
type tagTarget struct {
	typ, uuid string
	owner     *account
	tags      *[]tag
}

// taggedRow is a row that embeds tagged.
type taggedRow interface {
	row
	tagList() *[]tag
}

// taggable returns the entry of a type whose rows are in one or more tables. The second result of owner reports
// whether the resource can currently have tags.
func taggable[T taggedRow](name string, owner func(T) (*account, bool), tables ...func(*state) *table[T]) tagKind {
	target := func(v T) (tagTarget, bool) {
		a, ok := owner(v)
		return tagTarget{typ: name, uuid: v.ent().uuid, owner: a, tags: v.tagList()}, ok && !v.ent().removed
	}
	return tagKind{
		name: name,
		find: func(st *state, id string) (tagTarget, bool) {
			n, err := strconv.ParseInt(id, 10, 64)
			for _, rows := range tables {
				v, ok := rows(st).get(id)
				if err == nil {
					v, ok = rows(st).byID(n)
				}
				if ok {
					return target(v)
				}
			}
			return tagTarget{}, false
		},
		each: func(st *state, visit func(tagTarget)) {
			for _, rows := range tables {
				for _, v := range rows(st).rows {
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

// tagKinds are the types of resources. CloudStack knows the types at the end, but the simulator has no resources of
// them.
var tagKinds = []tagKind{
	taggable("UserVm", func(v *vm) (*account, bool) { return v.owner, true }, func(st *state) *table[*vm] { return st.vms }),
	taggable("LoadBalancer", func(r *lbRule) (*account, bool) { return r.account, true }, func(st *state) *table[*lbRule] { return st.lbRules }),
	taggable("FirewallRule", func(r *fwRule) (*account, bool) { return r.account, true }, func(st *state) *table[*fwRule] { return st.fwRules }, func(st *state) *table[*fwRule] { return st.egress }),
	taggable("PortForwardingRule", func(r *pfRule) (*account, bool) { return r.account, true }, func(st *state) *table[*pfRule] { return st.pfRules }),
	taggable("PublicIpAddress", func(ip *publicIP) (*account, bool) { return ip.owner, ip.owner != nil }, func(st *state) *table[*publicIP] { return st.ips }),
	taggable("Network", func(n *network) (*account, bool) { return n.owner, true }, func(st *state) *table[*network] { return st.networks }),
	taggable("Vpc", func(v *vpc) (*account, bool) { return v.owner, true }, func(st *state) *table[*vpc] { return st.vpcs }),
	taggable("Volume", func(d *volume) (*account, bool) { return d.vm.owner, true }, func(st *state) *table[*volume] { return st.volumes }),
	taggable("Project", func(p *project) (*account, bool) { return p.account, true }, func(st *state) *table[*project] { return st.projects }),
	taggable("NetworkACL", func(i *aclItem) (*account, bool) {
		if i.list.vpc == nil {
			return nil, false
		}
		return i.list.vpc.owner, true
	}, func(st *state) *table[*aclItem] { return st.aclItems }),
	taggable("Account", func(a *account) (*account, bool) { return a, true }, func(st *state) *table[*account] { return st.accounts }),
	taggable("User", func(u *user) (*account, bool) { return u.account, true }, func(st *state) *table[*user] { return st.users }),

	{name: "StaticRoute"}, {name: "SecurityGroup"}, {name: "SecurityGroupRule"}, {name: "Snapshot"},
	{name: "SnapshotPolicy"}, {name: "VMSnapshot"}, {name: "Backup"}, {name: "Template"}, {name: "ISO"}, {name: "RemoteAccessVpn"}, {name: "VpcOffering"},

	{name: "Zone", untaggable: true}, {name: "Nic", untaggable: true}, {name: "NetworkACLList", untaggable: true}, {name: "ServiceOffering", untaggable: true},
	{name: "DiskOffering", untaggable: true}, {name: "NetworkOffering", untaggable: true}, {name: "Host", untaggable: true}, {name: "Storage", untaggable: true},
	{name: "Cluster", untaggable: true}, {name: "Pod", untaggable: true}, {name: "Domain", untaggable: true}, {name: "PrivateGateway", untaggable: true},
	{name: "VpnGateway", untaggable: true}, {name: "VpnConnection", untaggable: true}, {name: "CustomerGateway", untaggable: true},
	{name: "AutoScaleVmProfile", untaggable: true}, {name: "AutoScaleVmGroup", untaggable: true}, {name: "LBStickinessPolicy", untaggable: true},
	{name: "LBHealthCheckPolicy", untaggable: true}, {name: "GuestOs", untaggable: true},
}

// tagType finds a type by its name, ignoring case.
func tagType(s string) (*tagKind, *apiError) {
	for i := range tagKinds {
		if strings.EqualFold(tagKinds[i].name, s) {
			return &tagKinds[i], nil
		}
	}
	return nil, invalid("Invalid resource type %s", s)
}

// tagTarget finds a resource by UUID or internal id.
func (st *state) tagTarget(kind *tagKind, id string) (tagTarget, bool) {
	if kind.find == nil {
		return tagTarget{}, false
	}
	return kind.find(st, id)
}

// eachTagged calls visit for every resource that has tags.
func (st *state) eachTagged(visit func(tagTarget)) {
	for i := range tagKinds {
		if tagKinds[i].each != nil {
			tagKinds[i].each(st, visit)
		}
	}
}

// leaveTags keeps the tags of a load balancer rule that goes: the server never deletes them.
func (st *state) leaveTags(r *lbRule) {
	if len(r.tags) > 0 {
		tags := r.tags
		st.leftTags = append(st.leftTags, tagTarget{typ: "LoadBalancer", uuid: r.uuid, owner: r.account, tags: &tags})
	}
}

// tagTargetOrLeft is tagTarget that also finds what has nothing but tags any more.
func (st *state) tagTargetOrLeft(kind *tagKind, id string) (tagTarget, bool) {
	for _, t := range st.leftTags {
		if t.typ == kind.name && strings.EqualFold(t.uuid, id) {
			return t, true
		}
	}
	return st.tagTarget(kind, id)
}
