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
	"github.com/csccm/csccm/installer/report"
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
		f, err := os.Open(file) // #nosec G304 -- the user names it
		if err != nil {
			return nil, &credentials.Error{What: "--cloud-config", Err: err, Fix: "name a file that exists and that you may read", Code: report.ExitUsage}
		}
		defer func() { _ = f.Close() }()
		if out.config, err = cloudstack.ParseConfig(f); err != nil {
			return nil, &credentials.Error{What: "--cloud-config " + file, Err: err, Fix: "correct the file; README.md shows one", Code: report.ExitUsage}
		}
		out.from = file
	} else {
		s, err := credentials.ReadSecret(ctx, c.Kube, c.Namespace)
		if err != nil {
			return nil, c.Explain(err)
		}
		if !s.Exists {
			return nil, &credentials.Error{
				What: fmt.Sprintf("Secret %s/%s does not exist, and --cloud-config is not given", s.Namespace, s.Name), Err: errNoCredentials,
				Fix: "give --cloud-config FILE, name the Secret's namespace with --namespace, or run csccm install",
			}
		}
		if s.Problem != nil {
			return nil, &credentials.Error{
				What: "the controller's credentials cannot be read", Err: s.Problem, Code: report.ExitUsage,
				Fix: "correct the Secret, give --cloud-config FILE, or run csccm install --overwrite-secret",
			}
		}
		if out.config, out.close, err = s.LocalConfig(ctx, c.Kube); err != nil {
			return nil, err
		}
		out.from = fmt.Sprintf("Secret %s/%s", s.Namespace, s.Name)
	}
	client, err := cloudstack.NewClient(out.config)
	if err != nil {
		out.close()
		return nil, &credentials.Error{What: out.from, Err: err, Fix: "correct it, or give --cloud-config FILE", Code: report.ExitUsage}
	}
	out.client = client
	return out, nil
}
