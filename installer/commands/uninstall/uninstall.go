// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package uninstall takes the controller out of a cluster and says what stays.
// What the controller made in CloudStack for Services, and what it wrote on
// nodes, is not touched: provider IDs cannot be taken back, and load balancers
// carry traffic.
package uninstall

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/pkg/cloudstack"
)

const (
	// podsTimeout is how long the controller's Pods may take to end.
	podsTimeout = 2 * time.Minute
	podsPoll    = 500 * time.Millisecond
)

// Finalizer keeps a Service until a cloud provider has removed its load
// balancer. Without a provider the Service could not be deleted.
const Finalizer = "service.kubernetes.io/load-balancer-cleanup"

// Options of an uninstall.
type Options struct {
	// OrphanLoadBalancers goes on although Services of type LoadBalancer exist.
	OrphanLoadBalancers bool
	// DeleteSecret removes the credentials and the CA certificates too.
	DeleteSecret bool
	// DeleteUser removes from CloudStack what csccm made there: user, keys, account and role.
	DeleteUser bool
	// CAFile is what CloudStack's API is trusted by, where the cluster does not hold it.
	CAFile string
	// Admin makes the administrator's session for the API at cfg's URL, and ends it; for DeleteUser.
	Admin func(ctx context.Context, cfg *cloudstack.Config) (admin *cloudapi.Client, end func(), err error)
}

// run is one uninstall: its plan, and what that found.
type run struct {
	*engine.Env
	Options
	plan     *engine.Plan
	steps    []engine.Step
	deployed bool             // there is a release
	balanced []corev1.Service // of type LoadBalancer, which the controller serves
	owner    *cloud.Cloud     // with the controller's keys; nil without
	ends     bool             // the keys of the Secret end
	secret   bool             // the Secret is deleted
	closers  []func()
}

// Run takes the controller out of the cluster.
func Run(ctx context.Context, e *engine.Env, o Options) error {
	u := &run{Env: e, Options: o, plan: e.NewPlan()}
	defer func() {
		for _, end := range u.closers {
			end()
		}
	}()
	if err := u.makePlan(ctx); err != nil {
		return err
	}
	return e.Run(ctx, engine.Operation{
		Name: "uninstall", What: "remove what the plan lists", Question: prompt.Question{Message: "Uninstall"}, Plan: u.plan, Steps: u.steps,
		Check: func(context.Context) error {
			if len(u.balanced) == 0 || o.OrphanLoadBalancers || !u.deployed {
				return nil
			}
			names := cloudapi.Names(u.balanced[:min(5, len(u.balanced))], func(s *corev1.Service) string { return s.Namespace + "/" + s.Name })
			return report.Refused("delete these Services first, or leave their load balancers in CloudStack as they are with --orphan-load-balancers",
				"there are Services of type LoadBalancer (%s), and without the controller nobody changes their rules or releases their addresses",
				strings.Join(names, ", "))
		},
	})
}

// delete plans a step that deletes something.
func (u *run) delete(what string, do func(context.Context) error) {
	u.plan.Add("delete", what, nil)
	u.steps = append(u.steps, engine.Step{Name: what, Do: func(ctx context.Context, note engine.Note) error {
		u.Progress.Step("%s", what)
		if err := do(ctx); err != nil {
			return u.Cluster.Explain(err)
		}
		note("deleted %s", what)
		u.Progress.Done("deleted")
		return nil
	}})
}

func (u *run) keep(format string, args ...any) {
	u.plan.Add("keep", fmt.Sprintf(format, args...), nil)
}

func (u *run) warn(format string, args ...any) {
	u.plan.Warnings = append(u.plan.Warnings, fmt.Sprintf(format, args...))
}

func (u *run) deleteRelease(ctx context.Context) error {
	err := u.Helm.Uninstall(ctx, u.Release)
	if errors.Is(err, helm.ErrReleaseNotFound) {
		return nil
	}
	return err
}

// awaitPods waits until nobody works any more: only then may others take over.
func (u *run) awaitPods(ctx context.Context, _ engine.Note) error {
	u.Progress.Step("Waiting for the controller's Pods to end")
	var left []corev1.Pod
	ended, err := engine.Poll(ctx, u.Clock, podsPoll, podsTimeout, func() (bool, error) {
		var err error
		left = cluster.ListOf(ctx, &err, cluster.OfRelease(u.Release), u.Cluster.Kube.CoreV1().Pods(u.Cluster.Namespace).List).Items
		return len(left) == 0, err
	})
	if err == nil && !ended {
		err = fmt.Errorf("%d of the controller's Pods are still there after %s, the first is %s", len(left), podsTimeout, left[0].Name)
	}
	if err != nil {
		return u.Cluster.Explain(err)
	}
	u.Progress.Done("")
	return nil
}
