// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"errors"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

func TestAdmission(t *testing.T) {
	t.Parallel()
	fail, ignore := admissionv1.Fail, admissionv1.Ignore
	whole := func(f *Facts) {
		f.Controllers = []Workload{{Ours: true}}
		for _, end := range admissionPolicies {
			meta := metav1.ObjectMeta{Name: "prod" + end}
			f.Policies = append(f.Policies, admissionv1.ValidatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionv1.ValidatingAdmissionPolicySpec{FailurePolicy: &fail}})
			f.Bindings = append(f.Bindings, admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: meta.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			}})
		}
	}
	const kind = "ValidatingAdmissionPolicy "
	for name, tt := range map[string]struct {
		change func(*Facts)
		expect expect
	}{
		"whole":                  {func(*Facts) {}, expect{OK, "2 policies", nil}},
		"the default of the API": {func(a *Facts) { a.Policies[0].Spec.FailurePolicy = nil }, expect{OK, "2 policies", nil}},
		"none": {func(a *Facts) { a.Policies = nil }, expect{"", "2 faults", []string{
			kind + "*-annotations: not in", kind + "*-records: not in",
		}}},
		"open":      {func(a *Facts) { a.Policies[1].Spec.FailurePolicy = &ignore }, expect{"", "1 fault", []string{kind + "prod-records: failurePolicy is Ignore"}}},
		"not bound": {func(a *Facts) { a.Bindings = a.Bindings[:1] }, expect{"", "1 fault", []string{kind + "prod-records: no binding"}}},
		"bound to warn": {func(a *Facts) {
			a.Bindings[0].Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Warn, admissionv1.Audit}
		}, expect{"", "1 fault", []string{kind + "prod-annotations: no binding"}}},
		"open and not bound": {func(a *Facts) { a.Bindings = a.Bindings[1:]; a.Policies[0].Spec.FailurePolicy = &ignore }, expect{"", "2 faults", []string{
			kind + "prod-annotations: failurePolicy is Ignore: what it cannot judge is let through", kind + "prod-annotations: no binding",
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.expect.of(t, "TEN-001", whole, tt.change)
		})
	}
	expect{Skipped, "not installed", nil}.of(t, "TEN-001")
}

func balancedService(name, uid, ip string, annotations map[string]string) corev1.Service {
	s := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: name[:1], Name: name[2:], UID: types.UID(uid), Annotations: annotations}}
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	s.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip}}
	return s
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	services := []corev1.Service{
		balancedService("a/web", "1", "192.0.2.1", map[string]string{annotation.Network: "n"}), balancedService("b/web", "2", "192.0.2.2", nil),
	}
	policy := func(words ...string) func(*Facts) {
		return func(f *Facts) { f.Services, f.Controllers = services, []Workload{{Ours: true, words: words}} }
	}
	refused := expect{"", "1 setting more than the policy allows", []string{"Service a/web: cloudstack-load-balancer-network"}}
	refused.of(t, "TEN-002", policy())
	refused.of(t, "TEN-002", policy("--tenancy="))
	expect{OK, "none", nil}.of(t, "TEN-002", policy("--tenancy={}"))
	expect{"", "cannot be read", nil}.of(t, "TEN-002", policy("--tenancy={"))
	// Labels of namespaces matter to a policy with selectors alone.
	unread := failing(Namespaces, errors.New("no"))
	expect{Unknown, "no", nil}.of(t, "TEN-002", unread, policy(`--tenancy={"trustedNamespaces":["a=b"]}`))
	refused.of(t, "TEN-002", unread, policy())
}

func TestShared(t *testing.T) {
	t.Parallel()
	const ip, uid = "192.0.2.1", "01234567-89ab-cdef-0123-456789abcdef"
	service := func(name, uid, ip, with string, minutes int) corev1.Service {
		s := balancedService(name, uid, ip, map[string]string{annotation.ShareWith: with})
		s.CreationTimestamp = metav1.NewTime(now.Add(-time.Duration(minutes) * time.Minute))
		return s
	}
	web, guest, hidden := service("b/web", "2", ip, "", 1), service("a/web", "1", ip, "", 0), service("a/web", uid, "", "", 0)
	toC, toAll := service("b/web", "2", ip, "c, a", 1), service("b/web", "2", ip, "*", 1)
	const taken, other = "Service b/web has it and does not share it with a/web", "Service a/web has it and does not share it with b/web"
	for name, tt := range map[string]struct {
		services []corev1.Service
		owner    string // UID in the tags
		rule     string
		says     string // "" for OK
	}{
		"alone":                          {[]corev1.Service{web, service("a/web", "1", "192.0.2.2", "", 0)}, "", "", ""},
		"within a namespace":             {[]corev1.Service{web, service("b/db", "1", ip, "", 0)}, "", "", ""},
		"across namespaces":              {[]corev1.Service{web, guest}, "", "", taken},
		"shared":                         {[]corev1.Service{toC, guest}, "", "", ""},
		"shared with all":                {[]corev1.Service{toAll, guest}, "", "", ""},
		"the guest says so":              {[]corev1.Service{web, service("a/web", "1", ip, "*", 0)}, "", "", taken},
		"the tag names the owner":        {[]corev1.Service{toAll, guest}, "1", "", other},
		"the owner is gone":              {[]corev1.Service{web, guest}, "gone", "", taken},
		"by a rule that no status shows": {[]corev1.Service{web, hidden}, "", "a0123456789abcdef0123456789abcde-tcp-80", taken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := expect{OK, "none", nil}
			if tt.says != "" {
				want = expect{"", "1 address used", []string{"PublicIpAddress " + ip + ": " + tt.says}}
			}
			want.of(t, "TEN-003", func(f *Facts) {
				f.Services, f.Addresses = tt.services, []cloudstack.PublicIP{{Address: ip, Tags: map[string]string{plan.TagServiceUID: tt.owner}}, {Address: "192.0.2.9"}}
				if tt.rule != "" {
					f.Rules = []cloudstack.LoadBalancerRule{{ID: "r", Name: tt.rule, PublicIP: ip, PublicPort: 80}}
				}
			})
		})
	}
}

func TestRecords(t *testing.T) {
	t.Parallel()
	const id = "the-uid-of-kube-system"
	tags := func(cluster, uid string) map[string]string {
		return map[string]string{plan.TagCluster: cluster, plan.TagServiceUID: uid, plan.TagService: "x/y"}
	}
	const record = `[{"id":"i","ip":"192.0.2.1","allocated":true}]`
	const found = "Service a/web: "
	for name, tt := range map[string]struct {
		record      string
		tags        map[string]string
		mayTag      bool
		predecessor bool
		says        string // "" for OK
	}{
		"ours":                                   {record, tags(id, "1"), true, false, ""},
		"a former id":                            {record, tags("former", "1"), true, false, ""},
		"another cluster":                        {record, tags("prod", "1"), true, false, `name cluster "prod"`},
		"another Service":                        {record, tags(id, "9"), true, false, "Service x/y with another UID"},
		"left to the others":                     {record, tags(id, ""), true, false, ""},
		"no tags":                                {record, nil, true, false, "name nobody"},
		"no tags, and the role may not":          {record, nil, false, false, ""},
		"no tags, of another provider":           {record, nil, true, true, "name nobody"},
		"no tags, and the record says there are": {`[{"id":"i","ip":"192.0.2.1","allocated":true,"tagged":true}]`, nil, false, true, "name nobody"},
		"not acquired":                           {`[{"id":"i","ip":"192.0.2.1"}]`, tags("prod", "9"), true, false, ""},
		"another address":                        {`[{"id":"j","ip":"192.0.2.1","allocated":true}]`, tags("prod", "9"), true, false, ""},
		"no record":                              {"", tags("prod", "9"), true, false, ""},
		"broken":                                 {"{", nil, true, false, "is not what the controller wrote"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := balancedService("a/web", "1", "192.0.2.1", map[string]string{annotation.Addresses: tt.record})
			if tt.predecessor {
				s.Annotations[annotation.AssociatedByController] = "true"
			}
			want := expect{OK, "none", nil}
			if tt.says != "" {
				want = expect{"", "1 record", []string{found + tt.says}}
			}
			want.of(t, "TEN-004", func(f *Facts) {
				f.Services, f.ClusterIDs = []corev1.Service{s}, []string{id, "former"}
				f.Addresses = []cloudstack.PublicIP{{ID: "i", Address: "192.0.2.1", Tags: tt.tags}}
				if tt.mayTag {
					f.APIs = sets.New("createTags")
				}
			})
		})
	}
}
