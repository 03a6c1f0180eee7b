// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"slices"
	"strings"
)

// aclItemView is the API object networkacl. Its ports are strings, unlike those of firewall rules.
type aclItemView struct {
	ID          string    `json:"id"`
	Protocol    string    `json:"protocol"`
	StartPort   string    `json:"startport,omitempty"`
	EndPort     string    `json:"endport,omitempty"`
	TrafficType string    `json:"traffictype"`
	State       string    `json:"state"`
	CIDRList    string    `json:"cidrlist"`
	ICMPType    *int      `json:"icmptype,omitempty"`
	ICMPCode    *int      `json:"icmpcode,omitempty"`
	Tags        []tagView `json:"tags"`
	ACLID       string    `json:"aclid"`
	ACLName     string    `json:"aclname"`
	Number      int       `json:"number"`
	Action      string    `json:"action"`
	ForDisplay  *bool     `json:"fordisplay,omitempty"`
	Reason      string    `json:"reason,omitempty"`
}

// listAccess reports whether the caller may see an ACL list. Everybody may see the global lists.
func (c *call) listAccess(l *aclList) bool { return l.vpc == nil || c.access(l.vpc.owner) }

func listNetworkACLs(c *call) (any, error) {
	in, err := c.ownerScope(c.byID() || c.given("aclid"))
	if err != nil {
		return nil, err
	}
	if l := arg[*aclList](c, "aclid"); l != nil && !c.listAccess(l) {
		return nil, denied()
	}
	var only *aclList
	if c.given("networkid") {
		n := arg[*network](c, "networkid")
		if n == nil || n.acl == nil {
			return page(c, "networkacl", []*aclItem(nil), c.viewACLItem)
		}
		if n.owner != nil && !c.access(n.owner) {
			return nil, denied()
		}
		only = n.acl
	}
	var out []*aclItem
	for _, it := range slices.Backward(c.st.aclItems.rows) {
		l := it.list
		switch {
		case only != nil && l != only, only == nil && l.vpc != nil && !in(l.vpc.owner):
		case !matches(c, "id", it) || !matches(c, "aclid", l):
		case c.has("traffictype") && !strings.EqualFold(c.str("traffictype"), it.traffic):
		case c.has("protocol") && !strings.EqualFold(c.str("protocol"), it.protocol), c.has("action") && !strings.EqualFold(c.str("action"), it.action):
		case c.has("keyword") && !like(it.protocol, c.str("keyword")) && !like(it.reason, c.str("keyword")):
		case !it.hasTags(c.tagFilter()) || !c.visible("fordisplay", it.hidden):
		default:
			out = append(out, it)
		}
	}
	return page(c, "networkacl", out, c.viewACLItem)
}

func (c *call) viewACLItem(it *aclItem) aclItemView {
	v := aclItemView{
		ID: it.uuid, Protocol: it.protocol, TrafficType: it.traffic, State: it.state, CIDRList: strings.Join(it.cidrs, ","),
		ICMPType: it.icmpType, ICMPCode: it.icmpCode, Tags: viewTags(&it.tagged), ACLID: it.list.uuid, ACLName: it.list.name,
		Number: it.number, Action: it.action, Reason: it.reason,
	}
	if it.startPort != nil {
		v.StartPort = fmt.Sprint(*it.startPort)
	}
	if it.endPort != nil {
		v.EndPort = fmt.Sprint(*it.endPort)
	}
	if c.caller.rootAdmin() {
		v.ForDisplay = ptr(!it.hidden)
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

func listNetworkACLLists(c *call) (any, error) {
	in, err := c.ownerScope(c.byID())
	if err != nil {
		return nil, err
	}
	var of *aclList
	if c.given("networkid") {
		n := arg[*network](c, "networkid")
		if n == nil || n.acl == nil {
			return page(c, "networkacllist", []*aclList(nil), c.viewACLList)
		}
		of = n.acl
	}
	if c.given("vpcid") {
		if v := arg[*vpc](c, "vpcid"); v != nil && !c.access(v.owner) {
			return nil, denied()
		}
	}
	var out []*aclList
	for _, l := range slices.Backward(c.st.aclLists.rows) {
		switch {
		case of != nil && l != of, !matches(c, "id", l), l.vpc != nil && !in(l.vpc.owner):
		case c.given("vpcid") && l.vpc != nil && l.vpc != arg[*vpc](c, "vpcid"):
		case c.has("name") && !strings.EqualFold(c.str("name"), l.name):
		case c.has("keyword") && !like(l.name, c.str("keyword")) && !like(l.description, c.str("keyword")):
		case !c.visible("fordisplay", l.hidden):
		default:
			out = append(out, l)
		}
	}
	return page(c, "networkacllist", out, c.viewACLList)
}

func (c *call) viewACLList(l *aclList) aclListView {
	v := aclListView{ID: l.uuid, Name: l.name, Description: l.description}
	if l.vpc != nil {
		v.VPCID, v.VPCName = l.vpc.uuid, l.vpc.name
	}
	if c.caller.rootAdmin() {
		v.ForDisplay = ptr(!l.hidden)
	}
	return v
}
