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

// localAddresses maps public addresses to addresses of this machine.
type localAddresses struct {
	mode, link string

	mu    sync.Mutex
	alias map[netip.Addr]netip.Addr // Loopback: alias of each public address
	taken map[netip.Addr]bool       // the aliases in use
	users map[netip.Addr]int        // Direct with a link: number of listeners on each address
}

func newLocalAddresses(mode, link string) (*localAddresses, error) {
	switch {
	case mode != Direct && mode != Loopback:
		return nil, fmt.Errorf("data path %q is not known; use %s or %s", mode, Direct, Loopback)
	case mode == Loopback && link != "":
		return nil, fmt.Errorf("link %s: only the data path %s uses a link", link, Direct)
	}
	return &localAddresses{
		mode:  mode,
		link:  link,
		alias: map[netip.Addr]netip.Addr{},
		taken: map[netip.Addr]bool{},
		users: map[netip.Addr]int{},
	}, nil
}

// localAddress returns the address of this machine for a public address. A public address gets the same alias in every
// run, unless another address already uses it.
func (p *localAddresses) localAddress(public netip.Addr) netip.Addr {
	if p.mode == Direct {
		return public
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if a, ok := p.alias[public]; ok {
		return a
	}
	b := public.As4()
	b[0], b[1] = 127, 64+b[1]%64 // away from 127.0.0.1, which other programs use
	for p.taken[netip.AddrFrom4(b)] {
		b[1] = 64 + (b[1]+1)%64
	}
	a := netip.AddrFrom4(b)
	p.alias[public], p.taken[a] = a, true
	return a
}

// listen opens a rule's listener. In mode Loopback, it uses a free port if the port needs root or is in use.
func (p *localAddresses) listen(ctx context.Context, public netip.AddrPort) (net.Listener, error) {
	return openAt(ctx, p, public,
		func(lc net.ListenConfig, at string) (net.Listener, error) { return lc.Listen(ctx, "tcp4", at) })
}

// listenPacket is like listen, for UDP.
func (p *localAddresses) listenPacket(ctx context.Context, public netip.AddrPort) (net.PacketConn, error) {
	return openAt(ctx, p, public,
		func(lc net.ListenConfig, at string) (net.PacketConn, error) { return lc.ListenPacket(ctx, "udp4", at) })
}

func openAt[T any](
	ctx context.Context, p *localAddresses, public netip.AddrPort, open func(net.ListenConfig, string) (T, error),
) (T, error) {
	at := netip.AddrPortFrom(p.localAddress(public.Addr()), public.Port())
	var none T
	if err := p.addAddress(ctx, public.Addr()); err != nil {
		return none, err
	}
	lc := net.ListenConfig{Control: anyAddress}
	l, err := open(lc, at.String())
	if p.mode == Loopback && (errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EADDRINUSE)) {
		l, err = open(lc, netip.AddrPortFrom(at.Addr(), 0).String())
	}
	if err != nil {
		return none, errors.Join(err, p.removeAddress(ctx, public.Addr()))
	}
	return l, nil
}

// addAddress adds an address to the link for the first listener on it.
func (p *localAddresses) addAddress(ctx context.Context, a netip.Addr) error {
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

// removeAddress removes an address from the link after the last listener on it is closed.
func (p *localAddresses) removeAddress(ctx context.Context, a netip.Addr) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users[a]--; p.link == "" || p.users[a] > 0 {
		return nil
	}
	delete(p.users, a)
	return p.ip(ctx, "delete", a)
}

func (p *localAddresses) ip(ctx context.Context, verb string, a netip.Addr) error {
	// #nosec G204 -- no shell
	out, err := exec.CommandContext(ctx, "ip", "address", verb, netip.PrefixFrom(a, a.BitLen()).String(), "dev",
		p.link).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip address %s %s dev %s: %w: %s", verb, a, p.link, err, out)
	}
	return nil
}

// Members maps the addresses of members, with or without port, to the addresses at which this machine reaches them.
// Members that are not in the map are dialed at their own addresses.
type Members struct {
	mu sync.RWMutex
	to map[string]string
}

// ParseMembers validates a map with entries such as 10.1.1.21: 127.0.1.21 or 10.1.1.21:30080: 127.0.0.1:4001.
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

// Map returns a copy of the current map.
func (m *Members) Map() map[string]string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return maps.Clone(m.to)
}

// dialAddress returns the address to dial for a member.
func (m *Members) dialAddress(member netip.AddrPort) string {
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
