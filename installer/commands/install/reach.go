// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"cmp"
	"context"

	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
)

// Reach returns CloudStack with the credentials that Read has read, for commands that work without a Kubernetes cluster:
// those of a cloud-config, a login or keys. Without any it returns what secret finds.
func (f *Given) Reach(ctx context.Context, e *engine.Env, o *Options, secret func(context.Context) (*cloud.Cloud, error)) (*cloud.Cloud, error) {
	c := &o.Credentials
	if err := f.Unverified(ctx, c, e.Prompt); err != nil {
		return nil, err
	}
	admin := c.AdminUser != "" || c.AdminPassword != "" || c.AdminKeys != (credentials.Keys{})
	if !admin && c.Keys == (credentials.Keys{}) {
		found, err := secret(ctx)
		if err == nil {
			found.Config.ProjectID = cmp.Or(o.Project, found.Config.ProjectID)
		}
		return found, err
	}
	fresh := cloudconfig.Default()
	out := &cloud.Cloud{Config: &fresh, From: "the keys that were given", Close: func() {}}
	if f.CloudConfig != "" {
		config, err := cloud.ReadFile(f.CloudConfig)
		if err != nil {
			return nil, err
		}
		out.Config, out.From = config, f.CloudConfig
	}
	if !admin && (c.Keys.APIKey == "" || c.Keys.SecretKey == "") {
		return nil, report.Usage("only one of the two keys is given", "give both: "+keyFlags+", or CLOUDSTACK_API_KEY and CLOUDSTACK_SECRET_KEY")
	}
	if err := c.completeURL(ctx, e.Prompt, "", checkURL); err != nil {
		return nil, err
	}
	config := out.Config
	config.APIURL, config.CAFile, config.ProjectID = c.APIURL, c.CAFile, o.Project
	config.SSLNoVerify = config.SSLNoVerify || c.SSLNoVerify
	if !admin {
		config.APIKey, config.SecretKey = c.Keys.APIKey, c.Keys.SecretKey
		return out.Open()
	}
	client, end, err := c.LogIn(ctx, e, config)
	if err != nil {
		return nil, err
	}
	out.Client, out.Close, out.From = client, end, "the login"
	return out, nil
}
