// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/csccm/csccm/installer/check/tenants"
	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/tenancy"
)

func tenancyChecks() []Check {
	return []Check{
		{
			Code: "TEN-001", Title: "Admission policies refuse", Severity: SeverityWarning, Phase: Installed, Needs: needAPI, Reads: []Source{Admission, Controllers}, Judge: admission,
			What:   "The chart's two ValidatingAdmissionPolicies (-annotations, -records) exist, are bound with the action Deny, and have failurePolicy Fail.",
			Why:    "They prevent tenants from writing annotations that only the controller may write, and report wrong values when a Service is written, not later in an Event.",
			Remedy: "bring the chart's policies back: `csccm upgrade --set admissionPolicy.enabled=true`",
		},
		{
			Code: "TEN-002", Title: "No Service breaks the policy", Severity: SeverityWarning, Phase: Installed, Needs: needAPI, Reads: []Source{Services, Controllers}, Tries: []Source{Namespaces, Addresses, AllRules, ClusterIDs}, Judge: policy,
			What:   "Every Service of type LoadBalancer asks only for what the operator's policy (chart value tenancy of the running controller) allows its namespace.",
			Why:    "The controller changes nothing for a refused Service: its ports and members stay the same when Pods and nodes change.",
			Remedy: "have the owner of the Service remove what is not allowed, or allow it to the namespace with the chart value that is named: csccm upgrade -f VALUES",
		},
		{
			Code: "TEN-003", Title: "Addresses shared by consent only", Severity: SeverityWarning, Phase: Installed, Needs: needVMs, Reads: []Source{Nodes, VMs, Services, Balancers, Addresses}, Judge: shared,
			What:   "Services of several namespaces share an address only if the Service that has it names the other namespaces in its annotation share-with.",
			Why:    "A Service with a port of the address can answer for its owner there, for example ACME challenges on port 80.",
			Remedy: "give the other Services addresses of their own, or set the annotation service.beta.kubernetes.io/cloudstack-load-balancer-share-with on the owner",
		},
		{
			Code: "TEN-004", Title: "Records agree with CloudStack", Severity: SeverityWarning, Phase: Installed, Needs: needVMs, Reads: []Source{Services, Addresses, ClusterIDs}, Tries: []Source{APIs}, Judge: records,
			What:   "If a Service has a record that the controller acquired an address for it, CloudStack's tags of the address name this Service.",
			Why:    "A contradicting record was copied, forged, or restored from a backup. The controller releases no address because of it.",
			Remedy: "find out who wrote it (`kubectl get service {service} -o yaml --show-managed-fields`), then remove the record: `kubectl annotate service {service} service.beta.kubernetes.io/cloudstack-load-balancer-addresses-`; the controller writes a true one",
		},
	}
}

// admissionPolicies are the ends of the names of the chart's policies.
var admissionPolicies = []string{"-annotations", "-records"}

func admission(f *Facts) Finding {
	if len(f.Ours()) == 0 {
		return Skipf("the controller is not installed")
	}
	var objects []Object
	for _, end := range admissionPolicies {
		name, faults := "*"+end, []string{"not in the cluster"}
		if i := slices.IndexFunc(f.Policies, func(p admissionv1.ValidatingAdmissionPolicy) bool { return strings.HasSuffix(p.Name, end) }); i >= 0 {
			p := &f.Policies[i]
			name, faults = p.Name, nil
			if policy := p.Spec.FailurePolicy; policy != nil && *policy != admissionv1.Fail {
				faults = append(faults, fmt.Sprintf("failurePolicy is %s: what it cannot judge is let through", *policy))
			}
			if !slices.ContainsFunc(f.Bindings, func(b admissionv1.ValidatingAdmissionPolicyBinding) bool {
				return b.Spec.PolicyName == name && slices.Contains(b.Spec.ValidationActions, admissionv1.Deny)
			}) {
				faults = append(faults, "no binding has it refuse anything")
			}
		}
		if len(faults) > 0 {
			objects = append(objects, Object{Kind: "ValidatingAdmissionPolicy", Name: name, Message: strings.Join(faults, "; ")})
		}
	}
	if len(objects) > 0 {
		return Problemf("%d of %d policies do not refuse, or not always", len(objects), len(admissionPolicies)).About(objects...)
	}
	return Passf("%d policies", len(admissionPolicies))
}

func policy(f *Facts) Finding {
	p, set, err := tenants.PolicyOf(f.Words())
	if err != nil {
		return Problemf("the controller's --tenancy cannot be read: %v", err).Fix("correct the chart value tenancy: csccm upgrade -f VALUES")
	}
	if err := f.Err(Namespaces); err != nil && p.NeedsLabels() {
		return Unread(err)
	}
	whose := "the default policy"
	if set {
		whose = "--tenancy of the controller"
	}
	view := tenants.View{Services: f.Services, Labels: f.Namespaces}
	if f.Err(Addresses) == nil && f.Err(AllRules) == nil && f.Err(ClusterIDs) == nil {
		view.Addresses = tenants.Addresses(f.Addresses, f.AllRules, f.Services, f.ClusterIDs)
	}
	var objects []Object
	for _, r := range tenants.Refusals(p, view) {
		namespace, name, _ := strings.Cut(r.Service, "/")
		objects = append(objects, Object{Kind: "Service", Namespace: namespace, Name: name, Message: r.Message})
	}
	return Passf("none").Unless(objects, "setting", "%s more than the policy allows").With("policy", whose)
}

// shared goes by the Services' status and by the rules. An address belongs to the Service in its tags, else to the oldest.
func shared(f *Facts) Finding {
	tagged, ruled, users := map[string]types.UID{}, map[string]sets.Set[string]{}, map[string][]*corev1.Service{}
	for i := range f.Addresses {
		tagged[f.Addresses[i].Address] = types.UID(f.Addresses[i].Tags[plan.TagServiceUID])
	}
	for _, it := range f.RulePlan().Items {
		ruled[it.Service] = sets.New(it.PublicIP).Union(ruled[it.Service])
	}
	for _, s := range tenants.Balanced(f.Services) {
		for ip := range sets.New(tenants.Ingress(s)...).Union(ruled[s.Namespace+"/"+s.Name]) {
			users[ip] = append(users[ip], s)
		}
	}
	var objects []Object
	for _, ip := range slices.Sorted(maps.Keys(users)) {
		owner := slices.MinFunc(users[ip], func(a, b *corev1.Service) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
		if i := slices.IndexFunc(users[ip], func(s *corev1.Service) bool { return s.UID == tagged[ip] }); i >= 0 {
			owner = users[ip][i]
		}
		spec, _ := annotation.Parse(owner) // what else is wrong with the Service does not matter here
		var guests []string
		for _, s := range users[ip] {
			if s.Namespace != owner.Namespace && !slices.Contains(spec.ShareWith, s.Namespace) && !slices.Contains(spec.ShareWith, tenancy.Everybody) {
				guests = append(guests, s.Namespace+"/"+s.Name)
			}
		}
		if len(guests) > 0 {
			objects = append(objects, objectf("PublicIpAddress", "", ip,
				"Service %s/%s has it and does not share it with %s", owner.Namespace, owner.Name, strings.Join(guests, ", ")))
		}
	}
	return Passf("none is used across namespaces without consent").Unless(objects, "address", "%s used across namespaces")
}

// records compares records with tags. Where the role may not tag, an address without tags says nothing.
func records(f *Facts) Finding {
	byID := map[string]*cloudstack.PublicIP{}
	for i := range f.Addresses {
		byID[f.Addresses[i].ID] = &f.Addresses[i]
	}
	found := about("Service", f.Services, func(s *corev1.Service) string {
		records, err := annotation.ParseRecords(s.Annotations)
		if err != nil {
			return err.Error()
		}
		for _, rec := range records.Addresses {
			a := byID[rec.ID]
			if a == nil || !rec.Allocated {
				continue // LB-001 says what is missing
			}
			if why := f.contradiction(a, string(s.UID), !rec.Tagged && !f.APIs.Has("createTags")); why != "" {
				return fmt.Sprintf("says that %s was acquired for it; %s", a.Address, why)
			}
		}
		return ""
	})
	return Passf("none contradicts").Unless(found, "record", "%s that CloudStack contradicts")
}

// contradiction returns how the tags of an address contradict that it was acquired for a Service; "" when they do not.
// silent means that missing tags are no contradiction.
func (f *Facts) contradiction(a *cloudstack.PublicIP, uid string, silent bool) string {
	cluster, tagged := a.Tags[plan.TagCluster], a.Tags[plan.TagServiceUID]
	switch {
	case cluster == "" && tagged == "" && silent:
		return ""
	case cluster == "" && tagged == "":
		return "CloudStack's tags name nobody"
	case !slices.Contains(f.ClusterIDs, cluster):
		return fmt.Sprintf("CloudStack's tags name cluster %q", cluster)
	case tagged != "" && tagged != uid:
		return fmt.Sprintf("CloudStack's tags name Service %s with another UID", a.Tags[plan.TagService])
	}
	return "" // an address that its Service left to others of this cluster has no UID
}
