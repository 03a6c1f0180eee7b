// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// findDomain resolves a path or id. Without one it returns the administrator's own domain: ROOT for a root administrator.
func findDomain(ctx context.Context, admin Admin, want string) (cloudstack.Domain, error) {
	domains, err := admin.ListDomains(ctx)
	if err != nil {
		return cloudstack.Domain{}, explain("listing domains", err)
	}
	if want == "" {
		want = TopDomain(domains)
	}
	for _, d := range domains {
		if d.ID == want || strings.EqualFold(domainPath(d), normalPath(want)) {
			d.Path = domainPath(d)
			return d, nil
		}
	}
	known := make([]string, 0, len(domains))
	for _, d := range domains {
		known = append(known, domainPath(d))
	}
	return cloudstack.Domain{}, &Error{
		What: fmt.Sprintf("there is no domain %q that this administrator can see", want),
		Fix:  "name one of these with --domain: " + some(known), Code: report.ExitUsage,
	}
}

// CheckDomain refuses a domain that the administrator does not see.
func CheckDomain(ctx context.Context, admin Admin, want string) error {
	_, err := findDomain(ctx, admin, want)
	return err
}

// TopDomain returns the path of the highest domain of a list. An administrator sees their own domain and those below it.
func TopDomain(domains []cloudstack.Domain) string {
	top := ""
	for _, d := range domains {
		if path := domainPath(d); top == "" || strings.Count(path, "/") < strings.Count(top, "/") {
			top = path
		}
	}
	return cmp.Or(top, DefaultDomain)
}

func domainPath(d cloudstack.Domain) string {
	if d.Path == "" {
		return normalPath(d.Name)
	}
	return normalPath(d.Path)
}

// normalPath writes a domain's path as listDomains does: ROOT/a/b.
func normalPath(s string) string {
	s = strings.Trim(s, "/")
	if s == "" || strings.EqualFold(s, DefaultDomain) {
		return DefaultDomain
	}
	if len(s) > 5 && strings.EqualFold(s[:5], DefaultDomain+"/") {
		return DefaultDomain + s[4:]
	}
	return DefaultDomain + "/" + s
}

func findProject(ctx context.Context, api interface {
	ListProjects(ctx context.Context) ([]cloudstack.Project, error)
}, want, domainID string,
) (cloudstack.Project, error) {
	projects, err := api.ListProjects(ctx)
	if err != nil {
		return cloudstack.Project{}, explain("listing projects", err)
	}
	return pickProject(inDomain(projects, domainID), want)
}

// inDomain leaves the projects of a domain; an id or an unknown domain filters nothing.
func inDomain(projects []cloudstack.Project, domainID string) []cloudstack.Project {
	if domainID == "" {
		return projects
	}
	return slices.DeleteFunc(slices.Clone(projects), func(p cloudstack.Project) bool {
		return p.DomainID != "" && p.DomainID != domainID
	})
}

// domainByID is the domain with that id; a zero one when there is none.
func domainByID(ctx context.Context, admin Admin, id string) (cloudstack.Domain, error) {
	domains, err := admin.ListDomains(ctx)
	if err != nil {
		return cloudstack.Domain{}, explain("listing domains", err)
	}
	for _, d := range domains {
		if d.ID == id {
			d.Path = domainPath(d)
			return d, nil
		}
	}
	return cloudstack.Domain{}, nil
}

func pickProject(projects []cloudstack.Project, want string) (cloudstack.Project, error) {
	known := make([]string, 0, len(projects))
	var named []cloudstack.Project
	for _, p := range projects {
		if strings.EqualFold(p.ID, want) {
			return p, nil
		}
		if p.Name == want {
			named = append(named, p)
		}
		known = append(known, p.Name)
	}
	switch len(named) {
	case 1:
		return named[0], nil
	case 0:
		return cloudstack.Project{}, &Error{
			What: fmt.Sprintf("there is no project %q that these credentials can see", want),
			Fix:  projectFix(known), Code: report.ExitUsage,
		}
	}
	return cloudstack.Project{}, &Error{
		What: fmt.Sprintf("%d projects are named %q", len(named), want),
		Fix:  fmt.Sprintf("name the project's domain with --domain, or give the id with --project, for example %s", named[0].ID),
		Code: report.ExitUsage,
	}
}

func projectFix(known []string) string {
	if len(known) == 0 {
		return "name another with --project, or make the user a member of this one: it belongs to none now"
	}
	return "name one of these with --project, or join the project: " + some(known)
}

// findAccount is the account of that exact name in the domain itself, or nil.
func findAccount(ctx context.Context, admin Admin, name string, domain cloudstack.Domain) (*cloudstack.Account, error) {
	accounts, err := admin.ListAccounts(ctx, name, domain.ID)
	if err != nil {
		return nil, explain(fmt.Sprintf("looking for account %q", name), err)
	}
	for i := range accounts {
		if accounts[i].Name == name && (accounts[i].DomainID == "" || accounts[i].DomainID == domain.ID) {
			return &accounts[i], nil
		}
	}
	return nil, nil
}

// accountElsewhere says in which other domains there is an account of that name; "" where there is none. It is part of a
// remedy, so an error only leaves it out.
func accountElsewhere(ctx context.Context, admin Admin, name string) string {
	accounts, err := admin.ListAccounts(ctx, name, "")
	if err != nil {
		return ""
	}
	domains, err := admin.ListDomains(ctx)
	if err != nil {
		return ""
	}
	var paths []string
	for i := range accounts {
		for _, d := range domains {
			if accounts[i].Name == name && accounts[i].DomainID == d.ID {
				paths = append(paths, domainPath(d))
			}
		}
	}
	switch len(paths) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("there is one in %s: --domain %s", paths[0], paths[0])
	}
	return fmt.Sprintf("there are such accounts in %s: name one of these with --domain", some(paths))
}

// freeUserName is kubeadmin, or ACCOUNT-kubeadmin where another account of the
// domain has that one: user names are unique in a domain.
func freeUserName(ctx context.Context, admin Admin, domain cloudstack.Domain, account string) (string, error) {
	users, err := admin.ListUsers(ctx, DefaultUser, "", domain.ID)
	if err != nil {
		return "", explain(fmt.Sprintf("looking for user %q", DefaultUser), err)
	}
	taken := slices.ContainsFunc(users, func(u cloudstack.User) bool {
		return u.Username == DefaultUser && (u.DomainID == "" || u.DomainID == domain.ID)
	})
	if taken {
		return account + "-" + DefaultUser, nil
	}
	return DefaultUser, nil
}

// some lists names for a remedy, the first ten of them.
func some(names []string) string {
	if len(names) == 0 {
		return "(none)"
	}
	slices.Sort(names)
	if len(names) > 10 {
		return strings.Join(names[:10], ", ") + ", ..."
	}
	return strings.Join(names, ", ")
}
