// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// stoppedSelector keeps a DaemonSet's Pods off every node.
	stoppedSelector = "csccm.io/stopped"
	// replicasAnnotation says how many replicas a stopped Deployment had.
	replicasAnnotation = "csccm.io/replicas-before-takeover"

	// keptAnnotation marks a predecessor that somebody wants to keep, with no Pods.
	keptAnnotation = "csccm.io/kept-by-takeover"

	stopPoll    = 250 * time.Millisecond
	stopTimeout = 2 * time.Minute
)

// stop scales a predecessor to nothing and waits until its last Pod is gone.
func (t *Taker) stop(ctx context.Context, p *Predecessor) error {
	apps := t.Kube.AppsV1()
	var err error
	switch p.Kind {
	case "Deployment":
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}},"spec":{"replicas":0}}`, replicasAnnotation, fmt.Sprint(p.Wanted))
		if p.Wanted == 0 {
			patch = []byte(`{"spec":{"replicas":0}}`)
		}
		_, err = apps.Deployments(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "csccm"})
	case "DaemonSet":
		patch := fmt.Appendf(nil, `{"spec":{"template":{"spec":{"nodeSelector":{%q:"true"}}}}}`, stoppedSelector)
		_, err = apps.DaemonSets(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "csccm"})
	default:
		return fmt.Errorf("%s cannot be stopped by csccm", p)
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stopping %s: %w", p, err)
	}
	return t.awaitNoPods(ctx, p)
}

// markKept says of the predecessors that they are to stay: an install passes over them.
func (t *Taker) markKept(ctx context.Context) error {
	apps, patch := t.Kube.AppsV1(), fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true"}}}`, keptAnnotation)
	for i := range t.Plan.Predecessors {
		p := &t.Plan.Predecessors[i]
		var err error
		switch p.Kind {
		case "Deployment":
			_, err = apps.Deployments(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "csccm"})
		case "DaemonSet":
			_, err = apps.DaemonSets(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "csccm"})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("marking %s as kept: %w", p, err)
		}
	}
	return nil
}

func (t *Taker) awaitNoPods(ctx context.Context, p *Predecessor) error {
	deadline := t.Clock.After(stopTimeout)
	for {
		pods, err := t.Kube.CoreV1().Pods(p.Namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(p.selector).String()})
		switch {
		case err != nil:
			return fmt.Errorf("waiting for the Pods of %s to end: %w", p, err)
		case len(p.selector) == 0 || len(pods.Items) == 0:
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-deadline:
			return fmt.Errorf("Pod %s of %s does not end; nothing was changed in CloudStack", pods.Items[0].Name, p) //nolint:staticcheck // Pod is a name
		case <-t.Clock.After(stopPoll):
		}
	}
}

// removal is what of a predecessor is deleted, in this order.
type removal struct {
	kind, namespace, name string
	do                    func(ctx context.Context) error
}

func (r *removal) String() string {
	if r.namespace == "" {
		return r.kind + " " + r.name
	}
	return r.kind + " " + r.namespace + "/" + r.name
}

// remove deletes what a stopped predecessor consists of: roles and bindings that served nobody else, its
// ServiceAccount, then its workload. Its Secret stays: ours may read the same.
func (t *Taker) remove(ctx context.Context, p *Predecessor) error {
	list, err := t.removals(ctx, p)
	if err != nil {
		return err
	}
	for i := range list {
		if err := list[i].do(ctx); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting %s: %w", &list[i], err)
		}
		t.info("deleted %s", &list[i])
	}
	return nil
}

func (t *Taker) removals(ctx context.Context, p *Predecessor) ([]removal, error) {
	apps, core := t.Kube.AppsV1(), t.Kube.CoreV1()
	background := metav1.DeletePropagationBackground
	gone := metav1.DeleteOptions{PropagationPolicy: &background}
	var out []removal
	add := func(kind, namespace, name string, do func(context.Context) error) {
		out = append(out, removal{kind, namespace, name, do})
	}
	// The workload goes last: by it a second run finds what the first one did not come to.
	workload := func() {
		if p.Kind == "Deployment" {
			add(p.Kind, p.Namespace, p.Name, func(ctx context.Context) error { return apps.Deployments(p.Namespace).Delete(ctx, p.Name, gone) })
		} else {
			add(p.Kind, p.Namespace, p.Name, func(ctx context.Context) error { return apps.DaemonSets(p.Namespace).Delete(ctx, p.Name, gone) })
		}
	}
	if p.HelmRelease != "" {
		// Without its records the release is gone for Helm: a later "helm uninstall" would delete the Secret.
		secrets, err := core.Secrets(p.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "owner=helm,name=" + p.HelmRelease})
		if err != nil {
			return nil, fmt.Errorf("reading the records of Helm release %s: %w", p.HelmRelease, err)
		}
		for i := range secrets.Items {
			name := secrets.Items[i].Name
			add("Secret", p.Namespace, name, func(ctx context.Context) error {
				return core.Secrets(p.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
			})
		}
	}
	if p.ServiceAccount == "" || p.ServiceAccount == "default" {
		workload()
		return out, nil
	}
	shared, err := t.sharedAccount(ctx, p)
	if err != nil {
		return nil, err
	}
	if !shared {
		rights, err := t.rights(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("reading the permissions of %s: %w", p, err)
		}
		out = append(out, rights...)
		add("ServiceAccount", p.Namespace, p.ServiceAccount, func(ctx context.Context) error {
			return core.ServiceAccounts(p.Namespace).Delete(ctx, p.ServiceAccount, metav1.DeleteOptions{})
		})
	}
	workload()
	return out, nil
}

// rights are the roles and bindings that serve the predecessor alone: a role before the bindings by which
// it is found.
func (t *Taker) rights(ctx context.Context, p *Predecessor) ([]removal, error) {
	rbac := t.Kube.RbacV1()
	clusterBindings, err := rbac.ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	bindings, err := rbac.RoleBindings(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	clusterRoles, err := rbac.ClusterRoles().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var roles, bound []removal
	users := map[rbacv1.RoleRef]int{} // bindings that stay, by cluster role
	own := map[string]bool{}
	for i := range bindings.Items {
		b := &bindings.Items[i]
		if !onlySubject(b.Subjects, p) {
			users[b.RoleRef]++
			continue
		}
		bound = append(bound, removal{"RoleBinding", b.Namespace, b.Name, func(ctx context.Context) error {
			return rbac.RoleBindings(b.Namespace).Delete(ctx, b.Name, metav1.DeleteOptions{})
		}})
	}
	for i := range clusterBindings.Items {
		b := &clusterBindings.Items[i]
		if !onlySubject(b.Subjects, p) {
			users[b.RoleRef]++
			continue
		}
		own[b.RoleRef.Name] = true
		bound = append(bound, removal{"ClusterRoleBinding", "", b.Name, func(ctx context.Context) error {
			return rbac.ClusterRoleBindings().Delete(ctx, b.Name, metav1.DeleteOptions{})
		}})
	}
	for i := range clusterRoles.Items {
		r := &clusterRoles.Items[i]
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: r.Name}
		if !own[r.Name] || users[ref] > 0 || r.Labels["kubernetes.io/bootstrapping"] != "" {
			continue
		}
		roles = append(roles, removal{"ClusterRole", "", r.Name, func(ctx context.Context) error {
			return rbac.ClusterRoles().Delete(ctx, r.Name, metav1.DeleteOptions{})
		}})
	}
	return append(roles, bound...), nil
}

// sharedAccount reports whether another workload runs under the predecessor's ServiceAccount.
func (t *Taker) sharedAccount(ctx context.Context, p *Predecessor) (bool, error) {
	deployments, err := t.Kube.AppsV1().Deployments(p.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, fmt.Errorf("looking for users of ServiceAccount %s: %w", p.ServiceAccount, err)
	}
	sets, err := t.Kube.AppsV1().DaemonSets(p.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, fmt.Errorf("looking for users of ServiceAccount %s: %w", p.ServiceAccount, err)
	}
	pods, err := t.Kube.CoreV1().Pods(p.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, fmt.Errorf("looking for users of ServiceAccount %s: %w", p.ServiceAccount, err)
	}
	uses := func(kind, name string, s *corev1.PodSpec) bool {
		return s.ServiceAccountName == p.ServiceAccount && (kind != p.Kind || name != p.Name)
	}
	for i := range deployments.Items {
		if d := &deployments.Items[i]; uses("Deployment", d.Name, &d.Spec.Template.Spec) {
			return true, nil
		}
	}
	for i := range sets.Items {
		if d := &sets.Items[i]; uses("DaemonSet", d.Name, &d.Spec.Template.Spec) {
			return true, nil
		}
	}
	for i := range pods.Items { // the predecessor's own are gone
		if uses("Pod", "", &pods.Items[i].Spec) {
			return true, nil
		}
	}
	return false, nil
}

func onlySubject(subjects []rbacv1.Subject, p *Predecessor) bool {
	if len(subjects) != 1 {
		return false
	}
	s := subjects[0]
	return s.Kind == rbacv1.ServiceAccountKind && s.Name == p.ServiceAccount && s.Namespace == p.Namespace
}
