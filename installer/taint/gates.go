// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package taint

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// ClusterFacts is what the gates of the whole cluster look at.
type ClusterFacts struct {
	// MayPatch: the caller may patch nodes.
	MayPatch bool
	// ControllerReady is how many Pods of the controller are ready, Leader who holds its lease now.
	ControllerReady int
	Leader          string
	Volumes         []corev1.PersistentVolume
	Pods            []corev1.Pod
	Deployments     []appsv1.Deployment
	Webhooks        []Webhook
	// OldRules is how many load balancer rules have names of older providers.
	OldRules int
}

// Webhook is an admission webhook that is asked about changes of nodes and refuses them when it
// does not answer.
type Webhook struct{ Configuration, Name string }

// asksAboutNodes reports whether rules of a webhook cover updates of nodes.
func asksAboutNodes(rules []admissionv1.RuleWithOperations, policy *admissionv1.FailurePolicyType) bool {
	if policy != nil && *policy == admissionv1.Ignore {
		return false
	}
	return slices.ContainsFunc(rules, func(r admissionv1.RuleWithOperations) bool {
		group := slices.Contains(r.APIGroups, "") || slices.Contains(r.APIGroups, "*")
		resource := slices.ContainsFunc(r.Resources, func(s string) bool { return s == "*" || s == "*/*" || s == "nodes" || s == "nodes/*" })
		operation := slices.Contains(r.Operations, admissionv1.Update) || slices.Contains(r.Operations, admissionv1.OperationAll)
		return group && resource && operation
	})
}

// labelChange is a label that gets another value.
type labelChange struct{ key, was string }

// judgeCluster checks the gates that are no single node's.
func (p *Plan) judgeCluster(f *ClusterFacts) {
	if !f.MayPatch {
		p.problem(GatePermission, "", "you may not patch nodes", "use a context of a cluster administrator (--context, --as)")
	}
	switch {
	case f.ControllerReady == 0:
		p.problem(GateController, "", "no Pod of the controller is ready: nothing would take the taint away", "run csccm doctor")
	case f.Leader == "":
		p.problem(GateController, "", "no controller holds the lease: nothing would take the taint away", "run csccm doctor")
	}
	if f.OldRules > 0 {
		p.problem(GateRules, "", fmt.Sprintf("%d load balancer rules have names of older providers", f.OldRules), "run csccm migrate-rules first")
	}
	for _, w := range f.Webhooks {
		p.problem(GateWebhook, "", fmt.Sprintf("webhook %s (%s) is asked about every change of a node and refuses it when it does not answer", w.Name, w.Configuration),
			"see that it answers, then pass over this with --skip-gate "+GateWebhook)
	}
	for i := range f.Deployments {
		d := &f.Deployments[i]
		if unfinished(d) {
			p.problem(GateRollout, "", fmt.Sprintf("Deployment %s/%s is rolling out: %d of %d Pods are updated and available", d.Namespace, d.Name,
				min(d.Status.UpdatedReplicas, d.Status.AvailableReplicas), ptr.Deref(d.Spec.Replicas, 1)), "wait for its end, so that new trouble is not mistaken for old")
		}
	}
	p.judgeLabels(f)
}

// unfinished reports whether a rollout is on its way; one that gave up is not.
func unfinished(d *appsv1.Deployment) bool {
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse {
			return false
		}
	}
	return d.Status.ObservedGeneration < d.Generation || d.Status.UpdatedReplicas < ptr.Deref(d.Spec.Replicas, 1) && !d.Spec.Paused
}

// judgeLabels looks for what is bound to labels that change: a volume in a zone whose name changes
// cannot be mounted any more, a Pod that selects the old value is not scheduled again.
func (p *Plan) judgeLabels(f *ClusterFacts) {
	for _, c := range p.changes {
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
		if len(bound) == 0 {
			continue
		}
		slices.Sort(bound)
		more := ""
		if n := len(bound) - 5; n > 0 {
			bound, more = bound[:5], fmt.Sprintf(" and %d more", n)
		}
		p.problem(GateLabels, "", fmt.Sprintf("label %s=%s changes, and is what %s%s select nodes by", c.key, c.was, strings.Join(bound, ", "), more),
			"set the zone's or region's name (csccm install --region), or the chart value instanceTypeFormat, so that the label stays; or change the objects first")
	}
}

func selects(s *corev1.NodeSelector, c labelChange) bool {
	return s != nil && slices.ContainsFunc(s.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool {
		return slices.ContainsFunc(t.MatchExpressions, func(e corev1.NodeSelectorRequirement) bool {
			return e.Key == c.key && e.Operator == corev1.NodeSelectorOpIn && slices.Contains(e.Values, c.was)
		})
	})
}
