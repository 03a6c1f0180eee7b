// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// pickDomain resolves a path or id. Without one it returns the administrator's own domain: ROOT for a root administrator.
func pickDomain(domains []cloudapi.Domain, want string) (cloudapi.Domain, error) {
	if want == "" {
		want = TopDomain(domains)
	}
	known := make([]string, 0, len(domains))
	for i := range domains {
		d := &domains[i]
		d.Path = domainPath(*d)
		known = append(known, d.Path)
	}
	i := slices.IndexFunc(domains, func(d cloudapi.Domain) bool { return d.ID == want || strings.EqualFold(d.Path, normalPath(want)) })
	if i < 0 {
		return cloudapi.Domain{}, report.Usage(fmt.Sprintf("there is no domain %q that this administrator can see", want), "name one of these with --domain: "+some(known))
	}
	return domains[i], nil
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

// pickProject returns the project of that name or id.
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
