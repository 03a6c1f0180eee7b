// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/cloudstack/internal/flex"
)

// ListAPIs lists the commands that the caller's role allows, by name. It is the exact test for features;
// the answer is large (some hundred KB), so keep it.
func (c *Client) ListAPIs(ctx context.Context) (map[string]API, error) {
	list, err := listWhole(ctx, c, "listApis", "api", nil, func(a *API) API { return *a })
	if err != nil {
		return nil, err
	}
	apis := make(map[string]API, len(list))
	for _, a := range list {
		apis[a.Name] = a
	}
	return apis, nil
}

// HasParam reports whether the command knows a parameter.
func (a API) HasParam(name string) bool { return hasName(a.Params, name) }

// HasField reports whether the command's answer has a field.
func (a API) HasField(name string) bool { return hasName(a.Fields, name) }

func hasName(list []APIField, name string) bool {
	return slices.ContainsFunc(list, func(f APIField) bool { return strings.EqualFold(f.Name, name) })
}

// Capabilities asks the server what it is.
func (c *Client) Capabilities(ctx context.Context) (*Capabilities, error) {
	var answer struct {
		Capability struct {
			Capabilities
			Max      flex.Int `json:"apilimitmax"`
			Interval flex.Int `json:"apilimitinterval"`
		} `json:"capability"`
	}
	if err := c.call(ctx, "listCapabilities", nil, &answer); err != nil {
		return nil, err
	}
	says := &answer.Capability.Capabilities
	says.RateMax, says.RateInterval = int(answer.Capability.Max), time.Duration(answer.Capability.Interval)*time.Second
	c.follow(says)
	return says, nil
}
