// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

type planner struct {
	desired Desired
	limits  Limits
	steps   []Step
	claims  map[int]bool // see claims
}

func (p *planner) add(wave int, a Action, replaces ...string) {
	p.steps = append(p.steps, Step{a, wave, replaces})
}

func (a *Address) on() OnAddress { return OnAddress{a.ID, a.IP} }

// onRule names a rule of an address; the id is empty for a rule that the plan creates.
func (a *Address) onRule(id string, port int) OnRule { return OnRule{a.on(), id, port} }

// closing returns how a firewall rule on the address is closed.
func (a *Address) closing(f ActualFirewall) Action {
	return CloseFirewall{OnAddress: a.on(), FirewallID: f.ID, Firewall: f.FirewallRange}
}
