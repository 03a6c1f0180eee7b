// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/observe"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

func TestUsageOf(t *testing.T) {
	t.Parallel()
	ip := func(address string, tags ...string) cloudstack.PublicIP {
		out := cloudstack.PublicIP{Address: address, Tags: map[string]string{plan.TagCluster: "c1"}}
		for i := 0; i < len(tags); i += 2 {
			out.Tags[tags[i]] = tags[i+1]
		}
		return out
	}
	ips := []cloudstack.PublicIP{
		ip("1", plan.TagAllocatedBy, plan.ManagedBy, plan.TagService, "shop/web"),
		ip("2", plan.TagKeptBy, "shop/old"),
		ip("3", plan.TagAllocatedBy, plan.ManagedBy, plan.TagService, "shopping/web"),
		ip("4", plan.TagKeptBy, "shop/older", plan.TagCluster, "c2"),
		ip("5", plan.TagCluster, "c0", plan.TagKeptBy, "shop/oldest"),
		{Address: "6"},
	}
	services := []observe.Neighbour{{Namespace: "shop", Addresses: []string{"1", "7"}}, {Namespace: "blog", Addresses: []string{"8"}}}
	assert.Equal(t, usage{held: 4, kept: 2}, usageOf("shop", []string{"c1", "c0"}, ips, services))
	assert.Equal(t, usage{held: 1}, usageOf("blog", []string{"c1"}, ips, services))
}
