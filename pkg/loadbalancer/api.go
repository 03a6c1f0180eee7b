// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"context"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/apply"
	"github.com/csccm/csccm/pkg/loadbalancer/observe"
)

// API is what the package needs of CloudStack.
type API interface {
	observe.Reader
	apply.API
	ListTags(ctx context.Context, q cloudstack.TagQuery) ([]cloudstack.Tag, error)
}

// FromClient makes a client an API.
func FromClient(c *cloudstack.Client) API { return clientAPI{c} }

type clientAPI struct{ *cloudstack.Client }

func (c clientAPI) Wait(ctx context.Context, command, jobID string) (*cloudstack.Job, error) {
	return c.Jobs().Wait(ctx, command, jobID)
}

func (c clientAPI) Await(ctx context.Context, a cloudstack.Await) (*cloudstack.Job, error) {
	return c.Jobs().Await(ctx, a)
}

func (c clientAPI) Result(ctx context.Context, command, jobID string) (*cloudstack.Job, error) {
	return c.Jobs().Result(ctx, command, jobID)
}
