// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/csccm/csccm/installer/commands/cks/preflight"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/plural"
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

// planDelete decides about a deletion.
func planDelete(k *cloudstack.KubernetesCluster) (*Plan, error) {
	if err := managed(k, "delete"); err != nil {
		return nil, err
	}
	p := newPlan("delete", k)
	p.change("state", k.State, "deleted, with its "+plural.Count(max(len(k.Nodes), k.ControlNodes+k.Size+k.EtcdNodes), "VM"))
	return p, p.running(k, "Destroying")
}

// Delete deletes a cluster, its VMs, and the network if CloudStack created that for it. In any other network the rules and
// addresses of Services of type LoadBalancer would stay: they are removed before, or named.
func (s *Service) Delete(ctx context.Context, name string, o DeleteOptions) error {
	k, err := s.cluster(ctx, name)
	if err != nil {
		return err
	}
	p, err := planDelete(k)
	if err != nil {
		return err
	}
	op := &task{
		plan: p, ignore: o.Ignore, goal: func(k *cloudstack.KubernetesCluster) bool { return k == nil },
		submit: func(ctx context.Context) (cloudstack.Submitted, error) {
			return s.API.DeleteKubernetesCluster(ctx, k.ID)
		},
	}
	if p.Action == ActionChange {
		if err := s.planLeftovers(ctx, k, o, op); err != nil {
			return err
		}
	}
	return s.run(ctx, op)
}

// planLeftovers runs the preflight, and plans to remove the Services' load balancers where that is wanted.
func (s *Service) planLeftovers(ctx context.Context, k *cloudstack.KubernetesCluster, o DeleteOptions, op *task) error {
	r := s.reader(ctx, k)
	f, err := r.Delete(ctx, k)
	if err != nil {
		return explain("look at what would stay behind", err)
	}
	remove := o.RemoveServices
	living := preflight.Leftovers(f)
	living = slices.DeleteFunc(living, func(l preflight.Leftover) bool { return !l.Living })
	network := slices.IndexFunc(f.Networks, func(n cloudstack.Network) bool { return n.ID == k.NetworkID })
	supplied := network < 0 || !preflight.OwnNetwork(k, &f.Networks[network])
	switch {
	case remove && r.Kube == nil:
		return &report.Error{
			What: fmt.Sprintf("the Services of cluster %s cannot be removed: %s; nothing was changed", k.Name, r.NoKube), Code: report.ExitCheckFailed,
			Fix: "run csccm where the cluster's API server answers, or leave --remove-services out: the plan then names the addresses and rules that stay",
		}
	case !remove && supplied && len(living) > 0 && s.Interactive && !s.Yes && !s.DryRun && !s.Structured():
		remove, err = s.Prompt.Confirm(ctx, prompt.Question{
			Message: fmt.Sprintf("Delete the cluster's %s of type LoadBalancer first, with their rules and addresses", plural.Count(len(living), "Service")),
			Flag:    "--remove-services", Default: "yes",
			Help: "network " + k.NetworkName + " stays when the cluster is deleted, and so does what is in it",
		})
		if err != nil {
			return err
		}
	}
	op.plan.Findings = append(op.plan.Findings, preflight.Delete(f, preflight.DeleteRequest{RemoveServices: remove})...)
	if !remove {
		return nil
	}
	for _, service := range f.Services {
		op.plan.Services = append(op.plan.Services, service.Namespace+"/"+service.Name)
	}
	slices.Sort(op.plan.Services)
	var rules []string // their ids
	for i := range living {
		for _, rule := range living[i].Balancers {
			rules = append(rules, rule.ID)
		}
	}
	if len(op.plan.Services) > 0 {
		op.before = []engine.Step{{Name: "delete Services", Do: func(ctx context.Context, note engine.Note) error {
			return s.removeServices(ctx, &serviceRemoval{r.Kube, k, op.plan.Services, rules}, note)
		}}}
	}
	return nil
}

// serviceRemoval is what removeServices removes: Services as namespace/name, and with them rules by their ids.
type serviceRemoval struct {
	kube            kubernetes.Interface
	cluster         *cloudstack.KubernetesCluster
	services, rules []string
}

// removeServices deletes Services, and waits until they and their rules are gone: the cluster's controller, which removes
// the rules, ends with the cluster.
func (s *Service) removeServices(ctx context.Context, r *serviceRemoval, note engine.Note) error {
	s.Progress.Step("Deleting %s of type LoadBalancer", plural.Count(len(r.services), "Service"))
	for _, name := range r.services {
		namespace, service, _ := strings.Cut(name, "/")
		err := r.kube.CoreV1().Services(namespace).Delete(ctx, service, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return &report.Error{What: "delete Service " + name, Err: err, Fix: "delete it with kubectl, then run the command again"}
		}
		note("deleted Service %s", name)
	}
	var left []string
	inTime, err := engine.Poll(ctx, s.Clock, pollInterval, servicesTimeout, func() (_ bool, err error) {
		left, err = s.balanced(ctx, r)
		return err == nil && len(left) == 0, err
	})
	if err != nil {
		return err
	}
	if !inTime {
		return &report.Error{
			What: fmt.Sprintf("cluster %s was not deleted: of its Services these are left after %s: %s", r.cluster.Name, servicesTimeout, strings.Join(left, ", ")),
			Fix:  "look at the controller with csccm doctor; without --remove-services the cluster is deleted, and they stay in CloudStack",
		}
	}
	s.Progress.Done("their rules are gone")
	return nil
}

// balanced names what is left of the Services and their rules.
func (s *Service) balanced(ctx context.Context, r *serviceRemoval) ([]string, error) {
	all, err := r.kube.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, &report.Error{What: "list the Services of cluster " + r.cluster.Name, Err: err, Fix: "run the command again: it continues where it stopped"}
	}
	var left []string
	for i := range all.Items {
		service := &all.Items[i]
		if name := service.Namespace + "/" + service.Name; service.Spec.Type == corev1.ServiceTypeLoadBalancer && slices.Contains(r.services, name) {
			left = append(left, "Service "+name)
		}
	}
	rules, err := s.API.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{NetworkID: r.cluster.NetworkID, ProjectID: s.Project})
	if err != nil {
		return nil, explain("list the rules of network "+r.cluster.NetworkName, err)
	}
	for _, rule := range rules {
		if slices.Contains(r.rules, rule.ID) {
			left = append(left, fmt.Sprintf("rule %s on %s", rule.Name, rule.PublicIP))
		}
	}
	return left, nil
}
