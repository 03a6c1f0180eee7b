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

const tutorial = `cloudstack-sim answers CloudStack's HTTP API as a management server 4.22 with a
virtual router does: signatures, sessions, roles, asynchronous jobs, states,
error texts. It holds everything in memory and starts in milliseconds.

  1. Start it. Without --world it has a zone, a network and the VMs of a small
     Kubernetes cluster (--print-world shows the file; write your own from it).

       cloudstack-sim --keys-file sim.keys

  2. Take a user's keys. Those that the world file does not give are made up and
     printed once, or go to the --keys-file, which only you can read:

       export CLOUDSTACK_ENDPOINT=http://127.0.0.1:8080/client/api

  3. Call it: with cmk, Terraform, cloudstack-go or csccm, signed with the keys;
     with a session (POST command=login, user admin, password password); or, as
     root admin without any credentials, on the integration port:

       cloudstack-sim --integration-listen 127.0.0.1:8096
       curl 'http://127.0.0.1:8096/client/api?command=listZones&response=json'

  4. Make it slow: --profile simulator has the times of a management server with
     simulated hypervisors, production those of real routers; --latency adds a
     fixed time to every call.

What it does not simulate: traffic, the inside of routers, storage. A command
that it does not implement answers error 530 that says so. It speaks HTTP
without TLS and is made for loopback addresses.`

// options are the flags.
type options struct {
	listen, integration string
	world               string
	profile             string
	latency             time.Duration
	logCalls            bool
	printKeys           bool
	keysFile, readyFile string
	printWorld          bool
}

func newCommand(stdout, stderr io.Writer) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:           "cloudstack-sim",
		Short:         "A CloudStack management server in memory",
		Long:          tutorial,
		Example:       "  cloudstack-sim --listen 127.0.0.1:0 --ready-file sim.json --profile simulator",
		Version:       version.String(),
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.printWorld {
				_, err := stdout.Write(simulator.ExampleYAML())
				return err
			}
			return run(cmd.Context(), &o, stdout, stderr)
		},
	}
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	cmd.SetVersionTemplate("cloudstack-sim {{.Version}}\n")
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.listen, "listen", "127.0.0.1:8080", "address of the API; port 0 takes a free one")
	f.StringVar(&o.integration, "integration-listen", "", "address of the integration port: the API as root admin without credentials (off when empty)")
	f.StringVar(&o.world, "world", "", "YAML file with what the CloudStack holds (default: the shipped example)")
	f.StringVar(&o.profile, "profile", "instant", "how long calls and jobs take: instant, simulator or production")
	f.DurationVar(&o.latency, "latency", 0, "time that every call takes in addition to the profile")
	f.BoolVar(&o.logCalls, "log-calls", false, "log every call to stderr, without secrets")
	f.BoolVar(&o.printKeys, "print-keys", true, "print the generated API keys to stdout, once")
	f.StringVar(&o.keysFile, "keys-file", "", "write the generated API keys to this file (mode 0600) instead of stdout")
	f.StringVar(&o.readyFile, "ready-file", "", "write URLs and keys of all users as JSON to this file (mode 0600) once the server answers")
	f.BoolVar(&o.printWorld, "print-world", false, "print the shipped example world and exit")
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
	level := slog.LevelInfo
	if o.logCalls {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	sim, err := simulator.New(simulator.Options{World: world, Latency: profile, Logger: log})
	if err != nil {
		return err
	}
	defer sim.Close()
	s, err := listen(ctx, sim, o)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.announce(sim, o, stdout); err != nil {
		return err
	}
	return s.serve(ctx)
}

func loadWorld(path string) (*simulator.World, error) {
	if path == "" {
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
