// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/check/tenants"
	"github.com/csccm/csccm/pkg/cloudstack"
)

const catTenants = "Tenants"

func tenancyChecks() []Check {
	installed := []Phase{PhaseInstalled}
	return []Check{
		{
			Code: "TEN-001", Category: catTenants, Title: "Admission policies refuse", Severity: SeverityWarning, Phases: installed, Needs: []string{"K8S-001"},
			What:   "The chart's two ValidatingAdmissionPolicies (-annotations, -records) exist, are bound with the action Deny, and have failurePolicy Fail.",
			Why:    "They prevent tenants from writing annotations that only the controller may write, and report wrong values when a Service is written, not later in an Event.",
			Remedy: "bring the chart's policies back: `csccm upgrade --set admissionPolicy.enabled=true`",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge2(ctx, e, admissionFact, controllersFact, func(a decide.AdmissionObjects, c decide.Controllers) Finding {
					return decide.Admission(a, len(c.Ours) > 0)
				})
			},
		},
		{
			Code: "TEN-002", Category: catTenants, Title: "No Service breaks the policy", Severity: SeverityWarning, Phases: installed, Needs: []string{"K8S-001"},
			What:   "Every Service of type LoadBalancer asks only for what the operator's policy (chart value tenancy of the running controller) allows its namespace.",
			Why:    "The controller changes nothing for a refused Service: its ports and members stay the same when Pods and nodes change.",
			Remedy: "have the owner of the Service remove what is not allowed, or allow it to the namespace with the chart value that is named: csccm upgrade -f VALUES",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge2(ctx, e, servicesFact, controllersFact, func(services []corev1.Service, c decide.Controllers) Finding {
					in := decide.PolicyFacts{Words: c.Words()}
					in.View.Services = services
					in.View.Labels, in.LabelsErr = labelsFact.get(ctx, e)
					in.View.Addresses = e.policyAddresses(ctx, services)
					return decide.Policy(in)
				})
			},
		},
		{
			Code: "TEN-003", Category: catTenants, Title: "Addresses shared by consent only", Severity: SeverityWarning, Phases: installed, Needs: []string{"K8S-001", "CS-004"},
			What:   "Services of several namespaces share an address only if the Service that has it names the other namespaces in its annotation share-with.",
			Why:    "A Service with a port of the address can answer for its owner there, for example ACME challenges on port 80.",
			Remedy: "give the other Services addresses of their own, or set the annotation service.beta.kubernetes.io/cloudstack-load-balancer-share-with on the owner",
			Run:    by2(balanceFact, addressesFact, decide.Shared),
		},
		{
			Code: "TEN-004", Category: catTenants, Title: "Records agree with CloudStack", Severity: SeverityWarning, Phases: installed, Needs: []string{"K8S-001", "CS-004"},
			What:   "If a Service has a record that the controller acquired an address for it, CloudStack's tags of the address name this Service.",
			Why:    "A contradicting record was copied, forged, or restored from a backup. The controller releases no address because of it.",
			Remedy: "find out who wrote it (`kubectl get service {service} -o yaml --show-managed-fields`), then remove the record: `kubectl annotate service {service} service.beta.kubernetes.io/cloudstack-load-balancer-addresses-`; the controller writes a true one",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge3(ctx, e, servicesFact, addressesFact, clusterIDsFact, func(services []corev1.Service, addresses []cloudstack.PublicIP, ids []string) Finding {
					apis, err := apisFact.get(ctx, e)
					_, tags := apis["createTags"]
					return decide.Records(services, addresses, ids, err == nil && tags)
				})
			},
		},
	}
}

// policyAddresses returns the addresses that the policy is applied to; none without CloudStack.
func (e *Env) policyAddresses(ctx context.Context, services []corev1.Service) map[string]tenants.Address {
	if e.CloudStack == nil {
		return nil
	}
	addresses, err := addressesFact.get(ctx, e)
	rules, rulesErr := rulesFact.get(ctx, e)
	ids, idErr := clusterIDsFact.get(ctx, e)
	if err != nil || rulesErr != nil || idErr != nil {
		return nil
	}
	return tenants.Addresses(addresses, rules, services, ids)
}
