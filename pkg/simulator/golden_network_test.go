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
