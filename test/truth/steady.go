// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"net/netip"

	"github.com/csccm/csccm/test/traffic"
)

// steadyPort is a Service's second port, behind which echo answers test/traffic. It is not port 80, where a virtual
// router ends connections with each answer: there none could stay open.
const steadyPort = 81

// steady begins steady traffic to Services by their port for it, with a part of that name: empty
// if it is the only one. Connections that stay open are part of it, unless what happens may end them.
func (b *bed) steady(ctx context.Context, part string, open bool, to ...netip.AddrPort) *traffic.Client {
	o := traffic.Options{Rate: b.programs.Rate}
	if !open {
		o.Open = -1
	}
	for _, t := range to {
		at := netip.AddrPortFrom(t.Addr(), steadyPort).String()
		o.Targets = append(o.Targets, traffic.At(at, at))
	}
	c := traffic.Start(ctx, part, o)
	b.clients = append(b.clients, c)
	return c
}
