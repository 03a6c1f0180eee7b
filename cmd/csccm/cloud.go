// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/commands/install"
	"github.com/csccm/csccm/installer/commands/takeover"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
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

// connect reaches the cluster, and CloudStack with the credentials of a cloud-config file or, when file
// is "", of the controller's Secret. A file is judged first: that needs no network. Without credentials
// the cluster comes along with errNoCredentials. It makes no call to CloudStack.
func (g *globals) connect(ctx context.Context, file string) (*cluster.Cluster, *cloud, error) {
	var cs *cloud
	var err error
	if file != "" {
		if cs, err = cloudOfFile(file); err != nil {
			return nil, nil, err
		}
	}
	c, err := g.cluster(ctx)
	if err == nil && cs == nil {
		cs, err = cloudOfSecret(ctx, c)
		if errors.Is(err, errNoCredentials) {
			if wrong := releaseHere(ctx, c, install.DefaultRelease); wrong != nil {
				return nil, nil, wrong
			}
		}
	}
	return c, cs, err
}

// openCloud is CloudStack with the credentials of a cloud-config file, or of the controller's Secret when
// file is "". It makes no call to CloudStack.
func openCloud(ctx context.Context, c *cluster.Cluster, file string) (*cloud, error) {
	if file != "" {
		return cloudOfFile(file)
	}
	return cloudOfSecret(ctx, c)
}

// connectAsPredecessor reaches CloudStack with the credentials of the other provider that is in the cluster.
func (g *globals) connectAsPredecessor(ctx context.Context, release string) (*cluster.Cluster, *cloud, error) {
	c, err := g.cluster(ctx)
	if err != nil {
		return nil, nil, err
	}
	f := &takeover.Facts{}
	if err := takeover.FindControllers(ctx, c.Kube, release, c.Namespace, f); err != nil {
		return nil, nil, c.Explain(err)
	}
	found, err := takeover.FindCredentials(ctx, c.Kube, f.Predecessors)
	if err != nil {
		return nil, nil, c.Explain(err)
	}
	found.Config.CAFile = "" // a path in the other provider's Pod
	cs, err := (&cloud{config: found.Config, from: found.String(), close: func() {}}).opened()
	return c, cs, err
}

func cloudOfFile(file string) (*cloud, error) {
	f, err := os.Open(file) // #nosec G304 -- the user names it
	if err == nil {
		defer func() { _ = f.Close() }()
		var info os.FileInfo
		if info, err = f.Stat(); err == nil && info.IsDir() {
			err = &os.PathError{Op: "read", Path: file, Err: syscall.EISDIR}
		}
	}
	if err != nil {
		return nil, &credentials.Error{What: "--cloud-config", Err: err, Fix: "name a file that exists and that you may read", Code: report.ExitUsage}
	}
	config, err := cloudstack.ParseConfig(f)
	if err != nil {
		return nil, &credentials.Error{What: "--cloud-config " + file, Err: err, Fix: "correct the file; README.md shows one", Code: report.ExitUsage}
	}
	return (&cloud{config: config, from: file, close: func() {}}).opened()
}

func cloudOfSecret(ctx context.Context, c *cluster.Cluster) (*cloud, error) {
	s, err := credentials.ReadSecret(ctx, c.Kube, c.Namespace)
	if err != nil {
		return nil, c.Explain(err)
	}
	if !s.Exists {
		return nil, &credentials.Error{
			What: fmt.Sprintf("Secret %s/%s does not exist, and --cloud-config is not given", s.Namespace, s.Name), Err: errNoCredentials, Code: report.ExitUsage,
			Fix: "give --cloud-config FILE, name the Secret's namespace with --namespace, or run csccm install",
		}
	}
	if s.Problem != nil {
		return nil, &credentials.Error{
			What: "the controller's credentials cannot be read", Err: s.Problem, Code: report.ExitUsage,
			Fix: "correct the Secret, give --cloud-config FILE, or run csccm install --overwrite-secret",
		}
	}
	out := &cloud{from: fmt.Sprintf("Secret %s/%s", s.Namespace, s.Name)}
	if out.config, out.close, err = s.LocalConfig(ctx, c.Kube); err != nil {
		return nil, err
	}
	return out.opened()
}

// opened has the client too.
func (c *cloud) opened() (*cloud, error) {
	client, err := cloudstack.NewClient(c.config)
	if err != nil {
		c.close()
		return nil, &credentials.Error{What: c.from, Err: err, Fix: "correct it, or give --cloud-config FILE", Code: report.ExitUsage}
	}
	c.client = client
	return c, nil
}
