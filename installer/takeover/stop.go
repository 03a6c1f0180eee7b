// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/kube/family"
)

const (
	stopPoll    = 250 * time.Millisecond
	stopTimeout = 2 * time.Minute
)

var byCSCCM = metav1.PatchOptions{FieldManager: "csccm"}

// patch changes a workload: one body for a Deployment, another for a DaemonSet.
func (t *Taker) patch(ctx context.Context, p *family.Predecessor, deployment, daemonSet string) error {
	apps, merge := t.Kube.AppsV1(), types.MergePatchType
	var err error
	switch p.Kind {
	case "Deployment":
		_, err = apps.Deployments(p.Namespace).Patch(ctx, p.Name, merge, []byte(deployment), byCSCCM)
	case "DaemonSet":
		_, err = apps.DaemonSets(p.Namespace).Patch(ctx, p.Name, merge, []byte(daemonSet), byCSCCM)
	default:
		err = fmt.Errorf("csccm cannot change a %s", p.Kind)
	}
	return err
}

// stop scales a predecessor to nothing and waits until its last Pod is gone.
func (t *Taker) stop(ctx context.Context, p *family.Predecessor) error {
	before := ""
	if p.Wanted > 0 {
		before = fmt.Sprintf(`"metadata":{"annotations":{%q:"%d"}},`, family.ReplicasAnnotation, p.Wanted)
	}
	err := t.patch(ctx, p, "{"+before+`"spec":{"replicas":0}}`, fmt.Sprintf(`{"spec":{"template":{"spec":{"nodeSelector":{%q:"true"}}}}}`, family.StoppedSelector))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stopping %s: %w", p, err)
	}
	return t.awaitNoPods(ctx, p)
}

// markKept ends the takeover: later ones find no other controller.
func (t *Taker) markKept(ctx context.Context) error {
	mark := fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, family.KeptAnnotation)
	for i := range t.Plan.Predecessors {
		p := &t.Plan.Predecessors[i]
		if err := t.patch(ctx, p, mark, mark); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("marking %s as kept: %w", p, err)
		}
	}
	return nil
}

func (t *Taker) awaitNoPods(ctx context.Context, p *family.Predecessor) error {
	if len(p.Selector) == 0 {
		return nil
	}
	var left []corev1.Pod
	ended, err := engine.Poll(ctx, t.Clock, stopPoll, stopTimeout, func() (bool, error) {
		pods, err := t.Kube.CoreV1().Pods(p.Namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(p.Selector).String()})
		if err != nil {
			return false, fmt.Errorf("waiting for the Pods of %s to end: %w", p, err)
		}
		left = pods.Items
		return len(left) == 0, nil
	})
	if err == nil && !ended {
		err = fmt.Errorf("Pod %s of %s does not end; nothing was changed in CloudStack", left[0].Name, p) //nolint:staticcheck // Pod is a name
	}
	return err
}
