// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"strings"
	"time"
)

// ListAPIs lists the commands that the caller's role allows, by name, with
// their parameters (names in lower case). It is the exact test for features;
// the answer is large (some hundred KB), so keep it.
func (c *Client) ListAPIs(ctx context.Context) (map[string]API, error) {
	type apiJSON struct {
		Name   string   `json:"name"`
		Async  flexBool `json:"isasync"`
		Params []struct {
			Name string `json:"name"`
		} `json:"params"`
	}
	list, err := listWhole(ctx, c, "listApis", "api", nil, func(a *apiJSON) API {
		params := make(map[string]bool, len(a.Params))
		for _, p := range a.Params {
			params[strings.ToLower(p.Name)] = true
		}
		return API{Name: a.Name, Async: bool(a.Async), Params: params}
	})
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
			Version      string   `json:"cloudstackversion"`
			Kubernetes   flexBool `json:"kubernetesserviceenabled"`
			DynamicRoles flexBool `json:"dynamicrolesenabled"`
			LimitMax     flexInt  `json:"apilimitmax"`
			LimitSeconds flexInt  `json:"apilimitinterval"`
		} `json:"capability"`
	}
	if err := c.custom(ctx, "listCapabilities", nil, callOptions{}, &answer); err != nil {
		return nil, err
	}
	a := &answer.Capability
	return &Capabilities{
		Version: a.Version, KubernetesService: bool(a.Kubernetes), DynamicRoles: bool(a.DynamicRoles),
		RateLimit: int(a.LimitMax), RateInterval: time.Duration(a.LimitSeconds) * time.Second,
	}, nil
}
