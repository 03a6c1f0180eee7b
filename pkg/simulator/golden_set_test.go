// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// The functions of this file set one object of the state to what a view shows.

func (r *replayer) setIP(v view) {
	st := r.h.sim.st
	ip, ok := st.ips.get(v.str("id"))
	if !ok {
		return
	}
	if v.str("state") == ipFree {
		st.release(ip)
		return
	}
	if owner := r.ownerOf(v); owner != ip.owner {
		st.release(ip)
		ip.owner = owner
	}
	ip.state, ip.allocated = v.str("state"), r.h.clock.Now()
	ip.network, _ = st.networks.get(v.str("associatednetworkid"))
	ip.vpc, _ = st.vpcs.get(v.str("vpcid"))
	ip.sourceNAT = fmt.Sprint(v.obj["issourcenat"]) == "true"
	ip.staticVM, ip.staticIP = nil, ""
	if m, ok := st.vms.get(v.str("virtualmachineid")); ok {
		ip.staticVM, ip.staticIP = m, v.str("vmipaddress")
	}
	if fmt.Sprint(v.obj["hasrules"]) == "false" {
		for _, l := range slices.Clone(ip.lbRules) {
			st.dropLBRule(l)
		}
		for _, f := range slices.Clone(ip.fwRules) {
			st.dropFWRule(f)
		}
	} else if !ip.hasRules() && ip.network != nil {
		st.addFWRule(&fwRule{ip: ip, network: ip.network, account: ip.owner, protocol: "tcp", cidrs: []string{"0.0.0.0/0"}, state: ruleActive})
	}
	ip.tags = tagsFrom(v)
}

func tagsFrom(v view) []tag {
	var out []tag
	list, _ := v.obj["tags"].([]any)
	for _, t := range list {
		m, _ := t.(map[string]any)
		out = append(out, tag{key: text(m["key"]), value: text(m["value"])})
	}
	return out
}

func (r *replayer) setLB(v view) {
	st := r.h.sim.st
	ip, ok := st.ips.get(v.str("publicipid"))
	if !ok {
		return
	}
	l, ok := st.lbRules.get(v.str("id"))
	if !ok {
		r.inserted[v.str("id")] = true
		l = &lbRule{entity: entity{uuid: v.str("id"), created: r.h.clock.Now()}, ip: ip}
		if owner := r.ownerOf(v); ip.state != ipAllocated || ip.owner != owner {
			st.release(ip)
			ip.state, ip.owner, ip.allocated = ipAllocated, owner, r.h.clock.Now()
		}
		st.addLBRule(l)
	}
	l.name, l.description, l.algorithm, l.state = v.str("name"), v.str("description"), v.str("algorithm"), v.str("state")
	if l.state == ruleAdd {
		l.members = nil
	}
	l.protocol, l.hasProtocol, l.cidrs, l.hasCIDRs = v.str("protocol"), v.has("protocol"), v.str("cidrlist"), v.has("cidrlist")
	l.publicPort, l.privatePort = *v.number("publicport"), *v.number("privateport")
	l.account = r.ownerOf(v)
	if n, ok := st.networks.get(v.str("networkid")); ok {
		l.network, ip.network = n, n
		if n.vpc != nil {
			ip.vpc = n.vpc
		}
	}
	l.tags = tagsFrom(v)
}

func (r *replayer) setFW(v view) {
	st := r.h.sim.st
	ip, ok := st.ips.get(v.str("ipaddressid"))
	n, ok2 := st.networks.get(v.str("networkid"))
	if !ok || !ok2 {
		return
	}
	f, ok := st.fwRules.get(v.str("id"))
	if !ok {
		r.inserted[v.str("id")] = true
		f = &fwRule{entity: entity{uuid: v.str("id"), created: r.h.clock.Now()}, ip: ip, network: n, account: n.owner}
		if ip.owner != n.owner {
			st.release(ip)
			ip.state, ip.owner, ip.network, ip.allocated = ipAllocated, n.owner, n, r.h.clock.Now()
		}
		st.addFWRule(f)
	}
	f.protocol, f.startPort, f.endPort, f.icmpType, f.icmpCode = v.str("protocol"), v.number("startport"), v.number("endport"), v.number("icmptype"), v.number("icmpcode")
	f.cidrs, f.state, f.tags = strings.Split(v.str("cidrlist"), ","), v.str("state"), tagsFrom(v)
}

func (r *replayer) setVM(v view) {
	st := r.h.sim.st
	m, ok := st.vms.get(v.str("id"))
	if !ok {
		owner := r.ownerOf(v)
		z, okZone := st.zones.get(v.str("zoneid"))
		u, okUser := st.users.get(v.str("userid"))
		if owner == nil || !okZone || !okUser {
			return
		}
		r.inserted[v.str("id")] = true
		m = &vm{
			entity: entity{uuid: v.str("id"), created: r.h.clock.Now()}, owner: owner, zone: z, user: u, updated: r.h.clock.Now(),
			offering: st.offerings.rows[0], template: st.templates.rows[0], host: st.hosts.rows[0], hypervisor: "Simulator",
		}
		st.vms.add(m)
		st.addRootVolume(m, entity{})
	}
	m.name, m.display, m.state, m.tags, m.bootKnown = v.str("name"), v.str("displayname"), v.str("state"), tagsFrom(v), v.has("bootmode")
	if details, ok := v.obj["details"].(map[string]any); ok && v.has("instancename") { // only admins see all
		m.details = map[string]string{}
		for k, d := range details {
			m.details[k] = fmt.Sprint(d)
		}
	}
	nics, _ := v.obj["nic"].([]any)
	if len(nics) < len(m.nics) {
		return // a view without all NICs
	}
	m.nics = nil
	for i, x := range nics {
		o, _ := x.(map[string]any)
		c := view{v.index, "nic", o}
		n, ok := st.networks.get(c.str("networkid"))
		if !ok {
			continue
		}
		row, ok := st.nics.get(c.str("id"))
		if !ok {
			row = &nic{entity: entity{uuid: c.str("id")}}
		}
		row.network, row.device, row.isDefault, row.ip, row.mac = n, i, o["isdefault"] == true, c.str("ipaddress"), c.str("macaddress")
		row.secondary, row.prepared = nil, c.has("isolationuri")
		list, _ := o["secondaryip"].([]any)
		for _, s := range list {
			e, _ := s.(map[string]any)
			st.addSecondary(row, &secondaryIP{entity: entity{uuid: text(e["id"])}, ip: text(e["ipaddress"])})
		}
		st.addNIC(m, row)
	}
}

func (r *replayer) setNetwork(v view) {
	st := r.h.sim.st
	n, ok := st.networks.get(v.str("id"))
	r.inserted[v.str("id")] = r.inserted[v.str("id")] || !ok
	if !ok {
		off, okOff := st.netOffs.find(func(o *networkOffering) bool { return o.spec.Name == v.str("networkofferingname") })
		if !okOff {
			return
		}
		n = &network{entity: entity{uuid: v.str("id"), created: r.h.clock.Now()}, zone: st.zones.rows[0], offering: off, owner: r.ownerOf(v), typ: v.str("type"), vlan: 300}
		if n.owner != nil {
			n.domain = n.owner.domain
		}
		n.cidr, n.gateway = mustPrefix(v.str("cidr")), v.str("gateway")
		n.vpc, _ = st.vpcs.get(v.str("vpcid"))
		st.networks.add(n)
	}
	n.name, n.display, n.state, n.domainName = v.str("name"), v.str("displaytext"), v.str("state"), v.str("networkdomain")
	if id := v.str("aclid"); id != "" {
		n.acl, _ = st.aclLists.get(id)
	}
}

func (r *replayer) setACLList(v view) {
	st := r.h.sim.st
	if _, ok := st.aclLists.get(v.str("id")); ok {
		return
	}
	if p, ok := st.vpcs.get(v.str("vpcid")); ok {
		st.aclLists.add(&aclList{entity: entity{uuid: v.str("id")}, name: v.str("name"), description: v.str("description"), vpc: p})
		return
	}
	for _, l := range st.aclLists.rows { // the default lists
		if l.vpc == nil && l.name == v.str("name") {
			st.aclLists.rename(l, v.str("id"))
		}
	}
}

func (r *replayer) setACLItem(v view) {
	st := r.h.sim.st
	l, ok := st.aclLists.get(v.str("aclid"))
	if !ok {
		return
	}
	it, ok := st.aclItems.get(v.str("id"))
	if !ok {
		if l.vpc == nil {
			for _, d := range st.aclItems.rows {
				if d.list == l && fmt.Sprint(d.number) == v.str("number") {
					st.aclItems.rename(d, v.str("id"))
				}
			}
			return
		}
		r.inserted[v.str("id")] = true
		it = st.aclItems.add(&aclItem{entity: entity{uuid: v.str("id")}, list: l})
	}
	it.number, it.protocol, it.traffic, it.action, it.reason = *v.number("number"), v.str("protocol"), v.str("traffictype"), v.str("action"), v.str("reason")
	it.startPort, it.endPort, it.cidrs, it.state = v.number("startport"), v.number("endport"), strings.Split(v.str("cidrlist"), ","), v.str("state")
}

func (r *replayer) setProject(v view) {
	st := r.h.sim.st
	p, ok := st.projects.get(v.str("id"))
	if !ok {
		p = st.newProject(v.str("name"), v.str("displaytext"), r.user("kubeadmin").account, entity{uuid: v.str("id"), created: r.h.clock.Now()})
	}
	p.state = v.str("state")
	if n := v.number("iptotal"); n != nil {
		r.surplus(p.account, *n)
	}
}

// surplus releases addresses beyond the number that a recording shows.
func (r *replayer) surplus(owner *account, want int) {
	st := r.h.sim.st
	for _, ip := range slices.Backward(st.ips.rows) {
		if ip.owner == owner && !ip.sourceNAT && int(st.used(limitKindOf("publicIPs"), func(a *account) bool { return a == owner })) > want {
			st.release(ip)
		}
	}
}

func (r *replayer) setAccount(v view) {
	if a, ok := r.h.sim.st.accounts.get(v.str("id")); ok {
		if n := v.number("iplimit"); n != nil {
			a.limits = map[string]int64{"publicIPs": int64(*n)}
		}
		if n := v.number("iptotal"); n != nil {
			r.surplus(a, *n)
		}
	}
}

// setMembers gives a rule the members that listLoadBalancerRuleInstances shows.
func (r *replayer) setMembers(c *goldenCase, body map[string]any) {
	l, ok := r.h.sim.st.lbRules.get(param1(c, "id"))
	if !ok || c.Params["applied"] != nil {
		return
	}
	l.members = nil
	raw, _ := json.Marshal(body)
	var list struct {
		VMs []struct{ ID string } `json:"loadbalancerruleinstance"`
		IPs []struct {
			VM  struct{ ID string } `json:"loadbalancerruleinstance"`
			IPs []string            `json:"lbvmipaddresses"`
		} `json:"lbrulevmidip"`
	}
	if json.Unmarshal(raw, &list) != nil {
		return
	}
	for _, v := range list.VMs {
		if m, ok := r.h.sim.st.vms.get(v.ID); ok && m.nicIn(l.network) != nil {
			l.members = append(l.members, &lbMember{vm: m, ip: m.nicIn(l.network).ip})
		}
	}
	for _, v := range list.IPs {
		m, ok := r.h.sim.st.vms.get(v.VM.ID)
		for _, ip := range v.IPs {
			if ok {
				l.members = append(l.members, &lbMember{vm: m, ip: ip})
			}
		}
	}
	l.settle()
}

// setTags gives resources the tags that listTags shows.
func (r *replayer) setTags(c *goldenCase, body map[string]any) {
	if len(c.Params) > 0 && c.Params["resourceid"] == nil && c.Params["listall"] == nil {
		return
	}
	r.h.sim.st.eachTagged(func(t tagTarget) {
		if c.Params["resourceid"] == nil || c.Params["resourceid"] == t.uuid {
			*t.tags = nil
		}
	})
	list, _ := body["tag"].([]any)
	for _, x := range list {
		m, _ := x.(map[string]any)
		kind, err := tagType(text(m["resourcetype"]))
		if err != nil {
			continue
		}
		if t, ok := r.h.sim.st.tagTarget(kind, text(m["resourceid"])); ok {
			*t.tags = append(*t.tags, tag{key: text(m["key"]), value: text(m["value"])})
		}
	}
}

// imitate brings about the effect of a recorded call whose command is not implemented.
func (r *replayer) imitate(c *goldenCase) {
	st := r.h.sim.st
	switch c.Command {
	case "enableStaticNat":
		ip, ok1 := st.ips.get(param1(c, "ipaddressid"))
		m, ok2 := st.vms.get(param1(c, "virtualmachineid"))
		if ok1 && ok2 {
			ip.staticVM, ip.staticIP = m, m.nics[0].ip
		}
	case "replaceNetworkACLList":
		n, ok1 := st.networks.get(param1(c, "networkid"))
		l, ok2 := st.aclLists.get(param1(c, "aclid"))
		if ok1 && ok2 && n.vpc != nil {
			n.acl = l
		}
	case "updateResourceLimit":
		if param1(c, "resourcetype") == "1" {
			n := view{obj: c.Params}.number("max")
			r.user("kubeadmin").account.limits = map[string]int64{"publicIPs": int64(*n)}
		}
	case "deleteProject":
		if p, ok := st.projects.get(param1(c, "id")); ok {
			p.removed = true
		}
	case "updateUser":
		if u, ok := st.users.get(param1(c, "id")); ok && c.Params["apikeyaccess"] != nil {
			u.keyAccess = param1(c, "apikeyaccess")
		}
	case "deleteUser":
		if u, ok := st.users.get(param1(c, "id")); ok {
			u.removed = true
		}
	case "disableAccount", "deleteAccount":
		if a, ok := st.accounts.get(param1(c, "id")); ok {
			a.state = stateDisabled
			a.removed = c.Command == "deleteAccount"
		}
	}
}
