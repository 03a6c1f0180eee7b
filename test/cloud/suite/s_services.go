// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"fmt"
	"strings"

	"github.com/csccm/csccm/test/cloud/api"
	"github.com/csccm/csccm/test/internal/must"
)

func texts(numbers []int32) []string {
	var all []string
	for _, n := range numbers {
		all = append(all, fmt.Sprint(n))
	}
	return all
}

// sticky is the method of a rule's stickiness policy, "" without one.
func (e *env) sticky(ruleID string) string {
	answer := must.Get(e.world.User.Call(e.ctx, "listLBStickinessPolicies", api.Params{"lbruleid": ruleID}))
	for _, rules := range answer.Objects("stickinesspolicies") {
		for _, policy := range rules.Objects("stickinesspolicy") {
			return policy.Text("methodname")
		}
	}
	return ""
}

// placeNamed names the network, zone and project in which the nodes are, and others.
func placeNamed(e *env) string {
	changes := []change{set("network", e.network.Name), set("zone", e.world.Offers.Zone)}
	if e.project != "" {
		changes = append(changes, set("project", e.project))
	}
	e.serves(e.served("web", changes...), "80")
	e.create("elsewhere", set("network", "no-such-network"))
	text := e.event("elsewhere", "NoSuchNetwork")
	must.Be(strings.Contains(text, "no-such-network"), "the Event does not name the network: %s", text)
	return "served; an unknown network is refused by name"
}
