// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/csccm/csccm/test/internal/must"
)

// endpoint is an address to listen on, and the clients from which a PROXY protocol header is expected.
type endpoint struct {
	address string
	trusted []netip.Prefix
}

// everyClient contains all addresses: every client must send the header.
var everyClient = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}

// endpointsFor returns echo's own endpoints, or those of the program whose arguments it gets.
func endpointsFor(args []string) ([]endpoint, error) {
	switch {
	case len(args) == 0:
		return []endpoint{{address: ":8080"}, {":8081", everyClient}}, nil
	case args[0] == "/nginx-ingress-controller":
		return []endpoint{{":80", everyClient}, {":443", everyClient}, {address: ":10254"}}, nil
	default:
		return traefik(args)
	}
}

// traefik parses entry points: --entrypoints.NAME.address and .proxyprotocol.trustedips.
func traefik(args []string) ([]endpoint, error) {
	endpoints := []endpoint{{address: ":8080"}} // Traefik's ping
	at := map[string]int{}
	for _, a := range args {
		flag, value, _ := strings.Cut(a, "=")
		name, what, ok := strings.Cut(strings.TrimPrefix(flag, "--entrypoints."), ".")
		if !ok || name == flag {
			continue
		}
		switch what {
		case "address":
			at[name] = len(endpoints)
			endpoints = append(endpoints, endpoint{address: value})
		case "proxyprotocol.trustedips":
			i, ok := at[name]
			p, err := netip.ParsePrefix(value)
			if !ok || err != nil {
				return nil, fmt.Errorf("argument %s: not a CIDR, or the address of entry point %s does not precede it: %w", a, name, err)
			}
			endpoints[i].trusted = append(endpoints[i].trusted, p)
		}
	}
	if len(at) == 0 {
		return nil, fmt.Errorf("%q are neither arguments of Traefik nor of ingress-nginx", args)
	}
	return endpoints, nil
}

// proxyListener reads the PROXY protocol header (version 1) of connections from trusted addresses.
type proxyListener struct {
	net.Listener
	trusted []netip.Prefix
}

func (l proxyListener) Accept() (_ net.Conn, err error) {
	defer must.Return(&err)
	c := must.Get(l.Listener.Accept())
	peer, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	for _, p := range l.trusted {
		if p.Contains(peer.Addr().Unmap()) {
			return &proxied{Conn: c, r: bufio.NewReader(c)}, nil
		}
	}
	return c, nil
}

// proxied reads the header on the first use of the connection, not in Accept: a client
// that sends nothing must not block the others.
type proxied struct {
	net.Conn
	r      *bufio.Reader
	read   bool
	source net.Addr
}

func (c *proxied) Read(b []byte) (int, error) {
	if err := c.header(); err != nil {
		return 0, err
	}
	return c.r.Read(b)
}

// RemoteAddr returns the source address of the header. net/http calls it before it reads the first request.
func (c *proxied) RemoteAddr() net.Addr {
	if c.header() == nil && c.source != nil {
		return c.source
	}
	return c.Conn.RemoteAddr()
}

func (c *proxied) header() (err error) {
	defer must.Return(&err)
	if c.read {
		return nil
	}
	line := must.Get(c.r.ReadString('\n'))
	c.read = true
	source, err := parse(line)
	if err != nil {
		_ = c.Close()
		return err
	}
	c.source = source
	return nil
}

// parse parses "PROXY TCP4 source destination port port" and returns the source.
func parse(line string) (net.Addr, error) {
	fields := strings.Fields(line)
	if len(fields) != 6 || fields[0] != "PROXY" || !strings.HasSuffix(line, "\r\n") {
		return nil, errors.New("not a PROXY protocol header of version 1 for TCP")
	}
	return net.ResolveTCPAddr("tcp", net.JoinHostPort(fields[2], fields[4]))
}
