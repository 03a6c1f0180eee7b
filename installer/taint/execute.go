// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package taint

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/client-go/util/retry"

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/poll"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/node"
)

// MarkAnnotation on a node says when csccm set the taint: only a taint with it is ours to take back.
const MarkAnnotation = node.AnnotationTaintedAt

// DefaultPerNode is how long one node may take. The controller needs well under a second for a node once it runs.
const DefaultPerNode = 60 * time.Second

const (
	pollInterval   = 250 * time.Millisecond
	cleanupTimeout = 15 * time.Second
)

// Pace is how fast nodes follow each other.
type Pace struct {
	MaxParallel int           // nodes at a time after the first; 0 = 1
	PerNode     time.Duration // that one may take; 0 = DefaultPerNode
}

// Executor carries plans out.
type Executor struct {
	*engine.Env
	Pace
}

// Initialise carries a plan out: one node alone at first, then the others, MaxParallel at a time. The first failure
// stops it.
func (e *Executor) Initialise(ctx context.Context, p *Plan) error {
	if err := p.Blocked(); err != nil || len(p.Order) == 0 {
		return err
	}

	e.Progress.Step("Initialising node %s, alone at first", p.Order[0])
	if err := e.one(ctx, p.Order[0]); err != nil || len(p.Order) == 1 {
		return err
	}

	e.Progress.Step("Initialising %s", report.Count(len(p.Order)-1, "more node"))
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(max(1, e.MaxParallel))
	for _, name := range p.Order[1:] {
		group.Go(func() error {
			if gctx.Err() != nil {
				return nil //nolint:nilerr // another node failed, or the run ends; this one is untouched
			}
			return e.one(gctx, name)
		})
	}

	return cmp.Or(group.Wait(), context.Cause(ctx))
}

// one taints a node, waits, and takes the taint back when the wait fails.
func (e *Executor) one(ctx context.Context, name string) error {
	start := e.Clock.Now()
	if err := e.patch(ctx, name, "setting the taint on", e.add); err != nil {
		return err
	}

	err := e.Await(ctx, name)
	if err == nil {
		e.Note("initialised %s", name)
		e.Progress.Info("node %s initialised after %s", name, e.Clock.Since(start).Round(10*time.Millisecond))
		return nil
	}

	// ^C must not leave the taint behind either.
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	if left := e.patch(cleanup, name, "taking the taint back from", unmark); left != nil {
		// The causes are text alone: after ^C too, this says more than what the engine says of a step that was stopped.
		out := report.Errorf(
			"remove the taint of node "+name+" with csccm taint --undo",
			"%v; the taint could not be taken back: %v", err, left,
		)
		if late, ok := errors.AsType[*report.Error](err); ok {
			out.Code = late.Code
		}
		return out
	}

	return err
}

// Await waits until the node is initialised.
func (e *Executor) Await(ctx context.Context, name string) error {
	limit, missing := cmp.Or(e.PerNode, DefaultPerNode), ""
	inTime, err := poll.Until(ctx, e.Clock, pollInterval, limit, func() (bool, error) {
		n, err := e.Cluster.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return false, fmt.Errorf("node %s is gone: %w", name, err)
		case err != nil:
			missing = err.Error() // perhaps passing; the deadline decides
		default:
			missing = lacks(n)
		}
		return missing == "", nil
	})
	if err == nil && !inTime {
		err = report.CheckFailed(
			"look for the node's name in the controller's log, and run csccm doctor; no other node was touched "+
				"after it",
			"node %s was not initialised within %s: %s", name, limit, missing,
		)
	}

	return err
}

// lacks returns what a node lacks that a controller writes to a new node; "" for one that is initialised.
func lacks(n *corev1.Node) string {
	switch {
	case node.HasTaint(n):
		return "it still has the taint " + Key
	case n.Spec.ProviderID == "":
		return "it has no provider ID"
	case n.Labels[corev1.LabelTopologyZone] == "":
		return "it has no label " + corev1.LabelTopologyZone
	case n.Labels[corev1.LabelInstanceTypeStable] == "":
		return "it has no label " + corev1.LabelInstanceTypeStable
	}
	return ""
}

// own is the taint that csccm sets.
var own = corev1.Taint{Key: Key, Value: Value, Effect: Effect}

// add sets the taint and the mark.
func (e *Executor) add(n *corev1.Node) {
	if node.HasTaint(n) {
		return // the kubelet was faster, or an earlier run: nothing of ours
	}
	if n.Annotations[BeforeAnnotation] == "" { // otherwise an earlier run knows how it was before
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, BeforeAnnotation, beforeOf(n))
	}
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, MarkAnnotation, e.Clock.Now().UTC().Format(time.RFC3339))
	n.Spec.Taints = append(n.Spec.Taints, own)
}

// unmark takes the mark and our own taint away from a node that has the mark, and no other taint.
func unmark(n *corev1.Node) {
	if _, ours := n.Annotations[MarkAnnotation]; !ours {
		return
	}
	delete(n.Annotations, MarkAnnotation)
	delete(n.Annotations, BeforeAnnotation)
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints,
		func(t corev1.Taint) bool { return t.MatchTaint(&own) && t.Value == Value })
}

// patch changes a node, again when somebody was faster. spec.taints is one list that a patch replaces, so the patch is
// only for the version that was read.
func (e *Executor) patch(ctx context.Context, name, doing string, change func(*corev1.Node)) error {
	nodes := e.Cluster.Kube.CoreV1().Nodes()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		was, err := nodes.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		want := was.DeepCopy()
		if change(want); reflect.DeepEqual(was, want) {
			return nil
		}
		was.ResourceVersion = "" // so that the patch has that of want
		before, err := json.Marshal(was)
		after, aerr := json.Marshal(want)
		body, perr := jsonmergepatch.CreateThreeWayJSONMergePatch(before, after, before)
		if err = cmp.Or(err, aerr, perr); err == nil {
			_, err = nodes.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: "csccm"})
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%s node %s: %w", doing, name, err)
	}

	return nil
}
