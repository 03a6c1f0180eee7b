// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/commands/adopt"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/plan"
)

func newAdoptCommand(g *cli.Globals) *cobra.Command {
	return g.Command(&cobra.Command{
		Use:   "adopt [NAMESPACE/SERVICE...]",
		Short: "Let the controller release addresses with their Services",
		Long: `adopt tags the addresses of Services in CloudStack as acquired by the controller, which
then releases an address when its Service is deleted. Without the tags the address stays.

Without arguments it takes the Services whose address Apache's provider says it acquired
(annotation ip-associated-by-controller), for use after a takeover. Addresses that others
use too are refused: source NAT, static NAT, port forwardings, rules that no Service of
this cluster has, tags of another Service or cluster.`,
		Example: `  # look only
  csccm adopt --dry-run

  # the addresses that the old provider acquired
  csccm adopt --yes

  # an address that an operator acquired by hand
  csccm adopt shop/web`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: cli.CompleteFrom(g, plan.ServiceNames),
	}, cli.ChangingCloud, func(ctx context.Context, args []string) error {
		if err := adopt.Names(args); err != nil {
			return err
		}
		return g.OnCloud(ctx, func(e *engine.Env, cs *cloud.Cloud) error { return adopt.Run(ctx, e, cs, args) })
	})
}
