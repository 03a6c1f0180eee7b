// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import "context"

type flowKey struct{}

// WithFlow makes calls with this context count for a flow, such as a namespace. When the rate limit makes calls wait,
// the flows take turns: many calls of one do not hold up a single call of another. Calls without a flow share one.
func WithFlow(ctx context.Context, flow string) context.Context {
	return context.WithValue(ctx, flowKey{}, flow)
}

func flowOf(ctx context.Context) string {
	flow, _ := ctx.Value(flowKey{}).(string)
	return flow
}
