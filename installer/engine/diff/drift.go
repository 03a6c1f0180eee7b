// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"
)

const (
	// manager is the field manager that Helm writes as.
	manager = "helm"
	// atOnce bounds the calls.
	atOnce = 8
)

// Drift returns what applying the objects of a manifest would change in the cluster: for a release, what somebody has deleted
// or changed. The API server says so by dry runs of a server-side apply. The changes are in the manifest's order.
func (c *Client) Drift(ctx context.Context, manifest string) ([]Change, error) {
	return each(ctx, manifest, c.drift)
}

// Live reads the objects of a manifest as they are in the cluster; nil is what is not there.
func (c *Client) Live(ctx context.Context, manifest string) ([]*unstructured.Unstructured, error) {
	return each(ctx, manifest, func(ctx context.Context, wanted *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		resource, _, err := c.resource(wanted)
		if err != nil {
			return nil, err
		}
		live, err := resource.Get(ctx, wanted.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, nil //nolint:nilnil // see above
		}
		return live, err
	})
}

// each asks about every object of a manifest, several at a time.
func each[T any](ctx context.Context, manifest string, ask func(context.Context, *unstructured.Unstructured) (T, error)) ([]T, error) {
	wanted, err := objects(manifest)
	if err != nil {
		return nil, err
	}
	out := make([]T, len(wanted))
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range wanted {
		group.Go(func() (err error) {
			out[i], err = ask(gctx, &wanted[i])
			return err
		})
	}
	return out, group.Wait()
}

func (c *Client) drift(ctx context.Context, wanted *unstructured.Unstructured) (Change, error) {
	out := Change{Kind: wanted.GetKind(), Name: wanted.GetName(), Action: Keep}
	resource, namespace, err := c.resource(wanted)
	out.Namespace = namespace
	if err != nil {
		return out, err
	}
	live, err := resource.Get(ctx, wanted.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		out.Action = Create
		_, err = apply(ctx, resource, wanted, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		switch {
		case err == nil, missingNamespace(err, out.Namespace), missingRole(err, wanted.GroupVersionKind()): // it is made first
		case refused(err):
			out.Problem = err.Error()
		default:
			return out, err
		}
		return out, nil
	}
	if err != nil {
		return out, err
	}
	would, err := apply(ctx, resource, wanted, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	if apierrors.IsConflict(err) {
		out.By = owners(err)
		would, err = apply(ctx, resource, wanted, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}, Force: ptr.To(true)})
	}
	switch {
	case err != nil && refused(err):
		out.Action, out.Problem = Update, err.Error()
	case err != nil:
		return out, err
	default:
		if out.Lines = Lines(live, would); len(out.Lines) > 0 {
			out.Action = Update
		}
	}
	return out, nil
}

func apply(ctx context.Context, resource dynamic.ResourceInterface, o *unstructured.Unstructured, options metav1.PatchOptions) (*unstructured.Unstructured, error) {
	body, err := o.MarshalJSON()
	if err != nil {
		return nil, err
	}
	options.FieldManager = manager
	return resource.Patch(ctx, o.GetName(), types.ApplyPatchType, body, options)
}

var ownerText = regexp.MustCompile(`conflict with "([^"]+)"`)

// owners returns who holds the fields of a conflict.
func owners(err error) []string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	var out []string
	for _, cause := range status.Status().Details.Causes {
		if m := ownerText.FindStringSubmatch(cause.Message); m != nil && !slices.Contains(out, m[1]) {
			out = append(out, m[1])
		}
	}
	return out
}

// Restore applies the objects of a manifest of which Drift has found a difference. It takes fields from whoever has changed
// them.
func (c *Client) Restore(ctx context.Context, manifest string, changes []Change) error {
	wanted, err := objects(manifest)
	if err != nil {
		return err
	}
	// What Helm writes on an object that it creates.
	marks := fmt.Appendf(nil, `{"metadata":{"labels":{"app.kubernetes.io/managed-by":"Helm"},"annotations":{"meta.helm.sh/release-name":%q,"meta.helm.sh/release-namespace":%q}}}`,
		c.Release, c.Namespace)
	for i := range wanted {
		if i < len(changes) && changes[i].Action == Keep {
			continue
		}
		resource, _, err := c.resource(&wanted[i])
		if err != nil {
			return err
		}
		if _, err := apply(ctx, resource, &wanted[i], metav1.PatchOptions{Force: ptr.To(true)}); err != nil {
			return err
		}
		if i < len(changes) && changes[i].Action == Create {
			// Not by the apply: Drift, which does not apply them, would find them too many.
			if _, err := resource.Patch(ctx, wanted[i].GetName(), types.MergePatchType, marks, metav1.PatchOptions{FieldManager: manager}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Different reports whether anything would change.
func Different(changes []Change) bool {
	return slices.ContainsFunc(changes, func(c Change) bool { return c.Action != Keep })
}
