// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/pkg/version"
)

// options holds the values of the flags.
type options struct {
	listen, integration string
	world, release      string
	profile             string
	latency             time.Duration
	logCalls            bool
	printKeys           bool
	keysFile, readyFile string
	printWorld          string
	admin               string
	faults              []string
	seed                uint64
	dataPath, link      string
	membersFile         string
	ui                  bool
	forwarding          string
}

func newCommand(stdout, stderr io.Writer) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:           "cloudstack-sim",
		Short:         "An in-memory CloudStack management server",
		Long:          tutorial,
		Example:       "  cloudstack-sim --listen 127.0.0.1:0 --ready-file sim.json --profile simulator",
		Version:       version.String(),
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.printWorld != "" {
				return printWorld(stdout, o.printWorld)
			}
			return run(cmd.Context(), &o, stdout, stderr)
		},
	}
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	cmd.SetVersionTemplate("cloudstack-sim {{.Version}}\n")
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.listen, "listen", "127.0.0.1:8080", "address of the API; port 0 selects a free port")
	f.StringVar(&o.integration, "integration-listen", "", "address of the integration port: the API as root admin without authentication (disabled if empty)")
	f.StringVar(&o.admin, "admin-listen", "", "loopback address of the simulator's admin API: ledger, faults, restart (disabled if empty)")
	f.BoolVar(&o.ui, "ui", false, "show the simulated CloudStack as a page on 127.0.0.1, and print its address: objects, calls, faults to switch on")
	f.StringVar(&o.world, "world", "fresh", "world to load: fresh, example or a YAML file")
	f.StringVar(&o.release, "cloudstack-version", "", "CloudStack release to simulate, "+releases()+" (default: the world's)")
	f.StringVar(&o.profile, "profile", "instant", "latency of calls and jobs: instant, simulator or production")
	f.DurationVar(&o.latency, "latency", 0, "latency of every call in addition to the profile")
	f.StringArrayVar(&o.faults, "fault", nil, "make calls fail, as COMMAND:KIND:OPTION=VALUE,...; may be repeated")
	f.Uint64Var(&o.seed, "seed", 0, "seed of the random sequence for faults with a probability")
	f.StringVar(&o.dataPath, "data-path", "", "forward traffic according to the load balancer rules, listening on the public addresses (direct) or on loopback aliases of them (loopback)")
	f.StringVar(&o.link, "data-path-link", "", "interface to which the public addresses are added (--data-path=direct; requires ip and root)")
	f.StringVar(&o.forwarding, "data-path-forwarding", "", "how port forwarding rules are put into force: in user space, which hides clients' addresses (relay, the default), or as the virtual router does (nftables; --data-path=direct, requires nft and root)")
	f.StringVar(&o.membersFile, "data-path-members", "", "YAML map from members (address or address:port) to the addresses at which this machine reaches them")
	f.BoolVar(&o.logCalls, "log-calls", false, "log every call to stderr, without secrets")
	f.BoolVar(&o.printKeys, "print-keys", true, "print the generated API keys to stdout, once")
	f.StringVar(&o.keysFile, "keys-file", "", "write the generated API keys to this file (mode 0600) instead of stdout")
	f.StringVar(&o.readyFile, "ready-file", "", "write URLs and keys of all users as JSON to this file (mode 0600) when the server is ready")
	f.StringVar(&o.printWorld, "print-world", "", "print an embedded world, fresh or example, and exit")
	return cmd
}

func run(ctx context.Context, o *options, stdout, stderr io.Writer) error {
	profile, err := simulator.Profile(o.profile)
	if err != nil {
		return err
	}
	if o.latency < 0 {
		return fmt.Errorf("--latency %s is negative; give a time such as 50ms", o.latency)
	}
	profile.Add(o.latency)
	world, err := loadWorld(o.world)
	if err != nil {
		return err
	}
	if o.release != "" {
		if world.Version, err = simulator.FullVersion(o.release); err != nil {
			return fmt.Errorf("--cloudstack-version: %w", err)
		}
	}
	for _, text := range o.faults {
		if _, err := simulator.ParseFault(text); err != nil {
			return fmt.Errorf("--fault: %w", err)
		}
		world.Faults = append(world.Faults, text)
	}
	level := slog.LevelInfo
	if o.logCalls {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	sim, err := simulator.New(simulator.Options{World: world, Latency: profile, Logger: log, Seed: o.seed})
	if err != nil {
		return err
	}
	defer sim.Close()
	path, err := startDataPath(ctx, sim, o, log)
	if err != nil {
		return err
	}
	var routes []simulator.AdminRoute
	if path != nil {
		defer path.Close() //nolint:contextcheck // Close removes addresses from the link after the context has ended
		routes = path.Routes()
	}
	s, err := listen(ctx, sim, o, routes)
	if err != nil {
		return err
	}
	defer s.close()
	page, stop, err := startPage(ctx, sim, o)
	if err != nil {
		return err
	}
	if err := s.announce(sim, path, page, o, stdout); err != nil {
		return errors.Join(err, stop())
	}
	return errors.Join(s.serve(ctx), stop())
}

// releases returns the oldest and the newest supported release as text.
func releases() string {
	all := simulator.Releases()
	return all[0] + " to " + all[len(all)-1]
}

func loadWorld(path string) (*simulator.World, error) {
	switch path {
	case "", "fresh":
		return simulator.FreshWorld(), nil
	case "example":
		return simulator.ExampleWorld(), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--world: %w", err)
	}
	world, err := simulator.LoadWorld(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("--world %s: %w", path, err)
	}
	return world, nil
}

func printWorld(w io.Writer, name string) error {
	text := simulator.FreshYAML()
	switch name {
	case "fresh":
	case "example":
		text = simulator.ExampleYAML()
	default:
		return fmt.Errorf("--print-world=%s: the world is not known; use fresh or example", name)
	}
	_, err := w.Write(text)
	return err
}
