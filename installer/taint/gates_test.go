// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package taint

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/kube/lease"
	"github.com/csccm/csccm/pkg/node"
)

const zone = corev1.LabelTopologyZone

func terms(value string) *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: zone, Operator: corev1.NodeSelectorOpIn, Values: []string{"other", value}},
	}}}}
}

func volumeIn(zone string) []corev1.PersistentVolume {
	v := corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
	v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: terms(zone)}
	return []corev1.PersistentVolume{v}
}

func pod(spec corev1.PodSpec) []corev1.Pod {
	return []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}, Spec: spec}}
}

func deployment(generation, observed int64, replicas, updated int32) appsv1.Deployment {
	return appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "app", Generation: generation}, Spec: appsv1.DeploymentSpec{Replicas: &replicas},
		Status: appsv1.DeploymentStatus{ObservedGeneration: observed, UpdatedReplicas: updated, AvailableReplicas: updated},
	}
}

func TestClusterGates(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(f *ClusterFacts)
		gate   string
		text   string
	}{
		"all well":                 {func(*ClusterFacts) {}, "", ""},
		"no permission":            {func(f *ClusterFacts) { f.MayPatch = false }, "permission", "may not patch"},
		"controller not ready":     {func(f *ClusterFacts) { f.ControllerReady = 0 }, "controller", "no Pod"},
		"no leader":                {func(f *ClusterFacts) { f.Leader = "" }, "controller", "lease"},
		"other controller":         {func(f *ClusterFacts) { f.OtherControllers = []string{"Deployment kube-system/other"} }, "other-controller", "kube-system/other"},
		"old rules":                {func(f *ClusterFacts) { f.OldRules = 3 }, "rules", "3 load balancer rules"},
		"webhook":                  {func(f *ClusterFacts) { f.Webhooks = []string{"nodes.example.org (policy)"} }, "webhook", "nodes.example.org"},
		"rollout":                  {func(f *ClusterFacts) { f.Deployments = []appsv1.Deployment{deployment(2, 2, 3, 1)} }, "rollout", "default/app is rolling out"},
		"rollout not seen yet":     {func(f *ClusterFacts) { f.Deployments = []appsv1.Deployment{deployment(2, 1, 3, 3)} }, "rollout", "rolling out"},
		"finished rollout":         {func(f *ClusterFacts) { f.Deployments = []appsv1.Deployment{deployment(2, 2, 3, 3)} }, "", ""},
		"volume in the old zone":   {func(f *ClusterFacts) { f.Volumes = volumeIn("old") }, "labels", "PersistentVolume data"},
		"volume in another zone":   {func(f *ClusterFacts) { f.Volumes = volumeIn("elsewhere") }, "", ""},
		"Pod selects the old zone": {func(f *ClusterFacts) { f.Pods = pod(corev1.PodSpec{NodeSelector: map[string]string{zone: "old"}}) }, "labels", "Pod a/b"},
		"Pod with affinity": {func(f *ClusterFacts) {
			f.Pods = pod(corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms("old")}}})
		}, "labels", "Pod a/b"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &ClusterFacts{MayPatch: true, ControllerReady: 1, Leader: "x"}
			tt.change(f)
			facts := Facts{Nodes: []corev1.Node{aNode("w-1", "10.1.1.21", label(zone, "old"))}, VMs: vms, Cluster: f}
			p := NewPlan(facts)
			if tt.gate == "" {
				require.Empty(t, p.Problems)
				return
			}
			require.Len(t, p.Problems, 1)
			require.Equal(t, tt.gate, p.Problems[0].Gate)
			require.Contains(t, p.Problems[0].Text, tt.text)
			require.NotEmpty(t, p.Problems[0].Remedy)
			facts.SkipGates = []string{tt.gate}
			passed := len(NewPlan(facts).Problems) == 0
			require.Equal(t, slices.Contains(Gates(), tt.gate), passed, "each gate is passed over by its own name")
		})
	}
}

func TestNoExecuteIsNeverPassedOver(t *testing.T) {
	t.Parallel()
	p := NewPlan(Facts{
		Nodes: []corev1.Node{aNode("w-1", "10.1.1.21", tainted(corev1.TaintEffectNoExecute)), aNode("w-2", "10.1.1.22")}, VMs: vms,
		SkipGates: append(Gates(), GateNoExecute, "permission"),
	})
	require.Equal(t, []string{"no-execute w-1"}, gates(p))
}

// A cluster whose nodes carry upstream's form keeps it by the setting.
func TestLabelForm(t *testing.T) {
	t.Parallel()
	n := aNode("w-1", "10.1.1.21", label(corev1.LabelInstanceTypeStable, "SmallInstance"))
	require.Len(t, notes(NewPlan(Facts{Nodes: []corev1.Node{n}, VMs: vms}), "w-1"), 1)
	require.Empty(t, notes(NewPlan(Facts{Nodes: []corev1.Node{n}, VMs: vms, LabelForm: node.LabelUpstream}), "w-1"))
}

func TestGatherCluster(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	renewed := metav1.NewMicroTime(now.Add(-10 * time.Second))
	rule := func(resource string) []admissionv1.RuleWithOperations {
		return []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.Update}, Rule: admissionv1.Rule{APIGroups: []string{""}, Resources: []string{resource}},
		}}
	}
	kube := fake.NewClientset(
		&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "c", Labels: map[string]string{"app.kubernetes.io/name": "cloudstack-ccm", "app.kubernetes.io/instance": "r"}},
			Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
		},
		&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "l"},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("me"), RenewTime: &renewed, LeaseDurationSeconds: ptr.To(int32(15))},
		},
		&admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Webhooks: []admissionv1.ValidatingWebhook{
			{Name: "nodes", Rules: rule("nodes")}, {Name: "pods", Rules: rule("pods")}, {Name: "soft", Rules: rule("*"), FailurePolicy: ptr.To(admissionv1.Ignore)},
		}},
		&admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Webhooks: []admissionv1.MutatingWebhook{{Name: "all", Rules: rule("*")}}},
	)
	kube.PrependReactor("create", "selfsubjectaccessreviews", func(ktesting.Action) (bool, kruntime.Object, error) {
		return true, &authorizationv1.SelfSubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}}, nil
	})
	f, err := GatherCluster(t.Context(), kube, "kube-system", "r", lease.Name{Namespace: "kube-system", Name: "l"}, clocktesting.NewFakePassiveClock(now))
	require.NoError(t, err)
	require.True(t, f.MayPatch)
	require.Equal(t, 1, f.ControllerReady)
	require.Equal(t, "me", f.Leader)
	require.Equal(t, []string{"all (m)", "nodes (v)"}, f.Webhooks)
	f, err = GatherCluster(t.Context(), kube, "kube-system", "r", lease.Name{Namespace: "kube-system", Name: "l"}, clocktesting.NewFakePassiveClock(now.Add(time.Minute)))
	require.NoError(t, err)
	require.Empty(t, f.Leader, "a lease that nobody renews is nobody's")
}
