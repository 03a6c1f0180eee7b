// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"strconv"

	"github.com/csccm/csccm/pkg/cloudstack/internal/flex"
)

// NetworkACL is one item of a network ACL list: a rule for a VPC tier.
type NetworkACL struct {
	ID        string   `json:"id"`
	ListID    string   `json:"aclid"`
	ListName  string   `json:"aclname"`
	Number    int      `json:"-"`
	Protocol  string   `json:"protocol"` // tcp, udp, icmp, all, or a number as text
	StartPort int      `json:"-"`        // with EndPort 0,0 means all ports
	EndPort   int      `json:"-"`
	CIDRs     []string `json:"-"`
	Ingress   bool     `json:"-"`
	Allow     bool     `json:"-"`
	Reason    string   `json:"reason"`
	State     string   `json:"state"`
}

// NetworkACLQuery filters listNetworkACLs. Without ListID it is every item that the caller sees, those of the
// two default lists included.
type NetworkACLQuery struct {
	ID, ListID, ProjectID string
}

type aclJSON struct {
	NetworkACL
	Number      flex.Int `json:"number"`
	StartPort   flex.Int `json:"startport"`
	EndPort     flex.Int `json:"endport"`
	CIDRs       *string  `json:"cidrlist"`
	TrafficType string   `json:"traffictype"`
	Action      string   `json:"action"`
}

func (a *aclJSON) toACL() NetworkACL {
	out := a.NetworkACL
	out.Number, out.StartPort, out.EndPort, out.CIDRs = int(a.Number), int(a.StartPort), int(a.EndPort), flex.SplitCIDRs(a.CIDRs)
	out.Ingress, out.Allow = a.TrafficType != "Egress", a.Action != "Deny"
	return out
}

// ListNetworkACLs lists items of network ACL lists.
func (c *Client) ListNetworkACLs(ctx context.Context, q NetworkACLQuery) ([]NetworkACL, error) {
	f := filter{}.set("id", q.ID).set("aclid", q.ListID).set("projectid", q.ProjectID)
	return list(ctx, c, "listNetworkACLs", "networkacl", f, func(a *aclJSON) string { return a.ID }, (*aclJSON).toACL)
}

// CreateNetworkACLRequest lets sources in. Number decides the order of the items of a list, lowest first; it
// must be free.
type CreateNetworkACLRequest struct {
	ListID, Protocol   string
	StartPort, EndPort int
	CIDRs              []string // not empty: the server would take that for the whole world
	Number             int
	Reason             string
}

// CreateNetworkACL makes an item that allows ingress.
func (c *Client) CreateNetworkACL(ctx context.Context, r CreateNetworkACLRequest) (Submitted, error) {
	const command = "createNetworkACL"
	if len(r.CIDRs) == 0 || r.Number < 1 {
		return Submitted{}, &Error{Kind: KindInvalid, Command: command, Text: "source ranges and a number are needed, without which the item would be open to everyone or come last"}
	}
	f := filter{
		"aclid": r.ListID, "protocol": r.Protocol, "startport": strconv.Itoa(r.StartPort), "endport": strconv.Itoa(r.EndPort),
		"cidrlist": joinIDs(r.CIDRs), "number": strconv.Itoa(r.Number), "traffictype": "Ingress", "action": "Allow",
	}.set("reason", r.Reason)
	return c.submit(ctx, command, f)
}

// DeleteNetworkACL deletes an item; one that is gone is KindNotFound.
func (c *Client) DeleteNetworkACL(ctx context.Context, id string) (Submitted, error) {
	return c.submit(ctx, "deleteNetworkACL", filter{"id": id})
}
