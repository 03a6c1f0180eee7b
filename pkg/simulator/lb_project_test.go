// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// TestProjectLoadBalancer: what a project owns, its members and admins above handle; others see nothing of it.
func TestProjectLoadBalancer(t *testing.T) {
	t.Parallel()
	h := lbHarness(t)
	const u = "d/a"
	project := h.sim.st.Projects.Rows[0].UUID
	ip := h.done(u, h.call(u, "associateIpAddress", "networkid", h.netID("proj")))["ipaddress"].(map[string]any)
	lb := h.done("root", h.call("root", "createLoadBalancerRule", "publicipid", id(ip), "name", "p-80", "algorithm", "LeastConn", "publicport", "80",
		"privateport", "30080", "protocol", "tcp"))["loadbalancer"].(map[string]any)
	require.Equal(t, project, lb["projectid"])
	require.NotContains(t, lb, "account")
	require.Equal(t, "LeastConn", lb["algorithm"], "stored as sent")
	require.Equal(t, true, lb["fordisplay"])

	h.done("d/da", h.call("d/da", "assignToLoadBalancerRule", "id", id(lb), "virtualmachineids", h.vmID("p-1")))
	h.broken(u, h.call(u, "assignToLoadBalancerRule", "id", id(lb), "virtualmachineids", h.vmID("own-1")), 530, "Failed to assign load balancer rule")
	for name, tc := range map[string]struct {
		user  string
		pairs []string
		n     int
	}{
		"member, id alone":     {u, []string{"id", id(lb)}, 0},
		"member, project":      {u, []string{"projectid", project}, 1},
		"member, all projects": {u, []string{"projectid", "-1"}, 1},
		"by VM":                {u, []string{"projectid", project, "virtualmachineid", h.vmID("p-1")}, 1},
		"stranger":             {"d/b", []string{"projectid", "-1"}, 0},
		"root, everything":     {"root", []string{"listall", "true"}, 0},
		"root, project":        {"root", []string{"projectid", project}, 1},
		"domain admin":         {"d/da", []string{"projectid", project}, 1},
	} {
		require.Len(t, h.ok(h.call(tc.user, "listLoadBalancerRules", tc.pairs...)).items("loadbalancerrule"), tc.n, name)
	}
	require.Len(t, h.call(u, "listLoadBalancerRuleInstances", "id", id(lb)).items("loadbalancerruleinstance"), 1)
	h.fails(h.call("d/b", "listLoadBalancerRuleInstances", "id", id(lb)), 531, wire.CSPermission, wire.NoAccessText)

	sticky := h.done(u, h.call(u, "createLBStickinessPolicy", "lbruleid", id(lb), "name", "s", "methodname", "SourceBased"))["stickinesspolicies"].(map[string]any)
	require.Equal(t, h.sim.st.Projects.Rows[0].Account.Name, sticky["account"], "the project's hidden account")
	require.NotContains(t, sticky, "projectid")
	h.done(u, h.call(u, "createTags", "resourceids", id(lb), "resourcetype", "LoadBalancer", "tags[0].key", "k", "tags[0].value", "v"))
	require.Empty(t, h.ok(h.call(u, "listTags")).body)
	require.Equal(t, project, h.first(h.call(u, "listTags", "projectid", project), "tag")["projectid"])
	h.broken("d/b", h.call("d/b", "deleteLoadBalancerRule", "id", id(lb)), 530, wire.NoAccessText)
	h.done("d/da", h.call("d/da", "deleteLoadBalancerRule", "id", id(lb)))
	require.Empty(t, h.ok(h.call(u, "listFirewallRules", "projectid", project)).body, "the related rule went along")
	require.Len(t, h.ok(h.call(u, "listTags", "projectid", project)).items("tag"), 1, "the tags of a rule stay")
}
