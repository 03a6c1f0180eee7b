// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"slices"
	"strconv"
)

// PublicIPQuery filters listPublicIpAddresses. The server shows allocated
// addresses only unless AllocatedOnly is false; Tags must all match.
type PublicIPQuery struct {
	ID, Address, AssociatedNetworkID, VPCID, ProjectID, State string
	AllocatedOnly                                             *bool
	Tags                                                      map[string]string
	ListAll                                                   bool
}

type publicIPJSON struct {
	ID                  string    `json:"id"`
	Address             string    `json:"ipaddress"`
	State               string    `json:"state"`
	Allocated           string    `json:"allocated"`
	ZoneID              string    `json:"zoneid"`
	AssociatedNetworkID string    `json:"associatednetworkid"`
	VPCID               string    `json:"vpcid"`
	ProjectID           string    `json:"projectid"`
	Account             string    `json:"account"`
	SourceNAT           flexBool  `json:"issourcenat"`
	StaticNAT           flexBool  `json:"isstaticnat"`
	System              flexBool  `json:"issystem"`
	HasRules            flexBool  `json:"hasrules"`
	Tags                []tagJSON `json:"tags"`
}

func (p *publicIPJSON) toPublicIP() PublicIP {
	return PublicIP{
		ID: p.ID, Address: p.Address, State: p.State, Allocated: p.Allocated, ZoneID: p.ZoneID,
		AssociatedNetworkID: p.AssociatedNetworkID, VPCID: p.VPCID, ProjectID: p.ProjectID, Account: p.Account,
		SourceNAT: bool(p.SourceNAT), StaticNAT: bool(p.StaticNAT), System: bool(p.System), HasRules: bool(p.HasRules),
		Tags: tagMap(p.Tags),
	}
}

// ListPublicIPs lists public IP addresses.
func (c *Client) ListPublicIPs(ctx context.Context, q PublicIPQuery) ([]PublicIP, error) {
	f := filter{}.set("id", q.ID).set("ipaddress", q.Address).set("associatednetworkid", q.AssociatedNetworkID).
		set("vpcid", q.VPCID).set("projectid", q.ProjectID).set("state", q.State).
		flag("listall", q.ListAll).tags(q.Tags)
	if q.AllocatedOnly != nil {
		f["allocatedonly"] = strconv.FormatBool(*q.AllocatedOnly)
	}
	ips, err := list(ctx, c, "listPublicIpAddresses", "publicipaddress", f, func(p *publicIPJSON) string { return p.ID }, (*publicIPJSON).toPublicIP)
	return slices.DeleteFunc(ips, func(p PublicIP) bool { return !hasTags(p.Tags, q.Tags) }), err
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
