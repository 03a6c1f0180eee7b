// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"context"
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/csccm/csccm/installer/kube/cluster"
)

// Drift returns what applying the objects of a release's manifest once more would change in the cluster: what somebody has
// deleted or changed, in the manifest's order.
func (c *Client) Drift(ctx context.Context, manifest string) ([]Change, error) {
	wanted, err := objects(manifest)
	if err != nil {
		return nil, err
	}
	return cluster.Each(ctx, wanted, func(ctx context.Context, o *unstructured.Unstructured) (Change, error) {
		change, err := c.object(ctx, o, o)
		return *change, err
	})
}

// Restore applies the objects of a manifest of which Drift has found a difference. It takes fields from whoever has changed
// them.
func (c *Client) Restore(ctx context.Context, manifest string, changes []Change) error {
	wanted, err := objects(manifest)
	if err != nil {
		return err
	}
	for i := range min(len(wanted), len(changes)) {
		if changes[i].Action == Keep {
			continue
		}
		o := &wanted[i]
		resource, _, err := c.resource(o)
		if err != nil {
			return err
		}
		if changes[i].Action == Create {
			for _, mark := range [][]string{ // what Helm writes on an object that it creates
				{"Helm", "labels", "app.kubernetes.io/managed-by"},
				{c.Release, "annotations", "meta.helm.sh/release-name"}, {c.Namespace, "annotations", "meta.helm.sh/release-namespace"},
			} {
				err = errors.Join(err, unstructured.SetNestedField(o.Object, mark[0], "metadata", mark[1], mark[2]))
			}
			if err == nil {
				_, err = resource.Create(ctx, o, metav1.CreateOptions{})
			}
		} else {
			var live *unstructured.Unstructured
			if live, err = resource.Get(ctx, o.GetName(), metav1.GetOptions{}); err == nil {
				_, err = patch(ctx, resource, o, o, live, nil)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Different reports whether anything would change.
func Different(changes []Change) bool {
	return slices.ContainsFunc(changes, func(c Change) bool { return c.Action != Keep })
}
