// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package taint

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/lease"
	"github.com/csccm/csccm/pkg/node"
)

// The gates of one node; see also clusterGates.
const (
	GateNoExecute  = "no-execute"
	GateVM         = string(node.GateVM)
	GateReady      = string(node.GateReady)
	GateInternalIP = string(node.GateInternalIP)
	GateNodeIP     = string(node.GateNodeIP)
)

// ClusterFacts is what the gates of the whole cluster look at.
type ClusterFacts struct {
	// MayPatch: the caller may patch nodes.
	MayPatch bool
	// OtherControllers names cloud controller managers at work beside ours.
	OtherControllers []string
	// ControllerReady is how many Pods of the controller are ready, Leader who holds its lease now.
	ControllerReady int
	Leader          string
	Volumes         []corev1.PersistentVolume
	Pods            []corev1.Pod
	Deployments     []appsv1.Deployment
	// Webhooks are asked about changes of nodes, and refuse them when they do not answer.
	Webhooks []string
	// OldRules is how many load balancer rules have names of older providers.
	OldRules int
}

// labelChange is a label that gets another value.
type labelChange struct{ key, was string }

// clusterGates are the gates that are no single node's: what is in the way of an initialisation that changes labels, and what to do.
var clusterGates = []struct {
	name, remedy string
	found        func(*ClusterFacts, []labelChange) []string
}{
	{"other-controller", "stop it first; two controllers would both write to the nodes", func(f *ClusterFacts, _ []labelChange) []string {
		return each("another cloud controller manager is at work: %s", f.OtherControllers)
	}},
	{"permission", "use a context of a cluster administrator (--context, --as)", func(f *ClusterFacts, _ []labelChange) []string {
		return when(!f.MayPatch, "you may not patch nodes")
	}},
	{"controller", "run csccm doctor", func(f *ClusterFacts, _ []labelChange) []string {
		return when(f.ControllerReady == 0 || f.Leader == "", "no Pod of the controller is ready and holds the lease: nothing would take the taint away")
	}},
	{"rules", "run csccm migrate-rules first", func(f *ClusterFacts, _ []labelChange) []string {
		return when(f.OldRules > 0, fmt.Sprintf("%d load balancer rules have names of older providers", f.OldRules))
	}},
	{"webhook", "see that it answers, then pass over this with --skip-gate webhook", func(f *ClusterFacts, _ []labelChange) []string {
		return each("webhook %s is asked about every change of a node and refuses it when it does not answer", f.Webhooks)
	}},
	{"rollout", "wait for its end, so that new trouble is not mistaken for old", func(f *ClusterFacts, _ []labelChange) []string {
		var names []string
		for i := range f.Deployments {
			if d := &f.Deployments[i]; unfinished(d) {
				names = append(names, d.Namespace+"/"+d.Name)
			}
		}
		return each("Deployment %s is rolling out", names)
	}},
	{
		string(node.GateLabels),
		"set the zone's or region's name (csccm install --region), or the chart value instanceTypeFormat, so that the label stays; or change the objects first",
		boundToLabels,
	},
}

// neverSkipped are the gates that cannot be passed over.
var neverSkipped = []string{GateNoExecute, "permission"}

// Gates are all gates that can be passed over.
func Gates() []string {
	out := []string{GateVM, GateReady, GateInternalIP, GateNodeIP}
	for _, g := range clusterGates {
		if !slices.Contains(neverSkipped, g.name) {
			out = append(out, g.name)
		}
	}
	return out
}

func when(is bool, text string) []string {
	if is {
		return []string{text}
	}
	return nil
}

func each(format string, names []string) (out []string) {
	for _, name := range names {
		out = append(out, fmt.Sprintf(format, name))
	}
	return out
}

// unfinished reports whether a rollout is on its way; one that gave up is not.
func unfinished(d *appsv1.Deployment) bool {
	gaveUp := slices.ContainsFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
		return c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse
	})
	return !gaveUp && (d.Status.ObservedGeneration < d.Generation || d.Status.UpdatedReplicas < ptr.Deref(d.Spec.Replicas, 1) && !d.Spec.Paused)
}

// boundToLabels looks for what is bound to labels that change: a volume in a zone whose name changes cannot be mounted any more, a
// Pod that selects the old value is not scheduled again.
func boundToLabels(f *ClusterFacts, changes []labelChange) (out []string) {
	for _, c := range changes {
		var bound []string
		for i := range f.Volumes {
			if v := &f.Volumes[i]; v.Spec.NodeAffinity != nil && selects(v.Spec.NodeAffinity.Required, c) {
				bound = append(bound, "PersistentVolume "+v.Name)
			}
		}
		for i := range f.Pods {
			spec := &f.Pods[i].Spec
			if a := spec.Affinity; spec.NodeSelector[c.key] == c.was ||
				a != nil && a.NodeAffinity != nil && selects(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution, c) {
				bound = append(bound, "Pod "+f.Pods[i].Namespace+"/"+f.Pods[i].Name)
			}
		}
		if n := len(bound) - 5; n > 0 {
			bound = append(bound[:5], fmt.Sprintf("%d more", n))
		}
		if len(bound) > 0 {
			out = append(out, fmt.Sprintf("label %s=%s changes, and is what %s select nodes by", c.key, c.was, strings.Join(bound, ", ")))
		}
	}
	return out
}

func selects(s *corev1.NodeSelector, c labelChange) bool {
	return s != nil && slices.ContainsFunc(s.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool {
		return slices.ContainsFunc(t.MatchExpressions, func(e corev1.NodeSelectorRequirement) bool {
			return e.Key == c.key && e.Operator == corev1.NodeSelectorOpIn && slices.Contains(e.Values, c.was)
		})
	})
}

// GatherCluster reads what the gates of the whole cluster look at, except OtherControllers and OldRules.
func GatherCluster(ctx context.Context, kube kubernetes.Interface, namespace, release string, name lease.Name, c clock.PassiveClock) (*ClusterFacts, error) {
	review, err := kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "patch", Resource: "nodes"}},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	f := &ClusterFacts{
		MayPatch:    review.Status.Allowed,
		Deployments: cluster.List(ctx, &err, kube.AppsV1().Deployments(metav1.NamespaceAll).List).Items,
		Volumes:     cluster.List(ctx, &err, kube.CoreV1().PersistentVolumes().List).Items,
		Pods:        cluster.List(ctx, &err, kube.CoreV1().Pods(metav1.NamespaceAll).List).Items,
	}
	mutating := cluster.List(ctx, &err, kube.AdmissionregistrationV1().MutatingWebhookConfigurations().List).Items
	validating := cluster.List(ctx, &err, kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().List).Items
	if err != nil {
		return nil, err
	}
	for i := range f.Pods {
		p := &f.Pods[i]
		if p.Namespace == namespace && cluster.InRelease(p.Labels, release) && cluster.PodReady(p) {
			f.ControllerReady++
		}
	}
	for i := range mutating {
		for _, w := range mutating[i].Webhooks {
			f.addWebhook(mutating[i].Name, w.Name, w.Rules, w.FailurePolicy)
		}
	}
	for i := range validating {
		for _, w := range validating[i].Webhooks {
			f.addWebhook(validating[i].Name, w.Name, w.Rules, w.FailurePolicy)
		}
	}
	l, err := lease.Get(ctx, kube, name)
	if age, lasts, held := lease.Age(l, c); err == nil && held && age <= 2*lasts {
		f.Leader = lease.Holder(l)
	}
	return f, err
}

// addWebhook adds a webhook that is asked about updates of nodes, and refuses them when it does not answer.
func (f *ClusterFacts) addWebhook(configuration, name string, rules []admissionv1.RuleWithOperations, policy *admissionv1.FailurePolicyType) {
	if ptr.Deref(policy, admissionv1.Fail) == admissionv1.Ignore {
		return
	}
	if slices.ContainsFunc(rules, func(r admissionv1.RuleWithOperations) bool {
		group := slices.Contains(r.APIGroups, "") || slices.Contains(r.APIGroups, "*")
		resource := slices.ContainsFunc(r.Resources, func(s string) bool { return s == "*" || s == "*/*" || s == "nodes" || s == "nodes/*" })
		return group && resource && (slices.Contains(r.Operations, admissionv1.Update) || slices.Contains(r.Operations, admissionv1.OperationAll))
	}) {
		f.Webhooks = append(f.Webhooks, fmt.Sprintf("%s (%s)", name, configuration))
	}
}
