// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Tags of load balancer rules outlive the rules, and are deleted by the ids of these. Tags of addresses do not.
func TestTagsOfDeletedRulesStay(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	const u = "k8s-owner"
	net := h.first(h.call(u, "listNetworks"), "network")
	a := h.ok(h.call(u, "associateIpAddress", "networkid", id(net)))
	ip := a.str("id")
	h.done(u, a)
	var rules []string
	for port := 80; port < 82; port++ {
		r := h.ok(h.post(u, "createLoadBalancerRule", "publicipid", ip, "name", "lb", "algorithm", "roundrobin", "publicport", fmt.Sprint(port),
			"privateport", "30080", "protocol", "tcp"))
		h.done(u, r)
		rules = append(rules, r.str("id"))
		h.done(u, h.call(u, "createTags", "resourceids", r.str("id"), "resourcetype", "LoadBalancer", "tags[0].key", "cluster", "tags[0].value", "c1"))
	}
	h.done(u, h.call(u, "createTags", "resourceids", ip, "resourcetype", "PublicIpAddress", "tags[0].key", "cluster", "tags[0].value", "c1"))
	h.done(u, h.call(u, "deleteLoadBalancerRule", "id", rules[0]))
	h.done(u, h.call(u, "disassociateIpAddress", "id", ip))

	left := func() []map[string]any {
		return h.ok(h.call(u, "listTags", "resourcetype", "LoadBalancer", "key", "cluster", "value", "c1")).items("tag")
	}
	require.Len(t, left(), 2)
	require.Len(t, h.ok(h.call(u, "listTags")).items("tag"), 2, "the address's tag is gone")
	require.Empty(t, h.ok(h.call(u, "listTags", "resourcetype", "LoadBalancer", "resourceid", rules[0])).body)
	h.done(u, h.call(u, "deleteTags", "resourcetype", "LoadBalancer", "resourceids", rules[0]+","+rules[1], "tags[0].key", "cluster"))
	require.Empty(t, left())
	h.broken(u, h.call(u, "deleteTags", "resourcetype", "LoadBalancer", "resourceids", rules[0], "tags[0].key", "cluster"), 530, "Failed to delete tags")
}
