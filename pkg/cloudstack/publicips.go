// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"slices"
	"strconv"

	"github.com/csccm/csccm/pkg/cloudstack/internal/flex"
)

// PublicIPQuery filters listPublicIpAddresses. The server shows allocated
// addresses only unless AllocatedOnly is false; Tags must all match.
type PublicIPQuery struct {
	ID, Address, AssociatedNetworkID, VPCID, ProjectID, State string
	AllocatedOnly                                             *bool
	Tags                                                      map[string]string
}

type publicIPJSON struct {
	PublicIP
	SourceNAT flex.Bool  `json:"issourcenat"`
	StaticNAT flex.Bool  `json:"isstaticnat"`
	Tags      []flex.Tag `json:"tags"`
}

func (p *publicIPJSON) toPublicIP() PublicIP {
	out := p.PublicIP
	out.SourceNAT, out.StaticNAT, out.Tags = bool(p.SourceNAT), bool(p.StaticNAT), flex.TagMap(p.Tags)
	return out
}

// ListPublicIPs lists public IP addresses.
func (c *Client) ListPublicIPs(ctx context.Context, q PublicIPQuery) ([]PublicIP, error) {
	f := filter{}.set("id", q.ID).set("ipaddress", q.Address).set("associatednetworkid", q.AssociatedNetworkID).
		set("vpcid", q.VPCID).set("projectid", q.ProjectID).set("state", q.State).tags(q.Tags)
	if q.AllocatedOnly != nil {
		f["allocatedonly"] = strconv.FormatBool(*q.AllocatedOnly)
	}
	ips, err := list(ctx, c, "listPublicIpAddresses", "publicipaddress", f, func(p *publicIPJSON) string { return p.ID }, (*publicIPJSON).toPublicIP)
	return slices.DeleteFunc(ips, func(p PublicIP) bool { return !hasTags(p.Tags, q.Tags) }), err
}

// CountFreePublicIPs returns how many public addresses of a zone nobody has. It costs one call, whatever their number.
func (c *Client) CountFreePublicIPs(ctx context.Context, zoneID string) (int, error) {
	f := filter{"state": "Free", "page": "1", "pagesize": "1"}.set("zoneid", zoneID)
	_, n, err := listPage[publicIPJSON](ctx, c, "listPublicIpAddresses", "publicipaddress", f)
	return max(n, 0), err // -1: the list is empty
}

// AssociateIPRequest acquires a public IP address for a network or a VPC.
type AssociateIPRequest struct {
	NetworkID, VPCID, ProjectID, Address string
	CustomJobID                          string // UUID chosen by the caller; fresh for every attempt
}

// AssociateIP acquires a public IP address. Calls of one account should come
// one after the other; the server locks them with long sleeps.
func (c *Client) AssociateIP(ctx context.Context, r AssociateIPRequest) (Submitted, error) {
	return c.submit(ctx, "associateIpAddress", filter{}.set("networkid", r.NetworkID).set("vpcid", r.VPCID).set("projectid", r.ProjectID).
		set("ipaddress", r.Address).set("customjobid", r.CustomJobID))
}

// DisassociateIP releases an address; its rules and tags go with it.
func (c *Client) DisassociateIP(ctx context.Context, id string) (Submitted, error) {
	return c.submit(ctx, "disassociateIpAddress", filter{"id": id})
}
