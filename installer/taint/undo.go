// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package taint

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BeforeAnnotation keeps on a node what the controller changes when it initialises the node, as it was before. It is set
// together with the taint, so that an undo needs nothing else, and the first one stays.
const BeforeAnnotation = "csccm.io/before-taint"

// before is the value of the annotation.
type before struct {
	ProviderID string            `json:"providerID,omitempty"`
	Labels     map[string]string `json:"labels"`
}

// writtenLabels are the labels that the controller writes when it initialises a node.
func writtenLabels() []string {
	return []string{
		corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelInstanceTypeStable,
		corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion, corev1.LabelInstanceType,
	}
}

// beforeOf returns the annotation's value for a node as it is now.
func beforeOf(n *corev1.Node) string {
	b := before{ProviderID: n.Spec.ProviderID, Labels: map[string]string{}}
	for _, key := range writtenLabels() {
		if v, set := n.Labels[key]; set {
			b.Labels[key] = v
		}
	}
	text, _ := json.Marshal(b) // strings always have a form
	return string(text)
}

// Undone is what an undo did to a node, or would do.
type Undone struct {
	Node string `json:"node"`
	// Taint: our own taint is still there and goes. Labels are those that are set back.
	Taint  bool        `json:"taint,omitempty"`
	Labels []LabelBack `json:"labels,omitempty"`
	// Skipped says why nothing is done.
	Skipped string `json:"skipped,omitempty"`
	// KeepsProviderID is the provider ID that it got since: the API server lets nobody change or clear it.
	KeepsProviderID string `json:"keepsProviderID,omitempty"`
}

// LabelBack is a label that is set back.
type LabelBack struct {
	Label string `json:"label"`
	Now   string `json:"now,omitempty"`
	Back  string `json:"back,omitempty"` // "" = it is removed
}

func (l LabelBack) String() string {
	switch {
	case l.Back == "":
		return fmt.Sprintf("%s=%s is removed", l.Label, l.Now)
	case l.Now == "":
		return fmt.Sprintf("%s=%s is set", l.Label, l.Back)
	}
	return fmt.Sprintf("%s from %s to %s", l.Label, l.Now, l.Back)
}

// Changes reports whether anything of the node is set back.
func (u *Undone) Changes() bool { return u.Skipped == "" && (u.Taint || len(u.Labels) > 0) }

// PlanUndo returns what Undo would do. It changes nothing.
func (e *Executor) PlanUndo(ctx context.Context) ([]Undone, error) {
	return e.undo(ctx, func(context.Context, string) error { return nil })
}

// Undo takes our own taints back and sets the labels back that the controller wrote. Only nodes that csccm tainted are
// touched. Running again is harmless.
func (e *Executor) Undo(ctx context.Context) ([]Undone, error) { return e.undo(ctx, e.restore) }

func (e *Executor) undo(ctx context.Context, do func(context.Context, string) error) ([]Undone, error) {
	out := []Undone{}
	nodes, err := e.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return out, err
	}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		if ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
		if n.Annotations[MarkAnnotation] == "" {
			continue
		}
		u, _ := undone(n)
		if u.Skipped == "" { // the mark goes in any case
			if err := do(context.WithoutCancel(ctx), n.Name); apierrors.IsNotFound(err) {
				u = Undone{Node: n.Name, Skipped: "is gone"}
			} else if err != nil {
				return out, err
			}
		}
		out = append(out, u)
	}
	return out, nil
}

// undone decides what is set back of a node.
func undone(n *corev1.Node) (u Undone, was before) {
	u.Node = n.Name
	if err := json.Unmarshal([]byte(n.Annotations[BeforeAnnotation]), &was); err != nil {
		u.Skipped = "has no annotation " + BeforeAnnotation + " that can be read"
		return u, was
	}
	u.Taint = ownTaint(n) >= 0
	if n.Spec.ProviderID != was.ProviderID {
		u.KeepsProviderID = n.Spec.ProviderID
	}
	for _, key := range writtenLabels() {
		back, had := was.Labels[key]
		if now, has := n.Labels[key]; had != has || now != back {
			u.Labels = append(u.Labels, LabelBack{Label: key, Now: now, Back: back})
		}
	}
	return u, was
}

// restore sets the labels back, and takes taint and annotations away, in one patch.
func (e *Executor) restore(ctx context.Context, name string) error {
	return e.patch(ctx, name, "setting back", func(n *corev1.Node) []patchOp {
		var ops []patchOp
		u, was := undone(n)
		for _, l := range u.Labels {
			path := "/metadata/labels/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(l.Label)
			if _, had := was.Labels[l.Label]; had {
				ops = append(ops, patchOp{"add", path, l.Back})
			} else {
				ops = append(ops, patchOp{Op: "remove", Path: path})
			}
		}
		return append(ops, withoutMark(n)...)
	})
}
