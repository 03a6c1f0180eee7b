// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/commands/cks/manage"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
)

// cksTimeout is how long commands follow CloudStack's work on a cluster: its own limit for such a job.
const cksTimeout = time.Hour

// credentialsText is the part of a help text about credentials.
//
//nolint:gosec // a text
const credentialsText = `

It talks to CloudStack, not to a cluster. Credentials come from --cloud-config, the
login of an administrator or of any user (--admin-user, or --admin-api-key-file), keys
(--api-key-file, a profile of cmk, or CLOUDSTACK_API_KEY and CLOUDSTACK_SECRET_KEY),
and without any from the Secret of the cluster that the kubeconfig names.`

// followText is the part of a help text about waiting.
const followText = `

CloudStack goes on when csccm stops, by ^C or after --timeout (an hour here): the same
command again, or csccm cks show NAME --watch, follows the operation to its end.
--dry-run=server does the same as --dry-run=client here.`

// serviceFlags are the flags of a command that talks to CloudStack alone.
type serviceFlags struct{ installFlags }

func (f *serviceFlags) add(g *cli.Globals, cmd *cobra.Command) {
	f.addKeys(cmd)
	f.addAdmin(cmd)
	f.addAdminCMK(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.options.Project, "project", "", "name or id of the project that owns the clusters (default the account itself, or project-id of the cloud-config)")
	for name, text := range map[string]string{ //nolint:gosec // texts
		"api-url":              "URL of the CloudStack API (usually ends in /client/api)",
		"api-key-file":         "file with an API key (or CLOUDSTACK_API_KEY)",
		"secret-key-file":      "file with its secret key (or CLOUDSTACK_SECRET_KEY)",
		"cmk-profile":          "take the keys from a profile of cmk; without a name the current one",
		"admin-user":           "user who logs in; an administrator where the command needs one",
		"admin-domain":         "path of the user's domain, for example ROOT/k8s (default ROOT)",
		"admin-password-file":  "file with the user's password (or CSCCM_ADMIN_PASSWORD)",
		"admin-password-stdin": "read the user's password from stdin",
		"admin-api-key-file":   "file with an API key, as --api-key-file",
	} {
		flags.Lookup(name).Usage = text
	}
	cli.CompleteFlag(cmd, "project", f.completeFromCloud(g, cloud.ProjectNames))
}

// connect reaches CloudStack as the flags say. The caller closes it.
func (f *serviceFlags) connect(ctx context.Context, g *cli.Globals, e *engine.Env) (*cloud.Cloud, error) {
	f.options.Credentials.AnyUser = true
	if err := f.readSecrets(g); err != nil {
		return nil, err
	}
	return f.Reach(ctx, e, &f.options, func(ctx context.Context) (*cloud.Cloud, error) {
		c, err := g.Cluster(ctx)
		if ctx.Err() != nil {
			return nil, err
		}
		if err != nil {
			return nil, &report.Error{
				What: "no credentials are given, and the cluster of the kubeconfig, whose Secret would have some, cannot be asked", Err: err, Code: report.ExitUsage,
				Fix: "give --cloud-config FILE, --admin-user USER with --api-url URL, or --cmk-profile",
			}
		}
		return cloud.OfSecret(ctx, c)
	})
}

// run makes the body of a command: connected to CloudStack, in the project that the flags name.
func (f *serviceFlags) run(g *cli.Globals, body func(context.Context, *manage.Service, []string) error) func(context.Context, []string) error {
	return func(ctx context.Context, args []string) error {
		e := g.Env()
		e.Progress = g.Progress()
		defer e.Progress.Close()
		cs, err := f.connect(ctx, g, e)
		if err != nil {
			return err
		}
		defer cs.Close()
		project, err := inventory.New(cs.Client, inventory.Options{ProjectID: cs.Config.ProjectID}).ProjectID(ctx)
		if err != nil {
			return err
		}
		return body(ctx, &manage.Service{Env: e, API: cs.Client, Project: project, From: cs.From, All: g.Verbosity > 0}, args)
	}
}

// complete lists names out of the service, with the credentials that can be found without asking.
func (f *serviceFlags) complete(g *cli.Globals, list func(context.Context, *cloudstack.Client, string) ([]string, error)) cobra.CompletionFunc {
	return f.completeFromCloud(g, func(ctx context.Context, client *cloudstack.Client) ([]string, error) {
		project, err := inventory.New(client, inventory.Options{ProjectID: f.options.Project}).ProjectID(ctx)
		if err != nil {
			return nil, err
		}
		return list(ctx, client, project)
	})
}
