// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/csccm/csccm/pkg/simulator"
)

// maxRange is the maximum number of ports of a port range that are relayed.
const maxRange = 1000

// relayKey is a public port of a protocol.
type relayKey struct {
	public   netip.AddrPort
	protocol string
}

func (k relayKey) String() string { return k.public.String() + "/" + k.protocol }

// byPort groups the forwards by public port, in their order, and returns those with too many ports as refused.
func byPort(forwards []simulator.RouterForward) (map[relayKey][]simulator.RouterForward, []Refusal) {
	out := map[relayKey][]simulator.RouterForward{}
	var refused []Refusal
	for i := range forwards {
		f := &forwards[i]
		if f.EndPort-f.Port >= maxRange || f.Port == 0 {
			refused = append(refused, Refusal{f.ID, "",
				fmt.Sprintf("ports %d-%d: without nftables, ranges of up to %d ports from 1 on are forwarded",
					f.Port, f.EndPort, maxRange)})
			continue
		}
		for port := f.Port; port <= f.EndPort; port++ {
			k := relayKey{netip.AddrPortFrom(f.Address, uint16(port)), f.Protocol} // #nosec G115 -- checked by the API
			out[k] = append(out[k], *f)
		}
	}
	return out, refused
}

// forwardFor returns where a client's packets to a public port go. The first forward whose sources match decides.
func forwardFor(
	forwards []simulator.RouterForward, client netip.Addr, port int,
) (to netip.AddrPort, f *simulator.RouterForward, v verdict) {
	for i := range forwards {
		f := &forwards[i]
		if len(f.Sources) > 0 && !within(f.Sources, client) {
			continue
		}
		private := f.PrivatePort + port - f.Port
		filtered := port
		if f.ByACL {
			filtered = private
		}
		if f.Filtered && !passesPort(f.Filter, client, filtered) {
			return to, f, byFirewall
		}
		return netip.AddrPortFrom(f.Guest, uint16(private)), f, admitted // #nosec G115 -- checked by the API
	}

	return to, nil, bySourceRange
}

// passesPort is like passes, for items with ports.
func passesPort(items []simulator.RouterFilter, client netip.Addr, port int) bool {
	return passes(slices.DeleteFunc(slices.Clone(items), func(it simulator.RouterFilter) bool {
		return it.To != 0 && (port < it.From || it.To < port)
	}), client)
}

// relay forwards a public port in user space. Members see an address of this machine, not the client's.
type relay struct {
	p        *Path
	key      relayKey
	listener net.Listener   // tcp
	packets  net.PacketConn // udp

	mu       sync.Mutex
	forwards []simulator.RouterForward
	flows    map[netip.AddrPort]*flow // udp

	counts relayCounts
}

type relayCounts struct {
	flows, byFirewall, byRange, failed, bytesIn, bytesOut atomic.Int64
}

func (p *Path) openRelay(ctx context.Context, key relayKey, forwards []simulator.RouterForward) (*relay, error) {
	r := &relay{p: p, key: key, forwards: forwards, flows: map[netip.AddrPort]*flow{}}
	var err error
	if key.protocol == "udp" {
		r.packets, err = p.local.listenPacket(ctx, key.public)
	} else {
		r.listener, err = p.local.listen(ctx, key.public)
	}
	if err != nil {
		return nil, err
	}
	if key.protocol == "udp" {
		p.conns.Go(r.serveUDP)
	} else {
		p.conns.Go(r.serveTCP)
	}
	return r, nil
}

func (r *relay) configure(forwards []simulator.RouterForward) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forwards = forwards
}

// listen returns the address on this machine.
func (r *relay) listen() string {
	if r.packets != nil {
		return r.packets.LocalAddr().String()
	}
	return r.listener.Addr().String()
}

// stop closes the listener. TCP connections continue; UDP flows end with the socket that their answers need.
func (r *relay) stop(ctx context.Context) error {
	var err error
	if r.packets != nil {
		err = r.packets.Close()
	} else {
		err = r.listener.Close()
	}
	return errors.Join(err, r.p.local.removeAddress(ctx, r.key.public.Addr()))
}

// route returns where a client's packets go, or no forward if they are refused. It counts refusals.
func (r *relay) route(client netip.Addr) (netip.AddrPort, *simulator.RouterForward) {
	r.mu.Lock()
	defer r.mu.Unlock()
	to, f, v := forwardFor(r.forwards, client, int(r.key.public.Port()))
	switch v {
	case byFirewall:
		r.counts.byFirewall.Add(1)
		return to, nil
	case bySourceRange:
		r.counts.byRange.Add(1)
	case admitted:
	}
	return to, f
}

func (r *relay) serveTCP() {
	for {
		c, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.p.conns.Go(func() { r.handle(c) })
	}
}

// handle relays one TCP connection. Connections that the router would drop are reset, so that clients notice it.
func (r *relay) handle(c net.Conn) {
	defer func() { _ = c.Close() }()
	if !r.p.track(c) {
		return
	}
	defer r.p.removeConn(c)
	client, _ := netip.ParseAddrPort(c.RemoteAddr().String())
	to, f := r.route(client.Addr().Unmap())
	if f == nil {
		reset(c)
		return
	}

	ctx, cancel := context.WithTimeout(r.p.ctx, connectTimeout)
	back, err := r.dial(ctx, f, to)
	cancel()
	if err != nil {
		r.counts.failed.Add(1)
		reset(c)
		return
	}
	defer func() { _ = back.Close() }()
	if !r.p.track(back) {
		return
	}
	defer r.p.removeConn(back)
	r.counts.flows.Add(1)
	var wg sync.WaitGroup
	wg.Go(func() { pipe(back, c, &r.counts.bytesIn) })
	wg.Go(func() { pipe(c, back, &r.counts.bytesOut) })
	wg.Wait()
}

func (r *relay) dial(ctx context.Context, f *simulator.RouterForward, to netip.AddrPort) (net.Conn, error) {
	if !f.Running {
		return nil, errStopped
	}
	return (&net.Dialer{}).DialContext(ctx, r.key.protocol+"4", r.p.o.Members.dialAddress(to))
}
