// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os/exec"
	"sync"
	"syscall"
)

// The modes of a data path.
const (
	// Direct listens on the public addresses themselves.
	Direct = "direct"
	// Loopback listens on an address in 127.0.0.0/8 for each public one, which needs no root.
	Loopback = "loopback"
)

// places says where public addresses are on this machine.
type places struct {
	mode, link string

	mu    sync.Mutex
	alias map[netip.Addr]netip.Addr // Loopback: of each public address
	taken map[netip.Addr]bool       // the aliases
	users map[netip.Addr]int        // Direct with a link: listeners of each address
}

func newPlaces(mode, link string) (*places, error) {
	switch {
	case mode != Direct && mode != Loopback:
		return nil, fmt.Errorf("data path %q is not known; use %s or %s", mode, Direct, Loopback)
	case mode == Loopback && link != "":
		return nil, fmt.Errorf("the link %s is for the data path %s only", link, Direct)
	}
	return &places{mode: mode, link: link, alias: map[netip.Addr]netip.Addr{}, taken: map[netip.Addr]bool{}, users: map[netip.Addr]int{}}, nil
}

// at is the address of this machine that stands for a public one: the same
// address always has the same alias, unless another has taken it.
func (p *places) at(public netip.Addr) netip.Addr {
	if p.mode == Direct {
		return public
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if a, ok := p.alias[public]; ok {
		return a
	}
	b := public.As4()
	b[0], b[1] = 127, 64+b[1]%64 // far from 127.0.0.1, where everything else is
	for p.taken[netip.AddrFrom4(b)] {
		b[1] = 64 + (b[1]+1)%64
	}
	a := netip.AddrFrom4(b)
	p.alias[public], p.taken[a] = a, true
	return a
}

// listen opens a rule's listener. On loopback a port that needs root, or
// that another simulator has, is replaced by a free one.
func (p *places) listen(ctx context.Context, public netip.AddrPort) (net.Listener, error) {
	at := netip.AddrPortFrom(p.at(public.Addr()), public.Port())
	if err := p.appear(ctx, public.Addr()); err != nil {
		return nil, err
	}
	lc := net.ListenConfig{Control: anyAddress}
	l, err := lc.Listen(ctx, "tcp4", at.String())
	if p.mode == Loopback && (errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EADDRINUSE)) {
		l, err = lc.Listen(ctx, "tcp4", netip.AddrPortFrom(at.Addr(), 0).String())
	}
	if err != nil {
		return nil, errors.Join(err, p.vanish(ctx, public.Addr()))
	}
	return l, nil
}

// appear gives the link an address with its first listener.
func (p *places) appear(ctx context.Context, a netip.Addr) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users[a]++; p.link == "" || p.users[a] > 1 {
		return nil
	}
	if err := p.ip(ctx, "replace", a); err != nil {
		p.users[a]--
		return err
	}
	return nil
}

// vanish takes the address from the link after its last listener.
func (p *places) vanish(ctx context.Context, a netip.Addr) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users[a]--; p.link == "" || p.users[a] > 0 {
		return nil
	}
	delete(p.users, a)
	return p.ip(ctx, "delete", a)
}

func (p *places) ip(ctx context.Context, verb string, a netip.Addr) error {
	out, err := exec.CommandContext(ctx, "ip", "address", verb, netip.PrefixFrom(a, a.BitLen()).String(), "dev", p.link).CombinedOutput() // #nosec G204 -- no shell
	if err != nil {
		return fmt.Errorf("ip address %s %s dev %s: %w: %s", verb, a, p.link, err, out)
	}
	return nil
}

// Members says where members are on this machine: an address, or an address
// with a port, by where it is really reached. What it does not name is dialled as it is.
type Members struct {
	mu sync.RWMutex
	to map[string]string
}

// ParseMembers checks a map such as 10.1.1.21: 127.0.1.21 or 10.1.1.21:30080: 127.0.0.1:4001.
func ParseMembers(to map[string]string) (*Members, error) {
	m := &Members{}
	return m, m.Set(to)
}

// Set replaces the map.
func (m *Members) Set(to map[string]string) error {
	for from, at := range to {
		_, fromPort := netip.ParseAddrPort(from)
		_, fromAddr := netip.ParseAddr(from)
		_, atPort := netip.ParseAddrPort(at)
		_, atAddr := netip.ParseAddr(at)
		if (fromPort != nil || atPort != nil) && (fromAddr != nil || atAddr != nil) {
			return fmt.Errorf("member %q: %q: give two addresses, or two addresses with ports", from, at)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.to = maps.Clone(to)
	return nil
}

// Map is the map as it stands.
func (m *Members) Map() map[string]string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return maps.Clone(m.to)
}

// at is what is dialled for a member.
func (m *Members) at(member netip.AddrPort) string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if at, ok := m.to[member.String()]; ok {
		return at
	}
	if at, ok := m.to[member.Addr().String()]; ok {
		return net.JoinHostPort(at, fmt.Sprint(member.Port()))
	}
	return member.String()
}
