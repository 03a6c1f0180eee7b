// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/csccm/csccm/test/traffic"
)

// linePort is a Service's second port, behind which echo speaks the lines of test/traffic.
const linePort = 81

// steady begins steady traffic to Services by their first port. Connections that stay
// open are part of it, unless what happens may end them.
func (b *bed) steady(ctx context.Context, open bool, to ...netip.AddrPort) *traffic.Client {
	o := traffic.Options{Rate: b.programs.Rate}
	if !open {
		o.Open = -1
	}
	for _, t := range to {
		at := netip.AddrPortFrom(t.Addr(), linePort).String()
		o.Targets = append(o.Targets, traffic.At(at, at))
	}
	return traffic.Start(ctx, "while", o)
}

// said is a report in short.
func said(r traffic.Report) string {
	return fmt.Sprintf("%d requests, %d failures, longest gap %s", r.Requests, r.Failures, r.LongestGap.Round(time.Millisecond))
}
