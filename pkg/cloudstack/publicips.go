// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"slices"
	"strconv"
)

// PublicIP is a public IP address.
type PublicIP struct {
	ID      string `json:"id"`
	Address string `json:"ipaddress"`
	State   string `json:"state"`
	// Allocated is when the account acquired the address, as the server writes it. The address keeps its ID when
	// another account acquires it.
	Allocated string `json:"allocated"`
	// AssociatedNetworkID is the guest network that it serves; empty for a VPC address without rules.
	AssociatedNetworkID string            `json:"associatednetworkid"`
	VPCID               string            `json:"vpcid"`
	ProjectID           string            `json:"projectid"`
	SourceNAT           bool              `json:"issourcenat"`
	StaticNAT           bool              `json:"isstaticnat"`
	Tags                map[string]string `json:"tags"`
}

// PublicIPQuery filters listPublicIpAddresses. The server lists only allocated addresses, unless AllocatedOnly is
// false.
type PublicIPQuery struct {
	ID, Address, AssociatedNetworkID, ProjectID, State string
	AllocatedOnly                                      *bool
	// Tags has at most one entry: releases differ in whether several must all match.
	Tags map[string]string
}

// ListPublicIPs lists public IP addresses.
func (c *Client) ListPublicIPs(ctx context.Context, q PublicIPQuery) ([]PublicIP, error) {
	f := Params{}.Set("id", q.ID).Set("ipaddress", q.Address).Set("associatednetworkid", q.AssociatedNetworkID).
		Set("projectid", q.ProjectID).Set("state", q.State).setTags(q.Tags)
	if q.AllocatedOnly != nil {
		f["allocatedonly"] = strconv.FormatBool(*q.AllocatedOnly)
	}
	return List(ctx, c, "listPublicIpAddresses", "publicipaddress", f, func(p *PublicIP) string { return p.ID })
}

// AssociateIPRequest describes the acquisition of a public IP address for a network or a VPC.
type AssociateIPRequest struct {
	NetworkID, VPCID, ProjectID, Address string
	CustomJobID                          string // UUID chosen by the caller; fresh for every attempt
}

// AssociateIP acquires a public IP address. Make the calls for one account one after the other: the server serialises
// them with a lock and long sleeps.
func (c *Client) AssociateIP(ctx context.Context, r AssociateIPRequest) (Submitted, error) {
	return c.Submit(ctx, "associateIpAddress",
		Params{}.Set("networkid", r.NetworkID).Set("vpcid", r.VPCID).Set("projectid", r.ProjectID).
			Set("ipaddress", r.Address).Set("customjobid", r.CustomJobID))
}

// DisassociateIP releases an address. Its rules and tags are deleted with it.
func (c *Client) DisassociateIP(ctx context.Context, id string) (Submitted, error) {
	return c.Delete(ctx, "disassociateIpAddress", id)
}

// CreateTags tags resources of one type. A key that a resource already has fails the job for all.
func (c *Client) CreateTags(
	ctx context.Context, resourceType string, ids []string, tags map[string]string,
) (Submitted, error) {
	return c.Submit(ctx, "createTags", Params{"resourcetype": resourceType, "resourceids": joined(ids)}.setTags(tags))
}

// TagQuery selects tags; empty fields select all.
type TagQuery struct {
	ResourceType, Key, Value, ProjectID string
}

// Tag is one tag of a resource. Load balancer rules keep their tags when they are deleted.
type Tag struct {
	ResourceType string `json:"resourcetype"`
	ResourceID   string `json:"resourceid"`
	Key          string `json:"key"`
	Value        string `json:"value"`
	ProjectID    string `json:"projectid"`
}

// ListTags lists tags. The server compares keys and values without regard to case.
func (c *Client) ListTags(ctx context.Context, q TagQuery) ([]Tag, error) {
	f := Params{}.Set("resourcetype", q.ResourceType).Set("key", q.Key).Set("value", q.Value).
		Set("projectid", q.ProjectID)
	return List(ctx, c, "listTags", "tag", f,
		func(t *Tag) string { return t.ResourceType + "/" + t.ResourceID + "/" + t.Key })
}

// DeleteTags removes the tags with the given keys, whatever their values. keys must not be empty: the server would
// remove all tags of the resources.
func (c *Client) DeleteTags(ctx context.Context, resourceType string, ids []string, keys []string) (Submitted, error) {
	const command = "deleteTags"
	if len(keys) == 0 {
		return Submitted{}, &Error{
			Kind:    KindInvalid,
			Command: command,
			Text:    "tag keys are missing, without which all tags would be deleted",
		}
	}
	f := Params{"resourcetype": resourceType, "resourceids": joined(ids)}
	for i, k := range slices.Sorted(slices.Values(keys)) {
		f["tags["+strconv.Itoa(i)+"].key"] = k // without a value, which would have to match
	}
	return c.Submit(ctx, command, f)
}
