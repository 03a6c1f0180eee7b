// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package diff shows what applying a rendered chart would change in a cluster. It sends the API server the same
// requests that Helm would send, as dry runs, so that admission, defaults and quotas are applied before anything is
// written. Secrets are masked.
package diff

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/report"
)

// Actions of a Change.
const (
	Create = "create"
	Update = "change"
	Delete = "delete"
	Keep   = "keep"
)

// Change is what applying the manifest does to one object.
type Change struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Action    string `json:"action"`
	// Lines are the differences, one per field: "path: old -> new", "+ path: new", "- path: old".
	Lines []string `json:"lines,omitempty"`
	// Problem is the reason why the API server refuses the change; "" if it does not.
	Problem string `json:"problem,omitempty"`
	// Live is the object in the cluster; nil if it does not exist or was not read.
	Live *unstructured.Unstructured `json:"-"`
}

// Object returns kind, namespace and name of the object.
func (c *Change) Object() string {
	if c.Namespace == "" {
		return c.Kind + " " + c.Name
	}
	return c.Kind + " " + c.Namespace + "/" + c.Name
}

// Client compares manifests with one cluster.
type Client struct {
	Dynamic dynamic.Interface
	// Release is the Helm release, and Namespace its namespace.
	Release, Namespace string
}

// Manifests compares wanted, the manifest that is about to be applied, with the cluster. old is the manifest of the
// deployed release, or "" if there is none; objects of old that are not in wanted are deleted. If both are the same
// manifest, the result is what somebody has changed or deleted in the cluster.
func (c *Client) Manifests(ctx context.Context, old, wanted string) ([]Change, error) {
	before, err := objects(old)
	if err != nil {
		return nil, fmt.Errorf("manifest of the release: %w", err)
	}

	after, err := objects(wanted)
	if err != nil {
		return nil, fmt.Errorf("rendered manifest: %w", err)
	}

	known := map[string]*unstructured.Unstructured{}
	for _, it := range before {
		known[c.key(&it)] = &it
	}

	changes, err := cluster.Each(ctx, after, func(ctx context.Context, o *unstructured.Unstructured) (Change, error) {
		return c.object(ctx, known[c.key(o)], o)
	})
	for i := range after {
		delete(known, c.key(&after[i]))
	}

	for _, o := range before {
		if known[c.key(&o)] != nil {
			changes = append(changes,
				Change{Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName(), Action: Delete})
		}
	}

	return changes, err
}

// objects returns the objects of a manifest without hooks, because a release does not keep those.
func objects(manifest string) ([]unstructured.Unstructured, error) {
	all, err := Parse(manifest)
	return slices.DeleteFunc(all, func(o unstructured.Unstructured) bool {
		_, hook := o.GetAnnotations()["helm.sh/hook"]
		return hook
	}), err
}

func (c *Client) key(o *unstructured.Unstructured) string {
	return strings.Join([]string{
		o.GroupVersionKind().Group, o.GetKind(), cmp.Or(o.GetNamespace(), c.Namespace), o.GetName(),
	}, "/")
}

// clusterKinds are the cluster-scoped kinds of the chart.
var clusterKinds = []string{
	"ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
}

// resource returns the client for an object of a chart, and the object's namespace. The resource names of all kinds in
// the chart are their regular plurals.
func (c *Client) resource(o *unstructured.Unstructured) (dynamic.ResourceInterface, string) {
	guessed, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
	if slices.Contains(clusterKinds, o.GetKind()) {
		return c.Dynamic.Resource(guessed), ""
	}
	namespace := cmp.Or(o.GetNamespace(), c.Namespace)
	return c.Dynamic.Resource(guessed).Namespace(namespace), namespace
}

// dryRun are the options of a request that changes nothing.
var dryRun = []string{metav1.DryRunAll}

// object returns what applying wanted would do. old is the object in the manifest of the release, or nil.
func (c *Client) object(ctx context.Context, old, wanted *unstructured.Unstructured) (Change, error) {
	gvk := wanted.GroupVersionKind()
	resource, namespace := c.resource(wanted)
	out := Change{Kind: gvk.Kind, Namespace: namespace, Name: wanted.GetName(), Action: Update}

	var after *unstructured.Unstructured
	live, err := resource.Get(ctx, wanted.GetName(), metav1.GetOptions{})
	switch {
	case err == nil:
		out.Live = live
		after, err = patch(ctx, resource, old, wanted, live)
	case apierrors.IsNotFound(err):
		out.Action = Create
		if old != nil && reflect.DeepEqual(old.Object, wanted.Object) {
			return out, nil // somebody has deleted it; no dry run, because the API server accepted it before
		}
		_, err = resource.Create(ctx, c.marked(wanted), metav1.CreateOptions{DryRun: dryRun})
		switch {
		case missingNamespace(err, namespace) || missingRole(err, gvk):
			return out, nil // the namespace or role is created first
		case apierrors.IsNotFound(err):
			out.Problem = fmt.Sprintf("this cluster has no kind %s of %s", gvk.Kind, gvk.GroupVersion())
			return out, nil
		}
	}

	switch {
	case refused(err):
		out.Problem = err.Error()
	case err != nil:
		return out, err
	case out.Action == Update:
		if out.Lines = Lines(live, after); len(out.Lines) == 0 {
			out.Action = Keep
		}
	}

	return out, nil
}

// marked returns an object with the labels and annotations that Helm adds to objects that it creates.
func (c *Client) marked(o *unstructured.Unstructured) *unstructured.Unstructured {
	o = o.DeepCopy()
	o.SetLabels(labels.Merge(o.GetLabels(), labels.Set{"app.kubernetes.io/managed-by": "Helm"}))
	release := labels.Set{"meta.helm.sh/release-name": c.Release, "meta.helm.sh/release-namespace": c.Namespace}
	o.SetAnnotations(labels.Merge(o.GetAnnotations(), release))
	return o
}

// patch sends the three-way patch that Helm would send, as a dry run.
func patch(
	ctx context.Context, resource dynamic.ResourceInterface, old, wanted, live *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	was, err := cmp.Or(old, wanted).MarshalJSON() // Helm adopts an object that exists
	want, err2 := wanted.MarshalJSON()
	is, err3 := live.MarshalJSON()
	if err := errors.Join(err, err2, err3); err != nil {
		return nil, err
	}

	kind := types.MergePatchType
	var body []byte

	typed, err := scheme.Scheme.New(wanted.GroupVersionKind())
	if err != nil { // not one of Kubernetes' own kinds
		body, err = jsonmergepatch.CreateThreeWayJSONMergePatch(was, want, is)
	} else {
		kind = types.StrategicMergePatchType
		var lookup strategicpatch.LookupPatchMeta
		if lookup, err = strategicpatch.NewPatchMetaFromStruct(typed); err == nil {
			body, err = strategicpatch.CreateThreeWayMergePatch(was, want, is, lookup, true)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", wanted.GetKind(), wanted.GetName(), err)
	}

	if string(body) == "{}" {
		return live, nil
	}

	return resource.Patch(ctx, wanted.GetName(), kind, body, metav1.PatchOptions{DryRun: dryRun})
}

func missingNamespace(err error, namespace string) bool {
	var status apierrors.APIStatus
	return apierrors.IsNotFound(err) && errors.As(err, &status) && status.Status().Details != nil &&
		status.Status().Details.Kind == "namespaces" && status.Status().Details.Name == namespace
}

// missingRole reports whether a binding cannot be checked because its role does not exist yet. For users who are not
// administrators, the API server reads the role to check that they have all of its permissions.
func missingRole(err error, binding schema.GroupVersionKind) bool {
	return apierrors.IsNotFound(err) &&
		binding.Group == rbacv1.GroupName &&
		strings.HasSuffix(binding.Kind, "RoleBinding")
}

// refused reports whether an error is the API server's answer about the object, and not a failed request.
func refused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsConflict(err) || apierrors.IsMethodNotSupported(err)
}

// Refused returns an error if the API server refuses any of the changes.
func Refused(changes []Change) error {
	bad := slices.DeleteFunc(slices.Clone(changes), func(c Change) bool { return c.Problem == "" })
	if len(bad) == 0 {
		return nil
	}
	what := fmt.Sprintf("the API server refuses %s: %s", bad[0].Object(), bad[0].Problem)
	if n := len(bad) - 1; n > 0 {
		what += fmt.Sprintf("; and %d more", n)
	}
	return report.Refused("ask for the permission, or change the chart's values or the admission policy that the "+
		"message names", "%s", what)
}

// Parse returns the objects of a manifest; it skips empty documents.
func Parse(manifest string) (out []unstructured.Unstructured, err error) {
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), 4096)
	for {
		var o unstructured.Unstructured
		switch err := decoder.Decode(&o.Object); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, err
		case o.GetKind() != "":
			out = append(out, o)
		case len(o.Object) > 0:
			return nil, errors.New("an object has no kind")
		}
	}
}
