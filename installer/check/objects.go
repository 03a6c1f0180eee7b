// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/engine/diff"
	"github.com/csccm/csccm/installer/kube/rights"
	"github.com/csccm/csccm/installer/storage"
)

// helmManager is the field manager that Helm writes as.
const helmManager = "helm"

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

// objects reads objects of any kind, those of a chart's manifest, by namespace and name.
type objects struct {
	client    dynamic.Interface
	explain   func(error) error
	namespace string // of objects that name none
}

func (e *Env) objects() (*objects, error) {
	if e.Cluster.REST == nil {
		return nil, errNoConnection
	}
	client, err := dynamic.NewForConfig(e.Cluster.REST)
	if err != nil {
		return nil, e.Cluster.Explain(err)
	}
	return &objects{client, e.Cluster.Explain, e.Namespace}, nil
}

func (r *objects) of(o *unstructured.Unstructured) dynamic.ResourceInterface {
	// A chart holds kinds whose plurals follow the rule.
	resource, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
	if ns := decide.NamespaceOf(o, r.namespace); ns != "" {
		return r.client.Resource(resource).Namespace(ns)
	}
	return r.client.Resource(resource)
}

// get reads the object as it is in the cluster; nil when it is not there.
func (r *objects) get(ctx context.Context, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	live, err := r.of(o).Get(ctx, o.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // absence is an answer
	case err != nil:
		return nil, decide.Unreadable(o.GetKind()+" "+o.GetName(), r.explain(err))
	}
	return live, nil
}

// dryRun asks the API server what the object would become if it were applied, admission and all.
// Nothing is changed.
func (r *objects) dryRun(ctx context.Context, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	body, err := json.Marshal(o.Object)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return r.of(o).Patch(ctx, o.GetName(), types.ApplyPatchType, body, metav1.PatchOptions{
		DryRun: []string{metav1.DryRunAll}, FieldManager: helmManager, Force: ptr.To(true),
	})
}

func runConflicts(ctx context.Context, e *Env) Finding {
	if e.Manifest == "" {
		return decide.Skipf("no manifest is about to be applied")
	}
	client, err := e.objects()
	if err != nil {
		return decide.Skipf("%v", err)
	}
	wanted, err := diff.Parse(e.Manifest)
	if err != nil {
		return decide.Unread(decide.Unreadable("the manifest", err))
	}
	there, err := parallel(ctx, wanted, client.get)
	if err != nil {
		return decide.Unread(err)
	}
	return decide.Conflicts(there, e.Namespace, e.Release, storage.Release)
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
		content, err := records[i].Content()
		if err != nil {
			return true
		}
		manifest = content.Manifest
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
func deployed(records []decide.ReleaseRecord) int {
	return slices.IndexFunc(records, func(r decide.ReleaseRecord) bool { return r.Status == "deployed" })
}

func runDrift(ctx context.Context, e *Env) Finding {
	return judge(ctx, e, releasesFact, func(records []decide.ReleaseRecord) Finding {
		i := deployed(records)
		if i < 0 {
			return decide.Skipf("no revision of release %s is deployed", e.Release)
		}
		record := records[i]
		content, err := record.Content()
		if err != nil {
			return decide.Unread(decide.Unreadable("revision "+fmt.Sprint(record.Revision), err))
		}
		wanted, err := diff.Parse(content.Manifest)
		if err != nil {
			return decide.Unread(decide.Unreadable("the release's manifest", err))
		}
		client, err := e.objects()
		if err != nil {
			return decide.Skipf("%v", err)
		}
		drifts, err := parallel(ctx, wanted, func(ctx context.Context, o *unstructured.Unstructured) (decide.ObjectDrift, error) {
			return compare(ctx, client, o)
		})
		if err != nil {
			return decide.Unread(err)
		}
		return decide.Drift(record.Revision, drifts, e.Namespace)
	})
}

func compare(ctx context.Context, client *objects, wanted *unstructured.Unstructured) (decide.ObjectDrift, error) {
	out := decide.ObjectDrift{Object: *wanted}
	live, err := client.get(ctx, wanted)
	if err != nil || live == nil {
		out.Absent = err == nil
		return out, err
	}
	would, err := client.dryRun(ctx, wanted)
	if out.Refused = decide.ReasonOf(err); err != nil && out.Refused == "" || apierrors.IsForbidden(err) && !strings.Contains(err.Error(), "admission") {
		return out, decide.Unreadable("the difference of "+wanted.GetKind()+" "+wanted.GetName(), client.explain(err))
	}
	if err == nil {
		out.Fields = diff.Lines(live, would)
	}
	return out, nil
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
	refused, err := parallel(ctx, wanted, func(ctx context.Context, o *unstructured.Unstructured) (Object, error) {
		_, err := client.dryRun(ctx, o)
		if err == nil || apierrors.IsNotFound(err) { // the namespace is still to be made
			return Object{}, nil
		}
		if why := decide.ReasonOf(err); why != "" {
			return decide.ObjectOf(o, e.Namespace, "%s", why), nil
		}
		return Object{}, decide.Unreadable("the answer to "+o.GetKind()+" "+o.GetName(), e.Cluster.Explain(err))
	})
	return slices.DeleteFunc(refused, func(o Object) bool { return o.Name == "" }), err
}
