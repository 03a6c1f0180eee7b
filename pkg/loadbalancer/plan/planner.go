// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import "github.com/csccm/csccm/pkg/loadbalancer/plan/access"

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
func (a *Address) closing(f access.Rule) Action {
	return CloseFirewall{OnAddress: a.on(), FirewallID: f.ID, Firewall: f.Range}
}

// access adds changes of who is let in, as actions that open and close.
func (p *planner) access(c access.Changes, open func(access.Range) Action, closed func(access.Rule) Action) {
	for _, f := range c.Cover {
		p.add(waveCover, open(f))
	}
	for _, f := range c.Close {
		p.add(waveClose, closed(f))
	}
	for _, f := range c.Open {
		p.add(waveBuild, open(f), c.GapBefore(f)...)
	}
	for _, f := range c.Trim {
		p.add(waveTrim, closed(f))
	}
}
