// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/helm"
)

const (
	// podsTimeout is how long the controller's Pods may take to end.
	podsTimeout = 2 * time.Minute
	podsPoll    = 500 * time.Millisecond
)

// Validate checks what needs no connection.
func (o Options) Validate() error {
	if o.RemoveFinalizers && !o.OrphanLoadBalancers {
		return report.Usage("--remove-finalizers is for load balancers that are left behind", "add --orphan-load-balancers, or leave it out")
	}
	return nil
}

// Run takes the controller out of the cluster.
func Run(ctx context.Context, e *engine.Env, o Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	u := &run{Env: e, Options: o}
	defer func() {
		for _, end := range u.ends {
			end()
		}
	}()
	p, err := newPlan(ctx, u)
	if err != nil {
		return err
	}
	u.plan = p
	if len(p.steps) == 0 && !e.DryRun {
		e.Progress.Info("there is nothing to remove")
	}
	return e.Run(ctx, engine.Operation{
		Name: "uninstall", What: "remove what the plan lists", Question: prompt.Question{Message: "Uninstall"},
		Plan: p, Show: p.print, Steps: p.steps,
		Check: func(context.Context) error {
			if len(p.LoadBalancers) > 0 && !o.OrphanLoadBalancers && p.Revision > 0 {
				return wouldOrphan(p.LoadBalancers)
			}
			return nil
		},
	})
}

type run struct {
	*engine.Env
	Options
	plan  *Plan
	owner *cloud.Cloud // with the controller's keys; nil without
	ends  []func()
}

func (u *run) release(ctx context.Context, note engine.Note) error {
	u.Progress.Step("Helm release %s/%s", u.plan.Namespace, u.plan.Release)
	if err := u.Helm.Uninstall(ctx, u.plan.Release); err != nil && !errors.Is(err, helm.ErrReleaseNotFound) {
		return u.Cluster.Explain(err)
	}
	note("deleted release %s, revision %d", u.plan.Release, u.plan.Revision)
	u.Progress.Done("deleted")
	return nil
}

// pods waits until nobody works any more: only then may others take over.
func (u *run) pods(ctx context.Context, _ engine.Note) error {
	u.Progress.Step("Waiting for the controller's Pods to end")
	var left []corev1.Pod
	ended, err := engine.Poll(ctx, u.Clock, podsPoll, podsTimeout, func() (bool, error) {
		list, err := u.Cluster.Kube.CoreV1().Pods(u.plan.Namespace).List(ctx, cluster.OfRelease(u.plan.Release))
		if err != nil {
			return false, u.Cluster.Explain(err)
		}
		left = list.Items
		return len(left) == 0, nil
	})
	if err == nil && !ended {
		err = fmt.Errorf("%s of the controller still there after %s, the first is %s", english.Plural(len(left), "Pod", ""), podsTimeout, left[0].Name)
	}
	if err == nil {
		u.Progress.Done("")
	}
	return err
}

func (u *run) finalizers(ctx context.Context, note engine.Note) error {
	u.Progress.Step("Finalizers of Services")
	n := 0
	for _, lb := range u.plan.LoadBalancers {
		if !lb.Finalizer {
			continue
		}
		services := u.Cluster.Kube.CoreV1().Services(lb.Namespace)
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
			s, err := services.Get(ctx, lb.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			s = s.DeepCopy()
			s.Finalizers = slices.DeleteFunc(s.Finalizers, func(f string) bool { return f == Finalizer })
			_, err = services.Update(ctx, s, metav1.UpdateOptions{})
			return err
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return u.Cluster.Explain(err)
		}
		n++
		note("Service %s/%s may be deleted", lb.Namespace, lb.Name)
	}
	u.Progress.Done("%d removed", n)
	return nil
}
