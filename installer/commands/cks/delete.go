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
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// DeleteOptions are what csccm cks delete is asked for.
type DeleteOptions struct {
	// RemoveServices deletes the Services of type LoadBalancer first, so that the cluster's controller removes their rules
	// and addresses.
	RemoveServices bool
	Ignore         []string
}

// servicesTimeout is how long the controller may take to remove the load balancers of deleted Services.
const servicesTimeout = 5 * time.Minute

// Delete deletes a cluster, its VMs, and the network if CloudStack created that for it. In any other network the rules and
// addresses of Services of type LoadBalancer would stay: they are removed before, or named.
func (s *Service) Delete(ctx context.Context, name string, o DeleteOptions) error {
	return s.on(ctx, opDelete, name, func(k *cloudapi.KubernetesCluster, t *task) error {
		t.plan.change("state", k.State, "deleted, with its "+english.Plural(vms(k), "VM", ""))
		t.ignore, t.goal = o.Ignore, func(k *cloudapi.KubernetesCluster) bool { return k == nil }
		t.preflight = func() ([]ckscheck.Finding, error) { return s.leftovers(ctx, k, o.RemoveServices, t) }
		t.submit = func(ctx context.Context) (cloudstack.Submitted, error) {
			return s.API.DeleteKubernetesCluster(ctx, k.ID)
		}
		return nil
	})
}

// leftovers is the preflight of a deletion. It plans to remove the Services' load balancers where that is wanted.
func (s *Service) leftovers(ctx context.Context, k *cloudapi.KubernetesCluster, remove bool, t *task) ([]ckscheck.Finding, error) {
	r := s.reader(ctx, k)
	f, err := r.Delete(ctx, k)
	if err != nil {
		return nil, err
	}
	living := slices.DeleteFunc(ckscheck.Leftovers(f), func(l ckscheck.Leftover) bool { return !l.Living })
	services := ckscheck.Balanced(f.Services)
	switch {
	case remove && r.Kube == nil:
		return nil, &report.Error{
			What: fmt.Sprintf("the Services of cluster %s cannot be removed: %s; nothing was changed", k.Name, r.NoKube), Code: report.ExitCheckFailed,
			Fix: "run csccm where the cluster's API server answers, or leave --remove-services out: the plan then names the addresses and rules that stay",
		}
	case !remove && !f.OwnNetwork() && len(living) > 0 && s.Interactive && !s.Yes && !s.DryRun && !s.Structured():
		remove, err = s.Confirm(ctx, prompt.Question{
			Message: fmt.Sprintf("Delete the cluster's %s of type LoadBalancer first, with their rules and addresses", english.Plural(len(services), "Service", "")),
			Flag:    "--remove-services", Default: "yes",
			Help: "network " + k.NetworkName + " stays when the cluster is deleted, and so does what is in it",
		})
		if err != nil {
			return nil, err
		}
	}
	if !remove {
		return ckscheck.Delete(f, false), nil
	}
	var rules []string // ids
	for i := range living {
		for _, rule := range living[i].Balancers {
			rules = append(rules, rule.ID)
		}
	}
	for _, svc := range services {
		t.plan.Services = append(t.plan.Services, svc.Namespace+"/"+svc.Name)
	}
	if len(services) > 0 {
		t.before = []engine.Step{{Name: "delete Services", Do: func(ctx context.Context, note engine.Note) error {
			return s.removeServices(ctx, r.Kube, k, t.plan.Services, rules, note)
		}}}
	}
	return ckscheck.Delete(f, true), nil
}

// removeServices deletes Services, given as namespace/name, and waits until they and their rules are gone: the cluster's
// controller, which removes the rules, ends with the cluster.
func (s *Service) removeServices(ctx context.Context, kube kubernetes.Interface, k *cloudapi.KubernetesCluster, services, rules []string, note engine.Note) error {
	s.Progress.Step("Deleting %s of type LoadBalancer", english.Plural(len(services), "Service", ""))
	for _, name := range services {
		namespace, service, _ := strings.Cut(name, "/")
		err := kube.CoreV1().Services(namespace).Delete(ctx, service, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return &report.Error{What: "delete Service " + name, Err: err, Fix: "delete it with kubectl, then run the command again"}
		}
		note("deleted Service %s", name)
	}
	var left []string
	inTime, err := engine.Poll(ctx, s.Clock, pollInterval, servicesTimeout, func() (bool, error) {
		left = nil
		all, err := kube.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, &report.Error{What: "list the Services of cluster " + k.Name, Err: err, Fix: "run the command again: it continues where it stopped"}
		}
		for i := range all.Items {
			if name := all.Items[i].Namespace + "/" + all.Items[i].Name; slices.Contains(services, name) {
				left = append(left, "Service "+name)
			}
		}
		now, err := s.API.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{NetworkID: k.NetworkID, ProjectID: s.Project})
		for _, rule := range now {
			if slices.Contains(rules, rule.ID) {
				left = append(left, fmt.Sprintf("rule %s on %s", rule.Name, rule.PublicIP))
			}
		}
		return len(left) == 0, explain("list the rules of network "+k.NetworkName, err)
	})
	if err == nil && !inTime {
		err = &report.Error{
			What: fmt.Sprintf("cluster %s was not deleted: of its Services these are left after %s: %s", k.Name, servicesTimeout, strings.Join(left, ", ")),
			Fix:  "look at the controller with csccm doctor; without --remove-services the cluster is deleted, and they stay in CloudStack",
		}
	}
	if err == nil {
		s.Progress.Done("their rules are gone")
	}
	return err
}
