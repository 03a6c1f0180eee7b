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

// Router is the configuration that is in force on the virtual routers of all networks.
type Router struct {
	Rules []RouterRule
}

// RouterRule is a load balancer rule with members. Rules without members are not on a router.
type RouterRule struct {
	ID, Name            string
	Address             netip.Addr // public, or an address of the tier if Internal is set
	Port, PrivatePort   int
	Internal            bool
	Algorithm, Protocol string
	CIDRList            string // as stored: separated by blanks after create, by commas after update; empty: all sources
	Members             []RouterMember
	Sticky              *RouterSticky
	Certificate         *tls.Certificate // the certificate bound to the rule, if its key was uploaded to this process
	// Filtered reports whether Filter applies to packets before the load balancer. Packets that match no item are
	// dropped.
	Filtered bool
	Filter   []RouterFilter
}

// RouterMember is an address that a rule forwards to.
type RouterMember struct {
	VM      string // the name of the VM
	Address netip.Addr
	Running bool // whether the VM runs; a stopped VM does not answer
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

// Router ends the jobs that are due and returns the configuration of the routers. It does not contain changes of
// pending or failed jobs: rules in state Add were never sent to the router, and rules in state Deleting are still in
// force.
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

// WatchRouter calls notify with the configuration of the routers, and again after every change by API calls, completed
// jobs and restarts, until ctx ends.
func (s *Simulator) WatchRouter(ctx context.Context, notify func(Router)) {
	for {
		changed := s.watch.next()
		notify(s.Router())
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

// idle is how long a watcher waits if no job is running; a call wakes it.
const idle = time.Hour

func (s *Simulator) untilDue() time.Duration {
	next := s.nextDue.Load()
	if next == 0 {
		return idle
	}
	return time.Unix(0, next).Sub(s.clock.Now())
}

// watch notifies watchers of a change.
type watch struct {
	mu sync.Mutex
	ch chan struct{}
}

// next returns a channel that is closed at the next change.
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

// routed returns a rule as it is configured on the router, or false if it was never sent to the router.
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

// filter returns the filter in front of the load balancer. Public rules of a VPC have none: their traffic terminates
// on the router, and ACLs filter only forwarded traffic.
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

// aclFilter returns the ACL of a tier as it applies to an internal load balancer: it does not apply to sources in the
// tier itself, because their traffic is not forwarded.
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

// portIn reports whether the port is in the range; a range without a start contains all ports.
func portIn(port int, start, end *int) bool {
	return start == nil || *start <= port && (end == nil && *start == port || end != nil && port <= *end)
}

// prefixes parses CIDRs and single addresses.
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
