// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"net/netip"

	"github.com/csccm/csccm/test/traffic"
)

// steadyPort is a Service's second port, for the requests of test/traffic. It is not port 80, because on port 80 a
// virtual router closes the connection after each response.
const steadyPort = 81

// steady starts steady traffic to the steadyPort of Services. part is the name of its first part, empty if it is the
// only one. With open, connections that stay open are part of the traffic; they are left out where the scenario ends
// them on purpose.
func (e *env) steady(ctx context.Context, part string, open bool, to ...netip.AddrPort) *traffic.Client {
	o := traffic.Options{Rate: e.programs.Rate}
	if !open {
		o.Open = -1
	}
	for _, t := range to {
		o.Targets = append(o.Targets, netip.AddrPortFrom(t.Addr(), steadyPort).String())
	}
	c := traffic.Start(ctx, part, o)
	e.clients = append(e.clients, c)
	return c
}
