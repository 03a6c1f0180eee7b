// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"sort"
	"strconv"
	"strings"
)

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
)

// commonRefs are the parameters that mean the same in every command.
var commonRefs = map[string]refKind{
	"zoneid": refZone, "networkid": refNetwork, "associatednetworkid": refNetwork, "vpcid": refVPC, "domainid": refDomain,
	"projectid": refProject, "accountid": refAccount, "userid": refUser, "roleid": refRole, "virtualmachineid": refVM,
	"virtualmachineids": refVM, "publicipid": refIP, "ipaddressid": refIP, "serviceofferingid": refOffering,
	"networkofferingid": refNetOffering, "templateid": refTemplate, "hostid": refHost, "aclid": refACLList, "jobid": refJob,
}

// ref is a resolved uuid parameter. obj is nil for an internal id that no row has.
type ref struct {
	id  int64
	obj any
}

// mapEntry is one element of a map parameter: name[index].key=value ...
type mapEntry map[string]string

// processParams checks and resolves the command's parameters in their order; the first bad one is the answer.
func (c *call) processParams() *apiError {
	c.refs = map[string]ref{}
	c.lists = map[string][]ref{}
	c.maps = map[string][]mapEntry{}
	for k, v := range c.req.values {
		if i := strings.IndexFunc(v, func(r rune) bool { return r < 0x20 && r != '\t' && r != '\n' && r != '\r' || r == 0x7f }); i >= 0 {
			return paramError("Received value %s containing illegal ASCII non-printable characters for parameter %s", v, k)
		}
	}
	for i := range c.api.Params {
		p := &c.api.Params[i]
		if p.Admin && !c.caller.rootAdmin() {
			delete(c.args, strings.ToLower(p.Name))
			continue
		}
		if err := c.processParam(p); err != nil {
			return err
		}
	}
	return nil
}

func (c *call) processParam(p *apiParam) *apiError {
	name := strings.ToLower(p.Name)
	if p.Type == "map" {
		entries, err := c.mapParam(name)
		if err != nil {
			return err
		}
		if p.Required && entries == nil {
			return paramError("Unable to execute API command %s due to missing parameter %s", c.api.lower, name)
		}
		c.maps[name] = entries
		return nil
	}
	v, ok := c.args[name]
	if !ok {
		if p.Required {
			return paramError("Unable to execute API command %s due to missing parameter %s", c.api.lower, name)
		}
		return nil
	}
	switch p.Type {
	case "integer", "long", "short":
		if _, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64); err != nil {
			return paramError("Unable to execute API command %s due to invalid value %s for parameter %s", c.api.lower, v, name)
		}
	case "uuid":
		r, ok := c.resolve(name, v, p)
		if !ok {
			return c.badRef(name, v)
		}
		c.refs[name] = r
	case "list":
		kind := c.kindOf(name)
		if kind == refNone || v == "" {
			return nil
		}
		for _, id := range strings.Split(v, ",") {
			r, ok := c.resolve(name, strings.TrimSpace(id), p)
			if !ok {
				return c.badRef(name, id)
			}
			c.lists[name] = append(c.lists[name], r)
		}
	case "string":
		if v == "" && p.Required {
			return invalid("Invalid value provided for API arg: %s", name)
		}
		if len([]rune(v)) > p.maxLength() {
			return paramError("Unable to execute API command %s due to invalid value. Value greater than max allowed length %d for param: %s",
				c.api.lower, p.maxLength(), javaField(c.api.Name, name))
		}
	}
	return nil
}

// badRef is the one text that stands for unknown, malformed and empty ids alike.
func (c *call) badRef(name, v string) *apiError {
	return paramError("Unable to execute API command %s due to invalid value. Invalid parameter %s value=%s due to incorrect long value format, "+
		"or entity does not exist or due to incorrect parameter annotation for the field in api cmd class.", c.api.lower, name, v)
}

func (c *call) kindOf(name string) refKind {
	if k, ok := c.api.cmd.refs[name]; ok {
		return k
	}
	return commonRefs[name]
}

// resolve looks an id up. Parameters without a since mark accept the internal number as well, unchecked.
func (c *call) resolve(name, v string, p *apiParam) (ref, bool) {
	kind := c.kindOf(name)
	if p.Since == "" {
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			return ref{id: n, obj: c.st.byInternalID(kind, n)}, true
		}
	}
	obj, id := c.st.byUUID(kind, v)
	return ref{id: id, obj: obj}, obj != nil
}

// mapParam collects name[i].key=value parameters in the order of their indexes.
func (c *call) mapParam(name string) ([]mapEntry, *apiError) {
	byIndex := map[int]mapEntry{}
	for k, v := range c.req.values {
		rest, ok := strings.CutPrefix(k, name+"[")
		if !ok {
			continue
		}
		num, key, ok := strings.Cut(rest, "].")
		n, err := strconv.Atoi(num)
		if !ok || err != nil || key == "" {
			return nil, errf(codeMalformed, csGeneric, "Unable to decode invalid array name %s", k)
		}
		if byIndex[n] == nil {
			byIndex[n] = mapEntry{}
		}
		byIndex[n][key] = v
	}
	if len(byIndex) == 0 {
		return nil, nil
	}
	idx := make([]int, 0, len(byIndex))
	for n := range byIndex {
		idx = append(idx, n)
	}
	sort.Ints(idx)
	out := make([]mapEntry, 0, len(idx))
	for _, n := range idx {
		out = append(out, byIndex[n])
	}
	return out, nil
}

// javaField is the name of the command's Java field, which length errors mention.
func javaField(command, param string) string {
	if f, ok := javaFields[command+"."+param]; ok {
		return f
	}
	if f, ok := javaFields["."+param]; ok {
		return f
	}
	return param
}

var javaFields = map[string]string{
	"createLoadBalancerRule.name": "loadBalancerRuleName", "updateLoadBalancerRule.name": "loadBalancerName",
	"listLoadBalancerRules.name": "loadBalancerRuleName", ".account": "accountName", ".displaytext": "displayText",
	".displayname": "displayName", ".resourcetype": "resourceType",
}

// byUUID finds an object of a kind; soft deleted rows are found too.
func (st *state) byUUID(kind refKind, v string) (any, int64) {
	switch kind {
	case refZone:
		return found(st.zones, v)
	case refNetwork:
		return found(st.networks, v)
	case refVPC:
		return found(st.vpcs, v)
	case refDomain:
		return found(st.domains, v)
	case refProject:
		return found(st.projects, v)
	case refAccount:
		return found(st.accounts, v)
	case refUser:
		return found(st.users, v)
	case refRole:
		return found(st.roles, v)
	case refVM:
		return found(st.vms, v)
	case refIP:
		return found(st.ips, v)
	case refLBRule:
		return found(st.lbRules, v)
	case refFWRule:
		return found(st.fwRules, v)
	case refRule:
		if o, id := found(st.fwRules, v); o != nil {
			return o, id
		}
		return found(st.lbRules, v)
	case refACLList:
		return found(st.aclLists, v)
	case refACLItem:
		return found(st.aclItems, v)
	case refOffering:
		return found(st.offerings, v)
	case refNetOffering:
		return found(st.netOffs, v)
	case refTemplate:
		return found(st.templates, v)
	case refHost:
		return found(st.hosts, v)
	case refJob:
		return found(st.jobs, v)
	case refPublicNet:
		if z, ok := st.zones.find(func(z *zone) bool { return strings.EqualFold(z.publicNetID, v) }); ok {
			return z, z.id
		}
	case refNone:
	}
	return nil, 0
}

func found[T row](t *table[T], v string) (any, int64) {
	if r, ok := t.get(v); ok {
		return r, r.ent().id
	}
	return nil, 0
}

// byInternalID finds an object by its internal number; nil if there is none.
func (st *state) byInternalID(kind refKind, n int64) any {
	switch kind {
	case refZone:
		return foundID(st.zones, n)
	case refNetwork:
		return foundID(st.networks, n)
	case refVPC:
		return foundID(st.vpcs, n)
	case refDomain:
		return foundID(st.domains, n)
	case refProject:
		return foundID(st.projects, n)
	case refAccount:
		return foundID(st.accounts, n)
	case refUser:
		return foundID(st.users, n)
	case refRole:
		return foundID(st.roles, n)
	case refVM:
		return foundID(st.vms, n)
	case refIP:
		return foundID(st.ips, n)
	case refLBRule:
		return foundID(st.lbRules, n)
	case refFWRule:
		return foundID(st.fwRules, n)
	case refRule:
		if o := foundID(st.fwRules, n); o != nil {
			return o
		}
		return foundID(st.lbRules, n)
	case refACLList:
		return foundID(st.aclLists, n)
	case refACLItem:
		return foundID(st.aclItems, n)
	case refOffering:
		return foundID(st.offerings, n)
	case refNetOffering:
		return foundID(st.netOffs, n)
	case refTemplate:
		return foundID(st.templates, n)
	case refHost:
		return foundID(st.hosts, n)
	case refJob:
		return foundID(st.jobs, n)
	case refNone, refPublicNet:
	}
	return nil
}

func foundID[T row](t *table[T], n int64) any {
	if r, ok := t.byID(n); ok {
		return r
	}
	return nil
}
