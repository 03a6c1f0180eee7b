// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import "context"

// PortForwarding leads ports of a public address to one VM.
type PortForwarding struct {
	ID, PublicIPID     string
	Protocol           string // tcp or udp
	StartPort, EndPort int    // public ports
	VMID, VMName       string
}

// PortForwardingQuery filters listPortForwardingRules.
type PortForwardingQuery struct {
	PublicIPID, ProjectID string
}

type portForwardingJSON struct {
	ID         string  `json:"id"`
	PublicIPID string  `json:"ipaddressid"`
	Protocol   string  `json:"protocol"`
	StartPort  flexInt `json:"publicport"`
	EndPort    flexInt `json:"publicendport"`
	VMID       string  `json:"virtualmachineid"`
	VMName     string  `json:"virtualmachinename"`
}

func (p *portForwardingJSON) toPortForwarding() PortForwarding {
	out := PortForwarding{
		ID: p.ID, PublicIPID: p.PublicIPID, Protocol: p.Protocol, StartPort: int(p.StartPort), EndPort: int(p.EndPort), VMID: p.VMID, VMName: p.VMName,
	}
	out.EndPort = max(out.EndPort, out.StartPort) // one port needs no end
	return out
}

// ListPortForwardings lists port forwardings.
func (c *Client) ListPortForwardings(ctx context.Context, q PortForwardingQuery) ([]PortForwarding, error) {
	f := filter{}.set("ipaddressid", q.PublicIPID).set("projectid", q.ProjectID)
	return list(ctx, c, "listPortForwardingRules", "portforwardingrule", f, func(p *portForwardingJSON) string { return p.ID }, (*portForwardingJSON).toPortForwarding)
}
