// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

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
	Tags        []wire.TagView      `json:"tags"`
	Created     *wire.Timestamp     `json:"created"`
}

func listProjects(c *wire.Call) (any, error) {
	all, err := resourceDetails(c)
	if err != nil {
		return nil, err
	}

	in, err := projectsScope(c)
	if err != nil {
		return nil, err
	}

	return wire.List(c, "project", c.St.Projects.Rows, func(p *store.Project) bool {
		return in(p) &&
			c.Is("name", p.Name) &&
			c.Is("displaytext", p.Display) &&
			c.Like("keyword", p.Name, p.Display) &&
			c.Is("state", p.State) &&
			p.HasTags(c.TagFilter())
	}, func(p *store.Project) any {
		if all {
			return viewProject(c, p)
		}
		return plainProject(p)
	})
}

// projectsScope returns the filter of listProjects: the caller's own projects. Admins may instead list the projects of
// an account or user, those of a domain, or with listall all projects that they may see.
func projectsScope(c *wire.Call) (func(*store.Project) bool, *wire.Error) {
	me := c.Caller.Account
	name, username := c.Str("account"), c.Str("username")
	d := wire.Arg[*store.Domain](c, "domainid")
	mine := func(p *store.Project) bool { return p.Admits(c.Caller) }
	if !me.Admin() {
		switch {
		case name != "" && name != me.Name:
			return nil, wire.Errf(wire.CodeAccount, wire.CSPermission, "Can't list account %s projects; unauthorized",
				name)
		case c.Given("domainid") && d != me.Domain:
			return nil, wire.Errf(wire.CodeAccount, wire.CSPermission,
				"Can't list domain id= %d projects; unauthorized", c.Refs["domainid"].ID)
		case username != "" && username != c.Caller.User.Username:
			return nil, wire.Errf(wire.CodeAccount, wire.CSPermission, "Can't list user %s projects; unauthorized",
				username)
		}
		return mine, nil
	}

	if c.Given("domainid") {
		if d == nil || d.Removed {
			return nil, wire.Invalid("Domain id=%d doesn't exist in the system", c.Refs["domainid"].ID)
		}

		if !c.DomainAccess(d) {
			return nil, wire.Denied()
		}

		if name != "" {
			a, ok := c.St.AccountIn(d, name)
			if !ok {
				return nil, wire.Invalid("Unable to find account %s in domain %d", name, d.ID)
			}
			return func(p *store.Project) bool { return p.Find(a, nil) != nil }, nil
		}

		if username != "" {
			u, ok := c.St.UserIn(d, username)
			if !ok {
				return nil, wire.Invalid("Unable to find user %s in domain %d", username, d.ID)
			}
			return func(p *store.Project) bool { return p.Find(u.Account, u) != nil }, nil
		}

		deep := c.BoolOr("isrecursive", c.Boolean("listall"))
		return func(p *store.Project) bool { return p.Domain == d || deep && p.Domain.Within(d) }, nil
	}

	switch {
	case name != "":
		return nil, wire.Invalid("could not find account %s because domain is not specified", name)
	case username != "":
		return nil, wire.Invalid("could not find user %s because domain is not specified", username)
	case !c.Boolean("listall"):
		return mine, nil
	}

	return func(p *store.Project) bool { return p.Domain.Within(me.Domain) }, nil
}

func viewProject(c *wire.Call, p *store.Project) counted {
	return counted{p.UUID, plainProject(p), count(c.St, p.Account)}
}

func plainProject(p *store.Project) projectView {
	v := projectView{
		ID:          p.UUID,
		Name:        p.Name,
		DisplayText: p.Display,
		DomainID:    p.Domain.UUID,
		Domain:      p.Domain.Name,
		AccountName: p.Account.Name,
		State:       p.State,
		Tags:        wire.ViewTags(&p.Tagged),
		Created:     wire.Stamp(p.Created),
		Owner:       []map[string]string{},
	}

	for _, m := range p.Members {
		if !m.Admin {
			continue
		}
		o := map[string]string{"account": m.Account.Name}
		if m.User != nil {
			o["userid"], o["user"] = m.User.UUID, m.User.Username
		}
		v.Owner = append(v.Owner, o)
	}

	return v
}

func addAccountToProject(c *wire.Call) (*wire.JobSpec, error) {
	p := wire.Arg[*store.Project](c, "projectid")
	if p == nil || p.Removed {
		return nil, wire.Invalid(missingProject)
	}

	return &wire.JobSpec{Run: func(time.Time) (any, error) {
		a, ok := c.St.AccountIn(p.Domain, c.Str("account"))
		switch {
		case p.Removed:
			return nil, wire.Invalid(missingProject)
		case p.State != store.ProjectActive:
			return nil, wire.Invalid(
				"Can't add account to the specified project id in state=%s as it's no longer active", p.State)
		case !c.Has("account"):
			return nil, wire.Invalid("Either accountName or email is required")
		case c.Str("account") == "":
			return nil, wire.Invalid("Account information is required for assigning account to the project")
		case !ok:
			return nil, wire.Invalid("Unable to find account name=%s in specified domain id", c.Str("account"))
		case !mayModify(c, p):
			return nil, wire.Denied()
		case p.Find(a, nil) == nil:
			p.Members = append(p.Members, store.ProjectMember{Account: a})
		}

		return wire.Success{Success: true}, nil
	}}, nil
}
