// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"github.com/csccm/csccm/test/internal/must"
)

// The clients of this file are beyond the router: their packets are forwarded by it.

// dialOutside opens a socket of a client.
func (e *env) dialOutside(ctx context.Context, network string, from netip.Addr, to netip.AddrPort) (c net.Conn, err error) {
	if err := e.outside.Add(ctx, from); err != nil {
		return nil, err
	}
	d := &net.Dialer{Timeout: 2 * time.Second, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
	if network == "udp4" {
		d.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
	}
	err = e.outside.Do(func() error {
		c, err = d.DialContext(ctx, network, to.String())
		return err
	})
	return c, err
}

// exchange sends a datagram from a new port and returns the answer.
func (e *env) exchange(ctx context.Context, from netip.Addr, to netip.AddrPort, question []byte, patience time.Duration) (_ []byte, err error) {
	defer must.Return(&err)
	c := must.Get(e.dialOutside(ctx, "udp4", from, to))
	defer func() { _ = c.Close() }()
	return converse(c, question, patience)
}

func converse(c net.Conn, question []byte, patience time.Duration) (_ []byte, err error) {
	defer must.Return(&err)
	must.OK(c.SetDeadline(time.Now().Add(patience)))
	must.Get(c.Write(question))
	b := make([]byte, 1<<16)
	n, err := c.Read(b)
	return b[:n], err
}

// quick is how long a datagram may take that is sent again when it is lost.
const quick = time.Second

// askUDP asks the UDP echo of a Pod.
func (e *env) askUDP(ctx context.Context, from netip.Addr, to netip.AddrPort) (a answer, err error) {
	defer must.Return(&err)
	err = json.Unmarshal(must.Get(e.exchange(ctx, from, to, []byte("?"), quick)), &a)
	return a, err
}

// answersUDP waits until an address answers a client's datagrams, each from a new port.
func (e *env) answersUDP(ctx context.Context, from netip.Addr, to netip.AddrPort) (a answer) {
	e.until(ctx, fmt.Sprintf("%s/udp to answer %s", to, from), func(ctx context.Context) { a = must.Get(e.askUDP(ctx, from, to)) })
	return a
}

// lookup asks a DNS server for a TXT record.
func (e *env) lookup(ctx context.Context, from netip.Addr, server netip.AddrPort) string {
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return e.dialOutside(ctx, "udp4", from, server)
	}}
	ctx, cancel := context.WithTimeout(ctx, quick)
	defer cancel()
	txt := must.Get(resolver.LookupTXT(ctx, "node.example."))
	must.Be(len(txt) == 1, "the answer is %q, want one text", txt)
	return txt[0]
}

// https asks over HTTP/3 or HTTP/2 and returns the answer with the protocol of the response. host is the name of the
// server, empty for its address.
func (e *env) https(ctx context.Context, from netip.Addr, to netip.AddrPort, host string, three bool) (_ answer, _ string, err error) {
	defer must.Return(&err)
	// Nobody has signed the certificate of the echo program.
	config := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13, ServerName: host} // #nosec G402 -- see above
	var transport http.RoundTripper = &http.Transport{
		TLSClientConfig: config, ForceAttemptHTTP2: true, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return e.dialOutside(ctx, "tcp4", from, to) },
	}
	if three {
		must.OK(e.outside.Add(ctx, from))
		var socket net.PacketConn
		must.OK(e.outside.Do(func() (err error) {
			socket, err = (&net.ListenConfig{}).ListenPacket(ctx, "udp4", netip.AddrPortFrom(from, 0).String())
			return err
		}))
		q := &quic.Transport{Conn: socket}
		h := &http3.Transport{TLSClientConfig: config, Dial: func(ctx context.Context, _ string, t *tls.Config, c *quic.Config) (*quic.Conn, error) {
			return q.Dial(ctx, net.UDPAddrFromAddrPort(to), t, c)
		}}
		defer func() { _ = errors.Join(h.Close(), q.Close(), socket.Close()) }()
		transport = h
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, "https://"+to.String()+"/", nil))
	req.Host = host
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return answer{}, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	a, err := answerOf(resp)
	return a, resp.Proto, err
}

// datagrams are questions that a client sends all the time.
type datagrams struct {
	stop       chan struct{}
	once       sync.Once
	loop       sync.WaitGroup
	sent, lost int           // of the questions, to be read after end
	gap        time.Duration // the longest time without an answer
	last       time.Time     // of the last answer
}

const (
	datagramPeriod = 50 * time.Millisecond
	// shortly is the patience with which gaps are measured; patiently, as that of test/traffic, tells a lost datagram from
	// a slow machine.
	shortly   = 250 * time.Millisecond
	patiently = 5 * time.Second
)

// sendDatagrams asks the UDP echo of an address all the time, each time from a new port. A question without an answer
// within patience is lost.
func (e *env) sendDatagrams(ctx context.Context, from netip.Addr, to netip.AddrPort, patience time.Duration) *datagrams {
	must.Get(e.askUDP(ctx, from, to))
	d := &datagrams{stop: make(chan struct{}), last: time.Now()}
	d.loop.Go(func() {
		tick := time.NewTicker(datagramPeriod)
		defer tick.Stop()
		for {
			d.sent++
			if _, err := e.exchange(ctx, from, to, []byte("?"), patience); err != nil {
				d.lost++
			} else {
				d.gap, d.last = max(d.gap, time.Since(d.last)), time.Now()
			}
			select {
			case <-d.stop:
				return
			case <-tick.C:
			}
		}
	})
	return d
}

// end stops the questions; the result does not change after it.
func (d *datagrams) end() {
	d.once.Do(func() { close(d.stop) })
	d.loop.Wait()
}

func (d *datagrams) String() string {
	return fmt.Sprintf("%d of %d datagrams lost, longest gap %s", d.lost, d.sent, d.gap.Round(10*time.Millisecond))
}

// keepAsking sends a datagram on a socket again and again, without a pause. The function that it returns stops that and
// reports whether the last datagram was answered.
func keepAsking(c net.Conn) (stop func() bool) {
	over, answered := make(chan struct{}), make(chan bool)
	go func() {
		last := false
		for {
			select {
			case <-over:
				answered <- last
				return
			default:
			}
			_, err := converse(c, []byte("?"), shortly)
			last = err == nil
		}
	}()
	return func() bool {
		close(over)
		return <-answered
	}
}
