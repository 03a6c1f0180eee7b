// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"net/url"

	"github.com/csccm/csccm/pkg/cloudstack/internal/lean"
)

// pager reads one page of a list; count is -1 when the answer has none, which for CloudStack means an empty list.
type pager[T any] func(ctx context.Context, c *Client, command, object string, params map[string]string) (items []T, count int, err error)

// leanPage is listPage for lists that are long: of VMs, and of the VMs that are members of a rule. CloudStack answers with
// some 2 KB for each, and has no parameter to leave anything out.
func leanPage[T any](ctx context.Context, c *Client, command, object string, params map[string]string) ([]T, int, error) {
	form := url.Values{"command": {command}, "response": {"json"}}
	for name, value := range params {
		form.Set(name, value)
	}
	body, failure := c.exchange(ctx, form)
	if failure != nil {
		return nil, 0, failure
	}
	defer c.release(body)
	items, count, err := lean.Page[T](body.Bytes(), object, c.texts)
	if err != nil {
		return nil, 0, badAnswer(command, err.Error())
	}
	return items, count, nil
}
