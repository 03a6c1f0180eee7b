// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/kube/rights"
)

// reviewsAtOnce bounds the calls of the permission check.
const reviewsAtOnce = 8

func runPermissions(ctx context.Context, e *Env) Finding {
	wanted, err := decide.ParseManifest(e.Manifest)
	if err != nil {
		return decide.Unread(decide.Unreadable("the manifest", err))
	}
	needed, optional := e.requests(ctx, wanted)
	denied, err := e.denied(ctx, slices.Concat(needed, optional))
	if err != nil {
		return decide.Unread(decide.Unreadable("the permissions", err))
	}
	refused, err := e.refusedObjects(ctx, wanted)
	if err != nil {
		return decide.Unread(err)
	}
	return decide.Permissions(needed, optional, denied, refused)
}

// requests are what an installation asks for: of the chart's kinds those that it has; where it takes another
// controller's place, what a takeover asks for too.
func (e *Env) requests(ctx context.Context, wanted []unstructured.Unstructured) (needed, optional []rights.Request) {
	var kinds []rights.Kind
	for i := range wanted {
		kind, _ := meta.UnsafeGuessKindToResource(wanted[i].GroupVersionKind())
		kinds = append(kinds, rights.Kind{Group: kind.Group, Resource: kind.Resource})
	}
	commands := []string{"install"}
	if len(e.Replaces) > 0 {
		commands = append(commands, "takeover")
	}
	for _, c := range commands {
		n, o := rights.Requests(c, e.Namespace, kinds)
		needed, optional = append(needed, n...), append(optional, o...)
	}
	if _, err := e.facts.namespace.get(ctx); apierrors.IsNotFound(err) {
		needed = append(needed, rights.Request{Verb: "create", Resource: "namespaces"})
	}
	return needed, optional
}

// denied are those of the requests that the API server would not let the caller make.
func (e *Env) denied(ctx context.Context, requests []rights.Request) ([]rights.Request, error) {
	no := make([]bool, len(requests))
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(reviewsAtOnce)
	for i, r := range requests {
		group.Go(func() error {
			resource, subresource, _ := strings.Cut(r.Resource, "/")
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: r.Verb, Group: r.Group, Resource: resource, Subresource: subresource, Namespace: r.Namespace,
				},
			}}
			answer, err := e.Cluster.Kube.AuthorizationV1().SelfSubjectAccessReviews().Create(gctx, review, metav1.CreateOptions{})
			if err != nil {
				return e.Cluster.Explain(err)
			}
			no[i] = !answer.Status.Allowed
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var out []rights.Request
	for i, r := range requests {
		if no[i] && !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out, nil
}

// refusedObjects are the objects of the manifest that the API server would not take from the caller:
// admission webhooks, quotas and policies refuse what the caller's rights allow.
func (e *Env) refusedObjects(ctx context.Context, wanted []unstructured.Unstructured) ([]Object, error) {
	if len(wanted) == 0 || e.Cluster.REST == nil {
		return nil, nil
	}
	client, err := e.objects()
	if err != nil {
		return nil, err
	}
	reasons := make([]string, len(wanted))
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(objectsAtOnce)
	for i := range wanted {
		group.Go(func() error {
			_, err := client.dryRun(gctx, &wanted[i])
			if err == nil || apierrors.IsNotFound(err) { // the namespace is still to be made
				return nil
			}
			if reasons[i] = decide.ReasonOf(err); reasons[i] == "" {
				return decide.Unreadable("the answer to "+wanted[i].GetKind()+" "+wanted[i].GetName(), e.Cluster.Explain(err))
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var out []Object
	for i, why := range reasons {
		if why != "" {
			out = append(out, decide.ObjectOf(&wanted[i], e.Namespace, "%s", why))
		}
	}
	return out, nil
}
