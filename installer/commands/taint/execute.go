// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package taint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
)

// MarkAnnotation on a node says when csccm set the taint: only a taint with it
// is ours to take back.
const MarkAnnotation = "csccm.io/tainted-at"

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
	Clock       clock.Clock   // nil = real
	PerNode     time.Duration // 0 = DefaultPerNode
	MaxParallel int           // nodes at a time after the canary; 0 = 1
	// Report is told of every node that is ready; may be nil.
	Report func(node string, took time.Duration)
}

// NotInitialisedError is a node that the controller did not initialise in time.
// The taint that csccm had set is gone again, unless Left says otherwise.
type NotInitialisedError struct {
	Node    string
	Missing string // what the node still lacks
	After   time.Duration
	Left    error // why the taint could not be taken back
}

func (e *NotInitialisedError) Error() string {
	s := fmt.Sprintf("node %s was not initialised within %s: %s", e.Node, e.After, e.Missing)
	if e.Left != nil {
		s += fmt.Sprintf("; the taint could not be taken back: %v", e.Left)
	}
	return s
}

func (e *NotInitialisedError) Unwrap() error { return e.Left }

// Remedy says where to look.
func (e *NotInitialisedError) Remedy() string {
	return "look for the node's name in the controller's log, and run csccm doctor; no other node was touched after it"
}

// ExitCode is that of a failed check.
func (e *NotInitialisedError) ExitCode() int { return 3 }

// BlockedError is a plan whose gates do not pass.
type BlockedError struct{ Problems []Problem }

func (e *BlockedError) Error() string {
	p := e.Problems[0]
	if n := len(e.Problems) - 1; n > 0 {
		return fmt.Sprintf("existing nodes cannot be initialised safely: %s (and %d more)", p.Text, n)
	}
	return "existing nodes cannot be initialised safely: " + p.Text
}

// Remedy is that of the first problem.
func (e *BlockedError) Remedy() string { return e.Problems[0].Remedy }

// ExitCode is that of a failed check.
func (e *BlockedError) ExitCode() int { return 3 }

// Canary taints the first node and waits until it is initialised.
func (e *Executor) Canary(ctx context.Context, p *Plan) error {
	if len(p.Problems) > 0 {
		return &BlockedError{p.Problems}
	}
	if p.Canary == "" {
		return nil
	}
	return e.one(ctx, p.Canary)
}

// Rest does the same with the other nodes, MaxParallel at a time; the first
// failure stops it.
func (e *Executor) Rest(ctx context.Context, p *Plan) error {
	if len(p.Problems) > 0 {
		return &BlockedError{p.Problems}
	}
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(max(1, e.MaxParallel))
	for _, name := range p.Rest {
		if gctx.Err() != nil {
			break
		}
		group.Go(func() error {
			select {
			case <-gctx.Done():
				return nil // another node failed, or the run ends; this one is untouched
			default:
				return e.one(gctx, name)
			}
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

func (e *Executor) clock() clock.Clock {
	if e.Clock == nil {
		return clock.RealClock{}
	}
	return e.Clock
}

// one taints a node, waits, and takes the taint back when the wait fails.
func (e *Executor) one(ctx context.Context, name string) error {
	start := e.clock().Now()
	if err := e.add(ctx, name); err != nil {
		return err
	}
	err := e.Await(ctx, name)
	if err == nil {
		if e.Report != nil {
			e.Report(name, e.clock().Since(start))
		}
		return nil
	}
	// ^C must not leave the taint behind either.
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	left := e.remove(cleanup, name)
	var late *NotInitialisedError
	if errors.As(err, &late) {
		late.Left = left
		return late
	}
	return errors.Join(err, left)
}

// Await waits until the node is initialised.
func (e *Executor) Await(ctx context.Context, name string) error {
	limit := e.PerNode
	if limit == 0 {
		limit = DefaultPerNode
	}
	deadline := e.clock().After(limit)
	for {
		var missing string
		n, err := e.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return fmt.Errorf("node %s is gone: %w", name, err)
		case err != nil:
			missing = err.Error() // perhaps passing; the deadline decides
		case Initialised(n):
			return nil
		default:
			missing = lacks(n)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-deadline:
			return &NotInitialisedError{Node: name, Missing: missing, After: limit}
		case <-e.clock().After(pollInterval):
		}
	}
}

// lacks says what an uninitialised node has not got.
func lacks(n *corev1.Node) string {
	switch {
	case hasKey(n):
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

const markPath = "/metadata/annotations/csccm.io~1tainted-at"

// add sets the taint and the mark. spec.taints is one atomic list: a merge
// would drop the others' taints, so it is a JSON patch on a tested version.
func (e *Executor) add(ctx context.Context, name string) error {
	taint := corev1.Taint{Key: Key, Value: Value, Effect: Effect}
	return e.patch(ctx, name, "setting the taint on", func(n *corev1.Node) []patchOp {
		if hasKey(n) {
			return nil // the kubelet was faster, or an earlier run: nothing of ours
		}
		now := e.clock().Now().UTC().Format(time.RFC3339)
		ops := []patchOp{{"add", "/spec/taints/-", taint}, {"add", markPath, now}}
		if len(n.Spec.Taints) == 0 {
			ops[0] = patchOp{"add", "/spec/taints", []corev1.Taint{taint}}
		}
		if n.Annotations == nil {
			ops[1] = patchOp{"add", "/metadata/annotations", map[string]string{MarkAnnotation: now}}
		}
		return ops
	})
}

// Soften replaces the effect NoExecute of the nodes that the plan names. They wait for the controller as before.
func (e *Executor) Soften(ctx context.Context, p *Plan) error {
	if len(p.Problems) > 0 {
		return &BlockedError{p.Problems}
	}
	for _, name := range p.Soften {
		if err := e.patch(ctx, name, "replacing the taint of", func(n *corev1.Node) []patchOp {
			if !slices.ContainsFunc(n.Spec.Taints, evicts) {
				return nil
			}
			taints := slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t corev1.Taint) bool {
				return evicts(t) || t.Key == Key && t.Effect == Effect
			})
			return []patchOp{{"add", "/spec/taints", append(taints, corev1.Taint{Key: Key, Value: Value, Effect: Effect})}}
		}); err != nil {
			return err
		}
	}
	return nil
}

func evicts(t corev1.Taint) bool { return t.Key == Key && t.Effect == corev1.TaintEffectNoExecute }

// remove takes our own taint back, and no other.
func (e *Executor) remove(ctx context.Context, name string) error {
	return e.patch(ctx, name, "taking the taint back from", func(n *corev1.Node) []patchOp {
		if _, ours := n.Annotations[MarkAnnotation]; !ours {
			return nil
		}
		ops := []patchOp{{Op: "remove", Path: markPath}}
		if i := ownTaint(n); i >= 0 {
			ops = append(ops, patchOp{Op: "remove", Path: fmt.Sprintf("/spec/taints/%d", i)})
		}
		return ops
	})
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
