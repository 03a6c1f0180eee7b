// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/csccm/csccm/installer/cluster"
	"github.com/csccm/csccm/installer/credentials"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// cloud is CloudStack as the controller's own credentials see it.
type cloud struct {
	client *cloudstack.Client
	config *cloudstack.Config
	from   string // where the credentials came from, for people
	close  func()
}

// errNoCredentials is returned by openCloud when there is neither a file nor a Secret.
var errNoCredentials = errors.New("no CloudStack credentials")

// openCloud takes the credentials of a cloud-config file, or of the controller's Secret when file
// is "". It makes no call to CloudStack.
func openCloud(ctx context.Context, c *cluster.Cluster, file string) (*cloud, error) {
	out := &cloud{close: func() {}}
	if file != "" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("--cloud-config: %w", err)
		}
		defer func() { _ = f.Close() }()
		if out.config, err = cloudstack.ParseConfig(f); err != nil {
			return nil, fmt.Errorf("--cloud-config %s: %w", file, err)
		}
		out.from = file
	} else {
		s, err := credentials.ReadSecret(ctx, c.Kube, c.Namespace)
		if err != nil {
			return nil, c.Explain(err)
		}
		if !s.Exists {
			return nil, fmt.Errorf("%w: Secret %s/%s does not exist, and --cloud-config is not given", errNoCredentials, s.Namespace, s.Name)
		}
		if s.Problem != nil {
			return nil, s.Problem
		}
		if out.config, out.close, err = s.LocalConfig(ctx, c.Kube); err != nil {
			return nil, err
		}
		out.from = fmt.Sprintf("Secret %s/%s", s.Namespace, s.Name)
	}
	client, err := cloudstack.NewClient(out.config)
	if err != nil {
		out.close()
		return nil, fmt.Errorf("%s: %w", out.from, err)
	}
	out.client = client
	return out, nil
}
