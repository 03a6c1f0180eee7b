// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"github.com/csccm/csccm/test/internal/must"
)

// The clients of this file are beyond the router, which forwards their packets.

const (
	// shortly is the time-out for measuring gaps. quick bounds the time of a datagram that is sent again after a loss.
	// patiently, like the time-out of test/traffic, distinguishes a lost datagram from a slow machine.
	shortly   = 250 * time.Millisecond
	quick     = time.Second
	patiently = 5 * time.Second
)

// dialOutside opens a socket of a client.
func (e *env) dialOutside(ctx context.Context, network string, from netip.Addr, to netip.AddrPort) (c net.Conn) {
	d := &net.Dialer{Timeout: 2 * time.Second, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
	if network == "udp4" {
		d.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
	}
	e.outside.Do(ctx, from, func() { c = must.Get(d.DialContext(ctx, network, to.String())) })
	return c
}

func converse(c net.Conn, question string, patience time.Duration) []byte {
	must.OK(c.SetDeadline(time.Now().Add(patience)))
	must.Get(c.Write([]byte(question)))
	b := make([]byte, 1<<16)
	return b[:must.Get(c.Read(b))]
}

// askUDP sends a datagram to the UDP echo of a Pod.
func (e *env) askUDP(ctx context.Context, from netip.Addr, to netip.AddrPort) answer {
	return e.datagram(ctx, from, to, quick)
}

func (e *env) datagram(ctx context.Context, from netip.Addr, to netip.AddrPort, patience time.Duration) answer {
	c := e.dialOutside(ctx, "udp4", from, to)
	defer func() { _ = c.Close() }()
	return parsed(converse(c, "?", patience))
}

// https sends requests over HTTP/3 or HTTP/2 and also returns the protocol of the response.
func (e *env) https(ctx context.Context, from netip.Addr, to netip.AddrPort, three bool) (_ answer, protocol string) {
	config := selfSigned()
	var transport http.RoundTripper = &http.Transport{
		TLSClientConfig: config, ForceAttemptHTTP2: true, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (c net.Conn, err error) {
			defer must.Return(&err)
			return e.dialOutside(ctx, "tcp4", from, to), nil
		},
	}

	if three {
		var socket net.PacketConn
		e.outside.Do(ctx, from, func() {
			socket = must.Get((&net.ListenConfig{}).ListenPacket(ctx, "udp4", netip.AddrPortFrom(from, 0).String()))
		})
		q := &quic.Transport{Conn: socket}
		dial := func(ctx context.Context, _ string, t *tls.Config, c *quic.Config) (*quic.Conn, error) {
			return q.Dial(ctx, net.UDPAddrFromAddrPort(to), t, c)
		}
		h := &http3.Transport{TLSClientConfig: config, Dial: dial}
		defer func() { _ = errors.Join(h.Close(), q.Close(), socket.Close()) }()
		transport = h
	}

	return request(ctx, &http.Client{Timeout: patiently, Transport: transport}, "https://"+routedHost+"/")
}

// bothProtocols sends a request over HTTP/3 and one over HTTP/2.
func (e *env) bothProtocols(ctx context.Context, to netip.AddrPort) string {
	var seen []string
	for _, three := range []bool{true, false} {
		seesClient(outside1,
			e.answers(ctx, outside1, to, func(ctx context.Context, from netip.Addr, to netip.AddrPort) answer {
				a, protocol := e.https(ctx, from, to, three)
				seen = append(seen, protocol)
				return a
			}))
	}
	text := strings.Join(seen, " and ")
	must.Be(text == "HTTP/3.0 and HTTP/2.0", "the protocols were %s", text)
	return text + " on port 443, the Pod sees the client"
}

// questions counts the requests of a client that sends them continuously.
type questions struct {
	stop       chan struct{}
	once       sync.Once
	loop       sync.WaitGroup
	sent, lost int           // to be read after end
	gap        time.Duration // the longest time without an answer
	last       error         // error of the last question
}

// keepAsking sends requests continuously, with a pause between them.
func keepAsking(pause time.Duration, ask func()) *questions {
	q, answered := &questions{stop: make(chan struct{})}, time.Now()
	q.loop.Go(func() {
		for {
			q.sent++
			q.last = must.Catch(ask)
			q.gap = max(q.gap, time.Since(answered)) // also when the last question before end was lost
			if q.last != nil {
				q.lost++
			} else {
				answered = time.Now()
			}
			select {
			case <-q.stop:
				return
			case <-time.After(pause):
			}
		}
	})

	return q
}

// sendDatagrams sends datagrams to the UDP echo of an address continuously, each from a new port. A datagram without an
// answer within the time-out is lost.
func (e *env) sendDatagrams(ctx context.Context, to netip.AddrPort, patience time.Duration) *questions {
	return keepAsking(50*time.Millisecond, func() { e.datagram(ctx, outside1, to, patience) })
}

// end stops the requests and waits for the last one. After that, the counters may be read.
func (q *questions) end() {
	q.once.Do(func() { close(q.stop) })
	q.loop.Wait()
}

func (q *questions) String() string {
	return fmt.Sprintf("%d of %d datagrams lost, longest gap %s", q.lost, q.sent, q.gap.Round(10*time.Millisecond))
}
