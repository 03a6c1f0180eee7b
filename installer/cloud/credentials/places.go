// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// mostProjects is in how many projects VMs are looked for.
const mostProjects = 50

// Place is a project or an account with VMs.
type Place struct {
	Project string // name
	Account string // where an administrator looks; "" with no Project = the account of the keys
	Domain  string // path, of Account
	VMs     []cloudstack.VirtualMachine
}

func (p Place) String() string {
	switch {
	case p.Project != "":
		return "project " + p.Project
	case p.Account != "":
		return fmt.Sprintf("account %s of domain %s", p.Account, p.Domain)
	}
	return "the account itself"
}

// Flag returns the flag with which csccm install looks there.
func (p Place) Flag() string {
	switch {
	case p.Project != "":
		return "--project " + p.Project
	case p.Account != "":
		return fmt.Sprintf("--account %s --domain %s", p.Account, p.Domain)
	}
	return "no --project"
}

// AdminPlaces returns where an administrator sees VMs, by account and by project.
func AdminPlaces(ctx context.Context, admin *cloudapi.Client) []Place {
	vms, _ := admin.ListVirtualMachines(ctx, cloudstack.VMQuery{ListAll: true}) // only explains
	domains, _ := admin.ListDomains(ctx)
	path := func(id string) string {
		if i := slices.IndexFunc(domains, func(d cloudapi.Domain) bool { return d.ID == id }); i >= 0 {
			return domainPath(domains[i])
		}
		return id
	}
	var out []Place
	for i := range vms {
		if vms[i].Account == "" || vms[i].ProjectID != "" {
			continue
		}
		account, domain := vms[i].Account, path(vms[i].DomainID)
		at := slices.IndexFunc(out, func(p Place) bool { return p.Account == account && p.Domain == domain })
		if at < 0 {
			out, at = append(out, Place{Account: account, Domain: domain}), len(out)
		}
		out[at].VMs = append(out[at].VMs, vms[i])
	}
	for _, p := range Places(ctx, admin, "") {
		if p.Project != "" {
			out = append(out, p)
		}
	}
	return out
}

// Lister is the part of the CloudStack client that finds places.
type Lister interface {
	ListProjects(ctx context.Context) ([]cloudstack.Project, error)
	ListVirtualMachines(ctx context.Context, q cloudstack.VMQuery) ([]cloudstack.VirtualMachine, error)
}

// Places returns where the keys see VMs, other than in a project; "" is the account itself. What they may not list is
// left out: a place only explains where VMs are that are not where they are expected.
func Places(ctx context.Context, api Lister, otherThan string) []Place {
	projects, _ := api.ListProjects(ctx)
	slices.SortFunc(projects, func(a, b cloudstack.Project) int { return strings.Compare(a.Name, b.Name) })
	projects = append([]cloudstack.Project{{}}, projects[:min(len(projects), mostProjects)]...)
	var out []Place
	for _, p := range projects {
		if p.ID == otherThan {
			continue
		}
		if vms, err := api.ListVirtualMachines(ctx, cloudstack.VMQuery{ProjectID: p.ID}); err == nil && len(vms) > 0 {
			out = append(out, Place{Project: p.Name, VMs: vms})
		}
	}
	return out
}

// seen names places in a remedy; "" without any.
func seen(places []Place) string {
	texts := make([]string, len(places))
	for i, p := range places {
		texts[i] = fmt.Sprintf("%s (%d): %s", p, len(p.VMs), p.Flag())
	}
	return strings.Join(texts, "; ")
}
