// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import "strings"

var projectRefs = map[string]refKind{"id": refProject}

// projectView is the API object project.
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
	counted, err := c.resourceDetails()
	if err != nil {
		return nil, err
	}
	in, err := c.projectsScope()
	if err != nil {
		return nil, err
	}
	var out []*project
	for _, p := range c.st.projects.rows {
		switch {
		case p.removed || !in(p) || !matches(c, "id", p):
		case c.has("name") && !strings.EqualFold(c.str("name"), p.name), c.has("displaytext") && !strings.EqualFold(c.str("displaytext"), p.display):
		case c.has("keyword") && !like(p.name, c.str("keyword")) && !like(p.display, c.str("keyword")):
		case c.has("state") && !strings.EqualFold(c.str("state"), p.state), !p.hasTags(c.tagFilter()):
		default:
			out = append(out, p)
		}
	}
	return page(c, "project", out, func(p *project) projectView { return c.projectView(p, counted) })
}

// projectsScope returns the filter of listProjects: the caller's own projects. For admins: the projects of the named
// account or user, those of a domain, or with listall all that they may see.
func (c *call) projectsScope() (func(*project) bool, *apiError) {
	me := c.caller.account
	name, username := c.str("account"), c.str("username")
	d := arg[*domain](c, "domainid")
	mine := func(p *project) bool { return p.admits(c.caller) }
	if !me.admin() {
		switch {
		case name != "" && name != me.name:
			return nil, errf(codeAccount, csPermission, "Can't list account %s projects; unauthorized", name)
		case c.given("domainid") && d != me.domain:
			return nil, errf(codeAccount, csPermission, "Can't list domain id= %d projects; unauthorized", c.refs["domainid"].id)
		case username != "" && username != c.caller.user.username:
			return nil, errf(codeAccount, csPermission, "Can't list user %s projects; unauthorized", username)
		}
		return mine, nil
	}
	if c.given("domainid") {
		if d == nil || d.removed {
			return nil, invalid("Domain id=%d doesn't exist in the system", c.refs["domainid"].id)
		}
		if !c.domainAccess(d) {
			return nil, denied()
		}
		if name != "" {
			a, ok := c.st.accountIn(d, name)
			if !ok {
				return nil, invalid("Unable to find account %s in domain %d", name, d.id)
			}
			return func(p *project) bool { return p.find(a, nil) != nil }, nil
		}
		if username != "" {
			u, ok := c.st.userIn(d, username)
			if !ok {
				return nil, invalid("Unable to find user %s in domain %d", username, d.id)
			}
			return func(p *project) bool { return p.find(u.account, u) != nil }, nil
		}
		deep := c.boolOr("isrecursive", c.boolean("listall"))
		return func(p *project) bool { return p.domain == d || deep && p.domain.within(d) }, nil
	}
	switch {
	case name != "":
		return nil, invalid("could not find account %s because domain is not specified", name)
	case username != "":
		return nil, invalid("could not find user %s because domain is not specified", username)
	case !c.boolean("listall"):
		return mine, nil
	}
	return func(p *project) bool { return p.domain.within(me.domain) }, nil
}

func (c *call) viewProject(p *project) projectView { return c.projectView(p, true) }

func (c *call) projectView(p *project, counted bool) projectView {
	v := projectView{
		ID: p.uuid, Name: p.name, DisplayText: p.display, DomainID: p.domain.uuid, Domain: p.domain.name, AccountName: p.account.name,
		State: p.state, Tags: viewTags(&p.tagged), Created: stamp(p.created), Owner: []map[string]string{},
	}
	if counted {
		v.counters = ptr(c.st.count(p.account))
	}
	for _, m := range p.members {
		if !m.admin {
			continue
		}
		o := map[string]string{"account": m.account.name}
		if m.user != nil {
			o["userid"], o["user"] = m.user.uuid, m.user.username
		}
		v.Owner = append(v.Owner, o)
	}
	return v
}

type projectAnswer struct {
	Project projectView `json:"project"`
}
