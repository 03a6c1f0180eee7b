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

// mostProjects is the number of projects that are searched for VMs.
const mostProjects = 50

// Place is a project or an account with VMs.
type Place struct {
	Project string // name
	Account string // only for an administrator; "" without Project = the account of the keys
	Domain  string // path of Account's domain
	VMs     []cloudstack.VirtualMachine
}

func (p Place) String() string {
	return p.words("project %s", "account %s of domain %s", "the account itself")
}

// Flag returns the flags that make csccm install use this place.
func (p Place) Flag() string {
	return p.words("--project %s", "--account %s --domain %s", "no --project")
}

func (p Place) words(project, account, own string) string {
	switch {
	case p.Project != "":
		return fmt.Sprintf(project, p.Project)
	case p.Account != "":
		return fmt.Sprintf(account, p.Account, p.Domain)
	}
	return own
}

// AdminPlaces returns the accounts and projects in which an administrator sees VMs.
func AdminPlaces(ctx context.Context, admin *cloudapi.Client) []Place {
	vms, _ := admin.ListVirtualMachines(ctx, cloudstack.VMQuery{ListAll: true}) // no errors: places only explain
	domains, _ := admin.ListDomains(ctx)
	var out []Place
	for _, vm := range vms {
		if vm.Account == "" || vm.ProjectID != "" {
			continue
		}
		p := Place{Account: vm.Account, Domain: vm.DomainID}
		if d := slices.IndexFunc(domains, func(d cloudapi.Domain) bool { return d.ID == p.Domain }); d >= 0 {
			p.Domain = normalPath(domains[d].Path)
		}
		at := slices.IndexFunc(out, func(o Place) bool { return o.Account == p.Account && o.Domain == p.Domain })
		if at < 0 {
			out, at = append(out, p), len(out)
		}
		out[at].VMs = append(out[at].VMs, vm)
	}

	return append(out, slices.DeleteFunc(Places(ctx, admin, ""), func(p Place) bool { return p.Project == "" })...)
}

// Places returns the account itself and the projects in which the keys see VMs, without the project otherThan; "" means
// the account itself. It omits what the keys may not list: a place only explains where VMs are that were expected
// elsewhere.
func Places(ctx context.Context, api *cloudapi.Client, otherThan string) []Place {
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
