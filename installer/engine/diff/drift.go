// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"context"
	"fmt"
	"slices"

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
		change, err := c.object(ctx, o, o, dryRun)
		return *change, err
	})
}

// Restore applies the objects of a manifest of which Drift has found a difference. It takes fields from whoever has changed
// them.
func (c *Client) Restore(ctx context.Context, manifest string, changes []Change) error {
	wanted, err := objects(manifest)
	for i := range min(len(wanted), len(changes)) {
		if changes[i].Action == Keep || err != nil {
			continue
		}
		var done *Change
		if done, err = c.object(ctx, &wanted[i], &wanted[i], nil); err == nil && done.Problem != "" {
			err = fmt.Errorf("%s: %s", done.Object(), done.Problem)
		}
	}
	return err
}

// Different reports whether anything would change.
func Different(changes []Change) bool {
	return slices.ContainsFunc(changes, func(c Change) bool { return c.Action != Keep })
}
