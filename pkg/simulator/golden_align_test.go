// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"slices"
	"strings"
)

// align sets the state to what the recording of a list shows: the objects it
// has, and - rules only - without those that it lacks and that never show again.
func (r *replayer) align(c *goldenCase) {
	body, ok := inner(c.Response)
	if !ok {
		return
	}
	shown := map[string]bool{}
	eachView(c, func(v view) {
		shown[v.str("id")] = true
		switch v.kind {
		case "virtualmachine", "loadbalancerruleinstance":
			r.setVM(v)
		case "network":
			r.setNetwork(v)
		case "publicipaddress":
			r.setIP(v)
		case "loadbalancerrule":
			r.setLB(v)
		case "firewallrule":
			r.setFW(v)
		case "networkacllist":
			r.setACLList(v)
		case "networkacl":
			r.setACLItem(v)
		case "project":
			r.setProject(v)
		case "account":
			r.setAccount(v)
		case "kubernetescluster":
			r.setCluster(v)
		}
	})
	r.dropGuests(c, shown)
	r.reorder(body)
	switch c.Command {
	case "listLoadBalancerRuleInstances":
		r.setMembers(c, body)
	case "listLBStickinessPolicies":
		r.setPolicies(c)
	case "listTags":
		r.setTags(c, body)
	case "listLoadBalancerRules":
		r.dropMissing(c, shown)
	case "listFirewallRules":
		r.dropMissing(c, shown)
	case "listNetworkACLs", "listNetworkACLLists":
		if n, ok := r.h.sim.st.networks.get(param1(c, "networkid")); ok {
			eachView(c, func(v view) {
				if l, ok := r.h.sim.st.aclLists.get(v.str("aclid")); ok && v.kind == "networkacl" {
					n.acl = l
				}
			})
		}
		r.dropMissingACLs(c, shown)
	case "listPublicIpAddresses":
		r.freeMissing(c, shown)
	}
}

// dropGuests removes VMs, networks and projects that the replay put into the
// state and that a full list does not show: they were gone by then.
func (r *replayer) dropGuests(c *goldenCase, shown map[string]bool) {
	for k := range c.Params {
		if !slices.Contains([]string{"listall", "account", "domainid", "page", "pagesize"}, k) {
			return
		}
	}
	st := r.h.sim.st
	for id := range r.inserted {
		if shown[id] {
			continue
		}
		if v, ok := st.vms.get(id); ok && c.Command == "listVirtualMachines" && !r.named(id, c) {
			v.removed = true
		}
		if n, ok := st.networks.get(id); ok && c.Command == "listNetworks" {
			n.removed = true
		}
		if p, ok := st.projects.get(id); ok && c.Command == "listProjects" {
			p.removed = true
		}
	}
}

// reorder gives rules the order of the recording where the replay put one in late.
func (r *replayer) reorder(body map[string]any) {
	st := r.h.sim.st
	for kind, descending := range map[string]bool{"loadbalancerrule": false, "firewallrule": true, "networkacl": true} {
		list, ok := body[kind].([]any)
		if !ok {
			continue
		}
		if descending {
			list = slices.Clone(list)
			slices.Reverse(list)
		}
		var ids []string
		late := false
		for _, x := range list {
			m, _ := x.(map[string]any)
			ids = append(ids, text(m["id"]))
			late = late || r.inserted[text(m["id"])]
		}
		if late {
			reorderIn(st.lbRules, ids)
			reorderIn(st.fwRules, ids)
			reorderIn(st.aclItems, ids)
		}
	}
}

func reorderIn[T row](t *table[T], ids []string) {
	var rows []T
	var numbers []int64
	for _, id := range ids {
		if v, ok := t.get(id); ok {
			rows = append(rows, v)
			numbers = append(numbers, v.ent().id)
		}
	}
	slices.Sort(numbers)
	for i, v := range rows {
		v.ent().id = numbers[i]
	}
	slices.SortFunc(t.rows, func(a, b T) int { return int(a.ent().id - b.ent().id) })
}

// named tells whether a call after the case names the object.
func (r *replayer) named(id string, c *goldenCase) bool {
	return slices.ContainsFunc(r.cases[c.index+1:], func(o *goldenCase) bool { return o.Params["id"] == id || o.Params["virtualmachineids"] == id })
}

// later tells whether the object shows in an answer after the case.
func (r *replayer) later(id string, c *goldenCase) bool {
	return slices.ContainsFunc(r.views, func(v view) bool { return v.index > c.index && v.str("id") == id })
}

func param1(c *goldenCase, name string) string { return fmt.Sprint(c.Params[name]) }

func (r *replayer) dropMissing(c *goldenCase, shown map[string]bool) {
	st := r.h.sim.st
	caller := r.user(strings.TrimPrefix(goldenUsers[c.Caller], "k8s/")).account
	for _, l := range slices.Clone(st.lbRules.rows) {
		if c.Command == "listLoadBalancerRules" && !shown[l.uuid] && l.account == caller && !r.later(l.uuid, c) && r.whole(c, l.ip.uuid) {
			st.removeLBRule(l)
		}
	}
	for _, f := range slices.Clone(st.fwRules.rows) {
		if c.Command == "listFirewallRules" && !shown[f.uuid] && f.account == caller && !r.later(f.uuid, c) && r.whole(c, f.ip.uuid) {
			st.dropFWRule(f)
		}
	}
}

// whole tells whether the list shows everything, or everything on the address.
func (r *replayer) whole(c *goldenCase, ip string) bool {
	for k, v := range c.Params {
		if k != "publicipid" && k != "ipaddressid" && k != "listall" || k != "listall" && v != ip {
			return false
		}
	}
	return true
}

func (r *replayer) dropMissingACLs(c *goldenCase, shown map[string]bool) {
	st := r.h.sim.st
	for _, it := range slices.Clone(st.aclItems.rows) {
		if c.Command == "listNetworkACLs" && it.list.vpc != nil && !shown[it.uuid] && !r.later(it.uuid, c) {
			st.aclItems.drop(it)
		}
	}
	for _, l := range slices.Clone(st.aclLists.rows) {
		if c.Command == "listNetworkACLLists" && l.vpc != nil && !shown[l.uuid] && !r.later(l.uuid, c) {
			st.aclLists.drop(l)
		}
	}
}

// freeMissing releases the caller's addresses that a full list lacks.
func (r *replayer) freeMissing(c *goldenCase, shown map[string]bool) {
	for k := range c.Params {
		if k != "listall" && k != "projectid" && k != "page" && k != "pagesize" && k != "allocatedonly" {
			return
		}
	}
	caller := r.user(strings.TrimPrefix(goldenUsers[c.Caller], "k8s/")).account
	p, _ := r.h.sim.st.projects.get(param1(c, "projectid"))
	for _, ip := range r.h.sim.st.ips.rows {
		mine := ip.owner == caller || !caller.normal() && ip.owner != nil && ip.owner.project == nil
		if p != nil {
			mine = ip.owner == p.account
		}
		if mine && !shown[ip.uuid] && !ip.sourceNAT {
			r.h.sim.st.release(ip)
		}
	}
}
