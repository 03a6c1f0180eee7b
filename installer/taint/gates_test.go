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

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/kube/lease"
	"github.com/csccm/csccm/installer/testenv/fakecluster"
	"github.com/csccm/csccm/pkg/node"
)

const zone = corev1.LabelTopologyZone

func terms(value string) *corev1.NodeSelector {
	return &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: zone, Operator: corev1.NodeSelectorOpIn, Values: []string{"other", value}},
		}}},
	}
}

func volumeIn(zone string) []corev1.PersistentVolume {
	v := corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
	v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: terms(zone)}
	return []corev1.PersistentVolume{v}
}

func pod(spec corev1.PodSpec) []corev1.Pod {
	return []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}, Spec: spec}}
}

func TestClusterGates(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(f *ClusterFacts)
		gate   string
		text   string
	}{
		"all well": {func(*ClusterFacts) {}, "", ""},
		"what was found": {func(f *ClusterFacts) { f.add("webhook", "it is %s", "slow") }, "webhook",
			"it is slow"},
		"no permission": {func(f *ClusterFacts) { f.add("permission", "no") }, "permission", "no"},
		"volume in the old zone": {func(f *ClusterFacts) { f.Volumes = volumeIn("old") }, "labels",
			"PersistentVolume data"},
		"volume in another zone": {func(f *ClusterFacts) { f.Volumes = volumeIn("elsewhere") }, "", ""},
		"Pod selects the old zone": {func(f *ClusterFacts) {
			f.Pods = pod(corev1.PodSpec{NodeSelector: map[string]string{zone: "old"}})
		}, "labels", "Pod a/b"},
		"Pod with affinity": {func(f *ClusterFacts) {
			f.Pods = pod(corev1.PodSpec{
				Affinity: &corev1.Affinity{
					NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms("old")},
				},
			})
		}, "labels", "Pod a/b"},
	} {
		f := &ClusterFacts{Found: map[string][]string{}}
		tt.change(f)
		facts := Facts{Nodes: []corev1.Node{aNode("w-1", "10.1.1.21", label(zone, "old"))}, VMs: vms, Cluster: f}
		p := NewPlan(facts)
		if tt.gate == "" {
			require.Empty(t, p.Problems, name)
			continue
		}

		require.Len(t, p.Problems, 1, name)
		require.Equal(t, tt.gate, p.Problems[0].Gate, name)
		require.Contains(t, p.Problems[0].Text, tt.text, name)
		require.NotEmpty(t, p.Problems[0].Remedy, name)
		facts.SkipGates = []string{tt.gate}
		passed := len(NewPlan(facts).Problems) == 0
		require.Equal(t, slices.Contains(Gates(), tt.gate), passed, "%s: each gate is passed over by its own name",
			name)
	}
}

func TestNoExecuteIsNeverPassedOver(t *testing.T) {
	t.Parallel()
	p := NewPlan(Facts{
		Nodes: []corev1.Node{aNode("w-1", "10.1.1.21", tainted(corev1.TaintEffectNoExecute)),
			aNode("w-2", "10.1.1.22")},
		VMs:       vms,
		SkipGates: append(Gates(), GateNoExecute, "permission"),
	})
	require.Equal(t, []string{"no-execute w-1"}, gates(p))
}

// The plan notes that an instance type in upstream's form would change, unless the controller is set to keep this form.
func TestLabelForm(t *testing.T) {
	t.Parallel()
	n := aNode("w-1", "10.1.1.21", label(corev1.LabelInstanceTypeStable, "SmallInstance"))
	require.Len(t, NewPlan(Facts{Nodes: []corev1.Node{n}, VMs: vms}).Items[0].Notes, 1)
	require.Empty(t, NewPlan(Facts{Nodes: []corev1.Node{n}, VMs: vms, LabelForm: node.LabelUpstream}).Items[0].Notes)
}

func TestGatherCluster(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	renewed := metav1.NewMicroTime(now.Add(-10 * time.Second))
	rule := func(resource string) []admissionv1.RuleWithOperations {
		return []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.Update},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, Resources: []string{resource}},
		}}
	}

	deployment := func(name string, observed int64, updated int32) *appsv1.Deployment {
		return &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Generation: 2},
			Spec:       appsv1.DeploymentSpec{Replicas: ptr.To(int32(3))},
			Status:     appsv1.DeploymentStatus{ObservedGeneration: observed, UpdatedReplicas: updated},
		}
	}

	kube := fake.NewClientset(deployment("behind", 2, 1), deployment("unseen", 1, 3), deployment("finished", 2, 3),
		&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "kube-system",
				Name:      "c",
				Labels: map[string]string{
					"app.kubernetes.io/name":     "cloudstack-ccm",
					"app.kubernetes.io/instance": "r",
				},
			},
			Status: corev1.PodStatus{
				Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			},
		},
		&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "l"},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity:       ptr.To("me"),
				RenewTime:            &renewed,
				LeaseDurationSeconds: ptr.To(int32(15)),
			},
		},
		&admissionv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "v"},
			Webhooks: []admissionv1.ValidatingWebhook{
				{Name: "nodes", Rules: rule("nodes")}, {Name: "pods", Rules: rule("pods")},
				{Name: "soft", Rules: rule("*"), FailurePolicy: ptr.To(admissionv1.Ignore)},
			},
		},
		&admissionv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "m"},
			Webhooks:   []admissionv1.MutatingWebhook{{Name: "all", Rules: rule("*")}},
		},
	)

	allowed := true
	kube.PrependReactor("create", "selfsubjectaccessreviews", func(ktesting.Action) (bool, kruntime.Object, error) {
		return true, &authorizationv1.SelfSubjectAccessReview{
			Status: authorizationv1.SubjectAccessReviewStatus{Allowed: allowed},
		}, nil
	})

	at := clocktesting.NewFakeClock(now)
	e := &engine.Env{Cluster: fakecluster.New(kube), Release: "r", Clock: at}
	e.Cluster.Namespace = "kube-system"
	found := func() map[string][]string {
		f, err := gatherCluster(t.Context(), e, lease.Name{Namespace: "kube-system", Name: "l"})
		require.NoError(t, err)
		return f.Found
	}

	const asked = " is called for every change of a node, which the API server refuses if the webhook does not answer"
	want := map[string][]string{
		"webhook": {"webhook all (m)" + asked, "webhook nodes (v)" + asked},
		"rollout": {"Deployment default/behind is rolling out", "Deployment default/unseen is rolling out"},
	}

	require.Equal(t, want, found())
	want["controller"] = []string{
		"no Pod of the controller is ready and holds the lease: nothing would remove the taint",
	}
	at.Step(time.Minute)
	require.Equal(t, want, found(), "a lease that nobody renews is nobody's")
	at.SetTime(now)
	e.Release = "other"
	allowed = false
	want["permission"] = []string{"you may not patch nodes"}
	require.Equal(t, want, found(), "no Pod is ready")
}
