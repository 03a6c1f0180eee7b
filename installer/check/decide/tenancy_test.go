// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/installer/check/tenants"
	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

func TestDecideTLS(t *testing.T) {
	t.Parallel()
	expect{Skipped, "no cloud-config", nil}.verify(t, TLS(nil))
	expect{OK, "https://cloud", nil}.verify(t, TLS(&cloudstack.Config{APIURL: "https://cloud/client/api"}))
	expect{OK, "http://127.0.0.1", nil}.verify(t, TLS(&cloudstack.Config{APIURL: "http://127.0.0.1:8080/client/api"}))
	expect{"", "http://cloud/client/api is asked without TLS", nil}.verify(t, TLS(&cloudstack.Config{APIURL: "http://cloud/client/api"}))
	expect{Skipped, "no cloud-config", nil}.verify(t, Verified(nil))
	expect{OK, "of the system", nil}.verify(t, Verified(&cloudstack.Config{}))
	expect{OK, "ca-file", nil}.verify(t, Verified(&cloudstack.Config{CAFile: "x"}))
	expect{"", "any certificate", nil}.verify(t, Verified(&cloudstack.Config{CAFile: "x", SSLNoVerify: true}))
}

func TestDecideAdmission(t *testing.T) {
	t.Parallel()
	fail, ignore := admissionv1.Fail, admissionv1.Ignore
	whole := func(change func(*AdmissionObjects)) AdmissionObjects {
		var a AdmissionObjects
		for _, end := range admissionPolicies {
			meta := metav1.ObjectMeta{Name: "prod" + end}
			a.Policies = append(a.Policies, admissionv1.ValidatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionv1.ValidatingAdmissionPolicySpec{FailurePolicy: &fail}})
			a.Bindings = append(a.Bindings, admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: meta.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			}})
		}
		change(&a)
		return a
	}
	const kind = "ValidatingAdmissionPolicy "
	for name, tt := range map[string]struct {
		change func(*AdmissionObjects)
		expect expect
	}{
		"whole":                  {func(*AdmissionObjects) {}, expect{OK, "2 policies", nil}},
		"the default of the API": {func(a *AdmissionObjects) { a.Policies[0].Spec.FailurePolicy = nil }, expect{OK, "2 policies", nil}},
		"none": {func(a *AdmissionObjects) { *a = AdmissionObjects{} }, expect{"", "2 of 2", []string{
			kind + "*-annotations: not in", kind + "*-records: not in",
		}}},
		"open":      {func(a *AdmissionObjects) { a.Policies[1].Spec.FailurePolicy = &ignore }, expect{"", "1 of 2", []string{kind + "prod-records: failurePolicy is Ignore"}}},
		"not bound": {func(a *AdmissionObjects) { a.Bindings = a.Bindings[:1] }, expect{"", "1 of 2", []string{kind + "prod-records: no binding"}}},
		"bound to warn": {func(a *AdmissionObjects) {
			a.Bindings[0].Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Warn, admissionv1.Audit}
		}, expect{"", "1 of 2", []string{kind + "prod-annotations: no binding"}}},
		"open and not bound": {func(a *AdmissionObjects) { a.Bindings = a.Bindings[1:]; a.Policies[0].Spec.FailurePolicy = &ignore }, expect{"", "1 of 2", []string{
			kind + "prod-annotations: failurePolicy", kind + "prod-annotations: no binding",
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.expect.verify(t, Admission(whole(tt.change), true))
		})
	}
	expect{Skipped, "not installed", nil}.verify(t, Admission(AdmissionObjects{}, false))
}

func balancedService(name, uid, ip string, annotations map[string]string) corev1.Service {
	s := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: name[:1], Name: name[2:], UID: types.UID(uid), Annotations: annotations}}
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip}}
	return s
}

func TestDecidePolicy(t *testing.T) {
	t.Parallel()
	services := []corev1.Service{
		balancedService("a/web", "1", "192.0.2.1", map[string]string{annotation.Network: "n"}), balancedService("b/web", "2", "192.0.2.2", nil),
	}
	facts := func(words ...string) PolicyFacts {
		return PolicyFacts{Words: words, View: tenants.View{Services: services}}
	}
	refused := expect{"", "1 setting more than the policy allows", []string{"Service a/web: cloudstack-load-balancer-network"}}
	refused.verify(t, Policy(facts()))
	refused.verify(t, Policy(facts("--tenancy=")))
	require.Equal(t, "--tenancy of the controller", Policy(facts("--tenancy=")).Evidence["policy"])
	expect{OK, "none", nil}.verify(t, Policy(facts("--tenancy={}")))
	expect{"", "cannot be read", nil}.verify(t, Policy(facts("--tenancy={")))
	// Labels of namespaces matter to a policy with selectors alone.
	unread := facts(`--tenancy={"trustedNamespaces":["a=b"]}`)
	unread.LabelsErr = errors.New("no")
	expect{Unknown, "no", nil}.verify(t, Policy(unread))
	unread.Words = nil
	refused.verify(t, Policy(unread))
}

func TestDecideShared(t *testing.T) {
	t.Parallel()
	in := BalanceFacts{Services: []corev1.Service{balancedService("a/web", "1", "192.0.2.1", nil), balancedService("b/web", "2", "192.0.2.1", nil)}}
	tag := func(uid string) []cloudstack.PublicIP {
		return []cloudstack.PublicIP{{Address: "192.0.2.1", Tags: map[string]string{plan.TagServiceUID: uid}}, {Address: "192.0.2.9"}}
	}
	expect{"", "1 address used", []string{"PublicIpAddress 192.0.2.1: Service b/web has it and does not share it with a/web"}}.verify(t, Shared(in, tag("2")))
	in.Services[1].Annotations = map[string]string{annotation.ShareWith: "a"}
	expect{OK, "none", nil}.verify(t, Shared(in, tag("2")))
	expect{"", "1 address used", []string{"PublicIpAddress 192.0.2.1: Service a/web has it"}}.verify(t, Shared(in, tag("1")))
	expect{OK, "none", nil}.verify(t, Shared(BalanceFacts{}, nil))
}

func TestDecideRecords(t *testing.T) {
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
			f := Records([]corev1.Service{s}, []cloudstack.PublicIP{{ID: "i", Address: "192.0.2.1", Tags: tt.tags}}, []string{id, "former"}, tt.mayTag)
			if tt.says == "" {
				expect{OK, "none", nil}.verify(t, f)
				return
			}
			expect{"", "1 record", []string{found + tt.says}}.verify(t, f)
		})
	}
}
