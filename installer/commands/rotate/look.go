// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rotate

import (
	"context"
	"slices"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/secretusers"
)

// secretsOfTypes leaves out the Secrets that no program reads keys from, which are the largest and the most.
const secretsOfTypes = "type!=helm.sh/release.v1,type!=" + string(corev1.SecretTypeServiceAccountToken)

// secretsPage is the number of Secrets that are read at once.
const secretsPage = 500

// findOthers fills the plan with what works with the old keys.
func (r *run) findOthers(ctx context.Context) error {
	for i := range r.plan.ends {
		r.hide = append(r.hide, r.plan.ends[i].APIKey)
	}
	found, err := r.look(ctx)
	if err == nil {
		r.plan.Others = *found
	}
	return err
}

// look reads what works with the old keys.
func (r *run) look(ctx context.Context) (*Others, error) {
	var keys []string
	for i := range r.plan.ends {
		keys = append(keys, r.plan.ends[i].APIKey)
	}
	f := &facts{namespace: r.secret.Namespace, secret: r.secret.Name, release: r.Release}
	var err error
	f.pods = cluster.List(ctx, &err, r.Cluster.Kube.CoreV1().Pods(f.namespace).List).Items
	if err == nil {
		err = r.copies(ctx, f, keys)
	}
	if err != nil {
		return nil, r.Cluster.Explain(err)
	}
	return f.judge(), nil
}

// copies finds the Secrets that hold the keys, and the Pods of their namespaces.
func (r *run) copies(ctx context.Context, f *facts, keys []string) error {
	everywhere, err := r.may(ctx, "list", "secrets")
	if err != nil {
		return err
	}
	namespace := metav1.NamespaceAll
	if !everywhere {
		namespace = f.namespace
		f.notLookedAt = append(f.notLookedAt, "Secrets in namespaces other than "+f.namespace)
	}
	own := func(s *corev1.Secret, key string) bool {
		return s.Namespace == f.namespace && s.Name == f.secret && key == credentials.SecretKey
	}
	o := metav1.ListOptions{FieldSelector: secretsOfTypes, Limit: secretsPage}
	for {
		page, err := r.Cluster.Kube.CoreV1().Secrets(namespace).List(ctx, o)
		if apierrors.IsForbidden(err) && !everywhere {
			f.notLookedAt = append(f.notLookedAt, "Secrets in namespace "+f.namespace)
			return nil
		}
		if err != nil {
			return err
		}
		f.copies = append(f.copies, secretusers.Copies(page.Items, keys, own)...)
		if o.Continue = page.Continue; o.Continue == "" {
			break
		}
	}
	seen := []string{f.namespace}
	for _, c := range f.copies {
		if slices.Contains(seen, c.Namespace) {
			continue
		}
		seen = append(seen, c.Namespace)
		pods, err := r.Cluster.Kube.CoreV1().Pods(c.Namespace).List(ctx, metav1.ListOptions{})
		switch {
		case apierrors.IsForbidden(err):
			f.notLookedAt = append(f.notLookedAt, "Pods in namespace "+c.Namespace)
		case err != nil:
			return err
		default:
			f.pods = append(f.pods, pods.Items...)
		}
	}
	return nil
}

// may reports whether the caller may do something in all namespaces.
func (r *run) may(ctx context.Context, verb, resource string) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Resource: resource},
	}}
	review, err := r.Cluster.Kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}

// changedAt returns when the Secret got its keys, by the clock of the API server, which also times the creation of Pods.
// Where nothing says so it is now: then all Pods are older.
func (r *run) changedAt(s *corev1.Secret) time.Time {
	if at, err := time.Parse(time.RFC3339, s.Annotations[annotationAt]); err == nil {
		return at
	}
	var latest time.Time
	for _, m := range s.ManagedFields {
		if m.Manager == fieldManager && m.Time != nil && m.Time.After(latest) {
			latest = m.Time.Time
		}
	}
	if latest.IsZero() {
		return r.Clock.Now()
	}
	return latest
}
