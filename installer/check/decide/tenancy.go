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
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/check/tenants"
	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/tenancy"
)

// admissionPolicies are the ends of the names of the chart's policies.
var admissionPolicies = []string{"-annotations", "-records"}

func admission(f *Facts) Finding {
	if len(f.Ours()) == 0 {
		return Skipf("the controller is not installed")
	}
	var objects []Object
	for _, end := range admissionPolicies {
		i := slices.IndexFunc(f.Policies, func(p admissionv1.ValidatingAdmissionPolicy) bool { return strings.HasSuffix(p.Name, end) })
		if i < 0 {
			objects = append(objects, objectf("ValidatingAdmissionPolicy", "", "*"+end, "not in the cluster"))
			continue
		}
		p := &f.Policies[i]
		if policy := ptr.Deref(p.Spec.FailurePolicy, admissionv1.Fail); policy != admissionv1.Fail {
			objects = append(objects, objectf("ValidatingAdmissionPolicy", "", p.Name, "failurePolicy is %s: what it cannot judge is let through", policy))
		}
		if !slices.ContainsFunc(f.Bindings, func(b admissionv1.ValidatingAdmissionPolicyBinding) bool {
			return b.Spec.PolicyName == p.Name && slices.Contains(b.Spec.ValidationActions, admissionv1.Deny)
		}) {
			objects = append(objects, objectf("ValidatingAdmissionPolicy", "", p.Name, "no binding has it refuse anything"))
		}
	}
	return Passf("%d policies", len(admissionPolicies)).Unless(objects, "fault", "%s of the admission policies")
}

func policy(f *Facts) Finding {
	p, _, err := tenants.PolicyOf(f.Words())
	if err != nil {
		return Problemf("the controller's --tenancy cannot be read: %v", err).Fix("correct the chart value tenancy: csccm upgrade -f VALUES")
	}
	if err := f.Err(Namespaces); err != nil && p.NeedsLabels() {
		return Unread(err)
	}
	view := tenants.View{Services: f.Services, Labels: f.Namespaces}
	if f.Err(Addresses) == nil && f.Err(AllRules) == nil && f.Err(ClusterIDs) == nil {
		view.Addresses = tenants.Addresses(f.Addresses, f.AllRules, f.Services, f.ClusterIDs)
	}
	var objects []Object
	for _, r := range tenants.Refusals(p, view) {
		namespace, name, _ := strings.Cut(r.Service, "/")
		objects = append(objects, objectf("Service", namespace, name, "%s", r.Message))
	}
	return Passf("none").Unless(objects, "setting", "%s more than the policy allows")
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
	found := about("Service", f.Services, func(s *corev1.Service) string {
		records, err := annotation.ParseRecords(s.Annotations)
		if err != nil {
			return err.Error()
		}
		for _, rec := range records.Addresses {
			i := slices.IndexFunc(f.Addresses, func(a cloudstack.PublicIP) bool { return a.ID == rec.ID })
			if i < 0 || !rec.Allocated {
				continue // LB-001 says what is missing
			}
			a, why := &f.Addresses[i], ""
			cluster, tagged := a.Tags[plan.TagCluster], a.Tags[plan.TagServiceUID]
			switch {
			case cluster == "" && tagged == "" && (rec.Tagged || f.APIs.Has("createTags")):
				why = "nobody"
			case cluster == "" && tagged == "":
			case !slices.Contains(f.ClusterIDs, cluster):
				why = fmt.Sprintf("cluster %q", cluster)
			case tagged != "" && tagged != string(s.UID): // an address that its Service left to others of this cluster has no UID
				why = fmt.Sprintf("Service %s with another UID", a.Tags[plan.TagService])
			}
			if why != "" {
				return fmt.Sprintf("says that %s was acquired for it; CloudStack's tags name %s", a.Address, why)
			}
		}
		return ""
	})
	return Passf("none contradicts").Unless(found, "record", "%s that CloudStack contradicts")
}
