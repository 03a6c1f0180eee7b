// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package taint

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dustin/go-humanize/english"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/node"
)

// MarkAnnotation on a node says when csccm set the taint: only a taint with it
// is ours to take back.
const MarkAnnotation = node.AnnotationTaintedAt

// DefaultPerNode is how long one node may take. The controller needs well under
// a second for a node once it runs.
const DefaultPerNode = 60 * time.Second

const (
	pollInterval   = 250 * time.Millisecond
	patchAttempts  = 5
	cleanupTimeout = 15 * time.Second
)

// Executor carries a plan out.
type Executor struct {
	Kube        kubernetes.Interface
	Clock       clock.Clock
	PerNode     time.Duration // 0 = DefaultPerNode
	MaxParallel int           // nodes at a time after the canary; 0 = 1
	// Report is told of every node that is ready; may be nil.
	Report func(node string, took time.Duration)
}

// Blocked is the error of a plan with problems; nil without one.
func Blocked(problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	p := problems[0]
	text := "existing nodes cannot be initialised safely: " + p.Text
	if n := len(problems) - 1; n > 0 {
		text += fmt.Sprintf(" (and %d more)", n)
	}
	return &report.Error{What: text, Fix: p.Remedy, Code: report.ExitCheckFailed}
}

// Initialise carries a plan out: one node alone at first, then the others.
func (e *Executor) Initialise(ctx context.Context, p *Plan, progress report.Progress) error {
	if p.Canary == "" {
		return Blocked(p.Problems)
	}
	progress.Step("Initialising node %s, alone at first", p.Canary)
	if err := e.Canary(ctx, p); err != nil {
		return err
	}
	progress.Done("")
	if len(p.Rest) == 0 {
		return nil
	}
	progress.Step("Initialising %s", english.Plural(len(p.Rest), "more node", ""))
	if err := e.Rest(ctx, p); err != nil {
		return err
	}
	progress.Done("")
	return nil
}

// Canary taints the first node and waits until it is initialised.
func (e *Executor) Canary(ctx context.Context, p *Plan) error {
	if err := Blocked(p.Problems); err != nil {
		return err
	}
	if p.Canary == "" {
		return nil
	}
	return e.one(ctx, p.Canary)
}

// Rest does the same with the other nodes, MaxParallel at a time; the first
// failure stops it.
func (e *Executor) Rest(ctx context.Context, p *Plan) error {
	if err := Blocked(p.Problems); err != nil {
		return err
	}
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(max(1, e.MaxParallel))
	for _, name := range p.Rest {
		group.Go(func() error {
			if gctx.Err() != nil {
				return nil //nolint:nilerr // another node failed, or the run ends; this one is untouched
			}
			return e.one(gctx, name)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// one taints a node, waits, and takes the taint back when the wait fails.
func (e *Executor) one(ctx context.Context, name string) error {
	start := e.Clock.Now()
	if err := e.add(ctx, name); err != nil {
		return err
	}
	err := e.Await(ctx, name)
	if err == nil {
		if e.Report != nil {
			e.Report(name, e.Clock.Since(start))
		}
		return nil
	}
	// ^C must not leave the taint behind either.
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	if left := e.remove(cleanup, name); left != nil {
		// The causes are text alone: after ^C too, this says more than what the engine says of a step that was stopped.
		out := &report.Error{What: fmt.Sprintf("%v; the taint could not be taken back: %v", err, left), Fix: "remove the taint of node " + name + " with csccm taint --undo"}
		var late *report.Error
		if errors.As(err, &late) {
			out.Code = late.Code
		}
		return out
	}
	return err
}

// Await waits until the node is initialised.
func (e *Executor) Await(ctx context.Context, name string) error {
	limit, missing := cmp.Or(e.PerNode, DefaultPerNode), ""
	inTime, err := engine.Poll(ctx, e.Clock, pollInterval, limit, func() (bool, error) {
		n, err := e.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return false, fmt.Errorf("node %s is gone: %w", name, err)
		case err != nil:
			missing = err.Error()
			return false, nil //nolint:nilerr // perhaps passing; the deadline decides
		}
		missing = lacks(n)
		return Initialised(n), nil
	})
	if err == nil && !inTime {
		err = &report.Error{
			What: fmt.Sprintf("node %s was not initialised within %s: %s", name, limit, missing),
			Fix:  "look for the node's name in the controller's log, and run csccm doctor; no other node was touched after it",
			Code: report.ExitCheckFailed,
		}
	}
	return err
}

// lacks says what an uninitialised node has not got.
func lacks(n *corev1.Node) string {
	switch {
	case node.HasTaint(n):
		return "it still has the taint " + Key
	case n.Spec.ProviderID == "":
		return "it has no provider ID"
	case n.Labels[corev1.LabelTopologyZone] == "":
		return "it has no label " + corev1.LabelTopologyZone
	default:
		return "it has no label " + corev1.LabelInstanceTypeStable
	}
}

type patchOp struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

const (
	markPath   = "/metadata/annotations/csccm.io~1tainted-at"
	beforePath = "/metadata/annotations/csccm.io~1before-taint"
)

// add sets the taint and the mark. spec.taints is one atomic list: a merge
// would drop the others' taints, so it is a JSON patch on a tested version.
func (e *Executor) add(ctx context.Context, name string) error {
	taint := corev1.Taint{Key: Key, Value: Value, Effect: Effect}
	return e.patch(ctx, name, "setting the taint on", func(n *corev1.Node) []patchOp {
		if node.HasTaint(n) {
			return nil // the kubelet was faster, or an earlier run: nothing of ours
		}
		now := e.Clock.Now().UTC().Format(time.RFC3339)
		ops := []patchOp{{"add", "/spec/taints/-", taint}}
		if len(n.Spec.Taints) == 0 {
			ops[0] = patchOp{"add", "/spec/taints", []corev1.Taint{taint}}
		}
		if n.Annotations == nil {
			return append(ops, patchOp{"add", "/metadata/annotations", map[string]string{MarkAnnotation: now, BeforeAnnotation: beforeOf(n)}})
		}
		ops = append(ops, patchOp{"add", markPath, now})
		if n.Annotations[BeforeAnnotation] == "" { // an earlier run knows how it was before
			ops = append(ops, patchOp{"add", beforePath, beforeOf(n)})
		}
		return ops
	})
}

// Soften replaces the effect NoExecute of the nodes that the plan names. They wait for the controller as before.
func (e *Executor) Soften(ctx context.Context, p *Plan) error {
	if err := Blocked(p.Problems); err != nil {
		return err
	}
	for _, name := range p.Soften {
		if err := e.patch(ctx, name, "replacing the taint of", func(n *corev1.Node) []patchOp {
			if !slices.ContainsFunc(n.Spec.Taints, node.Evicts) {
				return nil
			}
			taints := slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t corev1.Taint) bool {
				return node.Evicts(t) || t.Key == Key && t.Effect == Effect
			})
			return []patchOp{{"add", "/spec/taints", append(taints, corev1.Taint{Key: Key, Value: Value, Effect: Effect})}}
		}); err != nil {
			return err
		}
	}
	return nil
}

// remove takes our own taint back, and no other.
func (e *Executor) remove(ctx context.Context, name string) error {
	return e.patch(ctx, name, "taking the taint back from", withoutMark)
}

// withoutMark takes the mark and our own taint away from a node that has the mark.
func withoutMark(n *corev1.Node) []patchOp {
	if _, ours := n.Annotations[MarkAnnotation]; !ours {
		return nil
	}
	ops := []patchOp{{Op: "remove", Path: markPath}}
	if _, kept := n.Annotations[BeforeAnnotation]; kept {
		ops = append(ops, patchOp{Op: "remove", Path: beforePath})
	}
	if i := ownTaint(n); i >= 0 {
		ops = append(ops, patchOp{Op: "remove", Path: fmt.Sprintf("/spec/taints/%d", i)})
	}
	return ops
}

// ownTaint is the place of the taint that csccm sets; -1 when it is not there.
func ownTaint(n *corev1.Node) int {
	return slices.IndexFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == Key && t.Value == Value && t.Effect == Effect })
}

// patch applies what ops makes of the node as read, and reads again when
// somebody was faster.
func (e *Executor) patch(ctx context.Context, name, doing string, ops func(*corev1.Node) []patchOp) error {
	nodes := e.Kube.CoreV1().Nodes()
	var last error
	for range patchAttempts {
		n, err := nodes.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("%s node %s: %w", doing, name, err)
		}
		list := ops(n)
		if len(list) == 0 {
			return nil
		}
		list = append([]patchOp{{"test", "/metadata/resourceVersion", n.ResourceVersion}}, list...)
		body, err := json.Marshal(list)
		if err != nil {
			return fmt.Errorf("%s node %s: %w", doing, name, err)
		}
		if _, last = nodes.Patch(ctx, name, types.JSONPatchType, body, metav1.PatchOptions{FieldManager: "csccm"}); last == nil {
			return nil
		}
		// A failed test comes back as 422; other refusals will not change.
		if !apierrors.IsInvalid(last) && !apierrors.IsConflict(last) {
			break
		}
	}
	return fmt.Errorf("%s node %s: %w", doing, name, last)
}
