// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// mostProjects is in how many projects VMs are looked for.
const mostProjects = 50

// Place is a project, or the account itself, with VMs that the keys see.
type Place struct {
	Project string // name; "" = the account itself
	VMs     []cloudstack.VirtualMachine
}

func (p Place) String() string {
	if p.Project == "" {
		return "the account itself"
	}
	return "project " + p.Project
}

// Flag is what csccm install needs to look there.
func (p Place) Flag() string {
	if p.Project == "" {
		return "no --project"
	}
	return "--project " + p.Project
}

// Places returns where the keys see VMs, other than in a project; "" is the account itself. What they may not list is
// left out: a place only explains where VMs are that are not where they are expected.
func Places(ctx context.Context, api interface {
	ListProjects(ctx context.Context) ([]cloudstack.Project, error)
	ListVirtualMachines(ctx context.Context, q cloudstack.VMQuery) ([]cloudstack.VirtualMachine, error)
}, otherThan string,
) []Place {
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
