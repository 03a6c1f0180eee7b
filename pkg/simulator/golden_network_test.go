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

func init() {
	// The forwards of the address were deleted in between.
	preparations["enableStaticNat.ok"] = func(r *replayer) {
		ip, ok := r.h.sim.st.ips.get(param1(r.byName["enableStaticNat.ok"], "ipaddressid"))
		if ok {
			r.h.sim.st.clearRules(ip)
		}
	}
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
