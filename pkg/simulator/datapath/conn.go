// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// How HAProxy connects to a member: it tries up to four times, with a pause after a failure. The last attempt goes to
// another member.
const (
	connectTimeout = 5 * time.Second
	tries          = 4 // the first one and three more
	turnAround     = time.Second
	acceptPause    = 100 * time.Millisecond
)

// handle serves one client connection.
func (r *rule) handle(c net.Conn) {
	if !r.p.track(c) {
		_ = c.Close()
		return
	}
	defer r.p.removeConn(c)
	defer func() { _ = c.Close() }()
	conf := r.config()
	client, _ := netip.ParseAddrPort(c.RemoteAddr().String())
	client = netip.AddrPortFrom(client.Addr().Unmap(), client.Port())
	switch conf.admit(client.Addr()) {
	case byFirewall:
		r.byFirewall.Add(1)
		reset(c)
		return
	case bySourceRange:
		r.byRange.Add(1)
		reset(c)
		return
	case admitted:
	}

	r.connections.Add(1)
	r.active.Add(1)
	defer r.active.Add(-1)
	if conf.TLS != nil {
		t := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{*conf.TLS}, MinVersion: tls.VersionTLS12})
		if t.HandshakeContext(r.p.ctx) != nil {
			return
		}
		c = t
	}

	if r.viaHAProxy(&conf) {
		r.serveHTTP(c, client)
		return
	}

	back := r.reach(&conf, client)
	if back == nil {
		reset(c)
		return
	}
	defer back.close()
	r.relay(c, back, back.m)
}

// upstream is a connection to a member for a client.
type upstream struct {
	net.Conn
	r *rule
	m *member
}

// reach connects to a member. If no member accepts the connection, it counts that and returns nil.
func (r *rule) reach(conf *Listener, client netip.AddrPort) *upstream {
	m, back := r.connect(conf, client.Addr())
	if m == nil {
		r.noMember.Add(1)
		return nil
	}
	u := &upstream{back, r, m}
	if !r.p.track(back) {
		_ = back.Close()
	}
	if conf.ProxyHeader {
		// A write error shows up in the next read or write.
		_, _ = io.WriteString(back, proxyHeader(client, conf.Public))
	}
	return u
}

func (u *upstream) close() {
	_ = u.Close()
	u.r.p.removeConn(u.Conn)
	u.m.removeConn(u.Conn)
	u.m.active.Add(-1)
}

// CloseWrite closes the sending direction to the member.
func (u *upstream) CloseWrite() error { return closeWrite(u.Conn) }

// reset makes the close of a connection send a TCP reset, so that the client notices it immediately. The firewall of
// a real router drops the packets instead.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
}

// proxyHeader returns the header of the PROXY protocol, version 1.
func proxyHeader(client, public netip.AddrPort) string {
	return fmt.Sprintf("PROXY TCP4 %s %s %d %d\r\n", client.Addr(), public.Addr(), client.Port(), public.Port())
}

// connect connects to a member, and returns nil if none accepts the connection. The connection counts as active of
// the member.
func (r *rule) connect(conf *Listener, client netip.Addr) (*member, net.Conn) {
	not := map[netip.AddrPort]bool{}
	m := r.choose(conf, client, nil)
	for try := 1; m != nil; try++ {
		back, err := r.p.dial(m, connectTimeout)
		if err == nil && m.addConn(back) {
			m.connections.Add(1)
			return m, back
		}

		if err == nil {
			_ = back.Close()
		}

		m.failed.Add(1)
		if try >= tries || r.p.ctx.Err() != nil {
			m.active.Add(-1)
			return nil, nil
		}

		if r.worthRetry(m) && try < tries-1 {
			if !r.p.pause(turnAround) {
				m.active.Add(-1)
				return nil, nil
			}
			continue
		}

		m.active.Add(-1)
		not[m.address] = true
		m = r.choose(conf, client, not)
	}

	return nil, nil
}

// worthRetry reports whether a member to which a connection has just failed should be tried again.
func (r *rule) worthRetry(m *member) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.members[m.address] == m && m.isUp()
}

// relay copies data in both directions until both ends are closed. Each end may close its sending direction early.
func (r *rule) relay(front, back net.Conn, m *member) {
	var wg sync.WaitGroup
	wg.Go(func() { pipe(back, front, &r.bytesIn, &m.bytesIn) })
	wg.Go(func() { pipe(front, back, &r.bytesOut, &m.bytesOut) })
	wg.Wait()
}

// pipe copies data in one direction. On an error it closes both connections.
func pipe(to, from net.Conn, counters ...*atomic.Int64) {
	_, err := io.Copy(counting{to, counters}, from)
	if err != nil && !errors.Is(err, io.EOF) {
		_ = to.Close()
		_ = from.Close()
		return
	}
	_ = closeWrite(to)
}

// closeWrite closes the sending direction, or the whole connection if it cannot be half-closed.
func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// counting is a writer that counts bytes before it writes them, so that a reader who has received data finds it
// counted.
type counting struct {
	io.Writer
	counters []*atomic.Int64
}

func (w counting) Write(b []byte) (int, error) {
	w.count(len(b))
	n, err := w.Writer.Write(b)
	w.count(n - len(b))
	return n, err
}

func (w counting) count(bytes int) {
	for _, c := range w.counters {
		c.Add(int64(bytes))
	}
}
