// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"cmp"
	"context"
	"fmt"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/plan"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	lbplan "github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/provider"
)

// Run hands over the addresses of the named Services, or of those whose address Apache's provider says it acquired.
func Run(ctx context.Context, e *engine.Env, cs *cloud.Cloud, services plan.Selection) error {
	facts, chosen, err := gather(ctx, e.Cluster, cs, e.Release, services)
	if err != nil {
		return e.Cluster.Explain(err)
	}
	p := e.NewPlan()
	var steps []engine.Step
	refused := false
	for _, it := range MakePlan(*facts, chosen, len(services) > 0) {
		p.Add(string(it.Verdict), fmt.Sprintf("%s, address %s: %s", it.Service, cmp.Or(it.Address, "none"), it.Why), it)
		refused = refused || it.Verdict == Refused
		if it.Verdict == Adopt {
			steps = append(steps, engine.Step{Name: "tags for " + it.Service, Do: func(ctx context.Context, note engine.Note) error {
				e.Progress.Step("Tagging address %s of Service %s", it.Address, it.Service)
				err := tag(ctx, cs, &it)
				if err == nil {
					note("address %s of Service %s", it.Address, it.Service)
					e.Progress.Done("")
				}
				return err
			}})
		}
	}
	if len(p.Changes) == 0 {
		p.Add("adopt", "nothing: no Service says that another provider acquired its address. Name Services to hand theirs over.", nil)
	}
	err = e.Run(ctx, engine.Operation{
		Name: "adopt", What: "hand over " + english.Plural(len(steps), "address", ""), Plan: p, Steps: steps,
		Question: prompt.Question{Help: "The controller releases them when their Services are deleted."},
	})
	if err == nil && refused {
		return &report.Error{Code: report.ExitCheckFailed}
	}
	return err
}

func tag(ctx context.Context, cs *cloud.Cloud, it *Item) error {
	job, err := cs.Client.CreateTags(ctx, lbplan.ResourcePublicIP, []string{it.AddressID}, it.tags)
	if err == nil {
		_, err = cs.Client.Jobs().Wait(ctx, "createTags", job.JobID)
	}
	if err == nil {
		return nil
	}
	fix := "run the same command again to go on"
	if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		fix = "allow the role createTags, or give the keys of a user who may tag with --cloud-config"
	}
	return report.Remedied(fmt.Errorf("tag address %s of Service %s: %w", it.Address, it.Service, err), fix)
}

// gather reads what the plan looks at, and the chosen Services.
func gather(ctx context.Context, c *cluster.Cluster, cs *cloud.Cloud, release string, services plan.Selection) (*Facts, []*corev1.Service, error) {
	options, _, err := plan.Options(ctx, c.Kube, c.Namespace, release)
	if err != nil {
		return nil, nil, err
	}
	controller, err := provider.NewPreviewer(ctx, cs.Config, options, cs.Client.Client, c.Kube)
	if err != nil {
		return nil, nil, err
	}
	list := cluster.List(ctx, &err, c.Kube.CoreV1().Services(metav1.NamespaceAll).List).Items
	if err != nil {
		return nil, nil, err
	}
	chosen, err := services.Of(list)
	if err != nil {
		return nil, nil, err
	}
	project, err := inventory.New(cs.Client, inventory.Options{ProjectID: cs.Config.ProjectID}).ProjectID(ctx)
	if err != nil {
		return nil, nil, err
	}
	facts := &Facts{ClusterIDs: append([]string{controller.ClusterID()}, cs.Config.FormerClusterIDs...), Services: list}
	if facts.Addresses, err = cs.Client.ListPublicIPs(ctx, cloudstack.PublicIPQuery{ProjectID: project}); err != nil {
		return nil, nil, err
	}
	if facts.Rules, err = cs.Client.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{ProjectID: project}); err != nil {
		return nil, nil, err
	}
	facts.Forwards, err = cs.Client.ListPortForwardings(ctx, cloudstack.PortForwardingQuery{ProjectID: project})
	return facts, chosen, err
}
