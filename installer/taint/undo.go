// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package taint

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/prompt"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/node"
)

// BeforeAnnotation records on a node the provider ID and the labels that the node had before csccm tainted it. It is
// set together with the taint. A later taint does not overwrite it, so it holds the original state for an undo.
const BeforeAnnotation = "csccm.io/before-taint"

// before is the value of BeforeAnnotation.
type before struct {
	ProviderID string            `json:"providerID,omitempty"`
	Labels     map[string]string `json:"labels"`
}

// writtenLabels are the labels that the controller writes when it initialises a node.
var writtenLabels = []string{
	corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelInstanceTypeStable,
	corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion, corev1.LabelInstanceType,
}

// beforeOf returns the value of BeforeAnnotation for the current state of a node.
func beforeOf(n *corev1.Node) string {
	b := before{ProviderID: n.Spec.ProviderID, Labels: map[string]string{}}
	for _, key := range writtenLabels {
		if v, set := n.Labels[key]; set {
			b.Labels[key] = v
		}
	}

	text, _ := json.Marshal(b) // never fails for strings
	return string(text)
}

// undo restores the labels of a node, removes our own taint and both annotations, and describes the changes.
func undo(n *corev1.Node) (changes []string, err error) {
	var was before
	if err := json.Unmarshal([]byte(n.Annotations[BeforeAnnotation]), &was); err != nil {
		return nil, report.Errorf(
			"correct or remove it",
			"annotation %s of node %s cannot be read: %w", BeforeAnnotation, n.Name, err,
		)
	}

	for _, key := range writtenLabels {
		now, has := n.Labels[key]
		back, had := was.Labels[key]
		switch {
		case has && !had:
			changes = append(changes, fmt.Sprintf("%s=%s is removed", key, now))
			delete(n.Labels, key)
		case now != back || has != had:
			changes = append(changes, fmt.Sprintf("%s from %q to %q", key, now, back))
			metav1.SetMetaDataLabel(&n.ObjectMeta, key, back)
		}
	}

	taints := len(n.Spec.Taints)
	if unmark(n); len(n.Spec.Taints) < taints {
		changes = append(changes, "taint "+node.TaintKey+" is removed")
	}

	if len(changes) > 0 && n.Spec.ProviderID != was.ProviderID { // the API server refuses changes of a provider ID
		changes = append(changes, "the provider ID "+n.Spec.ProviderID+" stays")
	}

	return changes, nil
}

// Undo restores the nodes that csccm tainted, from their annotations. It changes no other nodes, and can be repeated.
func Undo(ctx context.Context, e *engine.Env) error {
	nodes, err := e.Cluster.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}

	out := e.NewPlan()
	op := engine.Operation{
		Name:     "taint-undo",
		Plan:     out,
		Question: prompt.Question{Message: "Restore the labels of these nodes"},
	}

	for _, n := range nodes.Items {
		if n.Annotations[BeforeAnnotation] == "" {
			continue
		}

		changes, err := undo(n.DeepCopy())
		if err != nil {
			return err
		}

		if len(changes) == 0 {
			continue
		}

		out.Add("Node", n.Name, nil, changes...)
		op.Steps = append(op.Steps, engine.Step{Name: "node " + n.Name, Do: func(ctx context.Context) error {
			err := (&Executor{Env: e}).patch(context.WithoutCancel(ctx), n.Name, "setting back",
				func(n *corev1.Node) { _, _ = undo(n) })
			if err != nil && !apierrors.IsNotFound(err) {
				return err
			}

			e.Note("restore %s", n.Name)
			return nil
		}})
	}

	count := report.Count(len(op.Steps), "node")
	if op.What = "restore " + count; len(op.Steps) == 0 {
		out.Add("Nodes", "none to restore", nil)
	}

	op.Done = func() string { return count + " restored\n" }
	return e.Run(ctx, op)
}
