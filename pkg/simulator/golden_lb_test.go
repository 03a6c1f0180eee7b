// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/netip"
	"slices"
	"strings"
)

// setCert puts a certificate into the state that the caller uploaded by a call that is not recorded.
func (r *replayer) setCert(id string, c *goldenCase) {
	if c.Params["certid"] != id && !(strings.HasSuffix(c.Command, "SslCert") && c.Params["id"] == id) {
		return
	}
	owner := r.user(strings.TrimPrefix(goldenUsers[c.Caller], "k8s/")).account
	r.h.sim.st.certs.add(&sslCert{entity: entity{uuid: id, created: r.h.clock.Now()}, owner: owner})
}

// adoptSource gives an internal load balancer the address that was drawn for it on the recorded server.
func (r *replayer) adoptSource(id string, c *goldenCase) {
	l, ok := r.h.sim.st.lbRules.get(id)
	if !ok || !l.internal {
		return
	}
	if v, ok := r.nearest(id, c.index, "loadbalancer"); ok {
		if a, err := netip.ParseAddr(v.str("sourceipaddress")); err == nil {
			l.ip.addr = a
		}
	}
}

// setPolicies leaves a rule the stickiness policies that a list shows.
func (r *replayer) setPolicies(c *goldenCase) {
	l, ok := r.h.sim.st.lbRules.get(param1(c, "lbruleid"))
	if !ok {
		return
	}
	var shown []string
	eachView(c, func(v view) { shown = append(shown, v.str("id")) })
	for _, p := range slices.Clone(l.policies) {
		if !slices.Contains(shown, p.uuid) {
			r.h.sim.st.dropPolicy(p)
		}
	}
}
