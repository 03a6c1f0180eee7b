// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package taint

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/lease"
	"github.com/csccm/csccm/installer/kube/rights"
	"github.com/csccm/csccm/pkg/node"
)

// Gates are conditions that must hold before a node is tainted. These are the ones that pkg/node does not define.
const (
	GateNoExecute  = "no-execute"
	gateOther      = "other-controller"
	gatePermission = "permission"
	gateController = "controller"
	gateRules      = "rules"
	gateWebhook    = "webhook"
	gateRollout    = "rollout"
)

// clusterGates are the gates of the whole cluster, each with the remedy if it does not hold.
var clusterGates = []struct{ name, remedy string }{
	{gateOther, "stop it first; two controllers would both write to the nodes"},
	{gatePermission, "use a context of a cluster administrator (--context, --as)"},
	{gateController, "run csccm doctor"},
	{gateRules, "run csccm migrate-rules first"},
	{gateWebhook, "check that it answers, then skip this gate with --skip-gate webhook"},
	{gateRollout, "wait until it has ended, otherwise its failures look like failures of the taint"},
	{string(node.GateLabels),
		"set the zone's or region's name (csccm install --region), or the chart value instanceTypeFormat, so that " +
			"the label stays; or change the objects first"},
}

// ClusterFacts are the facts for the gates of the whole cluster.
type ClusterFacts struct {
	Found    map[string][]string // problems, by gate; NewPlan finds those of the gate for labels
	Warnings []string
	Volumes  []corev1.PersistentVolume
	Pods     []corev1.Pod
}

// add adds a problem of a gate.
func (f *ClusterFacts) add(gate, format string, args ...any) {
	f.Found[gate] = append(f.Found[gate], fmt.Sprintf(format, args...))
}

// labelChange is a label whose value changes; was is the old value.
type labelChange struct{ key, was string }

// neverSkipped are the gates that cannot be skipped.
var neverSkipped = []string{GateNoExecute, gatePermission}

// Gates returns the names of all gates that can be skipped.
func Gates() []string {
	out := []string{string(node.GateVM), string(node.GateReady), string(node.GateInternalIP), string(node.GateNodeIP)}
	for _, g := range clusterGates {
		if !slices.Contains(neverSkipped, g.name) {
			out = append(out, g.name)
		}
	}

	return out
}

// unfinished reports whether a rollout of a Deployment is in progress.
func unfinished(d *appsv1.Deployment) bool {
	return d.Status.ObservedGeneration < d.Generation ||
		d.Status.UpdatedReplicas < ptr.Deref(d.Spec.Replicas, 1) && !d.Spec.Paused
}

// boundToLabels finds PersistentVolumes and Pods that select nodes by the old value of a label that changes. Such a
// volume could no longer be mounted, and such a Pod could no longer be scheduled.
func boundToLabels(f *ClusterFacts, changes []labelChange) (out []string) {
	for _, c := range changes {
		var bound []string
		for _, v := range f.Volumes {
			if v.Spec.NodeAffinity != nil && selects(v.Spec.NodeAffinity.Required, c) {
				bound = append(bound, "PersistentVolume "+v.Name)
			}
		}

		for i := range f.Pods {
			spec := &f.Pods[i].Spec
			if a := spec.Affinity; spec.NodeSelector[c.key] == c.was ||
				a != nil &&
					a.NodeAffinity != nil &&
					selects(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution, c) {
				bound = append(bound, "Pod "+f.Pods[i].Namespace+"/"+f.Pods[i].Name)
			}
		}

		if n := len(bound) - 5; n > 0 {
			bound = append(bound[:5], fmt.Sprintf("%d more", n))
		}

		if len(bound) > 0 {
			out = append(out, fmt.Sprintf(
				"label %s=%s changes, and %s select nodes by it", c.key, c.was, strings.Join(bound, ", "),
			))
		}
	}

	return out
}

// selects reports whether a node selector requires the old value of a label.
func selects(s *corev1.NodeSelector, c labelChange) bool {
	return s != nil && slices.ContainsFunc(s.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool {
		return slices.ContainsFunc(t.MatchExpressions, func(e corev1.NodeSelectorRequirement) bool {
			return e.Key == c.key && e.Operator == corev1.NodeSelectorOpIn && slices.Contains(e.Values, c.was)
		})
	})
}

// gatherCluster reads the facts for the gates of the cluster, except those about other controllers and rules.
func gatherCluster(ctx context.Context, e *engine.Env, name lease.Name) (*ClusterFacts, error) {
	kube := e.Cluster.Kube
	patches, err := rights.Request{Verb: "patch", Resource: "nodes"}.Allowed(ctx, kube)
	if err != nil {
		return nil, err
	}

	f := &ClusterFacts{
		Found:   map[string][]string{},
		Volumes: cluster.List(ctx, &err, kube.CoreV1().PersistentVolumes().List).Items,
		Pods:    cluster.List(ctx, &err, kube.CoreV1().Pods(metav1.NamespaceAll).List).Items,
	}

	deployments := cluster.List(ctx, &err, kube.AppsV1().Deployments(metav1.NamespaceAll).List).Items
	mutating := cluster.List(ctx, &err, kube.AdmissionregistrationV1().MutatingWebhookConfigurations().List).Items
	validating := cluster.List(ctx, &err, kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().List).Items
	l, lerr := lease.Get(ctx, kube, name)
	if err := cmp.Or(err, lerr); err != nil {
		return nil, err
	}

	if !patches {
		f.add(gatePermission, "you may not patch nodes")
	}

	ready := slices.ContainsFunc(f.Pods, func(p corev1.Pod) bool {
		return p.Namespace == e.Cluster.Namespace && cluster.InRelease(p.Labels, e.Release) && cluster.PodReady(&p)
	})
	if age, lasts, hasHolder := lease.Age(l, e.Clock); !ready || !hasHolder || age > 2*lasts {
		f.add(gateController,
			"no Pod of the controller is ready and holds the lease: nothing would remove the taint")
	}

	for _, d := range deployments {
		if unfinished(&d) {
			f.add(gateRollout, "Deployment %s/%s is rolling out", d.Namespace, d.Name)
		}
	}

	for _, it := range mutating {
		for _, w := range it.Webhooks {
			f.addWebhook(it.Name, w.Name, w.Rules, w.FailurePolicy)
		}
	}

	for _, it := range validating {
		for _, w := range it.Webhooks {
			f.addWebhook(it.Name, w.Name, w.Rules, w.FailurePolicy)
		}
	}

	return f, nil
}

// addWebhook adds a problem if a webhook is called for updates of nodes and its failure policy is Fail, because updates
// then fail whenever the webhook does not answer.
func (f *ClusterFacts) addWebhook(
	configuration, name string, rules []admissionv1.RuleWithOperations, policy *admissionv1.FailurePolicyType,
) {
	if ptr.Deref(policy, admissionv1.Fail) == admissionv1.Ignore {
		return
	}

	if slices.ContainsFunc(rules, func(r admissionv1.RuleWithOperations) bool {
		group := slices.Contains(r.APIGroups, "") || slices.Contains(r.APIGroups, "*")
		resource := slices.ContainsFunc(r.Resources,
			func(s string) bool { return s == "*" || s == "*/*" || s == "nodes" || s == "nodes/*" })
		return group &&
			resource &&
			(slices.Contains(r.Operations, admissionv1.Update) ||
				slices.Contains(r.Operations, admissionv1.OperationAll))
	}) {
		f.add(gateWebhook,
			"webhook %s (%s) is called for every change of a node, which the API server refuses if the webhook does "+
				"not answer", name,
			configuration)
	}
}
