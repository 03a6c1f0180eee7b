// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

// Between the recordings a tier was given other ACL lists.
func init() {
	for _, name := range []string{"listNetworks.tier2-after-replace", "createNetworkACL.by-networkid-with-default_allow"} {
		preparations[name] = func(r *replayer) {
			c := r.byName[name]
			id := param1(c, "networkid")
			if c.Params["networkid"] == nil {
				id = param1(c, "id")
			}
			if v, ok := r.nearest(id, c.index, "network"); ok {
				r.exist(v.str("aclid"), c)
				r.setNetwork(v)
			}
		}
	}
}

// Items whose number the server chose depend on items made by calls that are not recorded.
func init() {
	for _, name := range []string{
		"createNetworkACL.no-number", "createNetworkACL.deny", "createNetworkACL.reason", "createNetworkACL.protocol-number", "createNetworkACL.no-ports",
		"createNetworkACL.two-cidrs", "inject.createNetworkACL-backend-fails",
	} {
		preparations[name] = func(r *replayer) { r.lastNumber(name) }
	}
}

// Calls that are not recorded cleared addresses, and built another VPC for a while.
func init() {
	before := map[string]func(*replayer){
		"enableStaticNat.ok": func(r *replayer) {
			if ip, ok := r.h.sim.st.ips.get(param1(r.byName["enableStaticNat.ok"], "ipaddressid")); ok {
				r.h.sim.st.clearRules(ip)
			}
		},
		"disassociateIpAddress.vpc-source-nat-before-lb":     (*replayer).otherVPC,
		"listPublicIpAddresses.forloadbalancing-before-rule": func(r *replayer) { r.releaseAll("otheruser", "") },
		"customjobid.associate-first":                        func(r *replayer) { r.releaseAll("otheruser", ipAllocating) },
	}
	for name, f := range before {
		old := preparations[name]
		preparations[name] = func(r *replayer) {
			f(r)
			if old != nil {
				old(r)
			}
		}
	}
}

// releaseAll frees the user's addresses in a state, or in any, but for source NAT.
func (r *replayer) releaseAll(name, state string) {
	st := r.h.sim.st
	for _, ip := range st.ips.rows {
		if ip.owner == r.user(name).account && !ip.sourceNAT && (state == "" || ip.state == state) {
			st.release(ip)
		}
	}
}

// otherVPC makes the VPC, tier and VM that a few recordings work on without describing them.
func (r *replayer) otherVPC() {
	st, kube := r.h.sim.st, r.user("kubeadmin").account
	rule, member := r.byName["createLoadBalancerRule.on-source-nat-ip-vpc"], r.byName["assignToLoadBalancerRule.vpc-source-nat"]
	v := st.vpcs.add(&vpc{
		entity: entity{created: r.h.clock.Now()}, name: "other-vpc", cidr: "10.3.0.0/16", zone: st.zones.rows[0], owner: kube, enabled: true, started: true,
		offering: st.vpcOffering(vpcOfferingName),
	})
	tierOffering, _ := st.netOffs.find(func(o *networkOffering) bool { return o.spec.Name == defaultOfferings["vpc"] })
	n := st.networks.add(&network{
		entity: entity{uuid: param1(rule, "networkid"), created: r.h.clock.Now()}, name: "other-tier", zone: v.zone, offering: tierOffering, owner: kube, domain: kube.domain,
		typ: typeIsolated, state: netImplemented, cidr: mustPrefix("10.3.1.0/24"), gateway: "10.3.1.1", vpc: v,
	})
	if ip, ok := st.ips.get(param1(rule, "publicipid")); ok {
		st.release(ip)
		st.takeIP(ip, kube, r.h.clock.Now())
		ip.state, ip.vpc, ip.sourceNAT = ipAllocated, v, true
	}
	m := &vm{
		entity: entity{uuid: param1(member, "virtualmachineids"), created: r.h.clock.Now()}, name: "other-node", owner: kube, zone: v.zone, user: r.user("kubeadmin"),
		offering: st.offerings.rows[0], template: st.templates.rows[0], host: st.hosts.rows[0], hypervisor: "Simulator", state: vmRunning,
	}
	st.vms.add(m)
	st.addNIC(m, &nic{network: n, isDefault: true, ip: "10.3.1.9"})
	r.inserted[n.uuid], r.inserted[m.uuid] = true, true
	r.other = v
}

// lastNumber makes the last item of the list that a case adds to have the number before that of the recorded new one.
func (r *replayer) lastNumber(name string) {
	st := r.h.sim.st
	c := r.byName[name]
	r.exist(param1(c, "aclid"), c)
	l, ok := st.aclLists.get(param1(c, "aclid"))
	if !ok {
		return
	}
	eachView(r.byName[name+".job-success"], func(v view) {
		if v.kind != "networkacl" {
			return
		}
		last := *v.number("number") - 1
		for _, it := range st.itemsOf(l) {
			if it.number > last {
				st.aclItems.drop(it)
			}
		}
		if items := st.itemsOf(l); len(items) == 0 || items[len(items)-1].number < last {
			st.aclItems.add(&aclItem{list: l, number: last, protocol: "all", traffic: "Ingress", action: "Allow", cidrs: []string{"0.0.0.0/0"}, state: ruleActive})
		}
	})
}

func init() {
	// It is gone by then.
	preparations["deployVirtualMachine.ok"] = func(r *replayer) {
		st := r.h.sim.st
		for _, n := range st.tiers(r.other) {
			for _, m := range st.vms.rows {
				m.removed = m.removed || m.nicIn(n) != nil
			}
			st.destroyNetwork(n)
		}
		st.destroyVPC(r.other)
	}
}
