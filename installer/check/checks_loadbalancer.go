// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"

	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/cloud/rules"
)

const catLB = "Load balancers"

func loadBalancerChecks() []Check {
	needs := []string{"K8S-001", "CS-004"}
	return []Check{
		{
			Code: "LB-001", Category: catLB, Title: "Services have what they ask for", Severity: SeverityError, Phases: []Phase{PhaseInstalled}, Needs: needs,
			What:   "`csccm plan` shows nothing to do for each Service of type LoadBalancer: address, rules, members, firewall and ACLs, port forwardings are as planned. With more than 16 rules the check plans Services that are not Ready and a sample of the others, and compares only the rules of the rest; with `--only LB` it plans all. New and changed Services have two minutes, refused ones have not.",
			Why:    "Missing rules lose traffic, and refused Services are not served.",
			Remedy: "`csccm plan` shows it all; the controller tries again at the time that is named, or within ten minutes, and repairs what has changed within its drift period; to have it try now: `" + decide.Restart + "`",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge2(ctx, e, balanceFact, plansFact, func(in decide.BalanceFacts, plans plans) Finding {
					in.Plans = plans.Plans
					_, _ = forwardsShown.get(ctx, e)      // for csccm status
					in.Events, _ = eventsFact.get(ctx, e) // only explains
					logs, _ := logsFact.get(ctx, e)
					in.Next = decide.NextTries(logs)
					return decide.Services(in)
				})
			},
		},
		{
			Code: "LB-002", Category: catLB, Title: "No rules with old names", Severity: SeverityWarning, Phases: both(), Needs: needs,
			What:   "No rule of this cluster has a name of an older provider: LB-PORT without a protocol, or K8s_svc_...",
			Why:    "The controller identifies its rules by name: it would create a second rule for the port, which CloudStack refuses.",
			Remedy: "`csccm migrate-rules` shows what it would do, and renames in place, without loss of traffic",
			Run:    runPlan(decide.OldNames),
		},
		{
			Code: "LB-003", Category: catLB, Title: "No rules without a Service", Severity: SeverityWarning, Phases: both(), Needs: needs,
			What:   "Every rule whose members are all nodes of this cluster, and every address with this cluster's tags, has a Service.",
			Why:    "Orphans use addresses, cost money, and keep ports of deleted Services open.",
			Remedy: "find out who uses them: a rule that still serves can stay; where nobody does, `csccm migrate-rules --delete-orphans` deletes the rules after it has shown them; addresses without rules are released in CloudStack",
			Run:    by3(balanceFact, addressesFact, clusterIDsFact, decide.Orphans),
		},
		{
			Code: "LB-004", Category: catLB, Title: "No two rules for one port", Severity: SeverityError, Phases: both(), Needs: needs,
			What:   "No port of a load balancer has two rules, for example under an old and a new name.",
			Why:    "Two controllers, or an upgrade without a migration, made them; traffic reaches only one of them.",
			Remedy: "run `csccm migrate-rules`: it keeps the rule whose address the Service shows and deletes the surplus one; of two that it cannot choose between it says why",
			Run:    runPlan(decide.Duplicates),
		},
	}
}

func runPlan(rule func(p rules.Plan) Finding) func(context.Context, *Env) Finding {
	return func(ctx context.Context, e *Env) Finding {
		return judge(ctx, e, balanceFact, func(in decide.BalanceFacts) Finding { return rule(in.Plan()) })
	}
}
