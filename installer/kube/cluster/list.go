// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"

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
