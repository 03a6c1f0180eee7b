// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/test/internal/must"
)

// Rule is a load balancer rule with its members.
type Rule struct {
	cloudstack.LoadBalancerRule
	// Members are the names of its VMs, sorted.
	Members []string
}

// Rules returns the rules of one public address, sorted by port. For the address "" it returns all rules of the
// client's user, sorted by address and port.
func Rules(ctx context.Context, client *cloudstack.Client, address string) (_ []Rule, err error) {
	defer must.Return(&err)
	list := must.Get(client.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{}))
	var rules []Rule
	for _, r := range list {
		if address != "" && r.PublicIP != address {
			continue
		}
		members := must.Get(client.ListLoadBalancerMembers(ctx, r.ID))
		var names []string
		for _, m := range members {
			names = append(names, m.Name)
		}
		slices.Sort(names)
		rules = append(rules, Rule{r, names})
	}

	slices.SortFunc(rules, func(a, b Rule) int {
		return cmp.Or(strings.Compare(a.PublicIP, b.PublicIP), cmp.Compare(a.PublicPort, b.PublicPort))
	})
	return rules, nil
}
