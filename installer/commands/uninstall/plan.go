// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/check/tenants"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/rollout"
	"github.com/csccm/csccm/installer/kube/secretusers"
)

// makePlan reads what is there. The order is that of the steps: only when the Pods have ended may others take over.
func (u *run) makePlan(ctx context.Context) error {
	r, err := u.Find(ctx)
	if err != nil {
		return err
	}
	if r == nil {
		err = u.notByHelm(ctx)
	} else {
		u.deployed = true
		u.delete(fmt.Sprintf("Helm release %s/%s, chart %s", u.Cluster.Namespace, u.Release, r.ChartVersion), u.deleteRelease)
	}
	if err != nil {
		return err
	}
	u.steps = append(u.steps, engine.Step{Name: "Pods", ReadOnly: true, Do: u.awaitPods})
	for _, read := range []func(context.Context) error{u.services, u.cloud, u.credentials, u.others, u.nodes} {
		if err := read(ctx); err != nil {
			return u.Cluster.Explain(err)
		}
	}
	if len(u.steps) == 1 { // nothing to delete
		u.steps = nil
		u.plan.Add("delete", "nothing: there is nothing to remove", nil)
	}
	return nil
}

// notByHelm is the error of a controller that Helm knows nothing of; nil without one.
func (u *run) notByHelm(ctx context.Context) error {
	w, _, err := u.Waiter().Read(ctx)
	switch {
	case errors.Is(err, rollout.ErrNoWorkload):
		return nil
	case err != nil:
		return err
	}
	return report.Refused("delete what made it: the application of GitOps, or csccm template | kubectl delete -f -; then csccm uninstall removes the rest",
		"%s was not made by Helm", w)
}

func (u *run) services(ctx context.Context) (err error) {
	held := 0
	for _, s := range cluster.List(ctx, &err, u.Cluster.Kube.CoreV1().Services(metav1.NamespaceAll).List).Items {
		if s.Spec.Type != corev1.ServiceTypeLoadBalancer || s.Spec.LoadBalancerClass != nil { // a class names another controller
			continue
		}
		if slices.Contains(s.Finalizers, Finalizer) {
			held++
		}
		u.balanced = append(u.balanced, s)
		u.keep("load balancer of Service %s/%s in CloudStack: address %s with its rules", s.Namespace, s.Name, cmp.Or(strings.Join(tenants.Ingress(&s), ", "), "none shown"))
	}
	if held > 0 {
		u.warn("finalizer %s of %s: without a controller nobody can delete them; kubectl edit service removes it", Finalizer, english.Plural(held, "Service", ""))
	}
	return err
}

func (u *run) credentials(ctx context.Context) error {
	core, ns := u.Cluster.Kube.CoreV1(), u.Cluster.Namespace
	maps, secrets := core.ConfigMaps(ns), core.Secrets(ns)
	_, noSecret := secrets.Get(ctx, credentials.SecretName, metav1.GetOptions{})
	_, noCA := maps.Get(ctx, credentials.CAConfigMap, metav1.GetOptions{})
	for _, c := range []struct {
		what, name string
		err        error
		ends       bool // it is of no more use
		delete     func(ctx context.Context, name string, o metav1.DeleteOptions) error
	}{
		{"Secret", credentials.SecretName, noSecret, u.ends, secrets.Delete},
		{"ConfigMap", credentials.CAConfigMap, noCA, false, maps.Delete},
	} {
		text := fmt.Sprintf("%s %s/%s", c.what, ns, c.name)
		switch {
		case apierrors.IsNotFound(c.err):
		case c.err != nil:
			return c.err
		case u.DeleteSecret || c.ends:
			u.secret = u.secret || c.what == "Secret"
			u.delete(text, func(ctx context.Context) error {
				err := c.delete(ctx, c.name, metav1.DeleteOptions{})
				if apierrors.IsNotFound(err) {
					return nil
				}
				return err
			})
		default:
			u.keep("%s (--delete-secret removes it)", text)
		}
	}
	return nil
}

// others refuses to take credentials away that somebody else works with: Pods that read the Secret, and Secrets with the same
// keys where the keys end.
func (u *run) others(ctx context.Context) error {
	if !u.secret && !u.ends {
		return nil
	}
	values := []string{}
	if u.ends {
		values = append(values, u.owner.Config.APIKey)
	}
	found, err := secretusers.Find(ctx, u.Cluster.Kube, u.Cluster.Namespace, credentials.SecretName, credentials.SecretKey, values)
	if err != nil {
		return err
	}
	var who []string
	for i := range found.Users {
		if user := &found.Users[i]; slices.ContainsFunc(user.Pods, func(pod *corev1.Pod) bool { return !cluster.InRelease(pod.Labels, u.Release) }) {
			who = append(who, user.String())
		}
	}
	for i := range found.Copies {
		if c := &found.Copies[i]; c.Namespace != u.Cluster.Namespace || c.Name != credentials.SecretName {
			who = append(who, "Secret "+c.String())
		}
	}
	for _, what := range found.NotRead {
		u.warn("you may not list %s, which may hold the same keys, which end", what)
	}
	if len(who) == 0 {
		return nil
	}
	return report.Refused("give them keys of their own first, or leave out --delete-secret and --delete-user",
		"others work with these credentials: %s", strings.Join(who, ", "))
}

func (u *run) nodes(ctx context.Context) (err error) {
	list := cluster.List(ctx, &err, u.Cluster.Kube.CoreV1().Nodes().List).Items
	if err != nil {
		return err
	}
	u.keep("provider IDs, labels and addresses of the nodes")
	distribution, _, err := u.Cluster.Distribution(ctx, list)
	if distribution == cluster.CKS {
		u.warn("CloudStack's Kubernetes Service installs its own provider again as soon as no Pod is named cloud-controller-manager")
	}
	return err
}
