// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"net/netip"

	"github.com/csccm/csccm/pkg/simulator"
)

// ForwardStatus is a port forwarding rule. Only the relay counts, and only the rule's first public port, together with
// other rules of that port.
type ForwardStatus struct {
	ID                    string   `json:"id"`
	Public                string   `json:"public"` // address, ports and protocol: 203.0.113.20:53/udp
	To                    string   `json:"to"`
	VM                    string   `json:"vm"`
	Sources               []string `json:"sources,omitempty"`
	Listen                string   `json:"listen,omitempty"`
	Flows                 int64    `json:"flows"`
	BytesIn               int64    `json:"bytesIn"`
	BytesOut              int64    `json:"bytesOut"`
	RefusedByFirewall     int64    `json:"refusedByFirewall"`
	RefusedBySourceRanges int64    `json:"refusedBySourceRanges"`
	Failed                int64    `json:"failed"`
}

func (w *forwarding) status() []ForwardStatus {
	var out []ForwardStatus
	for i := range w.current {
		out = append(out, w.statusOf(&w.current[i]))
	}
	return out
}

func (w *forwarding) statusOf(f *simulator.RouterForward) ForwardStatus {
	s := ForwardStatus{
		ID:     f.ID,
		Public: forwardName(f),
		To:     fmt.Sprintf("%s:%s", f.Guest, ports(f.PrivatePort, f.PrivatePort+f.EndPort-f.Port)),
		VM:     f.VM,
	}

	for _, p := range f.Sources {
		s.Sources = append(s.Sources, p.String())
	}

	// #nosec G115 -- checked by the API
	r, ok := w.relays[relayKey{netip.AddrPortFrom(f.Address, uint16(f.Port)), f.Protocol}]
	if !ok {
		return s
	}

	c := &r.counts
	s.Listen, s.Flows, s.BytesIn, s.BytesOut = r.listen(), c.flows.Load(), c.bytesIn.Load(), c.bytesOut.Load()
	s.RefusedByFirewall, s.RefusedBySourceRanges, s.Failed = c.byFirewall.Load(), c.byRange.Load(), c.failed.Load()
	return s
}
