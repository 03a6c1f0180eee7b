// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cloudapi has the calls of the CloudStack API that csccm makes and the controller does not: accounts, roles and keys,
// and CloudStack Kubernetes Service.
package cloudapi

import (
	"time"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
)

// Client is a client of the CloudStack API with the calls of this package.
type Client struct {
	*cloudstack.Client
	session *session // of Login, nil with keys
}

// readLimit is how long CloudStack may take for one read. A cloud-config with a longer timeout has its own.
const readLimit = 15 * time.Second

// limited adds the limit of reads to the options.
func limited(cfg *cloudstack.Config, opts []cloudstack.Option) []cloudstack.Option {
	limit := readLimit
	if cfg != nil && cfg.Timeout > cloudconfig.DefaultTimeout {
		limit = cfg.Timeout
	}
	return append([]cloudstack.Option{cloudstack.WithReadLimit(limit)}, opts...)
}

// NewClient is cloudstack.NewClient with a limit of reads.
func NewClient(cfg *cloudstack.Config, opts ...cloudstack.Option) (*Client, error) {
	c, err := cloudstack.NewClient(cfg, limited(cfg, opts)...)
	if err != nil {
		return nil, err
	}
	return &Client{Client: c}, nil
}

// Names returns the names of what a list has.
func Names[T any](items []T, name func(*T) string) []string {
	out := make([]string, len(items))
	for i := range items {
		out[i] = name(&items[i])
	}
	return out
}
