// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"strconv"
)

// PortForwarding forwards ports of a public address to one VM.
type PortForwarding struct {
	ID          string            `json:"id"`
	PublicIPID  string            `json:"ipaddressid"`
	PublicIP    string            `json:"ipaddress"`
	NetworkID   string            `json:"networkid"`
	Protocol    string            `json:"protocol"` // tcp or udp
	StartPort   int               `json:"publicport"`
	EndPort     int               `json:"publicendport"`
	PrivatePort int               `json:"privateport"` // the first one of a range
	VMID        string            `json:"virtualmachineid"`
	VMName      string            `json:"virtualmachinename"`
	GuestIP     string            `json:"vmguestip"`
	State       string            `json:"state"`
	CIDRs       []string          `json:"cidrlist"`
	Tags        map[string]string `json:"tags"`
}

// PortForwardingQuery filters listPortForwardingRules.
type PortForwardingQuery struct {
	PublicIPID, ProjectID string
	Tags                  map[string]string // at most one: releases differ in whether several must all match
}

// ListPortForwardings lists port forwardings.
func (c *Client) ListPortForwardings(ctx context.Context, q PortForwardingQuery) ([]PortForwarding, error) {
	f := Params{}.Set("ipaddressid", q.PublicIPID).Set("projectid", q.ProjectID).setTags(q.Tags)
	found, err := List(ctx, c, "listPortForwardingRules", "portforwardingrule", f,
		func(p *PortForwarding) string { return p.ID })
	for i := range found {
		found[i].EndPort = max(found[i].EndPort, found[i].StartPort) // a single port may have no end
	}
	return found, err
}

// CreatePortForwardingRequest describes the forwarding of one port. With nil CIDRs it is open to everyone whom the
// firewall allows. Only the routers of VPCs use CIDRs.
type CreatePortForwardingRequest struct {
	PublicIPID, Protocol, VMID string
	GuestIP                    string // a secondary address of the VM; empty for the primary one
	NetworkID                  string // of an address of a VPC: the tier
	PublicPort, PrivatePort    int
	CIDRs                      []string
}

// CreatePortForwarding forwards a port. It never opens the firewall, which the server does by default.
func (c *Client) CreatePortForwarding(ctx context.Context, r CreatePortForwardingRequest) (Submitted, error) {
	f := Params{
		"ipaddressid":      r.PublicIPID,
		"protocol":         r.Protocol,
		"publicport":       strconv.Itoa(r.PublicPort),
		"privateport":      strconv.Itoa(r.PrivatePort),
		"virtualmachineid": r.VMID, "openfirewall": "false",
	}.Set("vmguestip", r.GuestIP).Set("networkid", r.NetworkID)
	if r.CIDRs != nil {
		f["cidrlist"] = joined(r.CIDRs)
	}
	return c.Submit(ctx, "createPortForwardingRule", f)
}

// UpdatePortForwardingRequest changes a port forwarding in place; empty fields leave it unchanged.
type UpdatePortForwardingRequest struct {
	ID, VMID    string
	GuestIP     string // with VMID: see CreatePortForwardingRequest
	PrivatePort int
	CIDRs       []string
}

// UpdatePortForwarding changes VM, private port or source ranges.
func (c *Client) UpdatePortForwarding(ctx context.Context, r UpdatePortForwardingRequest) (Submitted, error) {
	f := Params{"id": r.ID}.Set("virtualmachineid", r.VMID).Set("vmguestip", r.GuestIP)
	if r.PrivatePort != 0 {
		f["privateport"] = strconv.Itoa(r.PrivatePort)
	}
	if len(r.CIDRs) > 0 {
		f["cidrlist"] = joined(r.CIDRs)
	}
	return c.Submit(ctx, "updatePortForwardingRule", f)
}
