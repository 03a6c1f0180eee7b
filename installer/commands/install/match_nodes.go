// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"slices"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// matchesVMs is the check that matchNodes stands for before there are keys.
const matchesVMs = "NODE-002"

// matchNodes refuses an account or project that does not own the VMs of the nodes, before a user is made in it. The
// administrator's login lists its VMs; where it may not, the checks with the user's keys judge later.
func (in *Installer) matchNodes(ctx context.Context, plan *credentials.Provision) error {
	if slices.Contains(in.Options.SkipChecks, matchesVMs) || len(in.facts.nodes) == 0 {
		return nil
	}
	place := credentials.Place{Account: plan.Account, Domain: plan.Domain.Path}
	query := cloudstack.VMQuery{Account: plan.Account, DomainID: plan.Domain.ID}
	if plan.Project.ID != "" {
		place, query = credentials.Place{Project: plan.Project.Name}, cloudstack.VMQuery{ProjectID: plan.Project.ID}
	}
	vms, err := in.admin.ListVirtualMachines(ctx, query)
	if cloudstack.IsKind(err, cloudstack.KindNotPermitted) || cloudstack.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	finding, ok := check.Misplaced(in.facts.nodes, vms, place, in.newConfig().Zone, func() []credentials.Place {
		return credentials.AdminPlaces(ctx, in.admin)
	})
	if ok {
		return nil
	}
	return checksFailed(check.PhasePreflight, check.Result{
		Code: matchesVMs, Outcome: check.Failed, Message: finding.Message, Remedy: finding.Remedy, Objects: finding.Objects,
	})
}
