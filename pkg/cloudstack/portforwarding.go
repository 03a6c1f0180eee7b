// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import "context"

// PortForwarding leads ports of a public address to one VM.
type PortForwarding struct {
	ID         string `json:"id"`
	PublicIPID string `json:"ipaddressid"`
	Protocol   string `json:"protocol"` // tcp or udp
	StartPort  int    `json:"-"`        // public ports
	EndPort    int    `json:"-"`
	VMID       string `json:"virtualmachineid"`
	VMName     string `json:"virtualmachinename"`
}

// PortForwardingQuery filters listPortForwardingRules.
type PortForwardingQuery struct {
	PublicIPID, NetworkID, ProjectID string
}

type portForwardingJSON struct {
	PortForwarding
	StartPort flexInt `json:"publicport"`
	EndPort   flexInt `json:"publicendport"`
}

func (p *portForwardingJSON) toPortForwarding() PortForwarding {
	out := p.PortForwarding
	out.StartPort, out.EndPort = int(p.StartPort), int(max(p.EndPort, p.StartPort)) // one port needs no end
	return out
}

// ListPortForwardings lists port forwardings.
func (c *Client) ListPortForwardings(ctx context.Context, q PortForwardingQuery) ([]PortForwarding, error) {
	f := filter{}.set("ipaddressid", q.PublicIPID).set("networkid", q.NetworkID).set("projectid", q.ProjectID)
	return list(ctx, c, "listPortForwardingRules", "portforwardingrule", f, func(p *portForwardingJSON) string { return p.ID }, (*portForwardingJSON).toPortForwarding)
}
