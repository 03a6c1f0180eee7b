// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/commands/taint"
	"github.com/csccm/csccm/pkg/inventory"
)

// planNodes says which existing nodes are to be initialised, and the Secret's
// exact fate, now that the credentials are known.
func (in *Installer) planNodes(ctx context.Context) error {
	secret := credentials.KeepSecret(in.existing)
	var err error
	if in.Options.Credentials.Source != SourceSecret || in.changesSecret() {
		if secret, err = credentials.PlanSecret(in.existing, in.config); err != nil {
			return err
		}
	}
	in.plan.secret = secret
	in.plan.Secret.Action, in.plan.Secret.Differences = string(secret.Action), secret.Differences
	in.plan.CloudStack.Project = in.config.ProjectID
	plan, err := in.taintPlan(ctx)
	if err != nil {
		return err
	}
	in.plan.Nodes = plan
	if len(plan.Problems) > 0 && !in.Options.SkipTaint {
		for _, p := range plan.Problems {
			in.Progress.Warn("%s", p.Text)
			in.Progress.Info("fix: %s", p.Remedy)
		}
		return taint.Blocked(plan.Problems)
	}
	return nil
}

// changesSecret reports whether flags change the configuration of the Secret.
func (in *Installer) changesSecret() bool {
	local := *in.config
	local.CAFile = in.existing.Config.CAFile
	return len(in.existing.Config.Differences(&local)) > 0
}

// taintPlan reads nodes and VMs as they are now.
func (in *Installer) taintPlan(ctx context.Context) (*taint.Plan, error) {
	list, err := in.Cluster.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, in.Cluster.Explain(err)
	}
	in.facts.nodes = list.Items
	inv := inventory.New(in.cloud, inventory.Options{ProjectID: in.config.ProjectID, Zone: in.config.Zone, Clock: in.Clock})
	vms, err := inv.VMs(ctx, 0)
	if err != nil {
		return nil, fmt.Errorf("listing virtual machines: %w", err)
	}
	form, err := in.labelForm()
	if err != nil {
		return nil, err
	}
	return taint.NewPlan(taint.Facts{Nodes: list.Items, VMs: vms, Region: in.config.Region, LabelForm: form}), nil
}
