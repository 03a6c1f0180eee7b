// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"slices"
	"strings"
)

var projectRefs = map[string]refKind{"id": refProject}

var projectCommands = []command{
	{name: "listProjects", refs: projectRefs, run: listProjects},
	{
		name: "createProject", submit: createProject, class: "user.project.CreateProjectCmd",
		order: []string{"account", "userid", "domainid", "accountid", "name", "displaytext"},
	},
	{name: "activateProject", refs: projectRefs, submit: activateProject, class: "user.project.ActivateProjectCmd"},
	{name: "suspendProject", refs: projectRefs, submit: suspendProject, class: "user.project.SuspendProjectCmd"},
	{name: "updateProject", refs: projectRefs, submit: updateProject, class: "user.project.UpdateProjectCmd"},
	{name: "deleteProject", refs: projectRefs, submit: deleteProject, class: "user.project.DeleteProjectCmd"},
	{name: "addAccountToProject", submit: addAccountToProject, class: "user.account.AddAccountToProjectCmd"},
	{name: "deleteAccountFromProject", submit: deleteAccountFromProject, class: "user.account.DeleteAccountFromProjectCmd"},
	{name: "addUserToProject", submit: addUserToProject, class: "user.account.AddUserToProjectCmd"},
	{name: "deleteUserFromProject", submit: deleteUserFromProject, class: "user.account.DeleteUserFromProjectCmd"},
	{name: "listProjectAccounts", run: listProjectAccounts},
	{name: "listProjectInvitations", run: listProjectInvitations},
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
	counted, err := c.resourceDetails()
	if err != nil {
		return nil, err
	}
	me := c.caller.account
	listAll := c.boolean("listall") || c.given("id")
	dom := arg[*domain](c, "domainid")
	if c.given("domainid") {
		if dom == nil || dom.removed {
			return nil, invalid("Domain id=%s doesn't exist in the system", c.str("domainid"))
		}
		if !c.domainAccess(dom) {
			return nil, denied()
		}
	}
	var named *account
	if name := c.str("account"); name != "" {
		in := dom
		if in == nil {
			in = me.domain
		}
		a, ok := c.st.accountIn(in, name)
		if !ok {
			return nil, invalid("Unable to find account with name %s in domain id=%s", name, in.uuid)
		}
		named = a
	}
	var out []*project
	for _, p := range c.st.projects.rows {
		switch {
		case p.removed || !c.seesProject(p, listAll, dom) || !matches(c, "id", p):
		case dom != nil && p.domain != dom && !(c.boolean("isrecursive") && p.domain.within(dom)):
		case c.has("name") && !strings.EqualFold(c.str("name"), p.name), c.has("displaytext") && !strings.EqualFold(c.str("displaytext"), p.display):
		case c.has("keyword") && !like(p.name, c.str("keyword")) && !like(p.display, c.str("keyword")):
		case c.has("state") && !strings.EqualFold(c.str("state"), p.state), named != nil && !p.hasMember(named, ""):
		case c.has("username") && !p.hasMember(nil, c.str("username")), !p.hasTags(c.tagFilter()):
		default:
			out = append(out, p)
		}
	}
	return page(c, "project", out, func(p *project) projectView { return c.projectView(p, counted) })
}

// seesProject tells whether a list shows the project: the caller's own ones, or with listall or a domain all that admins may see.
func (c *call) seesProject(p *project, listAll bool, dom *domain) bool {
	me := c.caller.account
	if p.admits(c.caller) {
		return true
	}
	return (listAll || dom != nil) && (me.rootAdmin() || me.domainAdmin() && p.domain.within(me.domain))
}

// hasMember tells whether the account, or a user of that name, belongs to the project.
func (p *project) hasMember(a *account, username string) bool {
	return slices.ContainsFunc(p.members, func(m projectMember) bool {
		if a != nil {
			return m.account == a
		}
		return m.user != nil && strings.EqualFold(m.user.username, username)
	})
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
