// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// List returns all objects of a kind, as list lists them. Where *failed is an error already, List asks nothing and returns
// an empty list: several lists need only one check.
func List[L any](ctx context.Context, failed *error, list func(context.Context, metav1.ListOptions) (*L, error)) *L {
	return ListOf(ctx, failed, metav1.ListOptions{}, list)
}

// ListOf is List with options.
func ListOf[L any](ctx context.Context, failed *error, o metav1.ListOptions, list func(context.Context, metav1.ListOptions) (*L, error)) *L {
	if *failed == nil {
		var out *L
		if out, *failed = list(ctx, o); *failed == nil {
			return out
		}
	}
	return new(L)
}

// AtOnce bounds the calls of one Each.
const AtOnce = 8

// Each calls do for the elements, several at a time, and returns the results in the same order. The first error ends it.
func Each[T, R any](ctx context.Context, in []T, do func(context.Context, *T) (R, error)) ([]R, error) {
	out := make([]R, len(in))
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(AtOnce)
	for i := range in {
		group.Go(func() (err error) {
			out[i], err = do(gctx, &in[i])
			return err
		})
	}
	return out, group.Wait()
}
