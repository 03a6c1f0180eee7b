// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"strings"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// aclItemView is the API object networkacl. Its ports are strings, unlike those of firewall rules.
type aclItemView struct {
	ID          string         `json:"id"`
	Protocol    string         `json:"protocol"`
	StartPort   string         `json:"startport,omitempty"`
	EndPort     string         `json:"endport,omitempty"`
	TrafficType string         `json:"traffictype"`
	State       string         `json:"state"`
	CIDRList    string         `json:"cidrlist"`
	ICMPType    *int           `json:"icmptype,omitempty"`
	ICMPCode    *int           `json:"icmpcode,omitempty"`
	Tags        []wire.TagView `json:"tags"`
	ACLID       string         `json:"aclid"`
	ACLName     string         `json:"aclname"`
	Number      int            `json:"number"`
	Action      string         `json:"action"`
	ForDisplay  *bool          `json:"fordisplay,omitempty"`
	Reason      string         `json:"reason,omitempty"`
}

// listAccess reports whether the caller may see an ACL list. Everybody may see the global lists.
func listAccess(c *wire.Call, l *store.ACLList) bool { return l.VPC == nil || c.Access(l.VPC.Owner) }

func listNetworkACLs(c *wire.Call) (any, error) {
	in, err := c.OwnerScope(c.ByID() || c.Given("aclid"))
	if err != nil {
		return nil, err
	}

	if l := wire.Arg[*store.ACLList](c, "aclid"); l != nil && !listAccess(c, l) {
		return nil, wire.Denied()
	}

	var only *store.ACLList
	if c.Given("networkid") {
		n := wire.Arg[*store.Network](c, "networkid")
		if n == nil || n.ACL == nil {
			return wire.Page(c, "networkacl", []*store.ACLItem(nil),
				func(it *store.ACLItem) aclItemView { return viewACLItem(c, it) })
		}
		if n.Owner != nil && !c.Access(n.Owner) {
			return nil, wire.Denied()
		}
		only = n.ACL
	}

	return wire.List(c, "networkacl", wire.Newest(c.St.ACLItems.Rows), func(it *store.ACLItem) bool {
		l := it.List
		return (only == nil || l == only) &&
			(only != nil || l.VPC == nil || in(l.VPC.Owner)) &&
			wire.Matches(c, "aclid", l) &&
			c.Is("traffictype", it.Traffic) &&
			c.Is("protocol", it.Protocol) &&
			c.Is("action", it.Action) &&
			c.Like("keyword", it.Protocol, it.Reason) &&
			it.HasTags(c.TagFilter()) &&
			c.Visible("fordisplay", it.Hidden)
	}, func(it *store.ACLItem) aclItemView { return viewACLItem(c, it) })
}

func viewACLItem(c *wire.Call, it *store.ACLItem) aclItemView {
	v := aclItemView{
		ID:          it.UUID,
		Protocol:    it.Protocol,
		TrafficType: it.Traffic,
		State:       it.State,
		CIDRList:    strings.Join(it.CIDRs, ","),
		ICMPType:    it.IcmpType,
		ICMPCode:    it.IcmpCode,
		Tags:        wire.ViewTags(&it.Tagged),
		ACLID:       it.List.UUID,
		ACLName:     it.List.Name,
		Number:      it.Number,
		Action:      it.Action,
		Reason:      it.Reason,
	}

	if it.StartPort != nil {
		v.StartPort = fmt.Sprint(*it.StartPort)
	}

	if it.EndPort != nil {
		v.EndPort = fmt.Sprint(*it.EndPort)
	}

	if c.Caller.RootAdmin() {
		v.ForDisplay = wire.Ptr(!it.Hidden)
	}

	return v
}

// aclListView is the API object networkacllist.
type aclListView struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	VPCID       string `json:"vpcid,omitempty"`
	VPCName     string `json:"vpcname,omitempty"`
	ForDisplay  *bool  `json:"fordisplay,omitempty"`
}

func listNetworkACLLists(c *wire.Call) (any, error) {
	in, err := c.OwnerScope(c.ByID())
	if err != nil {
		return nil, err
	}

	var of *store.ACLList
	if c.Given("networkid") {
		n := wire.Arg[*store.Network](c, "networkid")
		if n == nil || n.ACL == nil {
			return wire.Page(c, "networkacllist", []*store.ACLList(nil),
				func(l *store.ACLList) aclListView { return viewACLList(c, l) })
		}
		of = n.ACL
	}

	if c.Given("vpcid") {
		if v := wire.Arg[*store.VPC](c, "vpcid"); v != nil && !c.Access(v.Owner) {
			return nil, wire.Denied()
		}
	}

	return wire.List(c, "networkacllist", wire.Newest(c.St.ACLLists.Rows), func(l *store.ACLList) bool {
		return (of == nil || l == of) &&
			(l.VPC == nil || in(l.VPC.Owner)) &&
			(!c.Given("vpcid") || l.VPC == nil || l.VPC == wire.Arg[*store.VPC](c, "vpcid")) &&
			c.Is("name", l.Name) &&
			c.Like("keyword", l.Name, l.Description) &&
			c.Visible("fordisplay", l.Hidden)
	}, func(l *store.ACLList) aclListView { return viewACLList(c, l) })
}

func viewACLList(c *wire.Call, l *store.ACLList) aclListView {
	v := aclListView{ID: l.UUID, Name: l.Name, Description: l.Description}
	if l.VPC != nil {
		v.VPCID, v.VPCName = l.VPC.UUID, l.VPC.Name
	}
	if c.Caller.RootAdmin() {
		v.ForDisplay = wire.Ptr(!l.Hidden)
	}
	return v
}
