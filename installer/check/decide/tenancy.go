// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/installer/check/tenants"
	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/plural"
)

// AdmissionObjects are the admission policies that carry the release's labels, and their bindings.
type AdmissionObjects struct {
	Policies []admissionv1.ValidatingAdmissionPolicy
	Bindings []admissionv1.ValidatingAdmissionPolicyBinding
}

// admissionPolicies are the ends of the names of the chart's policies.
var admissionPolicies = []string{"-annotations", "-records"}

// Admission decides TEN-001.
func Admission(a AdmissionObjects, installed bool) Finding {
	if !installed {
		return Skipf("the controller is not installed")
	}
	var objects []Object
	add := func(name, format string, args ...any) {
		objects = append(objects, Object{Kind: "ValidatingAdmissionPolicy", Name: name, Message: fmt.Sprintf(format, args...)})
	}
	for _, end := range admissionPolicies {
		i := slices.IndexFunc(a.Policies, func(p admissionv1.ValidatingAdmissionPolicy) bool { return strings.HasSuffix(p.Name, end) })
		if i < 0 {
			add("*"+end, "not in the cluster")
			continue
		}
		p := &a.Policies[i]
		if policy := p.Spec.FailurePolicy; policy != nil && *policy != admissionv1.Fail {
			add(p.Name, "failurePolicy is %s: what it cannot judge is let through", *policy)
		}
		bound := false
		for j := range a.Bindings {
			b := &a.Bindings[j]
			bound = bound || b.Spec.PolicyName == p.Name && slices.Contains(b.Spec.ValidationActions, admissionv1.Deny)
		}
		if !bound {
			add(p.Name, "no binding has it refuse anything")
		}
	}
	if len(objects) > 0 {
		return Problemf("%d of %d policies do not refuse, or not always", faulty(objects), len(admissionPolicies)).About(objects...)
	}
	return Passf("%d policies", len(admissionPolicies))
}

// faulty counts the names among objects.
func faulty(objects []Object) int {
	names := map[string]bool{}
	for _, o := range objects {
		names[o.Name] = true
	}
	return len(names)
}

// PolicyFacts is what TEN-002 is decided by.
type PolicyFacts struct {
	Words     []string // that the controller is started with
	View      tenants.View
	LabelsErr error
}

// Policy decides TEN-002.
func Policy(in PolicyFacts) Finding {
	p, set, err := tenants.PolicyOf(in.Words)
	if err != nil {
		return Problemf("the controller's --tenancy cannot be read: %v", err).Fix("correct the chart value tenancy: csccm upgrade -f VALUES")
	}
	if in.LabelsErr != nil && p.NeedsLabels() {
		return Unread(in.LabelsErr)
	}
	whose := "the default policy"
	if set {
		whose = "--tenancy of the controller"
	}
	var objects []Object
	values, refused, err := tenants.Keep(p, in.View)
	if err != nil {
		return Unread(err)
	}
	for _, r := range refused {
		namespace, name, _ := strings.Cut(r.Service, "/")
		objects = append(objects, Object{Kind: "Service", Namespace: namespace, Name: name, Message: r.Message})
	}
	if len(objects) > 0 {
		f := Problemf("%s more than the policy allows", plural.Count(len(objects), "setting")).About(objects...).With("policy", whose)
		if flags := tenants.Flags(values); flags != "" {
			f = f.Fix("have the owner of the Service remove what is not allowed, or allow it: `csccm upgrade %s`", flags)
		}
		return f
	}
	return Passf("none").With("policy", whose)
}

// Shared decides TEN-003.
func Shared(in BalanceFacts, addresses []cloudstack.PublicIP) Finding {
	owners := map[string]types.UID{}
	for i := range addresses {
		if uid := addresses[i].Tags[plan.TagServiceUID]; uid != "" {
			owners[addresses[i].Address] = types.UID(uid)
		}
	}
	rules := map[string][]string{}
	p := in.Plan()
	for i := range p.Items {
		if it := &p.Items[i]; it.Service != "" {
			rules[it.PublicIP] = append(rules[it.PublicIP], it.Service)
		}
	}
	var objects []Object
	for _, s := range tenants.SharedAddresses(in.Services, owners, rules) {
		objects = append(objects, Object{Kind: "PublicIpAddress", Name: s.IP, Message: fmt.Sprintf(
			"Service %s has it and does not share it with %s", s.Owner, strings.Join(s.Users, ", "))})
	}
	return Passf("none is used across namespaces without consent").Unless(objects, "address", "%s used across namespaces")
}

// Records compares records with tags. Where the role may not tag, an address without tags says nothing.
func Records(services []corev1.Service, addresses []cloudstack.PublicIP, clusterIDs []string, mayTag bool) Finding {
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
			if why := contradiction(a, clusterIDs, string(s.UID), silent); why != "" {
				objects = append(objects, serviceObject(s, fmt.Sprintf("says that %s was acquired for it; %s", a.Address, why)))
			}
		}
	}
	return Passf("none contradicts").Unless(objects, "record", "%s that CloudStack contradicts")
}

func serviceObject(s *corev1.Service, message string) Object {
	return Object{Kind: "Service", Namespace: s.Namespace, Name: s.Name, Message: message}
}

// contradiction returns how the tags of an address contradict that it was acquired for a Service; "" when they do not.
// silent means that missing tags are no contradiction.
func contradiction(a *cloudstack.PublicIP, clusterIDs []string, uid string, silent bool) string {
	cluster, tagged := a.Tags[plan.TagCluster], a.Tags[plan.TagServiceUID]
	switch {
	case cluster == "" && tagged == "" && silent:
		return ""
	case cluster == "" && tagged == "":
		return "CloudStack's tags name nobody"
	case !slices.Contains(clusterIDs, cluster):
		return fmt.Sprintf("CloudStack's tags name cluster %q", cluster)
	case tagged != "" && tagged != uid:
		return fmt.Sprintf("CloudStack's tags name Service %s with another UID", a.Tags[plan.TagService])
	}
	return "" // an address that its Service left to others of this cluster has no UID
}
