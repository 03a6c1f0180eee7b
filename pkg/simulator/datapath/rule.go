// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
)

// rule is a load balancer rule with an open listener.
type rule struct {
	p        *Path
	listener net.Listener

	mu      sync.Mutex
	conf    Listener
	members map[netip.AddrPort]*member
	order   []netip.AddrPort // in the order of the configuration
	balancer
	haproxy *haproxy // serves the clients of a rule with HTTP

	connections, byFirewall, byRange, noMember, bytesIn, bytesOut atomic.Int64
	active                                                        atomic.Int64
}

// member is a member of a rule. After its removal from the rule, it exists until its connections end.
type member struct {
	address netip.AddrPort

	mu      sync.Mutex
	vm      string
	running bool
	health  health
	check   string // result of the last check
	conns   map[net.Conn]struct{}

	connections, failed, bytesIn, bytesOut atomic.Int64
	active                                 atomic.Int64
}

func newRule(p *Path, l net.Listener, conf Listener) *rule {
	r := &rule{p: p, listener: l, members: map[netip.AddrPort]*member{}}
	r.configure(conf)
	return r
}

// configure applies a changed rule. Members that remain keep their health, and no member loses its connections.
func (r *rule) configure(conf Listener) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conf, r.order = conf, nil
	wanted := map[netip.AddrPort]*member{}
	for _, c := range conf.Members {
		m, ok := r.members[c.Address]
		if !ok {
			m = &member{address: c.Address, health: newHealth, conns: map[net.Conn]struct{}{}}
		}
		m.setVM(c.VM, c.Running)
		if wanted[c.Address] == nil {
			r.order = append(r.order, c.Address)
		}
		wanted[c.Address] = m
	}
	r.members = wanted
}

// setVM sets the state of the member's VM. If the VM stops, its connections are closed.
func (m *member) setVM(name string, running bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.vm, m.running = name, running
	if !running {
		for c := range m.conns {
			_ = c.Close()
		}
	}
}

// addConn registers a connection to the member. It returns false if the VM has stopped meanwhile.
func (m *member) addConn(c net.Conn) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running {
		m.conns[c] = struct{}{}
	}
	return m.running
}

func (m *member) removeConn(c net.Conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.conns, c)
}

func (m *member) isRunning() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.running
}

const (
	checkOK     = "ok"
	checkFailed = "failed"
)

// recordCheck records the result of a check.
func (m *member) recordCheck(ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.health, m.check = m.health.after(ok), checkFailed
	if ok {
		m.check = checkOK
	}
}

func (m *member) isUp() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.health.up()
}

// isUp reports whether a member is up. A new member is up.
func (r *rule) isUp(a netip.AddrPort) bool {
	r.mu.Lock()
	m := r.members[a]
	r.mu.Unlock()
	return m == nil || m.isUp()
}

// config returns the current configuration.
func (r *rule) config() Listener {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.conf
}

// current returns the current members.
func (r *rule) current() []*member {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*member
	for _, a := range r.order {
		out = append(out, r.members[a])
	}
	return out
}

// choose picks a member for a client. It returns nil if no member is up.
func (r *rule) choose(conf *Listener, client netip.Addr, not map[netip.AddrPort]bool) *member {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]candidate, 0, len(r.order))
	for _, a := range r.order {
		m := r.members[a]
		all = append(all, candidate{address: a, up: m.isUp(), active: m.active.Load()})
	}
	a, ok := r.pick(conf, all, not, client, r.p.o.Clock.Now())
	if !ok {
		return nil
	}
	m := r.members[a]
	m.active.Add(1)
	return m
}

// serve accepts connections until the listener is closed.
func (r *rule) serve() {
	for {
		c, err := r.listener.Accept()
		if err != nil {
			if r.closed() {
				return
			}
			r.p.o.Logger.Warn("accept", "rule", r.config().Name, "error", err)
			if !r.p.pause(acceptPause) {
				return
			}
			continue
		}
		r.p.conns.Go(func() { r.handle(c) })
	}
}

// closed reports whether the rule was removed from the path.
func (r *rule) closed() bool {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	return r.p.rules[r.config().ID] != r
}

// check checks every member once, like HAProxy's option check: it tries to connect.
func (r *rule) check() {
	var wg sync.WaitGroup
	for _, m := range r.current() {
		wg.Go(func() {
			c, err := r.p.dial(m, r.p.o.CheckInterval)
			if err == nil {
				_ = c.Close()
			}
			if r.p.ctx.Err() == nil {
				m.recordCheck(err == nil)
			}
		})
	}
	wg.Wait()
}

// sameListener reports whether a changed rule can keep its socket.
func sameListener(a, b *Listener) bool { return a.Public == b.Public }

// sortedRules returns the rules sorted by address and port.
func sortedRules(rules map[string]*rule) []*rule {
	out := make([]*rule, 0, len(rules))
	for _, r := range rules {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *rule) int { x, y := a.config(), b.config(); return x.Public.Compare(y.Public) })
	return out
}
