// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/commands/migrate"
	"github.com/csccm/csccm/installer/engine"
)

func newMigrateRulesCommand(g *cli.Globals) *cobra.Command {
	o := migrate.Options{}
	cmd := g.Command(&cobra.Command{
		Use:   "migrate-rules",
		Short: "Rename load balancer rules of older providers in place",
		Long: `migrate-rules gives load balancer rules of older providers the names that the
controller knows: LB-PORT becomes LB-PROTOCOL-PORT. A rule keeps its id, address,
members and traffic. Rules that belong to no Service of this cluster are shown, and
renamed only when --lb names their load balancer.

Where several rules serve one port of a Service, the one on the Service's address
stays, and the others are deleted after it is seen to serve. --delete-orphans deletes
rules of deleted Services if all members are nodes of this cluster.

A journal records what it does; --undo JOURNAL goes back.`,
		Example: `  # look only
  csccm migrate-rules --dry-run

  # do it without a question
  csccm migrate-rules --yes

  # also the rules of a load balancer whose Service is gone
  csccm migrate-rules --lb a0123456789abcdef0123456789abcde

  # back to the old names
  csccm migrate-rules --undo ~/.local/state/csccm/migrate-rules-2026.jsonl`,
	}, cli.ChangingCloud, func(ctx context.Context, _ []string) error { return migrateRules(ctx, g, o) })
	flags := cmd.Flags()
	flags.StringSliceVar(&o.LoadBalancers, "lb", nil, "rename the rules of this load balancer too, although no Service of the cluster has it")
	flags.BoolVar(&o.IncludeUnattributed, "include-unattributed", false, "rename all rules with an old name, regardless of their owner")
	flags.BoolVar(&o.DeleteOrphans, "delete-orphans", false, "delete rules whose Service is gone and whose members are all nodes of this cluster")
	flags.StringVar(&o.Undo, "undo", "", "undo what this journal records")
	return cmd
}

func migrateRules(ctx context.Context, g *cli.Globals, o migrate.Options) error {
	if o.Undo != "" && (len(o.LoadBalancers) > 0 || o.IncludeUnattributed || o.DeleteOrphans) {
		return cli.Usagef("--undo goes back by its journal alone: leave out --lb, --include-unattributed and --delete-orphans")
	}
	if err := o.ReadUndo(); err != nil {
		return err
	}
	o.Verbose = g.Verbosity > 0
	return g.OnCloud(ctx, func(e *engine.Env, cs *cloud.Cloud) error {
		o.Controllers = func(ctx context.Context) ([]string, error) { return otherControllers(ctx, e) }
		return migrate.Run(ctx, e, cs, o)
	})
}

// otherControllers returns the other cloud controller managers that may be at work.
func otherControllers(ctx context.Context, e *engine.Env) ([]string, error) {
	r := check.Run(ctx, &check.Env{Cluster: e.Cluster, Namespace: e.Cluster.Namespace, Release: e.Release}, check.Selection{Only: []string{"CCM-003"}}, nil)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case r.Summary.OK == len(r.Checks):
		return nil, nil
	}
	var where []string
	for _, c := range r.Checks {
		for _, o := range c.Objects {
			where = append(where, o.String())
		}
	}
	if len(where) == 0 {
		where = []string{"another cloud controller manager (CCM-003 could not be judged)"}
	}
	return where, nil
}
