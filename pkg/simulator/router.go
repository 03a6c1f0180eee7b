// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"context"
	"crypto/tls"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// Router is what the virtual routers of all networks were last told: the rules that traffic meets now.
type Router struct {
	Rules []RouterRule
}

// RouterRule is a load balancer rule with members. A rule without any is on no router.
type RouterRule struct {
	ID, Name            string
	Address             netip.Addr // public, or one of the tier where Internal is set
	Port, PrivatePort   int
	Internal            bool
	Algorithm, Protocol string
	CIDRList            string // as stored: blanks after create, commas after update; empty: everybody
	Members             []RouterMember
	Sticky              *RouterSticky
	Certificate         *tls.Certificate // bound to the rule, and its key was uploaded to this process
	// Filtered tells whether packets pass Filter before they reach the balancer; what no item matches is dropped.
	Filtered bool
	Filter   []RouterFilter
}

// RouterMember is an address that a rule forwards to.
type RouterMember struct {
	VM      string // its name
	Address netip.Addr
	Running bool // the VM; one that does not run answers nothing
}

// RouterSticky is a rule's stickiness policy.
type RouterSticky struct {
	Method string
	Params map[string]string
}

// RouterFilter is a firewall rule of an address, or an ACL item of a tier, that matches the rule's port.
type RouterFilter struct {
	Allow   bool
	Sources []netip.Prefix
}

// Router ends the jobs whose time has come and returns what routers were told
// by then. What a pending or failed job asks for is not in it: rows in state
// Add were never sent, and those in state Deleting are still in force.
func (s *Simulator) Router() Router {
	s.runDue()
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out Router
	for _, r := range s.st.lbRules.rows {
		if rule, ok := s.st.routed(r); ok {
			out.Rules = append(out.Rules, rule)
		}
	}
	return out
}

// WatchRouter calls told with the state of the routers, and again after every
// change that API calls, jobs that end by themselves, and restarts make, until the context ends.
func (s *Simulator) WatchRouter(ctx context.Context, told func(Router)) {
	for {
		changed := s.watch.next()
		told(s.Router())
		timer := s.clock.NewTimer(s.untilDue())
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-changed:
		case <-timer.C():
		}
		timer.Stop()
	}
}

// idle is how long a watcher waits while no job runs; a call wakes it.
const idle = time.Hour

func (s *Simulator) untilDue() time.Duration {
	next := s.nextDue.Load()
	if next == 0 {
		return idle
	}
	return time.Unix(0, next).Sub(s.clock.Now())
}

// watch wakes whoever waits for a change.
type watch struct {
	mu sync.Mutex
	ch chan struct{}
}

// next is closed with the next change.
func (w *watch) next() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ch == nil {
		w.ch = make(chan struct{})
	}
	return w.ch
}

func (w *watch) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ch != nil {
		close(w.ch)
		w.ch = nil
	}
}

// routed is a rule as its router has it; false for one that was never sent there.
func (st *state) routed(r *lbRule) (RouterRule, bool) {
	out := RouterRule{
		ID: r.uuid, Name: r.name, Address: r.ip.addr, Port: r.publicPort, PrivatePort: r.privatePort, Internal: r.internal,
		Algorithm: strings.ToLower(r.algorithm), Protocol: r.protocol, CIDRList: r.cidrs,
	}
	for _, m := range r.members {
		addr, err := netip.ParseAddr(m.ip)
		if m.vm.gone() || err != nil {
			continue
		}
		out.Members = append(out.Members, RouterMember{VM: m.vm.name, Address: addr, Running: m.vm.state == vmRunning})
	}
	if r.state == ruleAdd || len(out.Members) == 0 {
		return RouterRule{}, false
	}
	for _, p := range r.policies {
		if !p.pending {
			out.Sticky = &RouterSticky{Method: p.method, Params: maps.Clone(p.params)}
		}
	}
	if r.cert != nil {
		out.Certificate = r.cert.pair
	}
	out.Filtered, out.Filter = st.filter(r)
	return out, true
}

// filter is what lies before the balancer. Public rules of a VPC have nothing
// there: their traffic ends on the router, and ACLs filter what it forwards.
func (st *state) filter(r *lbRule) (bool, []RouterFilter) {
	switch {
	case r.internal:
		return st.aclFilter(r.network, r.publicPort)
	case r.network.vpc != nil || !r.network.provides("Firewall"):
		return false, nil
	}
	var out []RouterFilter
	for _, f := range r.ip.fwRules {
		if f.state != ruleAdd && f.protocol == "tcp" && portIn(r.publicPort, f.startPort, f.endPort) {
			out = append(out, RouterFilter{Allow: true, Sources: prefixes(f.cidrs)})
		}
	}
	return true, out
}

// aclFilter is a tier's ACL as an internal load balancer meets it: neighbours in the tier are not forwarded.
func (st *state) aclFilter(n *network, port int) (bool, []RouterFilter) {
	if n.acl == nil {
		return false, nil
	}
	var items []*aclItem
	for _, it := range st.aclItems.rows {
		tcp := strings.EqualFold(it.protocol, "tcp") || it.protocol == "6"
		fits := strings.EqualFold(it.protocol, "all") || tcp && portIn(port, it.startPort, it.endPort)
		if it.list == n.acl && fits && it.state != ruleAdd && strings.EqualFold(it.traffic, "Ingress") {
			items = append(items, it)
		}
	}
	slices.SortFunc(items, func(a, b *aclItem) int { return a.number - b.number })
	out := []RouterFilter{{Allow: true, Sources: []netip.Prefix{n.cidr}}}
	for _, it := range items {
		out = append(out, RouterFilter{Allow: strings.EqualFold(it.action, "Allow"), Sources: prefixes(it.cidrs)})
	}
	return true, out
}

// portIn tells whether a range has the port; one without a start has all.
func portIn(port int, start, end *int) bool {
	return start == nil || *start <= port && (end == nil && *start == port || end != nil && port <= *end)
}

// prefixes reads ranges and single addresses.
func prefixes(texts []string) []netip.Prefix {
	var out []netip.Prefix
	for _, t := range texts {
		if p, err := netip.ParsePrefix(t); err == nil {
			out = append(out, p.Masked())
		} else if a, err := netip.ParseAddr(t); err == nil {
			out = append(out, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	return out
}
