// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cks

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/check/ckscheck"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/service"
)

// servicesTimeout is how long the controller may take to remove the load balancers of deleted Services.
const servicesTimeout = 5 * time.Minute

// removeServices plans to delete the Services of type LoadBalancer before the cluster, and to wait until they are gone: their finalizer
// goes when the cluster's controller, which ends with the cluster, has removed their rules.
func (t *task) removeServices(r *ckscheck.Reader, all []corev1.Service) error {
	if r.Kube == nil {
		return &report.Error{
			What: fmt.Sprintf("the Services of cluster %s cannot be removed: %v; nothing was changed", t.plan.Name, r.NoKube), Code: report.ExitCheckFailed,
			Fix: "run csccm where the cluster's API server answers, or leave --remove-services out: the plan then names the addresses and rules that stay",
		}
	}
	var left []string
	for i := range all {
		if svc := &all[i]; service.Handles(svc) {
			left = append(left, svc.Namespace+"/"+svc.Name)
			t.plan.Changes = append(t.plan.Changes, Change{What: "before that", To: "delete Service " + svc.Namespace + "/" + svc.Name + " with its load balancer"})
		}
	}
	if len(left) == 0 {
		return nil
	}
	t.before = []engine.Step{{Name: "delete Services", Do: func(ctx context.Context, note engine.Note) error {
		t.Progress.Step("Deleting %s of type LoadBalancer", english.Plural(len(left), "Service", ""))
		note("delete Services %s", strings.Join(left, ", "))
		inTime, err := engine.Poll(ctx, t.Clock, pollInterval, servicesTimeout, func() (bool, error) {
			var still []string
			for _, name := range left {
				namespace, svc, _ := strings.Cut(name, "/")
				err := r.Kube.CoreV1().Services(namespace).Delete(ctx, svc, metav1.DeleteOptions{})
				if err == nil {
					still = append(still, name) // its finalizer is there
				} else if !apierrors.IsNotFound(err) {
					return false, &report.Error{What: "delete Service " + name, Err: err, Fix: "run the command again: it continues where it stopped"}
				}
			}
			left = still
			return len(left) == 0, nil
		})
		if err == nil && !inTime {
			err = &report.Error{
				What: fmt.Sprintf("cluster %s was not deleted: of its Services these are left after %s: %s", t.plan.Name, servicesTimeout, strings.Join(left, ", ")),
				Fix:  "look at the controller with csccm doctor; without --remove-services the cluster is deleted, and their rules stay in CloudStack",
			}
		}
		if err == nil {
			t.Progress.Done("their rules are gone")
		}
		return err
	}}}
	return nil
}
