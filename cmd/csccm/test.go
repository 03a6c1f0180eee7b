// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/commands/lbtest"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/kube/cluster"
)

type testFlags struct{ options lbtest.Options }

func newTestCommand(g *cli.Globals) *cobra.Command {
	f := &testFlags{}
	cmd := g.Command(&cobra.Command{
		Use:   "test",
		Short: "Create a load balancer, call it, and remove it",
		Long: `test proves that Services of type LoadBalancer work. It creates a Service with a small
Pod in a new namespace (or in the one of --in), waits for the address, and connects
over TCP and the PROXY protocol: from a second Pod, and from this machine if it reaches
the address. Then it deletes everything, also after ^C and after a failure.

The Pods run the controller's own image and fit the Pod Security level restricted. The
test uses one public address, with ports 9080 and 9081.

Exit codes: 0 each step passed or was skipped, 3 a step failed.`,
		Example: `  csccm test

  # in a namespace that exists, for a program
  csccm test --in load-test --yes -o json

  # where the policy for tenants refuses the PROXY protocol
  csccm test --skip-proxy --yes`,
	}, cli.FlagRelease|cli.FlagDryRun, func(ctx context.Context, _ []string) error { return f.run(ctx, g) })
	flags := cmd.Flags()
	flags.StringVar(&f.options.Namespace, "in", "", "namespace of Service and Pods, which must exist (default a new one, which is removed)")
	flags.StringVar(&f.options.Image, "image", "", "image with the controller's program (default that of the controller)")
	flags.DurationVar(&f.options.AddressTime, "address-timeout", lbtest.DefaultAddressTime, "how long the Service may take to get its address")
	flags.BoolVar(&f.options.NoProxy, "skip-proxy", false, "leave the PROXY protocol out")
	flags.BoolVar(&f.options.NoOutside, "skip-outside", false, "do not ask from this machine")
	cli.CompleteFlag(cmd, "in", cli.CompleteFrom(g, cluster.NamespaceNames))
	return cmd
}

func (f *testFlags) run(ctx context.Context, g *cli.Globals) error {
	if g.DryRun && g.Yes {
		return cli.ErrDryYes
	}
	if err := cli.Positive("--address-timeout", f.options.AddressTime); err != nil {
		return err
	}
	c, err := g.ClusterOfRelease(ctx)
	if err != nil {
		return err
	}
	o := f.options
	if o.Image == "" {
		if o.Image, err = lbtest.ControllerImage(ctx, c.Kube, c.Namespace, g.Release); err != nil {
			return c.Explain(err)
		}
	}
	where := "a namespace of its own"
	if o.Namespace != "" {
		where = "namespace " + o.Namespace
	}
	what := fmt.Sprintf("make a Service of type LoadBalancer and two Pods (image %s) in %s, and remove them", o.Image, where)
	e := g.Env()
	if e.Cluster = c; g.DryRun {
		_, err := fmt.Fprintf(g.ErrOut, "nothing has been changed: --yes would %s in %s\n", what, e.Where())
		return err
	}
	if err := e.Agreed(ctx, what, prompt.Question{Message: "Test load balancers: " + what}); err != nil {
		return err
	}
	progress := g.Progress()
	defer progress.Close()
	t := &lbtest.Tester{
		Kube: c.Kube, Clock: g.Clock, Progress: progress, Options: o, Explain: c.Explain, Logs: c.PodLog, Ask: lbtest.AskOnce,
	}
	if cs, err := cloud.OfSecret(ctx, c); err == nil { // else the caller may not read it: the address shows
		defer cs.Close()
		t.Cloud = cs.Answers
	}
	result, err := t.Run(ctx)
	if result != nil {
		werr := g.Show(result, func(w io.Writer) error { return result.WriteText(w, g.Style(w)) })
		if err == nil {
			err = werr
		}
	}
	return err
}
