// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/csccm/csccm/installer/check/ckscheck"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/service"
)

// servicesTimeout is how long the controller may take to remove the load balancers of deleted Services.
const servicesTimeout = 5 * time.Minute

// Delete deletes a cluster, its VMs, and the network if CloudStack created that for it. In any other network the rules and
// addresses of Services of type LoadBalancer would stay. removeServices deletes these Services first, so that the cluster's controller
// removes both; otherwise the plan names them.
func (s *Service) Delete(ctx context.Context, name string, removeServices bool) error {
	return s.on(ctx, opDelete, name, func(k *cloudapi.KubernetesCluster, t *task) error {
		t.plan.change("state", k.State, "deleted, with its "+english.Plural(vms(k), "VM", ""))
		t.goal = func(k *cloudapi.KubernetesCluster) bool { return k == nil }
		t.preflight = func(r *ckscheck.Reader) ([]ckscheck.Finding, error) {
			f, err := r.Delete(ctx, k)
			if err == nil && removeServices {
				err = t.planRemoval(r, f)
			}
			return ckscheck.Delete(f, removeServices), err
		}
		t.submit = func(ctx context.Context) (cloudstack.Submitted, error) {
			return s.API.DeleteKubernetesCluster(ctx, k.ID)
		}
		return nil
	})
}

// planRemoval plans to delete the Services of type LoadBalancer first.
func (t *task) planRemoval(r *ckscheck.Reader, f *ckscheck.Facts) error {
	if r.Kube == nil {
		return &report.Error{
			What: fmt.Sprintf("the Services of cluster %s cannot be removed: %s; nothing was changed", f.Cluster.Name, r.NoKube), Code: report.ExitCheckFailed,
			Fix: "run csccm where the cluster's API server answers, or leave --remove-services out: the plan then names the addresses and rules that stay",
		}
	}
	for i := range f.Services {
		if svc := &f.Services[i]; service.Handles(svc) {
			t.plan.Services = append(t.plan.Services, svc.Namespace+"/"+svc.Name)
		}
	}
	if len(t.plan.Services) > 0 {
		t.before = []engine.Step{{Name: "delete Services", Do: func(ctx context.Context, note engine.Note) error {
			return t.removeServices(ctx, r.Kube, note)
		}}}
	}
	return nil
}

// removeServices deletes the Services of the plan, and waits until they are gone: their finalizer goes when the cluster's controller,
// which ends with the cluster, has removed their rules.
func (t *task) removeServices(ctx context.Context, kube kubernetes.Interface, note engine.Note) error {
	services := t.plan.Services
	t.Progress.Step("Deleting %s of type LoadBalancer", english.Plural(len(services), "Service", ""))
	for _, name := range services {
		namespace, svc, _ := strings.Cut(name, "/")
		err := kube.CoreV1().Services(namespace).Delete(ctx, svc, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return &report.Error{What: "delete Service " + name, Err: err, Fix: "delete it with kubectl, then run the command again"}
		}
		note("deleted Service %s", name)
	}
	var left []string
	inTime, err := engine.Poll(ctx, t.Clock, pollInterval, servicesTimeout, func() (bool, error) {
		left = nil
		all, err := kube.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, &report.Error{What: "list the Services of cluster " + t.plan.Name, Err: err, Fix: "run the command again: it continues where it stopped"}
		}
		for i := range all.Items {
			if name := all.Items[i].Namespace + "/" + all.Items[i].Name; slices.Contains(services, name) {
				left = append(left, name)
			}
		}
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
}
