// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cloud reaches CloudStack with the controller's own credentials. It makes no call.
package cloud

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
)

// Cloud is CloudStack as the controller's own credentials see it.
type Cloud struct {
	Client *cloudapi.Client
	Config *cloudstack.Config
	From   string              // where the credentials came from, for people
	Secret *credentials.Secret // that they came from; may be nil
	Close  func()
}

// ErrNoCredentials means that there is neither a file nor a Secret.
var ErrNoCredentials = errors.New("no CloudStack credentials")

// Of returns CloudStack with the credentials of a cloud-config file, or of the controller's Secret when file is "".
func Of(ctx context.Context, c *cluster.Cluster, file string) (*Cloud, error) {
	if file == "" {
		return OfSecret(ctx, c)
	}
	config, err := ReadFile(file)
	if err != nil {
		return nil, err
	}
	return (&Cloud{Config: config, From: file, Close: func() {}}).Open()
}

// ReadFile reads a cloud-config file.
func ReadFile(file string) (*cloudstack.Config, error) {
	text, err := os.ReadFile(file) // #nosec G304 -- the user names it
	if err != nil {
		return nil, &report.Error{What: "--cloud-config", Err: err, Fix: "name a file that exists and that you may read", Code: report.ExitUsage}
	}
	config, err := cloudconfig.Parse(bytes.NewReader(text))
	if err != nil {
		return nil, &report.Error{What: "--cloud-config " + file, Err: err, Fix: "correct the file; README.md shows one", Code: report.ExitUsage}
	}
	return config, nil
}

// OfSecret returns CloudStack with the credentials of the controller's Secret.
func OfSecret(ctx context.Context, c *cluster.Cluster) (*Cloud, error) {
	s, err := credentials.ReadSecret(ctx, c.Kube, c.Namespace)
	switch {
	case err != nil:
		return nil, c.Explain(err)
	case !s.Exists:
		return nil, &report.Error{
			What: fmt.Sprintf("Secret %s/%s does not exist", s.Namespace, s.Name), Err: ErrNoCredentials, Code: report.ExitUsage,
			Fix: "name the Secret's namespace with --namespace, run csccm install, or give --cloud-config FILE to a command that takes it",
		}
	case s.Problem != nil:
		return nil, &report.Error{
			What: "the controller's credentials cannot be read", Err: s.Problem, Code: report.ExitUsage,
			Fix: "correct the Secret, or run csccm install --overwrite-secret",
		}
	}
	out := &Cloud{From: fmt.Sprintf("Secret %s/%s", s.Namespace, s.Name), Secret: s}
	if out.Config, out.Close, err = s.LocalConfig(ctx, c.Kube); err != nil {
		return nil, c.Explain(err)
	}
	return out.Open()
}

// Open makes the client.
func (c *Cloud) Open() (*Cloud, error) {
	client, err := cloudapi.NewClient(c.Config)
	if err != nil {
		c.Close()
		return nil, &report.Error{What: c.From, Err: err, Fix: "correct it, or give --cloud-config FILE", Code: report.ExitUsage}
	}
	c.Client = client
	return c, nil
}
