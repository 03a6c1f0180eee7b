// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// RuleTimeouts is the proposal apache/cloudstack#14131: time-outs of load balancer rules. No release has it. The names and
// types of the parameters are those of its description; that answers show them under the same names is a guess.
const RuleTimeouts = "rule-timeouts"

// Proposals returns the names of the proposals, none of which a release has.
func Proposals() []string { return []string{RuleTimeouts} }

// CheckProposals returns an error for a name that is none of Proposals.
func CheckProposals(names []string) error {
	for _, n := range names {
		if !slices.Contains(Proposals(), n) {
			return fmt.Errorf("proposal %q: there are %s", n, strings.Join(Proposals(), ", "))
		}
	}
	return nil
}

// With returns the catalogue with proposals.
func (cat *Catalogue) With(proposals []string) *Catalogue {
	if !slices.Contains(proposals, RuleTimeouts) {
		return cat
	}
	out := *cat
	out.APIs, out.Shapes, out.Proposed = slices.Clone(cat.APIs), slices.Clone(cat.Shapes), maps.Clone(cat.Proposed)
	if out.Proposed == nil {
		out.Proposed = map[string]bool{}
	}
	out.Proposed[RuleTimeouts] = true
	for i := range out.APIs {
		a := &out.APIs[i]
		if a.Name == "createLoadBalancerRule" || a.Name == "updateLoadBalancerRule" {
			a.Params = append(slices.Clip(a.Params), Param{Name: "idletimeout", Type: "long"}, Param{Name: "keepalive", Type: "boolean"})
		}
	}
	n := cat.ByName["listLoadBalancerRules"].Shape
	out.Shapes[n] = append(slices.Clip(cat.Shapes[n]), Field{Name: "idletimeout", Type: "long"}, Field{Name: "keepalive", Type: "boolean"})
	out.index()
	return &out
}
