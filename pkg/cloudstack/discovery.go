// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
)

// ListAPIs returns the names of the commands that the caller's role allows. The answer is large (some hundred KB).
func (c *Client) ListAPIs(ctx context.Context) (sets.Set[string], error) {
	names, err := listWhole[string](ctx, c, "listApis", "api", nil)
	return sets.New(names...), err
}

// HasParameter reports whether a command has a parameter on this server.
func (c *Client) HasParameter(ctx context.Context, command, parameter string) (has bool, err error) {
	type api struct {
		Params []string `json:"params"` // names
	}
	apis, err := listWhole[api](ctx, c, "listApis", "api", Params{"name": command})
	for _, api := range apis {
		has = has || slices.Contains(api.Params, parameter)
	}
	return has, err
}

// Capabilities is the part of listCapabilities that csccm uses.
type Capabilities struct {
	Version string `json:"cloudstackversion"` // for example 4.22.0.0
	// RateMax is the number of calls that an account may make in each RateInterval; 0 without API throttling.
	RateMax      int           `json:"apilimitmax"`
	RateInterval time.Duration `json:"-"`
}

// Capabilities returns the server's version and rate limit. The client adapts its own rate limit to the server's.
func (c *Client) Capabilities(ctx context.Context) (*Capabilities, error) {
	var answer struct {
		Capability struct {
			Capabilities
			Interval int `json:"apilimitinterval"`
		} `json:"capability"`
	}
	if err := c.Call(ctx, "listCapabilities", nil, &answer); err != nil {
		return nil, err
	}
	says := &answer.Capability.Capabilities
	says.RateInterval = time.Duration(answer.Capability.Interval) * time.Second
	c.follow(says)
	return says, nil
}

// Zone is an availability zone.
type Zone struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// ListZones lists the zones that the caller may use, without disabled ones.
func (c *Client) ListZones(ctx context.Context) ([]Zone, error) {
	return List(ctx, c, "listZones", "zone", nil, func(z *Zone) string { return z.ID })
}

// Project is a CloudStack project.
type Project struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	State    string `json:"state"`
	DomainID string `json:"domainid"`
}

// ListProjects lists the projects the caller belongs to; for admins, all they may see.
func (c *Client) ListProjects(ctx context.Context) ([]Project, error) {
	// Without listall, an admin gets only projects of their own account. For other users it changes nothing.
	f := Params{"listall": "true"}
	return List(ctx, c, "listProjects", "project", f, func(p *Project) string { return p.ID })
}
