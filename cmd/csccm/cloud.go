// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"

	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/kube/cluster"
)

// connect reaches the cluster, and CloudStack with the credentials of a cloud-config file or, when file is "", of the
// controller's Secret. A file is judged first: that needs no network. Without credentials the cluster comes along with
// cloud.ErrNoCredentials.
func (g *globals) connect(ctx context.Context, file string) (*cluster.Cluster, *cloud.Cloud, error) {
	var cs *cloud.Cloud
	var err error
	if file != "" {
		if cs, err = cloud.OfFile(file); err != nil {
			return nil, nil, err
		}
	}
	c, err := g.cluster(ctx)
	if err == nil && cs == nil {
		cs, err = cloud.OfSecret(ctx, c)
		if errors.Is(err, cloud.ErrNoCredentials) {
			if wrong := releaseHere(ctx, c, engine.DefaultRelease); wrong != nil {
				return nil, nil, wrong
			}
		}
	}
	return c, cs, err
}
