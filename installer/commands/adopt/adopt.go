// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package adopt tags public IP addresses for the controller, which then releases them when their Services are deleted.
package adopt

import (
	"cmp"
	"context"
	"fmt"

	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/cloud/addresses"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/kube/cluster"
	planner "github.com/csccm/csccm/installer/plan"
	"github.com/csccm/csccm/installer/prompt"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/service"
)

// Run tags the addresses of the named Services. Without names it tags the addresses that, by the annotations of their
// Services, Apache's provider acquired.
func Run(ctx context.Context, e *engine.Env, cs *access.Cloud, services planner.Selection) error {
	facts, classes, err := read(ctx, e, cs)
	if err != nil {
		return err
	}

	chosen, err := services.Of(facts.Services, classes)
	if err != nil {
		return err
	}

	p := e.NewPlan()
	var steps []engine.Step
	refused := false
	for _, it := range addresses.MakePlan(facts, chosen, len(services) > 0) {
		p.Add(string(it.Verdict), fmt.Sprintf("%s, address %s: %s", it.Service, cmp.Or(it.Address, "none"), it.Why), it)
		refused = refused || it.Verdict == addresses.Refused
		if it.Verdict == addresses.Adopt {
			steps = append(steps, engine.Step{Name: "tags for " + it.Service, Do: func(ctx context.Context) error {
				e.Progress.Step("Tagging %s", &it)
				if err := addresses.Tag(ctx, cs.Client, &it); err != nil {
					fix := "run the same command again to continue"
					if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
						fix = "allow the role createTags, or give the keys of a user who may tag with --cloud-config"
					}
					return report.Errorf(fix, "tag %s: %w", &it, err)
				}

				e.Note("%s", &it)
				return nil
			}})
		}
	}

	if len(p.Changes) == 0 {
		p.Add(
			"adopt",
			"nothing: no Service says that another provider acquired its address. To hand over addresses of other "+
				"Services, name the Services.",
			nil,
		)
	}

	err = e.Run(ctx, engine.Operation{
		Name:     "adopt",
		What:     "hand over " + report.Count(len(steps), "address"),
		Plan:     p,
		Steps:    steps,
		Question: prompt.Question{Help: "The controller releases them when their Services are deleted."},
	})
	if err == nil && refused {
		return &report.Error{Code: report.ExitCheckFailed}
	}

	return err
}

// read reads the addresses in CloudStack and the Services, and returns the controller's load balancer classes.
func read(ctx context.Context, e *engine.Env, cs *access.Cloud) (*addresses.Facts, service.Classes, error) {
	_, settings, err := planner.PreviewerOf(ctx, e.Cluster, cs, e.Release, "")
	services := cluster.Services(ctx, &err, e.Cluster.Kube)

	project := ""
	if err == nil {
		project, err = cs.Project(ctx)
	}

	if err != nil {
		return nil, settings.Classes, err
	}

	f, err := addresses.Read(ctx, cs.Client, project)
	if err == nil {
		f.ClusterIDs, f.Services = append([]string{settings.ClusterID}, cs.Config.FormerClusterIDs...), services
	}

	return f, settings.Classes, err
}
