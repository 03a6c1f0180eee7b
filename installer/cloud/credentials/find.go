// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// listDomains returns the domains that the administrator sees, with their paths from ROOT on.
func listDomains(ctx context.Context, admin *cloudapi.Client) ([]cloudapi.Domain, error) {
	domains, err := admin.ListDomains(ctx)
	for i := range domains {
		domains[i].Path = domainPath(domains[i])
	}
	return domains, explain("listing domains", err)
}

// findDomain resolves a path or id. Without one it returns the administrator's own domain: ROOT for a root administrator.
func findDomain(ctx context.Context, admin *cloudapi.Client, want string) (cloudapi.Domain, error) {
	domains, err := listDomains(ctx, admin)
	if err != nil {
		return cloudapi.Domain{}, err
	}
	if want == "" {
		want = TopDomain(domains)
	}
	known := make([]string, 0, len(domains))
	for _, d := range domains {
		if d.ID == want || strings.EqualFold(d.Path, normalPath(want)) {
			return d, nil
		}
		known = append(known, d.Path)
	}
	return cloudapi.Domain{}, report.Usage(fmt.Sprintf("there is no domain %q that this administrator can see", want),
		"name one of these with --domain: "+some(known))
}

// TopDomain returns the path of the highest domain of a list. An administrator sees their own domain and those below it.
func TopDomain(domains []cloudapi.Domain) string {
	top := ""
	for _, d := range domains {
		if path := domainPath(d); top == "" || strings.Count(path, "/") < strings.Count(top, "/") {
			top = path
		}
	}
	return cmp.Or(top, DefaultDomain)
}

func domainPath(d cloudapi.Domain) string {
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

// findProject returns the project of that name or id in a domain; "" is any.
func findProject(ctx context.Context, admin *cloudapi.Client, want, domainID string) (cloudstack.Project, error) {
	projects, err := admin.ListProjects(ctx)
	if err != nil {
		return cloudstack.Project{}, explain("listing projects", err)
	}
	return pickProject(slices.DeleteFunc(projects, func(p cloudstack.Project) bool {
		return domainID != "" && p.DomainID != "" && p.DomainID != domainID
	}), want)
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
		fix := "name another with --project, or make the user a member of this one: it belongs to none now"
		if len(known) > 0 {
			fix = "name one of these with --project, or join the project: " + some(known)
		}
		return cloudstack.Project{}, report.Usage(fmt.Sprintf("there is no project %q that these credentials can see", want), fix)
	}
	return cloudstack.Project{}, report.Usage(fmt.Sprintf("%d projects are named %q", len(named), want),
		fmt.Sprintf("name the project's domain with --domain, or give the id with --project, for example %s", named[0].ID))
}

// findAccount is the account of that exact name in the domain itself, or nil.
func findAccount(ctx context.Context, admin *cloudapi.Client, name string, domain cloudapi.Domain) (*cloudapi.Account, error) {
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
func accountElsewhere(ctx context.Context, admin *cloudapi.Client, name string) string {
	accounts, err := admin.ListAccounts(ctx, name, "")
	if err != nil {
		return ""
	}
	domains, err := listDomains(ctx, admin)
	if err != nil {
		return ""
	}
	var paths []string
	for i := range accounts {
		for _, d := range domains {
			if accounts[i].Name == name && accounts[i].DomainID == d.ID {
				paths = append(paths, d.Path)
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
func freeUserName(ctx context.Context, admin *cloudapi.Client, domain cloudapi.Domain, account string) (string, error) {
	users, err := admin.ListUsers(ctx, DefaultUser, "", domain.ID)
	if err != nil {
		return "", explain(fmt.Sprintf("looking for user %q", DefaultUser), err)
	}
	taken := slices.ContainsFunc(users, func(u cloudapi.User) bool {
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
