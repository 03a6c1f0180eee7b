// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/csccm/csccm/test/cloud/api"
)

// internalScenarios are about internal load balancers.
func internalScenarios(at string) []scenario {
	return []scenario{{name: at + ": internal load balancer", at: at, trusted: true, needs: []need{needOwnVMs, needInternalLB}, run: internal}}
}

// internal serves at an address of a tier with internal load balancing, in which all nodes have an interface.
func internal(ctx context.Context, e *env) (seen string, err error) {
	tier, err := e.world.Tier(ctx, "internal-tier", e.vpcID, e.network.ACLID, e.world.Offers.InternalTier, 2)
	if err != nil {
		return "", err
	}
	undo, err := e.plug(ctx, tier.ID)
	defer func() { err = errors.Join(err, undo(context.WithoutCancel(ctx))) }()
	if err != nil {
		return "", err
	}
	ip, err := e.served(ctx, "web", ports(80, 443), set("internal", "true"), set("network", tier.Name))
	if err != nil {
		return "", err
	}
	if err := e.internalIs(ctx, tier.ID, ip, "80", "443"); err != nil {
		return "", err
	}
	if err := e.edit(ctx, "web", ports(443, 8443)); err != nil {
		return "", err
	}
	if err := e.internalIs(ctx, tier.ID, ip, "443", "8443"); err != nil {
		return "", fmt.Errorf("after a port was replaced: %w", err)
	}
	if err := e.remove(ctx, "web"); err != nil {
		return "", err
	}
	if err := e.internalIs(ctx, tier.ID, ip); err != nil {
		return "", err
	}
	// The same address again: what is left of the first one would be in the way.
	again, err := e.served(ctx, "again", set("internal", "true"), set("network", tier.Name), set("address", ip))
	if err != nil {
		return "", err
	}
	if again != ip {
		return "", fmt.Errorf("served at %s, want %s", again, ip)
	}
	return "2 ports at " + ip + ", a port replaced, removed; the address used again", e.remove(ctx, "again")
}

// internalIs waits until the internal balancers at an address are for just these ports, with all nodes.
func (e *env) internalIs(ctx context.Context, networkID, ip string, want ...string) error {
	slices.Sort(want)
	return e.until(ctx, fmt.Sprintf("internal balancers at %s for ports %v", ip, want), func(ctx context.Context) error {
		list, err := e.world.User.List(ctx, "listLoadBalancers", "loadbalancer", e.scope(api.Params{"networkid": networkID}))
		if err != nil {
			return err
		}
		var got []string
		for _, o := range list {
			if o.Text("sourceipaddress") != ip {
				continue
			}
			for _, r := range o.Objects("loadbalancerrule") {
				got = append(got, fmt.Sprint(r["sourceport"]))
			}
			members, err := e.members(ctx, o.Text("id"))
			if err != nil {
				return err
			}
			if !slices.Equal(members, e.names()) {
				return fmt.Errorf("members are %v", members)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("they are for ports %v", got)
		}
		return nil
	})
}
