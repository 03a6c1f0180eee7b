// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/kube/cluster"
)

const (
	// stoppedSelector keeps a DaemonSet's Pods off every node.
	stoppedSelector = "csccm.io/stopped"
	// replicasAnnotation says how many replicas a stopped Deployment had.
	replicasAnnotation = "csccm.io/replicas-before-takeover"

	// startingAnnotation marks a predecessor that an undo has started and not yet seen lead: an undo that goes on waits for it.
	startingAnnotation = "csccm.io/started-by-undo"
	// keptAnnotation marks a predecessor that somebody wants to keep, with no Pods.
	keptAnnotation = "csccm.io/kept-by-takeover"

	stopPoll    = 250 * time.Millisecond
	stopTimeout = 2 * time.Minute
)

var byCSCCM = metav1.PatchOptions{FieldManager: "csccm"}

// patch changes a workload: one body for a Deployment, another for a DaemonSet.
func (t *Taker) patch(ctx context.Context, p *Predecessor, deployment, daemonSet string) error {
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
func (t *Taker) stop(ctx context.Context, p *Predecessor) error {
	before := ""
	if p.Wanted > 0 {
		before = fmt.Sprintf(`"metadata":{"annotations":{%q:"%d"}},`, replicasAnnotation, p.Wanted)
	}
	err := t.patch(ctx, p, "{"+before+`"spec":{"replicas":0}}`, fmt.Sprintf(`{"spec":{"template":{"spec":{"nodeSelector":{%q:"true"}}}}}`, stoppedSelector))
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
	mark := fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, keptAnnotation)
	for i := range t.Plan.Predecessors {
		p := &t.Plan.Predecessors[i]
		if err := t.patch(ctx, p, mark, mark); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("marking %s as kept: %w", p, err)
		}
	}
	return nil
}

func (t *Taker) awaitNoPods(ctx context.Context, p *Predecessor) error {
	if len(p.selector) == 0 {
		return nil
	}
	var left []corev1.Pod
	ended, err := engine.Poll(ctx, t.Clock, stopPoll, stopTimeout, func() (bool, error) {
		pods, err := t.Kube.CoreV1().Pods(p.Namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(p.selector).String()})
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

// object is what of a predecessor is deleted.
type object struct{ kind, namespace, name string }

func (o object) String() string {
	if o.namespace == "" {
		return o.kind + " " + o.name
	}
	return o.kind + " " + o.namespace + "/" + o.name
}

// delete deletes an object. One that is gone already is no error.
func (t *Taker) delete(ctx context.Context, o object) error {
	apps, core, rbac := t.Kube.AppsV1(), t.Kube.CoreV1(), t.Kube.RbacV1()
	with := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
	var err error
	switch o.kind {
	case "Deployment":
		err = apps.Deployments(o.namespace).Delete(ctx, o.name, with)
	case "DaemonSet":
		err = apps.DaemonSets(o.namespace).Delete(ctx, o.name, with)
	case "Secret":
		err = core.Secrets(o.namespace).Delete(ctx, o.name, with)
	case "ServiceAccount":
		err = core.ServiceAccounts(o.namespace).Delete(ctx, o.name, with)
	case "RoleBinding":
		err = rbac.RoleBindings(o.namespace).Delete(ctx, o.name, with)
	case "ClusterRoleBinding":
		err = rbac.ClusterRoleBindings().Delete(ctx, o.name, with)
	case "ClusterRole":
		err = rbac.ClusterRoles().Delete(ctx, o.name, with)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting %s: %w", o, err)
	}
	return nil
}

// remove deletes what a stopped predecessor consists of: roles and bindings that served nobody else, its
// ServiceAccount, then its workload. Its Secret stays: ours may read the same.
func (t *Taker) remove(ctx context.Context, p *Predecessor) error {
	list, err := t.objects(ctx, p)
	if err != nil {
		return err
	}
	for _, o := range list {
		if err := t.delete(ctx, o); err != nil {
			return err
		}
		t.Progress.Info("deleted %s", o)
	}
	return nil
}

// objects are those of a predecessor, in the order in which they are deleted.
func (t *Taker) objects(ctx context.Context, p *Predecessor) ([]object, error) {
	var out []object
	if p.HelmRelease != "" {
		// Without its records the release is gone for Helm: a later "helm uninstall" would delete the Secret.
		secrets, err := t.Kube.CoreV1().Secrets(p.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "owner=helm,name=" + p.HelmRelease})
		if err != nil {
			return nil, fmt.Errorf("reading the records of Helm release %s: %w", p.HelmRelease, err)
		}
		for i := range secrets.Items {
			out = append(out, object{"Secret", p.Namespace, secrets.Items[i].Name})
		}
	}
	if p.ServiceAccount != "" && p.ServiceAccount != "default" {
		shared, err := t.sharedAccount(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("looking for users of ServiceAccount %s: %w", p.ServiceAccount, err)
		}
		if !shared {
			rights, err := t.rights(ctx, p)
			if err != nil {
				return nil, fmt.Errorf("reading the permissions of %s: %w", p, err)
			}
			out = append(append(out, rights...), object{"ServiceAccount", p.Namespace, p.ServiceAccount})
		}
	}
	// The workload is deleted last: a second run finds the other objects by it.
	return append(out, object{p.Kind, p.Namespace, p.Name}), nil
}

// rights are the roles and bindings that serve the predecessor alone: a role before the bindings by which
// it is found.
func (t *Taker) rights(ctx context.Context, p *Predecessor) ([]object, error) {
	rbac := t.Kube.RbacV1()
	var err error
	clusterBindings := cluster.List(ctx, &err, rbac.ClusterRoleBindings().List).Items
	bindings := cluster.List(ctx, &err, rbac.RoleBindings(metav1.NamespaceAll).List).Items
	clusterRoles := cluster.List(ctx, &err, rbac.ClusterRoles().List).Items
	if err != nil {
		return nil, err
	}
	var roles, bound []object
	own, others := map[string]bool{}, map[string]bool{} // cluster roles that are bound to the predecessor, and to others
	sort := func(binding object, subjects []rbacv1.Subject, role rbacv1.RoleRef) {
		alone := len(subjects) == 1 && subjects[0].Kind == rbacv1.ServiceAccountKind &&
			subjects[0].Name == p.ServiceAccount && subjects[0].Namespace == p.Namespace
		if alone {
			bound = append(bound, binding)
		}
		if role.Kind == "ClusterRole" {
			own[role.Name] = own[role.Name] || alone && binding.namespace == ""
			others[role.Name] = others[role.Name] || !alone
		}
	}
	for i := range bindings {
		b := &bindings[i]
		sort(object{"RoleBinding", b.Namespace, b.Name}, b.Subjects, b.RoleRef)
	}
	for i := range clusterBindings {
		b := &clusterBindings[i]
		sort(object{"ClusterRoleBinding", "", b.Name}, b.Subjects, b.RoleRef)
	}
	for i := range clusterRoles {
		if r := &clusterRoles[i]; own[r.Name] && !others[r.Name] && r.Labels["kubernetes.io/bootstrapping"] == "" {
			roles = append(roles, object{"ClusterRole", "", r.Name})
		}
	}
	return append(roles, bound...), nil
}

// sharedAccount reports whether another workload runs under the predecessor's ServiceAccount.
func (t *Taker) sharedAccount(ctx context.Context, p *Predecessor) (bool, error) {
	all, err := workloads(ctx, t.Kube, p.Namespace)
	pods := cluster.List(ctx, &err, t.Kube.CoreV1().Pods(p.Namespace).List).Items // the predecessor's own are gone
	return slices.ContainsFunc(all, func(w workload) bool {
		return w.Pod.ServiceAccountName == p.ServiceAccount && (w.Kind != p.Kind || w.Meta.Name != p.Name)
	}) || slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return pod.Spec.ServiceAccountName == p.ServiceAccount }), err
}
