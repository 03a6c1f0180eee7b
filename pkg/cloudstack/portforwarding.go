// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"slices"
	"strconv"

	"github.com/csccm/csccm/pkg/cloudstack/internal/flex"
)

// PortForwarding leads ports of a public address to one VM.
type PortForwarding struct {
	ID          string            `json:"id"`
	PublicIPID  string            `json:"ipaddressid"`
	PublicIP    string            `json:"ipaddress"`
	NetworkID   string            `json:"networkid"`
	Protocol    string            `json:"protocol"` // tcp or udp
	StartPort   int               `json:"-"`        // public ports
	EndPort     int               `json:"-"`
	PrivatePort int               `json:"-"` // the first
	VMID        string            `json:"virtualmachineid"`
	VMName      string            `json:"virtualmachinename"`
	GuestIP     string            `json:"vmguestip"`
	State       string            `json:"state"`
	CIDRs       []string          `json:"-"`
	Tags        map[string]string `json:"-"`
}

// PortForwardingQuery filters listPortForwardingRules; Tags must all match. An unknown ID is KindNotFound.
type PortForwardingQuery struct {
	ID, PublicIPID, NetworkID, ProjectID string
	Tags                                 map[string]string
}

type portForwardingJSON struct {
	PortForwarding
	StartPort   flex.Int   `json:"publicport"`
	EndPort     flex.Int   `json:"publicendport"`
	PrivatePort flex.Int   `json:"privateport"`
	CIDRs       *string    `json:"cidrlist"`
	Tags        []flex.Tag `json:"tags"`
}

func (p *portForwardingJSON) toPortForwarding() PortForwarding {
	out := p.PortForwarding
	out.StartPort, out.EndPort = int(p.StartPort), int(max(p.EndPort, p.StartPort)) // one port needs no end
	out.PrivatePort, out.CIDRs, out.Tags = int(p.PrivatePort), flex.SplitCIDRs(p.CIDRs), flex.TagMap(p.Tags)
	return out
}

// ListPortForwardings lists port forwardings.
func (c *Client) ListPortForwardings(ctx context.Context, q PortForwardingQuery) ([]PortForwarding, error) {
	f := filter{}.set("id", q.ID).set("ipaddressid", q.PublicIPID).set("networkid", q.NetworkID).set("projectid", q.ProjectID).tags(q.Tags)
	found, err := list(ctx, c, "listPortForwardingRules", "portforwardingrule", f, func(p *portForwardingJSON) string { return p.ID }, (*portForwardingJSON).toPortForwarding)
	return slices.DeleteFunc(found, func(p PortForwarding) bool { return !hasTags(p.Tags, q.Tags) }), err
}

// CreatePortForwardingRequest forwards one port. CIDRs nil leaves it open to everybody, as far as a firewall lets; only the
// routers of VPCs look at it.
type CreatePortForwardingRequest struct {
	PublicIPID, Protocol, VMID string
	GuestIP                    string // a secondary address of the VM; empty for the primary one
	NetworkID                  string // of an address of a VPC: the tier
	PublicPort, PrivatePort    int
	CIDRs                      []string
}

// CreatePortForwarding forwards a port. It never opens the firewall, as the server does by default.
func (c *Client) CreatePortForwarding(ctx context.Context, r CreatePortForwardingRequest) (Submitted, error) {
	f := filter{
		"ipaddressid": r.PublicIPID, "protocol": r.Protocol, "publicport": strconv.Itoa(r.PublicPort), "privateport": strconv.Itoa(r.PrivatePort),
		"virtualmachineid": r.VMID, "openfirewall": "false",
	}.set("vmguestip", r.GuestIP).set("networkid", r.NetworkID)
	if r.CIDRs != nil {
		f["cidrlist"] = joinIDs(r.CIDRs)
	}
	return c.submit(ctx, "createPortForwardingRule", f)
}

// UpdatePortForwardingRequest changes a port forwarding in place; what is empty is left as it is.
type UpdatePortForwardingRequest struct {
	ID, VMID    string
	GuestIP     string // with VMID: see CreatePortForwardingRequest
	PrivatePort int
	CIDRs       []string
}

// UpdatePortForwarding changes VM, private port or source ranges.
func (c *Client) UpdatePortForwarding(ctx context.Context, r UpdatePortForwardingRequest) (Submitted, error) {
	f := filter{"id": r.ID}.set("virtualmachineid", r.VMID).set("vmguestip", r.GuestIP)
	if r.PrivatePort != 0 {
		f["privateport"] = strconv.Itoa(r.PrivatePort)
	}
	if len(r.CIDRs) > 0 {
		f["cidrlist"] = joinIDs(r.CIDRs)
	}
	return c.submit(ctx, "updatePortForwardingRule", f)
}

// DeletePortForwarding deletes a port forwarding; one that is gone is KindNotFound.
func (c *Client) DeletePortForwarding(ctx context.Context, id string) (Submitted, error) {
	return c.submit(ctx, "deletePortForwardingRule", filter{"id": id})
}
