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

// MarkAnnotation on a node says when csccm set the taint. csccm removes a taint only from nodes with this annotation.
const MarkAnnotation = node.AnnotationTaintedAt

// DefaultPerNode is how long the initialisation of one node may take by default. A running controller usually needs
// less than a second.
const DefaultPerNode = 60 * time.Second

const (
	pollInterval   = 250 * time.Millisecond
	cleanupTimeout = 15 * time.Second
)

// Limits limits how many nodes are initialised at a time, and how long one may take.
type Limits struct {
	MaxParallel int           // nodes at a time after the first; 0 means 1
	PerNode     time.Duration // how long one node may take; 0 means DefaultPerNode
}

// Executor carries out plans.
type Executor struct {
	*engine.Env
	Limits
}

// Initialise carries out a plan: the first node alone, then the others, MaxParallel at a time. It stops at the first
// failure.
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

// one taints a node and waits until the controller has initialised it. If that fails, it removes the taint again.
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

	// Remove the taint also after an interrupt (^C), which has ended ctx.
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()

	if cleanupErr := e.patch(cleanup, name, "removing the taint from", unmark); cleanupErr != nil {
		// The error does not wrap its causes. Otherwise, after an interrupt, the engine would recognize the cancelled
		// context and print its general message instead of this one.
		out := report.Errorf(
			"remove the taint of node "+name+" with csccm taint --undo",
			"%v; the taint could not be removed: %v", err, cleanupErr,
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
			missing = err.Error() // may be transient: try again until the deadline
		default:
			missing = missingPart(n)
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

// missingPart says what is missing on a node that the controller writes to every new node; "" if the node is
// initialised.
func missingPart(n *corev1.Node) string {
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

// add sets the taint and MarkAnnotation, and records the current state in BeforeAnnotation.
func (e *Executor) add(n *corev1.Node) {
	if node.HasTaint(n) {
		return // the kubelet or an earlier run has set a taint; it is not ours to mark
	}

	if n.Annotations[BeforeAnnotation] == "" { // keep the record of an earlier run, which saw the original state
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, BeforeAnnotation, beforeOf(n))
	}

	metav1.SetMetaDataAnnotation(&n.ObjectMeta, MarkAnnotation, e.Clock.Now().UTC().Format(time.RFC3339))
	n.Spec.Taints = append(n.Spec.Taints, own)
}

// unmark removes our own taint and both annotations from a node that has MarkAnnotation. It removes no other taint.
func unmark(n *corev1.Node) {
	if _, ours := n.Annotations[MarkAnnotation]; !ours {
		return
	}

	delete(n.Annotations, MarkAnnotation)
	delete(n.Annotations, BeforeAnnotation)
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints,
		func(t corev1.Taint) bool { return t.MatchTaint(&own) && t.Value == Value })
}

// patch changes a node, and retries conflicts. A merge patch replaces the whole list spec.taints, so the patch contains
// the resource version that was read.
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

		was.ResourceVersion = "" // the patch then contains the resource version of want
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
