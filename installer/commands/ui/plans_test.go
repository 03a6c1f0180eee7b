// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/csccm/csccm/installer/plan"
	"github.com/csccm/csccm/pkg/loadbalancer"
	lbplan "github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// TestDriftIsNoticed: only what others did in CloudStack is drift, and it is told once, as is its repair.
func TestDriftIsNoticed(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	state := func(asked, found uint64, actions int) *planned {
		p := &plan.Service{Preview: loadbalancer.Preview{Service: "shop/web"}}
		for range actions {
			p.Actions = append(p.Actions, plan.Action{Step: lbplan.Step{Kind: lbplan.CreateRule, Port: 80}})
		}
		return &planned{wanted: asked, found: found, at: at, plan: p}
	}
	failed, refused := state(1, 2, 0), state(1, 2, 0)
	failed.plan.Error = "CloudStack does not answer"
	refused.plan.Refusal = &lbplan.RefusalError{Reason: lbplan.ReasonPortTaken}
	for name, c := range map[string]struct {
		states []*planned
		want   []string
	}{
		"a Service that is new":                     {[]*planned{state(1, 1, 3)}, nil},
		"a Service that is made":                    {[]*planned{state(1, 1, 3), state(1, 2, 2), state(1, 3, 0)}, nil},
		"nothing changes":                           {[]*planned{state(1, 1, 0), state(1, 1, 0)}, nil},
		"the Service is changed":                    {[]*planned{state(1, 1, 0), state(2, 1, 1), state(2, 2, 0)}, nil},
		"the Service and CloudStack are changed":    {[]*planned{state(1, 1, 0), state(2, 2, 1), state(2, 3, 0)}, nil},
		"what no list shows":                        {[]*planned{state(1, 1, 0), state(1, 1, 1)}, nil},
		"others' things that do not matter":         {[]*planned{state(1, 1, 0), state(1, 2, 0)}, nil},
		"drift":                                     {[]*planned{state(1, 1, 0), state(1, 2, 1)}, []string{"Drift"}},
		"drift that stays":                          {[]*planned{state(1, 1, 0), state(1, 2, 1), state(1, 2, 1), state(1, 3, 2)}, []string{"Drift"}},
		"drift and repair":                          {[]*planned{state(1, 1, 0), state(1, 2, 1), state(1, 3, 0)}, []string{"Drift", "Repaired"}},
		"drift and repair with notes on it":         {[]*planned{state(1, 1, 0), state(1, 2, 1), state(2, 3, 1), state(3, 3, 0)}, []string{"Drift", "Repaired"}},
		"drift twice":                               {[]*planned{state(1, 1, 0), state(1, 2, 1), state(1, 3, 0), state(1, 2, 1)}, []string{"Drift", "Repaired", "Drift"}},
		"no plan for a while":                       {[]*planned{state(1, 1, 0), state(1, 2, 1), failed, state(1, 3, 0)}, []string{"Drift", "Repaired"}},
		"no plan before, so that nothing was known": {[]*planned{failed, state(1, 3, 1)}, nil},
		"refused before":                            {[]*planned{refused, state(1, 3, 1)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p plans
			var last *planned
			for _, s := range c.states {
				now := *s
				p.compare(last, &now)
				last = &now
			}
			var got []string
			for _, e := range p.drifts {
				got = append(got, e.Reason)
				assert.Equal(t, "drift", e.Kind)
				assert.Equal(t, "service/shop/web", e.Object)
				assert.Equal(t, at, e.At)
			}
			assert.Equal(t, c.want, got)
			if len(got) > 0 {
				assert.Contains(t, p.drifts[0].Message, "+ create rule")
			}
		})
	}
	var p plans
	for range maxDrifts {
		now := state(1, 2, 1)
		p.compare(state(1, 1, 0), now)
		p.compare(now, state(1, 3, 0))
	}
	assert.Len(t, p.drifts, maxDrifts)
}
