// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package access manages the controller's cloud-config, its access to CloudStack: which Secret of a release holds it,
// what it contains, who else uses it, what it will contain, and how to use it on this machine. It makes no call to
// CloudStack.
package access

import (
	"context"
	"errors"
	"fmt"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
)

// Cloud is CloudStack with the controller's own credentials.
type Cloud struct {
	Client *cloudapi.Client
	Config *cloudstack.Config
	From   string  // source of the credentials, as text for people
	Secret *Secret // source of the credentials; may be nil
	Close  func()
}

// Inventory returns the inventory of VMs and networks, with the controller's settings.
func (c *Cloud) Inventory() *inventory.Inventory {
	return inventory.New(c.Client, inventory.Options{
		ProjectID: c.Config.ProjectID,
		Zone:      c.Config.Zone,
		NodeVMs:   c.Config.NodeVMs,
	})
}

// Project returns the id of the project that the controller works in; "" for the account itself.
func (c *Cloud) Project(ctx context.Context) (string, error) { return c.Inventory().ProjectID(ctx) }

// ErrNoCredentials means that the Secret does not exist and no file was given.
var ErrNoCredentials = errors.New("no CloudStack credentials")

// Of returns CloudStack with the credentials of a cloud-config file, or with those of the release's Secret if file is
// "".
func Of(ctx context.Context, c *cluster.Cluster, release, file string) (*Cloud, error) {
	if file == "" {
		return OfSecret(ctx, c, release)
	}
	text, err := ReadFile(file)
	if err != nil {
		return nil, err
	}
	return (&Cloud{Config: (&Layers{File: text}).Over(nil), From: file, Close: func() {}}).Open()
}

// OfSecret returns CloudStack with the credentials of the release's Secret.
func OfSecret(ctx context.Context, c *cluster.Cluster, release string) (*Cloud, error) {
	s, err := SecretOf(ctx, c, release)
	if err != nil {
		return nil, c.Explain(err)
	}
	return s.Open(ctx, c)
}

// Open returns CloudStack with the credentials of the Secret.
func (s *Secret) Open(ctx context.Context, c *cluster.Cluster) (*Cloud, error) {
	switch {
	case !s.Exists:
		return nil, report.Usage(
			"name the Secret's namespace with --namespace, run csccm install, or give --cloud-config FILE to a "+
				"command that takes it",
			"Secret %s does not exist: %w", s, ErrNoCredentials,
		)
	case s.Problem != nil:
		return nil, report.Usage(
			"correct the Secret, or run csccm install --overwrite-secret",
			"the controller's credentials cannot be read: %w", s.Problem,
		)
	}

	config, end, err := s.LocalConfig(ctx, c.Kube)
	if err != nil {
		return nil, c.Explain(err)
	}

	return (&Cloud{Config: config, Close: end, From: fmt.Sprintf("Secret %s", s), Secret: s}).Open()
}

// Open creates the client.
func (c *Cloud) Open() (*Cloud, error) {
	client, err := cloudapi.NewClient(c.Config)
	if err != nil {
		c.Close()
		return nil, report.Usage("correct it, or give --cloud-config FILE", "%s: %w", c.From, err)
	}
	c.Client = client
	return c, nil
}
