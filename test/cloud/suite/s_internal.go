// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"fmt"
	"slices"

	"github.com/csccm/csccm/test/cloud/api"
	"github.com/csccm/csccm/test/internal/must"
)

// internal serves at an address of a tier with internal load balancing, in which all nodes have an interface.
func internal(e *env) string {
	tier := must.Get(e.world.Tier(e.ctx, "internal-tier", e.vpcID, e.network.ACLID, e.world.Offers.InternalTier, 2))
	e.plug(tier.ID)
	ip := e.served("web", ports(80, 443), set("internal", "true"), set("network", tier.Name))
	e.internalIs(tier.ID, ip, "80", "443")
	e.edit("web", ports(443, 8443))
	e.internalIs(tier.ID, ip, "443", "8443")
	e.remove("web")
	e.internalIs(tier.ID, ip)
	// The same address again: what is left of the first one would be in the way.
	again := e.served("again", set("internal", "true"), set("network", tier.Name), set("address", ip))
	must.Be(again == ip, "served at %s, want %s", again, ip)
	return "2 ports at " + ip + ", a port replaced, removed; the address used again"
}

// internalIs waits until the internal balancers at an address are for just these ports, with all nodes.
func (e *env) internalIs(networkID, ip string, want ...string) {
	slices.Sort(want)
	e.until(fmt.Sprintf("internal balancers at %s for ports %v", ip, want), func() {
		var got []string
		for _, o := range e.list("listLoadBalancers", "loadbalancer", api.Params{"networkid": networkID}) {
			if o.Text("sourceipaddress") != ip {
				continue
			}
			for _, r := range o.Objects("loadbalancerrule") {
				got = append(got, fmt.Sprint(r["sourceport"]))
			}
			members := e.members(o.Text("id"))
			must.Be(slices.Equal(members, e.names()), "members are %v", members)
		}
		slices.Sort(got)
		must.Be(slices.Equal(got, want), "they are for ports %v", got)
	})
}
