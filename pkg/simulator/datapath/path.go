// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/simulator"
)

// Options configure a data path.
type Options struct {
	Mode string // Direct or Loopback
	// Link is the interface to which the public addresses are added (mode Direct). If it is empty, the caller must
	// make sure that traffic for the addresses reaches this machine.
	Link    string
	Members *Members // where this machine reaches members; nil: at their own addresses
	// Forwarding is how port forwarding rules are applied: Relay (the default) or NFTables.
	Forwarding string
	// CheckInterval is the time between two checks of a member; 0: HAProxy's default of 2 s.
	CheckInterval time.Duration
	Clock         clock.WithTicker // nil: real time
	Logger        *slog.Logger     // nil: silent
	HAProxy       string           // the program that serves rules with HTTP; empty: they are served as TCP
}

const checkInterval = 2 * time.Second

// Path is a running data path.
type Path struct {
	o      Options
	local  *localAddresses
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	loops  sync.WaitGroup
	conns  sync.WaitGroup

	mu       sync.Mutex
	rules    map[string]*rule // by id
	forwards *forwarding
	refused  []Refusal
	retry    bool // a listener could not be opened: retry at the next check
	open     map[net.Conn]struct{}
	ended    bool
}

// Start makes a data path follow the simulator's routers until Close. It returns after their current configuration is
// applied.
func Start(ctx context.Context, sim *simulator.Simulator, o Options) (*Path, error) {
	local, err := newLocalAddresses(o.Mode, o.Link)
	if err != nil {
		return nil, err
	}

	forwards, err := newForwarding(o.Forwarding, o.Mode)
	if err != nil {
		return nil, err
	}

	if o.Members == nil {
		o.Members = &Members{}
	}

	if o.CheckInterval == 0 {
		o.CheckInterval = checkInterval
	}

	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}

	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}

	p := &Path{o: o, local: local, forwards: forwards, rules: map[string]*rule{}, open: map[net.Conn]struct{}{}}
	p.ctx, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if forwards.mode == NFTables { // fail now, not at the first rule
		if err := forwards.nft.apply(ctx, nil); err != nil {
			p.cancel()
			return nil, err
		}
	}

	p.apply(sim.Router()) //nolint:contextcheck // p.ctx is the context of the path
	p.loops.Go(func() { sim.WatchRouter(p.ctx, p.apply) })
	p.loops.Go(func() { p.checks(sim) }) //nolint:contextcheck // p.ctx is the context of the path
	return p, nil
}

// Close ends all listeners and connections.
func (p *Path) Close() {
	p.cancel()
	p.loops.Wait() // from here on, nothing opens a listener
	p.mu.Lock()
	p.ended = true
	for id, r := range p.rules {
		delete(p.rules, id)
		p.stop(r)
	}
	p.endForwarding()
	for c := range p.open {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.conns.Wait()
}

// apply opens, changes and closes listeners so that they match the routers.
func (p *Path) apply(router simulator.Router) {
	wanted, refused := Desired(router)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return
	}

	current := map[string]bool{}
	for _, f := range refused {
		current[f.ID] = true // a refused configuration leaves the previous one in force
	}

	var fresh []Listener
	for _, l := range wanted {
		r, ok := p.rules[l.ID]
		if was := p.confOf(r); ok && sameListener(&was, &l) {
			current[l.ID] = true
			if err := r.applyHAProxy(&l); err != nil {
				refused = append(refused, Refusal{l.ID, l.Name, err.Error()})
				continue
			}
			r.configure(l)
			continue
		}
		fresh = append(fresh, l)
	}

	for id, r := range p.rules { // close first, because a port may move from one rule to another
		if !current[id] {
			delete(p.rules, id)
			p.stop(r)
		}
	}

	p.retry = false
	for _, l := range fresh {
		listener, err := p.local.listen(p.ctx, l.Public)
		if err != nil {
			refused, p.retry = append(refused, Refusal{l.ID, l.Name, err.Error()}), true
			continue
		}
		r := newRule(p, listener, l)
		if err := r.applyHAProxy(&l); err != nil {
			refused = append(refused, Refusal{l.ID, l.Name, err.Error()})
			p.stop(r)
			continue
		}
		p.rules[l.ID] = r
		p.conns.Go(r.serve)
	}

	more, retry := p.forward(router.Forwards)
	refused, p.retry = append(refused, more...), p.retry || retry
	if !slices.Equal(refused, p.refused) {
		for _, f := range refused {
			p.o.Logger.Warn("a rule is not in force", "rule", f.Name, "id", f.ID, "reason", f.Reason)
		}
	}

	p.refused = refused
}

func (p *Path) confOf(r *rule) Listener {
	if r == nil {
		return Listener{}
	}
	return r.config()
}

// stop closes a rule's listener; its connections continue.
func (p *Path) stop(r *rule) {
	r.useHAProxy(nil)
	if err := errors.Join(r.listener.Close(),
		p.local.removeAddress(context.WithoutCancel(p.ctx), r.config().Public.Addr())); err != nil {
		p.o.Logger.Warn("close the listener of a load balancer rule", "rule", r.config().Name, "error", err)
	}
}

// checks checks all members at every interval, and retries listeners that could not be opened.
func (p *Path) checks(sim *simulator.Simulator) {
	tick := p.o.Clock.NewTicker(p.o.CheckInterval)
	defer tick.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-tick.C():
			if p.mustRetry() {
				p.apply(sim.Router())
			}
			p.check()
		}
	}
}

func (p *Path) mustRetry() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.retry
}

func (p *Path) check() {
	p.mu.Lock()
	rules := sortedRules(p.rules)
	p.mu.Unlock()
	var wg sync.WaitGroup
	for _, r := range rules {
		wg.Go(r.check)
	}
	wg.Wait()
}

var errStopped = errors.New("its VM is not running")

// dial connects to a member.
func (p *Path) dial(m *member, limit time.Duration) (net.Conn, error) {
	if !m.isRunning() {
		return nil, fmt.Errorf("member %s: %w", m.address, errStopped)
	}
	ctx, cancel := context.WithTimeout(p.ctx, limit)
	defer cancel()
	return (&net.Dialer{}).DialContext(ctx, "tcp4", p.o.Members.dialAddress(m.address))
}

// pause waits for d. It returns false if the path is closed meanwhile.
func (p *Path) pause(d time.Duration) bool {
	select {
	case <-p.ctx.Done():
		return false
	case <-p.o.Clock.After(d):
		return true
	}
}

// track registers a connection so that Close can close it. It returns false if the path is closed.
func (p *Path) track(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.open[c] = struct{}{}
	}
	return !p.ended
}

func (p *Path) removeConn(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
}
