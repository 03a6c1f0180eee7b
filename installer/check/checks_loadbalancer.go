// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"

	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/commands/migrate"
)

const catLB = "Load balancers"

func loadBalancerChecks() []Check {
	needs := []string{"K8S-001", "CS-004"}
	return []Check{
		{
			Code: "LB-001", Category: catLB, Title: "Services have what they ask for", Severity: SeverityError, Phases: []Phase{PhaseInstalled}, Needs: needs,
			What:   "Each Service of type LoadBalancer has an address, each of its ports a rule on that address to the right node port, and each rule the eligible nodes as members. Where rules and VMs are many, a sample shows whether the members of all rules must be read; with `--only LB` all are read.",
			Why:    "A port without a rule, or a rule without the right members, loses traffic.",
			Remedy: "look at the Events of the named Services (kubectl describe service {service}); the controller tries again at the time that is named, or within ten minutes, and repairs rules and members within its drift period; to have it try now: " + decide.Restart,
			Run: func(ctx context.Context, e *Env) Finding {
				return judge(ctx, e, balanceFact, func(in decide.BalanceFacts) Finding {
					in.Events, _ = eventsFact.get(ctx, e) // only explain
					logs, _ := logsFact.get(ctx, e)
					in.Next = decide.NextTries(logs)
					return decide.Services(in)
				})
			},
		},
		{
			Code: "LB-002", Category: catLB, Title: "No rules with old names", Severity: SeverityWarning, Phases: both(), Needs: needs,
			What:   "No rule of this cluster has a name of an older provider: LB-PORT without a protocol, or K8s_svc_...",
			Why:    "The controller knows its rules by name: it would make a second rule for the port, which CloudStack refuses.",
			Remedy: "run `csccm migrate-rules`: it shows what it would do, and renames in place, without loss of traffic",
			Run:    runPlan(decide.OldNames),
		},
		{
			Code: "LB-003", Category: catLB, Title: "No rules without a Service", Severity: SeverityWarning, Phases: both(), Needs: needs,
			What:   "No rule whose members are all nodes of this cluster, and no address tagged as this cluster's, is without a Service.",
			Why:    "Orphans hold addresses and ports, cost money, and keep ports of Services that are gone open.",
			Remedy: "find out who uses them: a rule that still serves can stay; where nobody does, `csccm migrate-rules --delete-orphans` deletes the rules after it has shown them; addresses without rules are released in CloudStack",
			Run:    by3(balanceFact, addressesFact, clusterIDFact, decide.Orphans),
		},
		{
			Code: "LB-004", Category: catLB, Title: "No two rules for one port", Severity: SeverityError, Phases: both(), Needs: needs,
			What:   "No port of a load balancer has two rules, for example under an old and a new name.",
			Why:    "Two controllers, or an upgrade without a migration, made them; traffic reaches one of them only.",
			Remedy: "run `csccm migrate-rules`: it keeps the rule whose address the Service shows and deletes the surplus one; of two that it cannot choose between it says why",
			Run:    runPlan(decide.Duplicates),
		},
		{
			Code: "LB-005", Category: catLB, Title: "Forwarded ports lead to nodes that serve", Severity: SeverityError, Phases: []Phase{PhaseInstalled}, Needs: needs,
			What:   "Each port that is served by port forwarding (UDP behind a virtual router, mode `direct`) has one on the Service's address, to the right node port of a node that is Ready, and the network ACL list of its VPC tier is not `default_deny`.",
			Why:    "A port forwarding has no health check and leads to one node: if that is lost, so is the port, until the controller has moved it.",
			Remedy: "look at the Events of the named Services (kubectl describe service {service}), and for missing commands at CS-003; where every node is unfit, the forwarded ports stay where they are until one is Ready; the controller repairs the rest within its drift period, or now: " + decide.Restart,
			Run:    func(ctx context.Context, e *Env) Finding { return judge(ctx, e, balanceFact, decide.Direct) },
		},
	}
}

func runPlan(rule func(p migrate.Plan) Finding) func(context.Context, *Env) Finding {
	return func(ctx context.Context, e *Env) Finding {
		return judge(ctx, e, balanceFact, func(in decide.BalanceFacts) Finding { return rule(in.Plan()) })
	}
}
