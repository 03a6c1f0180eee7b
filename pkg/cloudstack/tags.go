// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"slices"
	"strconv"
)

// CreateTags tags resources of one type (UserVm, LoadBalancer, PublicIpAddress, FirewallRule ...).
// A key that a resource already has fails the job for all.
func (c *Client) CreateTags(ctx context.Context, resourceType string, ids []string, tags map[string]string) (Submitted, error) {
	return c.submit(ctx, "createTags", filter{"resourcetype": resourceType, "resourceids": joinIDs(ids)}.tags(tags))
}

// TagQuery selects tags; empty fields select all.
type TagQuery struct {
	ResourceType, Key, Value, ProjectID string
}

// Tag is one tag of a resource. Load balancer rules that are deleted keep theirs.
type Tag struct {
	ResourceType string `json:"resourcetype"`
	ResourceID   string `json:"resourceid"`
	Key          string `json:"key"`
	Value        string `json:"value"`
}

// ListTags lists tags. The server compares keys and values without regard to case.
func (c *Client) ListTags(ctx context.Context, q TagQuery) ([]Tag, error) {
	f := filter{}.set("resourcetype", q.ResourceType).set("key", q.Key).set("value", q.Value).set("projectid", q.ProjectID)
	return listAll(ctx, c, "listTags", "tag", f, func(t *Tag) string { return t.ResourceType + "/" + t.ResourceID + "/" + t.Key })
}

// DeleteTags removes the tags with the given keys, whatever their values. keys
// must not be empty: the server would remove all tags of the resources.
func (c *Client) DeleteTags(ctx context.Context, resourceType string, ids []string, keys []string) (Submitted, error) {
	const command = "deleteTags"
	if len(keys) == 0 {
		return Submitted{}, &Error{Kind: KindInvalid, Command: command, Text: "tag keys are missing, without which all tags would go"}
	}
	f := filter{"resourcetype": resourceType, "resourceids": joinIDs(ids)}
	for i, k := range slices.Sorted(slices.Values(keys)) {
		f["tags["+strconv.Itoa(i)+"].key"] = k // without a value, which would have to match
	}
	return c.submit(ctx, command, f)
}
