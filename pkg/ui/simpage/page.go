// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package simpage is the simulator's page: its networks, addresses, rules and VMs as a model.Snapshot, its calls as a
// time line, and its faults and speed as actions.
package simpage

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/pkg/ui/model"
	"github.com/csccm/csccm/pkg/ui/server"
)

// Interval is how often the page should read the simulator. Reading is cheap, and calls should appear at once.
const Interval = 500 * time.Millisecond

// Page is the page of a simulator. It implements server.Source and server.Actions.
type Page struct {
	sim *simulator.Simulator

	mu  sync.Mutex
	own map[string]int // IDs of the faults that the page has armed, by the names of their switches
}

// New returns the page of a simulator.
func New(sim *simulator.Simulator) *Page { return &Page{sim: sim, own: map[string]int{}} }

// Snapshot implements server.Source.
func (p *Page) Snapshot(context.Context) (model.Snapshot, error) {
	p.mu.Lock()
	own := maps.Clone(p.own)
	p.mu.Unlock()
	now := p.sim.Now()
	return snapshot(state{
		now: now, objects: p.sim.Objects(), calls: p.sim.Ledger().Newest(now.Add(-time.Minute), timelineCalls),
		armed: p.sim.Faults(), own: own, speed: p.sim.Speed(),
	}), nil
}

// Changed implements server.Source.
func (*Page) Changed() <-chan struct{} { return nil }

// SetFault implements server.Actions.
func (p *Page) SetFault(_ context.Context, name, command string, enabled bool) error {
	if id, ok := armedID(name); ok {
		switch {
		case enabled:
			return fmt.Errorf("fault %s was armed elsewhere and can only be switched off", name)
		case !p.sim.Disarm(id):
			return fmt.Errorf("fault %s: %w", name, server.ErrUnknown)
		}
		return nil
	}

	for _, s := range switches {
		if s.name != name {
			continue
		}
		f, err := simulator.ParseFault(cmp.Or(command, "*") + s.fault)
		if err != nil {
			return err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.sim.Disarm(p.own[name])
		delete(p.own, name)
		if enabled {
			p.own[name] = p.sim.Arm(f)
		}
		return nil
	}

	return fmt.Errorf("fault %q: %w", name, server.ErrUnknown)
}

// SetSpeed implements server.Actions.
func (p *Page) SetSpeed(_ context.Context, speed float64) error { return p.sim.SetSpeed(speed) }
