// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"net"
	"net/netip"
	"sync/atomic"
	"time"
)

// Time-outs of UDP flows: those of Linux's connection tracking, before and after the first answer.
const (
	unreplied = 30 * time.Second
	replied   = 120 * time.Second
)

// maxDatagram is the maximum size of a UDP datagram.
const maxDatagram = 1 << 16

// flow is a UDP client with its socket to the VM. Like a tracked connection of a router, it keeps its destination when
// the rule changes, until it has been idle for its time-out.
type flow struct {
	back     net.Conn
	last     atomic.Int64 // time of the last datagram in either direction
	answered atomic.Bool
}

func (f *flow) expired(now time.Time) bool {
	limit := unreplied
	if f.answered.Load() {
		limit = replied
	}
	return now.Sub(time.Unix(0, f.last.Load())) >= limit
}

func (r *relay) serveUDP() {
	defer r.endFlows(func(*flow) bool { return true })
	buffer := make([]byte, maxDatagram)
	for {
		n, from, err := r.packets.ReadFrom(buffer)
		if err != nil {
			return
		}
		if client, err := netip.ParseAddrPort(from.String()); err == nil {
			r.datagram(client, buffer[:n])
		}
	}
}

// datagram sends a client's datagram to the VM. Datagrams that a router would drop get no answer.
func (r *relay) datagram(client netip.AddrPort, b []byte) {
	now := r.p.o.Clock.Now()
	r.endFlows(func(f *flow) bool { return f.expired(now) })
	r.mu.Lock()
	f := r.flows[client]
	r.mu.Unlock()
	if f == nil {
		if f = r.newFlow(client); f == nil {
			return
		}
	}
	f.last.Store(now.UnixNano())
	r.counts.bytesIn.Add(int64(len(b)))
	_, _ = f.back.Write(b) // an error means that no process listens at the VM, which a router does not notice either
}

func (r *relay) newFlow(client netip.AddrPort) *flow {
	to, rule := r.route(client.Addr().Unmap())
	if rule == nil {
		return nil
	}

	back, err := r.dial(r.p.ctx, rule, to)
	if err != nil {
		r.counts.failed.Add(1)
		return nil
	}

	if !r.p.track(back) {
		_ = back.Close()
		return nil
	}

	f := &flow{back: back}
	r.mu.Lock()
	r.flows[client] = f
	r.mu.Unlock()
	r.counts.flows.Add(1)
	r.p.conns.Go(func() { r.answers(client, f) })
	return f
}

// answers sends the VM's datagrams to the client until the flow ends.
func (r *relay) answers(client netip.AddrPort, f *flow) {
	defer r.p.removeConn(f.back)
	buffer := make([]byte, maxDatagram)
	to := net.UDPAddrFromAddrPort(client)
	for {
		n, err := f.back.Read(buffer)
		if isRefused(err) {
			continue // an ICMP message; the VM may listen again
		}
		if err != nil {
			return
		}
		f.answered.Store(true)
		f.last.Store(r.p.o.Clock.Now().UnixNano())
		r.counts.bytesOut.Add(int64(n))
		_, _ = r.packets.WriteTo(buffer[:n], to)
	}
}

// endFlows ends the flows for which over returns true.
func (r *relay) endFlows(over func(*flow) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for client, f := range r.flows {
		if over(f) {
			delete(r.flows, client)
			_ = f.back.Close()
		}
	}
}
