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
)

// door is where it listens, and whose first line it takes for one of the PROXY protocol.
type door struct {
	address string
	trusted []netip.Prefix
}

// everybody must send the line.
var everybody = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}

// doorsOf are echo's own, or those of the program whose arguments it is given.
func doorsOf(args []string) ([]door, error) {
	switch {
	case len(args) == 0:
		return []door{{address: ":8080"}, {":8081", everybody}}, nil
	case args[0] == "/nginx-ingress-controller":
		return []door{{":80", everybody}, {":443", everybody}, {address: ":10254"}}, nil
	default:
		return traefik(args)
	}
}

// traefik reads entry points: --entrypoints.NAME.address and .proxyprotocol.trustedips.
func traefik(args []string) ([]door, error) {
	doors := []door{{address: ":8080"}} // of the ping
	at := map[string]int{}
	for _, a := range args {
		flag, value, _ := strings.Cut(a, "=")
		name, what, ok := strings.Cut(strings.TrimPrefix(flag, "--entrypoints."), ".")
		if !ok || name == flag {
			continue
		}
		switch what {
		case "address":
			at[name] = len(doors)
			doors = append(doors, door{address: value})
		case "proxyprotocol.trustedips":
			i, ok := at[name]
			p, err := netip.ParsePrefix(value)
			if !ok || err != nil {
				return nil, fmt.Errorf("%s: no address before it, or no CIDR: %w", a, err)
			}
			doors[i].trusted = append(doors[i].trusted, p)
		}
	}
	if len(at) == 0 {
		return nil, fmt.Errorf("%q: neither Traefik's arguments nor those of ingress-nginx", args)
	}
	return doors, nil
}

// proxyListener takes the PROXY protocol's first line (version 1) off connections of those it trusts.
type proxyListener struct {
	net.Listener
	trusted []netip.Prefix
}

func (l proxyListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
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

// proxied reads the line when the connection is first read, which is not in Accept:
// a client that sends nothing must not hold up the others.
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

// RemoteAddr is asked before the first request is read.
func (c *proxied) RemoteAddr() net.Addr {
	if c.header() == nil && c.source != nil {
		return c.source
	}
	return c.Conn.RemoteAddr()
}

func (c *proxied) header() error {
	if c.read {
		return nil
	}
	line, err := c.r.ReadString('\n')
	if err != nil {
		return err
	}
	c.read = true
	source, err := parse(line)
	if err != nil {
		_ = c.Close()
		return err
	}
	c.source = source
	return nil
}

// parse reads "PROXY TCP4 source destination port port".
func parse(line string) (net.Addr, error) {
	fields := strings.Fields(line)
	if len(fields) != 6 || fields[0] != "PROXY" || !strings.HasSuffix(line, "\r\n") {
		return nil, errors.New("no PROXY protocol header")
	}
	return net.ResolveTCPAddr("tcp", net.JoinHostPort(fields[2], fields[4]))
}
