// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"strings"
	"time"
)

var projectCommands = []command{
	{name: "listProjects", refs: map[string]refKind{"id": refProject}, run: listProjects},
	{name: "addAccountToProject", submit: addAccountToProject, class: "user.account.AddAccountToProjectCmd"},
}

// projectView is the object project.
type projectView struct {
	ID          string              `json:"id"`
	Name        string              `json:"name"`
	DisplayText string              `json:"displaytext"`
	DomainID    string              `json:"domainid"`
	Domain      string              `json:"domain"`
	Owner       []map[string]string `json:"owner"`
	AccountName string              `json:"projectaccountname"`
	State       string              `json:"state"`
	Tags        []tagView           `json:"tags"`
	*counters
	Created *timestamp `json:"created"`
}

func listProjects(c *call) (any, error) {
	me := c.caller.account
	listAll := c.boolean("listall") || c.given("id")
	var out []*project
	for _, p := range c.st.projects.rows {
		visible := p.member(me) || listAll && (me.rootAdmin() || me.domainAdmin() && p.domain.within(me.domain))
		switch {
		case p.removed || !visible || !matches(c, "id", p) || !matches(c, "domainid", p.domain):
		case c.has("name") && !strings.EqualFold(c.str("name"), p.name), c.has("displaytext") && !strings.EqualFold(c.str("displaytext"), p.display):
		case c.has("keyword") && !like(p.name, c.str("keyword")) && !like(p.display, c.str("keyword")):
		case c.has("state") && !strings.EqualFold(c.str("state"), p.state), c.has("account") && !c.memberNamed(p):
		case !p.hasTags(c.tagFilter()):
		default:
			out = append(out, p)
		}
	}
	return page(c, "project", out, c.viewProject)
}

func (c *call) memberNamed(p *project) bool {
	for _, m := range p.members {
		if strings.EqualFold(m.account.name, c.str("account")) {
			return true
		}
	}
	return false
}

func (c *call) viewProject(p *project) projectView {
	n := c.st.count(p.account)
	v := projectView{
		ID: p.uuid, Name: p.name, DisplayText: p.display, DomainID: p.domain.uuid, Domain: p.domain.name, AccountName: p.account.name,
		State: p.state, Tags: viewTags(&p.tagged), counters: &n, Created: stamp(p.created), Owner: []map[string]string{},
	}
	for _, m := range p.members {
		if m.admin {
			v.Owner = append(v.Owner, map[string]string{"account": m.account.name})
		}
	}
	return v
}

func addAccountToProject(c *call) (*jobSpec, error) {
	p := arg[*project](c, "projectid")
	if p == nil || p.removed {
		return nil, invalid("Unable to find the project id")
	}
	return &jobSpec{run: func(time.Time) (any, error) {
		if !c.access(p.account) {
			return nil, denied()
		}
		a, ok := c.st.accountIn(p.domain, c.str("account"))
		if !ok {
			return nil, invalid("Unable to find account name=%s in domain id=%d", c.str("account"), p.domain.id)
		}
		if !p.member(a) {
			p.members = append(p.members, projectMember{account: a, admin: strings.EqualFold(c.str("projectrole"), "Admin")})
		}
		return success{true}, nil
	}}, nil
}
