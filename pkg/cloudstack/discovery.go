// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
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
