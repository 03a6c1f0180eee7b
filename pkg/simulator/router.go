// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"context"
	"crypto/tls"
	"maps"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

// Router is the configuration that is in force on the virtual routers of all networks.
type Router struct {
	Rules    []RouterRule
	Forwards []RouterForward // in the order of the routers' tables
}

// RouterRule is a load balancer rule with members. Rules without members are not on a router.
type RouterRule struct {
	ID, Name            string
	Address             netip.Addr // public, or an address of the tier if Internal is set
	Port, PrivatePort   int
	Internal            bool
	Algorithm, Protocol string
	// CIDRList is as stored: separated by blanks after create, by commas after update; empty: all sources.
	CIDRList    string
	Members     []RouterMember
	Sticky      *RouterSticky
	Certificate *tls.Certificate // the certificate bound to the rule, if its key was uploaded to this process
	// Filtered reports whether Filter applies to packets before the load balancer. Packets that match no item are
	// dropped.
	Filtered bool
	Filter   []RouterFilter
}

// RouterRanges is the maximum number of source ranges of a rule. With more, the job of every later change of a rule in
// the network or VPC fails, until the rule is deleted or has fewer.
const RouterRanges = store.MaxRanges

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

// RouterFilter is a firewall rule of an address, or an ACL item of a tier, that matches a port of the rule.
type RouterFilter struct {
	Allow    bool
	Sources  []netip.Prefix
	From, To int // the ports that it matches; both 0: all ports of the rule
}

// Router runs the jobs that are due and returns the configuration of the routers. It does not contain changes of
// pending or failed jobs: rules in state Add were never sent to the router, and the router still has rules in state
// Deleting.
func (s *Simulator) Router() Router {
	s.runDue()
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out Router
	for _, r := range s.st.LBRules.Rows {
		if rule, ok := routed(s.st, r); ok {
			out.Rules = append(out.Rules, rule)
		}
	}
	for _, r := range s.st.PFRules.Rows {
		if f, ok := forwarded(s.st, r); ok {
			out.Forwards = append(out.Forwards, f)
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
		timer := s.server.Clock.NewTimer(s.untilDue())
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

// idle is the time that a watcher waits if no job is running. Calls wake it.
const idle = time.Hour

func (s *Simulator) untilDue() time.Duration {
	next := s.nextDue.Load()
	if next == 0 {
		return idle
	}
	return time.Unix(0, next).Sub(s.server.Clock.Now())
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

// routed returns a rule as it is configured on the router, or false if it is not on the router.
func routed(st *store.State, r *store.LBRule) (RouterRule, bool) {
	out := RouterRule{
		ID:          r.UUID,
		Name:        r.Name,
		Address:     r.IP.Addr,
		Port:        r.PublicPort,
		PrivatePort: r.PrivatePort,
		Internal:    r.Internal,
		Algorithm:   strings.ToLower(r.Algorithm),
		Protocol:    cmp.Or(r.RouterProtocol, r.Protocol),
		CIDRList:    r.CIDRs,
	}

	for _, m := range r.Members {
		addr, err := netip.ParseAddr(m.IP)
		if m.VM.Gone() || err != nil {
			continue
		}
		out.Members = append(out.Members,
			RouterMember{VM: m.VM.Name, Address: addr, Running: m.VM.State == store.VMRunning})
	}

	if r.State == store.RuleAdd || len(out.Members) == 0 || st.Lost(r.UUID, r.Network) {
		return RouterRule{}, false
	}

	for _, p := range r.Policies {
		if !p.Pending {
			out.Sticky = &RouterSticky{Method: p.Method, Params: maps.Clone(p.Params)}
		}
	}

	if r.Cert != nil {
		out.Certificate = r.Cert.Pair
	}

	out.Filtered, out.Filter = filter(st, r)
	return out, true
}

// filter returns the filter in front of the load balancer. Public rules of a VPC have none: their traffic terminates
// on the router, and ACLs filter only forwarded traffic.
func filter(st *store.State, r *store.LBRule) (bool, []RouterFilter) {
	switch {
	case r.Internal:
		return aclFilter(st, r.Network, r.PublicPort)
	case r.Network.VPC != nil || !r.Network.Provides("Firewall"):
		return false, nil
	}
	var out []RouterFilter
	for _, f := range r.IP.FWRules {
		if f.State != store.RuleAdd &&
			!st.Lost(f.UUID, f.Network) &&
			f.Protocol == "tcp" &&
			portsMeet(r.PublicPort, r.PublicPort, f.StartPort, f.EndPort) {
			out = append(out, RouterFilter{Allow: true, Sources: prefixes(f.CIDRs)})
		}
	}
	return true, out
}

// aclFilter returns the ACL of a tier as it applies to an internal load balancer. It allows sources in the tier
// itself, because their traffic is not forwarded.
func aclFilter(st *store.State, n *store.Network, port int) (bool, []RouterFilter) {
	filtered, items := tierFilter(st, n, "tcp", port, port)
	if !filtered {
		return false, nil
	}
	return true, append([]RouterFilter{{Allow: true, Sources: []netip.Prefix{n.CIDR}}}, items...)
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
