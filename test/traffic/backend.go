// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// Backend answers each request with its name and the request's path. In tests it replaces the Pods of a node.
type Backend struct {
	listener net.Listener
	server   *http.Server
}

// StartBackend starts a backend that listens on an address. Port 0 chooses a free port. Its clients may use the PROXY
// protocol.
func StartBackend(ctx context.Context, name, address string) (*Backend, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("backend %s: %w", name, err)
	}
	b := &Backend{listener: l, server: &http.Server{Handler: Handler(name), ReadHeaderTimeout: time.Minute}}
	go func() { _ = b.server.Serve(Proxied{l, EveryClient}) }()
	return b, nil
}

// Handler answers each request with a name and the request's path, as a Client expects.
func Handler(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s %s\n", name, r.URL.Path) // #nosec G705 -- no browser reads it
	})
}

// Address returns the address on which the backend listens.
func (b *Backend) Address() string { return b.listener.Addr().String() }

// Stop closes the listener and all connections, as if the node were lost.
func (b *Backend) Stop() { _ = b.server.Close() } // an error only means that the server was closed before

// EveryClient contains all addresses.
var EveryClient = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}

// Proxied reads the PROXY protocol header (version 1) of connections from trusted addresses, if there is one.
type Proxied struct {
	net.Listener
	Trusted []netip.Prefix
}

// Accept returns a connection whose remote address is the one in the header.
func (l Proxied) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	peer, _ := netip.ParseAddrPort(c.RemoteAddr().String())
	for _, p := range l.Trusted {
		if p.Contains(peer.Addr().Unmap()) {
			in := bufio.NewReader(c)
			return &proxied{
				Conn:   c,
				in:     in,
				source: sync.OnceValues(func() (net.Addr, error) { return header(c, in) }),
			}, nil
		}
	}
	return c, nil
}

// proxied reads the header on the first use of the connection, not in Accept, because a client that sends nothing must
// not block the others.
type proxied struct {
	net.Conn
	in     *bufio.Reader
	source func() (net.Addr, error)
}

func (c *proxied) Read(b []byte) (int, error) {
	if _, err := c.source(); err != nil {
		return 0, err
	}
	return c.in.Read(b)
}

// RemoteAddr returns the source address in the header. net/http calls it before it reads the first request.
func (c *proxied) RemoteAddr() net.Addr {
	source, _ := c.source()
	return source
}

// header returns the source address of "PROXY TCP4 source destination port port", or the address of the connection if
// there is no header.
func header(c net.Conn, in *bufio.Reader) (net.Addr, error) {
	const start = "PROXY "
	if b, err := in.Peek(len(start)); err != nil || string(b) != start {
		return c.RemoteAddr(), err
	}
	line, err := in.ReadString('\n')
	fields := strings.Fields(line)
	if err != nil || len(fields) != 6 || !strings.HasSuffix(line, "\r\n") {
		return c.RemoteAddr(), errors.Join(err, fmt.Errorf("%q is no header of the PROXY protocol for TCP", line))
	}
	return net.ResolveTCPAddr("tcp", net.JoinHostPort(fields[2], fields[4]))
}
