// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	helmrelease "helm.sh/helm/v3/pkg/release"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/simulator"
)

// oldName renames a rule of the example to the older form of names, without a protocol, as LB-002 expects it.
func oldName(w *simulator.World) {
	for i := range w.PublicIPs {
		for j := range w.PublicIPs[i].LoadBalancerRules {
			rule := &w.PublicIPs[i].LoadBalancerRules[j]
			rule.Name = strings.Replace(rule.Name, "-tcp-443", "-443", 1)
		}
	}
}

// breakAll injects all faults that do not hide each other into one cluster. docs/transcripts/doctor-broken.txt shows
// the findings.
func (w *world) breakAll(t *testing.T) {
	t.Helper()
	core, nodes := w.kube.CoreV1(), w.kube.CoreV1().Nodes()
	d, p, l := controller()

	change(t, core.Namespaces(), system, func(n *corev1.Namespace) { // K8S-005
		n.Labels = map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
	})
	// HELM-001
	revision(t, w.kube, 9, helmrelease.StatusPendingUpgrade, nil)
	// HELM-004
	revision(t, w.kube, 0, helmrelease.StatusSuperseded, map[string]any{"cloudConfig": w.env.CloudConfig.SecretKey})
	// HELM-003
	w.objects[rolePath]["rules"] = []any{
		map[string]any{"apiGroups": []any{""}, "resources": []any{"nodes"}, "verbs": []any{"*"}},
	}

	cfg := *w.env.CloudConfig
	cfg.SSLNoVerify = true // CS-007
	w.env.CloudConfig = &cfg
	// CS-005, CS-003
	w.edit = strings.NewReplacer(`"name":"Lb"`, `"name":"NoLb"`, `"name":"createFirewallRule"`,
		`"name":"noFirewallRule"`)
	w.log += logLine('E', time.Minute, "contact.go:38",
		`"CloudStack cannot be used" err="cloudstack listVirtualMachines: `+
			`cannot reach the API: dial tcp: lookup cs.example.org: no such host" remedy="check api-url"`) // CS-006

	w.add(t, newNode("ghost", "10.9.9.7")) // NODE-002
	stale := newNode("stale", "10.9.9.8")  // NODE-003
	stale.Spec.ProviderID = "cloudstack:///99999999-0000-4000-8000-000000000001"
	w.add(t, stale)
	lost := newNode("lost", "10.9.9.9") // NODE-005, NODE-008
	lost.Spec.ProviderID = "cloudstack:///99999999-0000-4000-8000-000000000000"
	lost.Spec.Taints = []corev1.Taint{
		{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: corev1.TaintEffectNoExecute},
	}
	lost.Status.Conditions[0].Status = corev1.ConditionUnknown
	w.add(t, lost)
	change(t, nodes, "demo-cp-1", func(n *corev1.Node) { // K8S-004
		n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(fixed.Add(time.Hour))
	})
	change(t, nodes, "demo-worker-1", func(n *corev1.Node) { // NODE-004, CCM-006
		n.Spec.Taints = []corev1.Taint{
			{Key: lost.Spec.Taints[0].Key, Value: "true", Effect: corev1.TaintEffectNoSchedule},
		}
		n.Annotations["alpha.kubernetes.io/provided-node-ip"] = "10.99.0.1"
		n.Labels["node-role.kubernetes.io/control-plane"] = ""
	})
	w.kubelet = func(n string) string { return map[bool]string{false: "external"}[n == "demo-worker-2"] } // NODE-001
	// K8S-006, NODE-006
	change(t, nodes, "demo-worker-2", func(n *corev1.Node) {
		n.Status.NodeInfo.KubeletVersion, n.Status.Addresses[0].Address = "v1.30.0", "192.168.0.7"
		n.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:addresses":{}}}`),
		}}
	})
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "data-0"}} // NODE-007
	v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{
		Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"old-zone"}},
			},
		}}},
	}
	w.add(t, v)

	change(t, core.Pods(system), p.Name, func(p *corev1.Pod) { // CCM-001
		p.Spec.Containers[0].Image = "registry.example.org/cloudstack-ccm:v0.9.0"
	})
	l.Name = "leaseweb-cloud-controller-manager" // CCM-002
	w.add(t, l)
	d.Name, d.Labels = "cloud-controller-manager", nil // CCM-003
	d.Spec.Template.Spec.Containers[0].Image = "apache/cloudstack-kubernetes-provider:v1.2.0"
	w.add(t, d)
	w.health = errors.New(
		"an error on the server (\"[-]leaderElection failed\\nhealthz check failed\") has prevented the request " +
			"from succeeding",
	) // CCM-004
	w.waits = []string{"zone"} // CCM-007
	// CCM-005
	w.add(t, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: "e"},
		Type:           "Warning",
		Reason:         "SyncLoadBalancerFailed",
		Message:        "no free address",
		LastTimestamp:  metav1.NewTime(fixed.Add(-time.Minute)),
		Source:         corev1.EventSource{Component: "service-controller"},
		InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: "default", Name: "web"},
	})

	change(t, w.kube.AdmissionregistrationV1().ValidatingAdmissionPolicies(), release+"-annotations",
		func(p *admissionv1.ValidatingAdmissionPolicy) {
			p.Spec.FailurePolicy = ptr.To(admissionv1.Ignore) // TEN-001
		})
	addresses, err := w.env.CloudStack.ListPublicIPs(t.Context(), cloudstack.PublicIPQuery{})
	require.NoError(t, err)
	change(t, core.Services("default"), "web", func(s *corev1.Service) { // TEN-002, TEN-004, LB-001
		s.Annotations[annotation.Network] = "another"
		for _, a := range addresses {
			if a.Address == s.Status.LoadBalancer.Ingress[0].IP {
				s.Annotations[annotation.Addresses] = fmt.Sprintf(`[{"id":%q,"ip":%q,"allocated":true}]`, a.ID,
					a.Address)
			}
		}
	})
}
