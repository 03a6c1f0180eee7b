// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// admissionObjects are the chart's admission policies with their bindings.
func admissionObjects() []runtime.Object {
	var out []runtime.Object
	fail := admissionv1.Fail
	for _, end := range []string{"annotations", "records", "tenancy"} {
		meta := metav1.ObjectMeta{Name: release + "-" + end, Labels: map[string]string{"app.kubernetes.io/name": "cloudstack-ccm", "app.kubernetes.io/instance": release}}
		p := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: meta}
		p.Spec.FailurePolicy = &fail
		b := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta}
		b.Spec.PolicyName, b.Spec.ValidationActions = meta.Name, []admissionv1.ValidationAction{admissionv1.Deny}
		out = append(out, p, b)
	}
	return out
}

func (w *world) changeService(t *testing.T, change func(s *corev1.Service)) {
	t.Helper()
	s, err := w.kube.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	if s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	change(s)
	_, err = w.kube.CoreV1().Services("default").Update(t.Context(), s, metav1.UpdateOptions{})
	require.NoError(t, err)
}

// tenancyFaults are those of what crosses the border of a namespace or the network.
func tenancyFaults() []fault {
	return []fault{
		{code: "CS-007", outcome: check.Warning, says: "http://cloud.example.org/client/api is asked without TLS", inject: func(_ *testing.T, w *world) {
			cfg := *w.env.CloudConfig
			cfg.APIURL = "http://cloud.example.org/client/api"
			w.env.CloudConfig = &cfg
		}},
		{code: "CS-008", outcome: check.Warning, says: "any certificate is trusted", together: true, inject: func(_ *testing.T, w *world) {
			cfg := *w.env.CloudConfig
			cfg.SSLNoVerify = true
			w.env.CloudConfig = &cfg
		}},
		{code: "TEN-001", outcome: check.Warning, says: "ValidatingAdmissionPolicy *-records: not in the cluster", inject: func(t *testing.T, w *world) {
			require.NoError(t, w.kube.AdmissionregistrationV1().ValidatingAdmissionPolicies().Delete(t.Context(), release+"-records", metav1.DeleteOptions{}))
		}},
		{code: "TEN-001", outcome: check.Warning, says: "failurePolicy is Ignore", together: true, inject: func(t *testing.T, w *world) {
			api := w.kube.AdmissionregistrationV1().ValidatingAdmissionPolicies()
			p, err := api.Get(t.Context(), release+"-tenancy", metav1.GetOptions{})
			require.NoError(t, err)
			ignore := admissionv1.Ignore
			p.Spec.FailurePolicy = &ignore
			_, err = api.Update(t.Context(), p, metav1.UpdateOptions{})
			require.NoError(t, err)
		}},
		{code: "TEN-002", outcome: check.Warning, says: "Service default/web", together: true, inject: func(t *testing.T, w *world) {
			w.changeService(t, func(s *corev1.Service) { s.Annotations[annotation.Network] = "another" })
		}},
		{code: "TEN-003", outcome: check.Warning, says: "Service default/web has it and does not share it with guest/shop", inject: func(t *testing.T, w *world) {
			s, err := w.kube.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
			require.NoError(t, err)
			s.Namespace, s.Name, s.UID, s.CreationTimestamp = "guest", "shop", "another", metav1.NewTime(w.now)
			s.Spec.Ports = []corev1.ServicePort{{Port: 8080, NodePort: 30081}}
			w.add(t, s)
		}},
		{code: "TEN-004", outcome: check.Warning, says: "says that 203.0.113.20 was acquired for it; CloudStack's tags name nobody", together: true, inject: func(t *testing.T, w *world) {
			client, err := cloudstack.NewClient(w.env.CloudConfig)
			require.NoError(t, err)
			addresses, err := client.ListPublicIPs(t.Context(), cloudstack.PublicIPQuery{})
			require.NoError(t, err)
			for _, a := range addresses {
				if a.Address == "203.0.113.20" {
					w.changeService(t, func(s *corev1.Service) {
						s.Annotations[annotation.Addresses] = fmt.Sprintf(`[{"id":%q,"ip":%q,"allocated":true}]`, a.ID, a.Address)
					})
				}
			}
		}},
	}
}
