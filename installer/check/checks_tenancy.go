// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/installer/commands/tenants"
	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	lbplan "github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/provider"
)

const catTenants = "Tenants"

func tenancyChecks() []Check {
	installed := []Phase{PhaseInstalled}
	return []Check{
		{
			Code: "TEN-001", Category: catTenants, Title: "Admission policies refuse", Severity: SeverityWarning, Phases: installed, Needs: []string{"K8S-001"},
			What:   "The chart's three ValidatingAdmissionPolicies (-annotations, -records, -tenancy) are there, each is bound with the action Deny, and each has failurePolicy Fail.",
			Why:    "They keep a tenant from writing annotations that only the controller may write. The controller refuses what the policy forbids without them too, but nobody else sees a forged record before it is used, and users see the refusal in an Event only.",
			Remedy: "bring the chart's policies back: `csccm upgrade --set admissionPolicy.enabled=true`, or `csccm install` where somebody deleted them",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge2(ctx, e.facts.admission, e.facts.workloads, func(a admission, workloads []workload) Finding {
					return decideAdmission(a, slices.ContainsFunc(workloads, func(w workload) bool { return w.isOurs(e.Release, e.Namespace) }))
				})
			},
		},
		{
			Code: "TEN-002", Category: catTenants, Title: "No Service breaks the policy", Severity: SeverityWarning, Phases: installed, Needs: []string{"K8S-001"},
			What:   "No Service of type LoadBalancer asks for something that the operator's policy (chart value tenancy, as the running controller has it) does not allow its namespace.",
			Why:    "The controller changes nothing for a Service that the policy refuses: its ports and members stay as they were, whatever happens to Pods and nodes.",
			Remedy: "have the owner of the Service remove what is not allowed, or allow it to the namespace with the chart value that is named: `csccm upgrade -f VALUES`",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge2(ctx, e.facts.services, e.facts.workloads, func(services []corev1.Service, workloads []workload) Finding {
					in := policyFacts{words: ownWords(e.Release, e.Namespace, workloads)}
					in.view.Services = services
					in.view.Labels, in.labelsErr = e.facts.labels.get(ctx)
					in.view.Addresses = e.policyAddresses(ctx, services)
					return decidePolicy(in)
				})
			},
		},
		{
			Code: "TEN-003", Category: catTenants, Title: "Addresses shared by consent only", Severity: SeverityWarning, Phases: installed, Needs: []string{"K8S-001", "CS-004"},
			What:   "Services of several namespaces use one address only where the Service that has the address names the other namespaces in its annotation share-with.",
			Why:    "Whoever has a port of an address can answer for its owner there, ACME challenges on port 80 among them.",
			Remedy: "give the other Services addresses of their own, or set the annotation service.beta.kubernetes.io/cloudstack-load-balancer-share-with on the owner",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge2(ctx, e.facts.balance, e.facts.addresses, decideShared)
			},
		},
		{
			Code: "TEN-004", Category: catTenants, Title: "Records agree with CloudStack", Severity: SeverityWarning, Phases: installed, Needs: []string{"K8S-001", "CS-004"},
			What:   "No Service has a record that the controller acquired an address for it while CloudStack's tags of the address name another cluster or Service, or nothing.",
			Why:    "Such a record was copied, forged, or outlived its address. The controller does not release an address by it, but somebody tried, or a restore brought an old Service back.",
			Remedy: "find out who wrote it (kubectl get service {service} -o yaml --show-managed-fields), then remove the annotation service.beta.kubernetes.io/cloudstack-load-balancer-addresses from the Service: the controller writes a true one",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge3(ctx, e.facts.services, e.facts.addresses, e.facts.clusterID, func(services []corev1.Service, addresses []cloudstack.PublicIP, id string) Finding {
					apis, err := e.facts.apis.get(ctx)
					_, tags := apis["createTags"]
					return decideRecords(services, addresses, id, err == nil && tags)
				})
			},
		},
	}
}

// admission are the admission policies that carry the release's labels, and their bindings.
type admission struct {
	policies []admissionv1.ValidatingAdmissionPolicy
	bindings []admissionv1.ValidatingAdmissionPolicyBinding
}

// admissionPolicies are the ends of the names of the chart's policies.
var admissionPolicies = []string{"-annotations", "-records", "-tenancy"}

func decideAdmission(a admission, installed bool) Finding {
	if !installed {
		return skip("the controller is not installed")
	}
	var objects []Object
	add := func(name, format string, args ...any) {
		objects = append(objects, Object{Kind: "ValidatingAdmissionPolicy", Name: name, Message: fmt.Sprintf(format, args...)})
	}
	for _, end := range admissionPolicies {
		i := slices.IndexFunc(a.policies, func(p admissionv1.ValidatingAdmissionPolicy) bool { return strings.HasSuffix(p.Name, end) })
		if i < 0 {
			add("*"+end, "not in the cluster")
			continue
		}
		p := &a.policies[i]
		if policy := p.Spec.FailurePolicy; policy != nil && *policy != admissionv1.Fail {
			add(p.Name, "failurePolicy is %s: what it cannot judge is let through", *policy)
		}
		bound := false
		for j := range a.bindings {
			b := &a.bindings[j]
			bound = bound || b.Spec.PolicyName == p.Name && slices.Contains(b.Spec.ValidationActions, admissionv1.Deny)
		}
		if !bound {
			add(p.Name, "no binding has it refuse anything")
		}
	}
	if len(objects) > 0 {
		return bad("%d of %d policies do not refuse, or not always", faulty(objects), len(admissionPolicies)).about(objects...)
	}
	return ok("%d policies", len(admissionPolicies))
}

// faulty counts the names among objects.
func faulty(objects []Object) int {
	names := map[string]bool{}
	for _, o := range objects {
		names[o.Name] = true
	}
	return len(names)
}

// policyFacts is what TEN-002 decides by.
type policyFacts struct {
	words     []string // that the controller is started with
	view      tenants.View
	labelsErr error
}

func decidePolicy(in policyFacts) Finding {
	p, set, err := tenants.PolicyOf(in.words)
	if err != nil {
		return bad("the controller's --tenancy cannot be read: %v", err).fix("correct the chart value tenancy: csccm upgrade -f VALUES")
	}
	if in.labelsErr != nil && p.NeedsLabels() {
		return unread(in.labelsErr)
	}
	whose := "the default policy"
	if set {
		whose = "--tenancy of the controller"
	}
	var objects []Object
	for _, r := range tenants.Refused(p, in.view) {
		namespace, name, _ := strings.Cut(r.Service, "/")
		objects = append(objects, Object{Kind: "Service", Namespace: namespace, Name: name, Message: r.Message})
	}
	if len(objects) > 0 {
		return bad("%s more than the policy allows", count(len(objects), "setting")).about(objects...).evidence("policy", whose)
	}
	return ok("none").evidence("policy", whose)
}

func decideShared(in balanceFacts, addresses []cloudstack.PublicIP) Finding {
	owners := map[string]types.UID{}
	for i := range addresses {
		if uid := addresses[i].Tags[lbplan.TagServiceUID]; uid != "" {
			owners[addresses[i].Address] = types.UID(uid)
		}
	}
	rules := map[string][]string{}
	p := in.plan()
	for i := range p.Items {
		if it := &p.Items[i]; it.Service != "" {
			rules[it.PublicIP] = append(rules[it.PublicIP], it.Service)
		}
	}
	var objects []Object
	for _, s := range tenants.SharedAddresses(in.services, owners, rules) {
		objects = append(objects, Object{Kind: "PublicIpAddress", Name: s.IP, Message: fmt.Sprintf(
			"Service %s has it and does not share it with %s", s.Owner, strings.Join(s.Users, ", "))})
	}
	if len(objects) > 0 {
		return bad("%s used across namespaces", count(len(objects), "address")).about(objects...)
	}
	return ok("none is used across namespaces without consent")
}

// decideRecords compares records with tags. Where the role may not tag, an address without tags says nothing.
func decideRecords(services []corev1.Service, addresses []cloudstack.PublicIP, clusterID string, mayTag bool) Finding {
	byID := map[string]*cloudstack.PublicIP{}
	for i := range addresses {
		byID[addresses[i].ID] = &addresses[i]
	}
	var objects []Object
	for i := range services {
		s := &services[i]
		records, err := annotation.ParseRecords(s.Annotations)
		if err != nil {
			objects = append(objects, serviceObject(s, err.Error()))
			continue
		}
		for _, rec := range records.Addresses {
			a := byID[rec.ID]
			if a == nil || !rec.Allocated {
				continue // LB-001 says what is missing
			}
			silent := !rec.Tagged && !mayTag
			if why := contradiction(a, clusterID, string(s.UID), silent); why != "" {
				objects = append(objects, serviceObject(s, fmt.Sprintf("says that %s was acquired for it; %s", a.Address, why)))
			}
		}
	}
	if len(objects) > 0 {
		return bad("%s that CloudStack contradicts", count(len(objects), "record")).about(objects...)
	}
	return ok("none contradicts")
}

func serviceObject(s *corev1.Service, message string) Object {
	return Object{Kind: "Service", Namespace: s.Namespace, Name: s.Name, Message: message}
}

// contradiction returns how the tags of an address contradict that it was acquired for a Service; "" when they do not.
// silent means that missing tags are no contradiction.
func contradiction(a *cloudstack.PublicIP, clusterID, uid string, silent bool) string {
	cluster, tagged := a.Tags[lbplan.TagCluster], a.Tags[lbplan.TagServiceUID]
	switch {
	case cluster == "" && tagged == "" && silent:
		return ""
	case cluster == "" && tagged == "":
		return "CloudStack's tags name nobody"
	case !provider.OwnClusterTag(cluster, clusterID, tagged == uid):
		return fmt.Sprintf("CloudStack's tags name cluster %q", cluster)
	case tagged != "" && tagged != uid:
		return fmt.Sprintf("CloudStack's tags name Service %s with another UID", a.Tags[lbplan.TagService])
	}
	return "" // an address that its Service left to others of this cluster has no UID
}

// ownWords are the words that the release's controller is started with.
func ownWords(release, namespace string, workloads []workload) []string {
	for i := range workloads {
		if w := &workloads[i]; w.isOurs(release, namespace) {
			return w.words
		}
	}
	return nil
}

// policyAddresses is what the rules of the policy about addresses are judged by; without CloudStack nothing is known.
func (e *Env) policyAddresses(ctx context.Context, services []corev1.Service) map[string]tenants.Address {
	if e.CloudStack == nil {
		return nil
	}
	addresses, err := e.facts.addresses.get(ctx)
	balancers, rulesErr := e.facts.balancers.get(ctx)
	id, idErr := e.facts.clusterID.get(ctx)
	if err != nil || rulesErr != nil || idErr != nil {
		return nil
	}
	return tenants.Addresses(addresses, balancers.all, services, func(cluster string, own bool) bool { return provider.OwnClusterTag(cluster, id, own) })
}
