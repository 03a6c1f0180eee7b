// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/commands/adopt"
	"github.com/csccm/csccm/installer/commands/install"
	"github.com/csccm/csccm/installer/commands/plan"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/plural"
	"github.com/csccm/csccm/pkg/provider"
)

// adoptFlags are the flags of adopt alone.
type adoptFlags struct {
	cloudConfig string
	release     string
	dryRun      dryRun
}

func newAdoptCommand(g *globals) *cobra.Command {
	f := &adoptFlags{}
	cmd := &cobra.Command{
		Use:   "adopt [NAMESPACE/SERVICE...]",
		Short: "Hand addresses over to the controller, which then releases them with their Services",
		Long: `adopt tags the addresses of Services in CloudStack as acquired by the controller. The
controller then releases an address when its Service is deleted. Without the tags the
address stays: what a Service says about who acquired its address proves nothing, since
whoever may write the Service may write that.

Without arguments it takes the Services whose address Apache's provider says it acquired
(annotation ip-associated-by-controller), for use after a takeover. Addresses that others
use too are refused: source NAT, static NAT, port forwardings, rules that no Service of
this cluster has, tags of another Service or cluster.` + serverIsClient,
		Example: `  # look only
  csccm adopt --dry-run

  # the addresses that the old provider acquired
  csccm adopt --yes

  # an address that an operator acquired by hand
  csccm adopt shop/web`,
		Annotations: outputs("text", "json", "yaml"),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.cloudConfig, "cloud-config", "", "file with the CloudStack credentials, instead of the Secret")
	flags.StringVar(&f.release, "release", install.DefaultRelease, "name of csccm's Helm release")
	addDryRun(cmd, &f.dryRun)
	completeFlag(cmd, "release", cobra.NoFileCompletions)
	cmd.ValidArgsFunction = completeFrom(g, balancedServices)
	cmd.RunE = g.runE(func(ctx context.Context, args []string) error { return runAdopt(ctx, g, f, args) })
	return cmd
}

// adoptResult is what -o json and yaml write.
type adoptResult struct {
	SchemaVersion int  `json:"schemaVersion"`
	DryRun        bool `json:"dryRun"`
	*adopt.Plan
	// Done is how many addresses were tagged.
	Done int `json:"done"`
}

func runAdopt(ctx context.Context, g *globals, f *adoptFlags, names []string) error {
	format, err := g.wantOutput("text", "json", "yaml")
	if err != nil {
		return err
	}
	look, err := f.dryRun.readWith(g.yes)
	if err != nil {
		return err
	}
	for _, n := range names {
		if namespace, name, _ := strings.Cut(n, "/"); namespace == "" || name == "" || strings.Contains(name, "/") {
			return usagef("%q is not NAMESPACE/NAME of a Service", n)
		}
	}
	c, cs, err := g.connect(ctx, f.cloudConfig)
	if err != nil {
		return err
	}
	defer cs.close()
	facts, chosen, err := adoptFacts(ctx, c, cs, f.release, names)
	if err != nil {
		return c.Explain(err)
	}
	result := &adoptResult{SchemaVersion: 1, DryRun: true, Plan: adopt.MakePlan(*facts, chosen)}
	if format == "text" {
		if err := writeAdoptPlan(g, result.Plan); err != nil {
			return err
		}
	}
	todo := result.Count(adopt.Adopt)
	if todo > 0 && !look {
		what := "hand over " + addresses(todo)
		err = g.agreed(ctx, format, what, prompt.Question{Message: capital(what), Help: "The controller releases them when their Services are deleted."})
		if err == nil {
			result.DryRun = false
			err = applyAdoption(ctx, g, cs, facts, result)
		}
	}
	if format != "text" {
		if werr := report.Encode(g.out, format, result); err == nil {
			err = werr
		}
	}
	if err == nil && result.Count(adopt.Refused) > 0 {
		return &report.ExitError{Code: report.ExitCheckFailed}
	}
	return err
}

func addresses(n int) string { return plural.Count(n, "address") }

func adoptFacts(ctx context.Context, c *cluster.Cluster, cs *cloud, release string, names []string) (*adopt.Facts, []corev1.Service, error) {
	options, _, err := plan.Options(ctx, c.Kube, c.Namespace, release)
	if err != nil {
		return nil, nil, err
	}
	controller, err := provider.NewPreviewer(ctx, cs.config, options, cs.client, c.Kube)
	if err != nil {
		return nil, nil, err
	}
	list, err := c.Kube.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	chosen, unknown := adopt.Selected(list.Items, names)
	if len(unknown) > 0 {
		return nil, nil, usagef("there is no Service of type LoadBalancer for csccm's controller named %s", strings.Join(unknown, ", "))
	}
	project, err := inventory.New(cs.client, inventory.Options{ProjectID: cs.config.ProjectID}).ProjectID(ctx)
	if err != nil {
		return nil, nil, err
	}
	facts := &adopt.Facts{ClusterID: controller.ClusterID(), Services: list.Items}
	if facts.Addresses, err = cs.client.ListPublicIPs(ctx, cloudstack.PublicIPQuery{ProjectID: project}); err != nil {
		return nil, nil, err
	}
	if facts.Rules, err = cs.client.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{ProjectID: project}); err != nil {
		return nil, nil, err
	}
	facts.Forwards, err = cs.client.ListPortForwardings(ctx, cloudstack.PortForwardingQuery{ProjectID: project})
	return facts, chosen, err
}

func writeAdoptPlan(g *globals, p *adopt.Plan) error {
	if len(p.Items) == 0 {
		_, err := fmt.Fprintln(g.out, "No Service says that another provider acquired its address: nothing to hand over. Name Services to hand theirs over.")
		return err
	}
	style := g.style(g.out)
	t := report.Table{Header: []string{"SERVICE", "ADDRESS", "ACTION"}}
	for i := range p.Items {
		it := &p.Items[i]
		action := string(it.Verdict)
		switch it.Verdict {
		case adopt.Done:
			action = "none: it is handed over already"
		case adopt.Refused:
			action = "refused: " + it.Why
		case adopt.Adopt:
		}
		address := it.Address
		if address == "" {
			address = "-"
		}
		t.Add(it.Service, address, action)
	}
	return t.Write(g.out, style)
}

func applyAdoption(ctx context.Context, g *globals, cs *cloud, facts *adopt.Facts, result *adoptResult) error {
	tags := map[string]map[string]string{}
	for i := range facts.Addresses {
		tags[facts.Addresses[i].ID] = facts.Addresses[i].Tags
	}
	progress := g.progress()
	defer progress.Close()
	progress.Step("Tagging %s", addresses(result.Count(adopt.Adopt)))
	err := adopt.Apply(ctx, cs.client, cs.client.Jobs(), result.Plan, tags, func(adopt.Item) { result.Done++ })
	if err != nil {
		progress.Fail("%v", err)
		remedy := "run the same command again to go on"
		if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
			remedy = "allow the role createTags, or give the keys of a user who may tag with --cloud-config"
		}
		return &remediedError{err, remedy}
	}
	progress.Done("%d", result.Done)
	return nil
}
