// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

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

// Result is what -o json and yaml write.
type Result struct {
	SchemaVersion int  `json:"schemaVersion"`
	DryRun        bool `json:"dryRun"`
	*Plan
	// Done is how many addresses were tagged.
	Done int `json:"done"`
}

// Run hands over the addresses of the named Services, or of those whose address Apache's provider says it acquired.
func Run(ctx context.Context, e *engine.Env, cs *cloud.Cloud, services plan.Selection) error {
	facts, chosen, err := gather(ctx, e.Cluster, cs, e.Release, services)
	if err != nil {
		return e.Cluster.Explain(err)
	}
	result := &Result{SchemaVersion: 1, DryRun: true, Plan: MakePlan(*facts, chosen, len(services) > 0)}
	count := english.Plural(result.Count(Adopt), "address", "")
	op := engine.Operation{
		Name: "adopt", What: "hand over " + count, Question: prompt.Question{Help: "The controller releases them when their Services are deleted."},
		Plan: result, Show: func(w io.Writer) error { return result.write(e, w) },
	}
	if result.Count(Adopt) > 0 {
		op.Steps = []engine.Step{{Name: "tags", Do: func(ctx context.Context, note engine.Note) error {
			result.DryRun = false
			e.Progress.Step("Tagging %s", count)
			if err := tag(ctx, cs, facts, result, note); err != nil {
				e.Progress.Fail("%v", err)
				return err
			}
			e.Progress.Done("%d", result.Done)
			return nil
		}}}
	}
	if err = e.Run(ctx, op); err == nil && result.Count(Refused) > 0 {
		return &report.Error{Code: report.ExitCheckFailed}
	}
	return err
}

// tag tags the addresses of the items to adopt, and stops at the first failure.
func tag(ctx context.Context, cs *cloud.Cloud, facts *Facts, result *Result, note engine.Note) error {
	for i := range result.Items {
		it := &result.Items[i]
		if it.Verdict != Adopt {
			continue
		}
		at := slices.IndexFunc(facts.Addresses, func(a cloudstack.PublicIP) bool { return a.ID == it.AddressID })
		job, err := cs.Client.CreateTags(ctx, lbplan.ResourcePublicIP, []string{it.AddressID}, result.newTags(it, facts.Addresses[at].Tags))
		if err == nil {
			_, err = cs.Client.Jobs().Wait(ctx, "createTags", job.JobID)
		}
		if err != nil {
			fix := "run the same command again to go on"
			if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
				fix = "allow the role createTags, or give the keys of a user who may tag with --cloud-config"
			}
			return report.Remedied(fmt.Errorf("tag address %s of Service %s: %w", it.Address, it.Service, err), fix)
		}
		result.Done++
		note("address %s of Service %s", it.Address, it.Service)
	}
	return nil
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
	list, err := c.Kube.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	chosen, err := services.Of(list.Items)
	if err != nil {
		return nil, nil, err
	}
	project, err := inventory.New(cs.Client, inventory.Options{ProjectID: cs.Config.ProjectID}).ProjectID(ctx)
	if err != nil {
		return nil, nil, err
	}
	facts := &Facts{ClusterIDs: append([]string{controller.ClusterID()}, cs.Config.FormerClusterIDs...), Services: list.Items}
	if facts.Addresses, err = cs.Client.ListPublicIPs(ctx, cloudstack.PublicIPQuery{ProjectID: project}); err != nil {
		return nil, nil, err
	}
	if facts.Rules, err = cs.Client.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{ProjectID: project}); err != nil {
		return nil, nil, err
	}
	facts.Forwards, err = cs.Client.ListPortForwardings(ctx, cloudstack.PortForwardingQuery{ProjectID: project})
	return facts, chosen, err
}

// write prints the plan for a person.
func (p *Plan) write(e *engine.Env, w io.Writer) error {
	if len(p.Items) == 0 {
		_, err := fmt.Fprintln(w, "No Service says that another provider acquired its address: nothing to hand over. Name Services to hand theirs over.")
		return err
	}
	style := e.StyleOf(w)
	t := report.Table{Header: []string{"SERVICE", "ADDRESS", "ACTION"}}
	for i := range p.Items {
		it := &p.Items[i]
		action := map[Verdict]string{Adopt: "adopt", Done: "none: it is handed over already", Refused: "refused: " + it.Why}[it.Verdict]
		t.Add(it.Service, cmp.Or(it.Address, "-"), action)
	}
	return t.Write(w, style)
}
