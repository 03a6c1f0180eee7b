// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package taint

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/node"
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
var writtenLabels = []string{
	corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelInstanceTypeStable,
	corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion, corev1.LabelInstanceType,
}

// beforeOf returns the annotation's value for a node as it is now.
func beforeOf(n *corev1.Node) string {
	b := before{ProviderID: n.Spec.ProviderID, Labels: map[string]string{}}
	for _, key := range writtenLabels {
		if v, set := n.Labels[key]; set {
			b.Labels[key] = v
		}
	}
	text, _ := json.Marshal(b) // strings always have a form
	return string(text)
}

// UndoResult is what -o json and yaml write of an undo.
type UndoResult struct {
	SchemaVersion int      `json:"schemaVersion"`
	DryRun        bool     `json:"dryRun"`
	Nodes         []Undone `json:"nodes"`
}

// Undone is what an undo does to a node.
type Undone struct {
	Node string `json:"node"`
	// Changes are in words. Done reports that they were made.
	Changes []string `json:"changes"`
	Done    bool     `json:"done"`
	// Skipped says why nothing is done.
	Skipped string `json:"skipped,omitempty"`
	// KeepsProviderID is the provider ID that it got since: the API server lets nobody change or clear it.
	KeepsProviderID string `json:"keepsProviderID,omitempty"`
}

// undo sets the labels of a node back, takes our own taint and the annotations away, and says so.
func undo(n *corev1.Node) Undone {
	u := Undone{Node: n.Name, Changes: []string{}}
	var was before
	if err := json.Unmarshal([]byte(n.Annotations[BeforeAnnotation]), &was); err != nil {
		u.Skipped = "has no annotation " + BeforeAnnotation + " that can be read"
		return u
	}
	if n.Spec.ProviderID != was.ProviderID {
		u.KeepsProviderID = n.Spec.ProviderID
	}
	for _, key := range writtenLabels {
		now, has := n.Labels[key]
		back, had := was.Labels[key]
		switch {
		case has && !had:
			u.Changes = append(u.Changes, fmt.Sprintf("%s=%s is removed", key, now))
			delete(n.Labels, key)
			continue
		case had && !has:
			u.Changes = append(u.Changes, fmt.Sprintf("%s=%s is set", key, back))
		case now != back:
			u.Changes = append(u.Changes, fmt.Sprintf("%s from %s to %s", key, now, back))
		}
		if had {
			metav1.SetMetaDataLabel(&n.ObjectMeta, key, back)
		}
	}
	taints := len(n.Spec.Taints)
	if unmark(n); len(n.Spec.Taints) < taints {
		u.Changes = append(u.Changes, "taint "+node.TaintKey+" is removed")
	}
	return u
}

// Undo sets the nodes back that csccm tainted, as their annotations say, and touches no other. Running again is harmless.
func Undo(ctx context.Context, e *engine.Env) error {
	nodes, err := e.Cluster.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return e.Cluster.Explain(err)
	}
	result, n := &UndoResult{SchemaVersion: 1, DryRun: true, Nodes: []Undone{}}, 0
	for i := range nodes.Items {
		if nodes.Items[i].Annotations[MarkAnnotation] == "" {
			continue
		}
		u := undo(nodes.Items[i].DeepCopy())
		if result.Nodes = append(result.Nodes, u); len(u.Changes) > 0 {
			n++
		}
	}
	op := engine.Operation{
		Name: "taint-undo", What: "set back " + english.Plural(n, "node", ""), Plan: result,
		Question: prompt.Question{Message: "Set the labels of these nodes back"},
		Show:     func(w io.Writer) error { return result.show(w, e.StyleOf(w)) },
		Done: func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "%s set back\n", english.Plural(n, "node", ""))
			return err
		},
	}
	if n > 0 {
		op.Steps = []engine.Step{{Name: "labels and taints", Do: result.undo(e)}}
	} else {
		op.Done = nil
	}
	return e.Run(ctx, op)
}

// undo returns the step that sets the nodes back. Of a node that has nothing to set back, the mark goes.
func (r *UndoResult) undo(e *engine.Env) func(context.Context, engine.Note) error {
	return func(ctx context.Context, note engine.Note) error {
		r.DryRun = false
		x := &Executor{Env: e}
		for i := range r.Nodes {
			u := &r.Nodes[i]
			if u.Skipped != "" {
				continue
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			err := x.patch(context.WithoutCancel(ctx), u.Node, "setting back", func(n *corev1.Node) { _ = undo(n) })
			switch {
			case apierrors.IsNotFound(err):
				u.Skipped = "is gone"
			case err != nil:
				return e.Cluster.Explain(err)
			default:
				u.Done = true
				note("node %s", u.Node)
			}
		}
		return nil
	}
}

// show prints what an undo does to each node.
func (r *UndoResult) show(w io.Writer, style report.Style) error {
	t := report.Table{Header: []string{"NODE", "TO SET BACK", "STAYS"}}
	for i := range r.Nodes {
		u := &r.Nodes[i]
		changes, stays := strings.Join(u.Changes, "; "), ""
		switch {
		case u.Skipped != "":
			changes = "nothing: " + u.Skipped
		case changes == "":
			changes = "nothing"
		}
		if u.KeepsProviderID != "" {
			stays = "provider ID " + u.KeepsProviderID
		}
		t.Add(u.Node, changes, stays)
	}
	return t.Write(w, style)
}
