// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"errors"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/engine/diff"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/kube/rights"
)

// atOnce bounds the calls of one check.
const atOnce = 8

// parallel calls do for each element and returns the results in the same order.
func parallel[T, R any](ctx context.Context, in []T, do func(context.Context, *T) (R, error)) ([]R, error) {
	out := make([]R, len(in))
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range in {
		group.Go(func() (err error) {
			out[i], err = do(gctx, &in[i])
			return err
		})
	}
	return out, group.Wait()
}

var errNoConnection = errors.New("no connection for objects of any kind")

// diff compares manifests with the cluster.
func (e *Env) diff() (*diff.Client, error) {
	if e.Cluster.REST == nil {
		return nil, errNoConnection
	}
	client, err := dynamic.NewForConfig(e.Cluster.REST)
	return &diff.Client{Dynamic: client, Release: e.Release, Namespace: e.Namespace}, e.Cluster.Explain(err)
}

func runConflicts(ctx context.Context, e *Env) Finding {
	if e.Manifest == "" {
		return decide.Skipf("no manifest is about to be applied")
	}
	client, err := e.diff()
	if err != nil {
		return decide.Skipf("%v", err)
	}
	there, err := client.Live(ctx, e.Manifest)
	if err != nil {
		return decide.Unread(decide.Unreadable("the chart's objects", e.Cluster.Explain(err)))
	}
	return decide.Conflicts(there, e.Namespace, e.Release)
}

// hostNetwork reports whether Pods of the manifest that is about to be applied, or of the deployed release, use the host's network. It is
// true where neither is known, as by the chart's default.
func (e *Env) hostNetwork(ctx context.Context) bool {
	manifest := e.Manifest
	if manifest == "" {
		records, err := releasesFact.get(ctx, e)
		i := deployed(records)
		if err != nil || i < 0 {
			return true
		}
		manifest = records[i].Manifest
	}
	objects, err := diff.Parse(manifest)
	if err != nil {
		return true
	}
	workloads := 0
	for i := range objects {
		if kind := objects[i].GetKind(); kind != "Deployment" && kind != "DaemonSet" {
			continue
		}
		workloads++
		if uses, _, err := unstructured.NestedBool(objects[i].Object, "spec", "template", "spec", "hostNetwork"); uses || err != nil {
			return true
		}
	}
	return workloads == 0
}

// deployed returns the index of the revision that is deployed; -1 without one.
func deployed(records []helm.Release) int {
	return slices.IndexFunc(records, func(r helm.Release) bool { return r.Status == "deployed" })
}

func runDrift(ctx context.Context, e *Env) Finding {
	return judge(ctx, e, releasesFact, func(records []helm.Release) Finding {
		i := deployed(records)
		if i < 0 {
			return decide.Skipf("no revision of release %s is deployed", e.Release)
		}
		client, err := e.diff()
		if err != nil {
			return decide.Skipf("%v", err)
		}
		changes, err := client.Drift(ctx, records[i].Manifest)
		if err != nil {
			return decide.Unread(decide.Unreadable("the release's objects", e.Cluster.Explain(err)))
		}
		return decide.Drift(records[i].Revision, changes)
	})
}

func runPermissions(ctx context.Context, e *Env) Finding {
	wanted, err := diff.Parse(e.Manifest)
	if err != nil {
		return decide.Unread(decide.Unreadable("the manifest", err))
	}
	needed, optional := e.requests(ctx, wanted)
	denied, err := e.denied(ctx, slices.Concat(needed, optional))
	if err != nil {
		return decide.Unread(decide.Unreadable("the permissions", err))
	}
	refused, err := e.refusedObjects(ctx)
	if err != nil {
		return decide.Unread(decide.Unreadable("the API server's answer to the chart", e.Cluster.Explain(err)))
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
	if _, err := namespaceFact.get(ctx, e); apierrors.IsNotFound(err) {
		needed = append(needed, rights.Request{Verb: "create", Resource: "namespaces"})
	}
	return needed, optional
}

// denied are those of the requests that the API server would not let the caller make.
func (e *Env) denied(ctx context.Context, requests []rights.Request) ([]rights.Request, error) {
	allowed, err := parallel(ctx, requests, func(ctx context.Context, r *rights.Request) (bool, error) {
		resource, subresource, _ := strings.Cut(r.Resource, "/")
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: r.Verb, Group: r.Group, Resource: resource, Subresource: subresource, Namespace: r.Namespace,
			},
		}}
		answer, err := e.Cluster.Kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return err == nil && answer.Status.Allowed, e.Cluster.Explain(err)
	})
	var out []rights.Request
	for i, r := range requests {
		if !allowed[i] && !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out, err
}

// refusedObjects are the objects of the manifest that the API server would not take from the caller: admission webhooks,
// quotas and policies refuse what the caller's rights allow.
func (e *Env) refusedObjects(ctx context.Context) ([]Object, error) {
	if e.Manifest == "" || e.Cluster.REST == nil {
		return nil, nil
	}
	client, err := e.diff()
	if err != nil {
		return nil, err
	}
	changes, err := client.Drift(ctx, e.Manifest)
	var out []Object
	for i := range changes {
		if c := &changes[i]; c.Problem != "" {
			out = append(out, Object{Kind: c.Kind, Namespace: c.Namespace, Name: c.Name, Message: decide.OneLine(c.Problem)})
		}
	}
	return out, err
}
