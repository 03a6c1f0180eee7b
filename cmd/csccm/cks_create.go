// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/commands/cks/manage"
	"github.com/csccm/csccm/installer/engine/report"
)

// withController is the value of --with that installs csccm's controller.
const withController = "csccm"

func newCKSCreateCommand(g *cli.Globals) *cobra.Command {
	f, o, set := &serviceFlags{}, manage.CreateOptions{}, []string{}
	cmd := f.changeCommand(g, &cobra.Command{
		Use:   "create NAME",
		Short: "Create a cluster, and install csccm's controller into it",
		Long: `Create a cluster of CloudStack Kubernetes Service, and wait until it runs. Before, csccm
checks what CloudStack finds only when VMs were already created: limits, offerings,
addresses, the network.

Without --network CloudStack creates one for the cluster, which it deletes with it. A
second run with the same parameters follows the first, or says that the cluster runs;
with other parameters it refuses.

--with csccm installs csccm's controller then, as csccm install does: it takes the
place of the provider that CloudStack has put there, with the same credentials, and
initialises nodes that are added later (adoptNodes). csccm doctor has the last word.`,
		Example: `  csccm cks create demo --zone zone-1 --offering node --size 2

  # highly available, in a network that exists, with the controller, unattended
  csccm cks create prod --version 1.33.1 --offering node --control-offering big \
    --control-nodes 3 --size 5 --network prod-net --keypair ops --with csccm --yes`,
	}, func() error {
		for _, w := range o.With {
			if w != withController {
				return cli.Usagef("--with %q is not known; there is %s", w, withController)
			}
		}
		if o.Install = nil; len(o.With) > 0 {
			o.Install = func(ctx context.Context, cluster, kubeconfig string) error {
				return installInto(ctx, g, cluster, kubeconfig, set)
			}
		} else if len(set) > 0 {
			return cli.Usagef("--set needs --with csccm")
		}
		return o.Validate()
	}, func(ctx context.Context, s *manage.Service, name string) error {
		o.Name = name
		return s.Create(ctx, o)
	})
	flags := cmd.Flags()
	flags.StringVar(&o.Zone, "zone", "", "name or id of the zone (default the only one)")
	flags.StringVar(&o.Version, "version", "", "name, semantic version or id of the version (default the newest that is Enabled and Ready)")
	flags.StringVar(&o.Offering, "offering", "", "name or id of the offering of the nodes")
	flags.StringVar(&o.ControlOffering, "control-offering", "", "another offering for the control nodes (CloudStack 4.21)")
	flags.StringVar(&o.WorkerOffering, "worker-offering", "", "another offering for the workers (CloudStack 4.21)")
	flags.IntVar(&o.Size, "size", 0, "number of workers (default 1)")
	flags.IntVar(&o.ControlNodes, "control-nodes", 0, "number of control nodes; 2 or more are highly available (default 1)")
	flags.StringVar(&o.ExternalLB, "external-lb-address", "", "address of the load balancer of a highly available cluster in a shared network")
	flags.StringVar(&o.Network, "network", "", "name or id of a network that exists (default a new one)")
	flags.StringVar(&o.KeyPair, "keypair", "", "name of the SSH key pair of the nodes")
	flags.IntVar(&o.RootDiskGiB, "root-disk", 0, "size of a node's root disk in GiB (default 8)")
	flags.BoolVar(&o.CSI, "csi", false, "let CloudStack install its CSI driver (CloudStack 4.22)")
	flags.StringVar(&o.Description, "description", "", "text that CloudStack shows with the cluster")
	flags.StringSliceVar(&o.With, "with", nil, "install this into the cluster when it runs: csccm")
	flags.StringArrayVar(&set, "set", nil, "chart value KEY=VALUE for --with csccm; may be repeated")
	ignorePreflight(cmd, &o.Ignore)
	f.completeObjects(g, cmd)
	cli.CompleteFlag(cmd, "with", cli.OneOf(withController))
	cmd.ValidArgsFunction = cobra.NoFileCompletions // a new name
	return cmd
}

// installInto installs the controller into a cluster by its kubeconfig, and lets doctor judge it. What they print goes to
// stderr: the result of the command is the cluster.
func installInto(ctx context.Context, g *cli.Globals, cluster, kubeconfig string, values []string) error {
	dir, err := os.MkdirTemp("", "csccm-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, cluster)
	if err := manage.WriteSecret(path, kubeconfig, false); err != nil {
		return err
	}
	run := func(args ...string) error {
		root := newRootCommand(cli.Streams{In: strings.NewReader(""), Out: g.ErrOut, ErrOut: g.ErrOut, Getenv: withoutCredentials(g.Getenv)}) //nolint:contextcheck // a <TAB> has its own
		root.SetArgs(append(args, "--kubeconfig", path, "--timeout", "0s", "--color", g.Color.String()))
		return root.ExecuteContext(ctx)
	}
	// The Secret that CloudStack has made has the credentials; no Service exists yet whose load balancer could change.
	install := []string{"install", "--set", "adoptNodes=true", "--pin", "all", "--yes"}
	for _, v := range values {
		install = append(install, "--set", v)
	}
	if err := run(install...); err != nil {
		return err
	}
	err = run("doctor")
	var said *report.ExitError
	if errors.As(err, &said) && said.Silent() {
		return &report.Error{What: "csccm doctor has found problems", Fix: "correct what it says above", Code: said.Code}
	}
	return err
}

// withoutCredentials hides variables with credentials: those of the new cluster are in its Secret.
func withoutCredentials(getenv func(string) string) func(string) string {
	return func(name string) string {
		if slices.Contains([]string{"CLOUDSTACK_API_KEY", "CLOUDSTACK_SECRET_KEY", "CSCCM_ADMIN_PASSWORD", "KUBECONFIG"}, name) {
			return ""
		}
		return getenv(name)
	}
}
