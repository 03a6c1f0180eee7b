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
func FromClient(c *cloudstack.Client) API { return clientAPI{c, c.Jobs()} }

type clientAPI struct {
	*cloudstack.Client
	*cloudstack.JobWaiter
}
