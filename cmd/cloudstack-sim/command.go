// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/pkg/version"
)

// options holds the values of the flags.
type options struct {
	listen, integration string
	world, release      string
	profile             string
	logCalls            bool
	printKeys           bool
	readyFile           string
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
	f.StringVar(&o.integration, "integration-listen", "",
		"address of the integration port: the API as root admin without authentication (disabled if empty)")
	f.StringVar(&o.admin, "admin-listen", "",
		"loopback address of the simulator's admin API: ledger, faults, restart (disabled if empty)")
	f.BoolVar(&o.ui, "ui", false,
		"show the simulated CloudStack as a page on 127.0.0.1, and print its address: objects, calls, faults "+
			"to switch on")
	f.StringVar(&o.world, "world", "fresh", "world to load: fresh, example or a YAML file")
	all := simulator.Releases()
	f.StringVar(&o.release, "cloudstack-version", "",
		"CloudStack release to simulate, "+all[0]+" to "+all[len(all)-1]+" (default: the world's)")
	f.StringVar(&o.profile, "profile", "instant", "latency of calls and jobs: instant, simulator or production")
	f.StringArrayVar(&o.faults, "fault", nil, "make calls fail, as COMMAND:KIND:OPTION=VALUE,...; may be repeated")
	f.Uint64Var(&o.seed, "seed", 0, "seed of the random sequence for faults with a probability")
	f.StringVar(&o.dataPath, "data-path", "",
		"forward traffic according to the load balancer rules, listening on the public addresses (direct) or on "+
			"loopback aliases of them (loopback)")
	f.StringVar(&o.link, "data-path-link", "",
		"interface to which the public addresses are added (--data-path=direct; requires ip and root)")
	f.StringVar(&o.forwarding, "data-path-forwarding", "",
		"how port forwarding rules are put into force: in user space, which hides clients' addresses (relay, the "+
			"default), or as the virtual router does (nftables; --data-path=direct, requires nft and root)")
	f.StringVar(&o.membersFile, "data-path-members", "",
		"YAML map from members (address or address:port) to the addresses at which this machine reaches them")
	f.BoolVar(&o.logCalls, "log-calls", false, "log every call to stderr, without secrets")
	f.BoolVar(&o.printKeys, "print-keys", true, "print the generated API keys to stdout, once")
	f.StringVar(&o.readyFile, "ready-file", "",
		"write URLs and keys of all users as JSON to this file (mode 0600) when the server is ready")
	f.StringVar(&o.printWorld, "print-world", "", "print an embedded world, fresh or example, and exit")
	return cmd
}

func run(ctx context.Context, o *options, stdout, stderr io.Writer) error {
	profile, err := simulator.Profile(o.profile)
	if err != nil {
		return err
	}

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

	page, url, err := listenPage(ctx, sim, o)
	if err != nil {
		return err
	}

	if err := s.announce(sim, path, url, o, stdout); err != nil {
		return err
	}

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.serve(ctx) })
	if page != nil {
		group.Go(func() error { return page.Serve(ctx) })
	}

	return group.Wait()
}

// embedded holds the built-in worlds by name.
var embedded = map[string][]byte{"fresh": simulator.FreshYAML(), "example": simulator.ExampleYAML()}

func loadWorld(name string) (*simulator.World, error) {
	text, err := embedded[name], error(nil)
	if text == nil {
		text, err = os.ReadFile(name)
	}
	var world *simulator.World
	if err == nil {
		world, err = simulator.LoadWorld(bytes.NewReader(text))
	}
	if err != nil {
		return nil, fmt.Errorf("--world %s: %w", name, err)
	}
	return world, nil
}

func printWorld(w io.Writer, name string) error {
	text, ok := embedded[name]
	if !ok {
		return fmt.Errorf("--print-world=%s: the world is not known; use fresh or example", name)
	}
	_, err := w.Write(text)
	return err
}

// tutorial is the text of --help. A test runs its shell commands.
const tutorial = `cloudstack-sim serves CloudStack's HTTP API like a management server 4.22 with
virtual routers: signatures, sessions, roles, jobs, states, error texts; in memory.

  1. Start it. It simulates a fresh installation of CloudStack with one zone;
     --world example also has the VMs of a small Kubernetes cluster.

       cloudstack-sim --integration-listen 127.0.0.1:8096 --admin-listen 127.0.0.1:8097 &

  2. Call it: as root admin without authentication on the integration port,

       curl -fsS 'http://127.0.0.1:8096/client/api?command=listZones&response=json'

     with a session (POST command=login, user admin, password password), or with
     cmk, Terraform, cloudstack-go or csccm, signed with the keys of a user:

       URL='http://127.0.0.1:8096/client/api?response=json'
       ADMIN=$(curl -fsS "$URL&command=listUsers" | grep -o '"id":"[^"]*"' | head -1 | cut -d'"' -f4)
       curl -fsS "$URL&command=registerUserKeys&id=$ADMIN"

  3. Inject faults, at start with --fault or at run time:

       curl -fsS -H 'Content-Type: application/json' http://127.0.0.1:8097/faults \
         -d '{"fault":"createLoadBalancerRule:job-fails:nth=3"}'

     COMMAND:KIND:OPTION=VALUE,... with the kinds error, cut-before, cut-after, delay, job-fails,
     job-never-ends, restart, throttled, maintenance, quota, capacity, router-refuses, router-loses,
     nodes-not-ready, api-unreachable; the options nth, count, p, caller, and by kind delay, code, cserrorcode, text.

  4. List the recorded calls:

       curl -fsS 'http://127.0.0.1:8097/ledger?command=list*'

  5. Look at it (--ui), add latency (--profile), forward traffic (--data-path).

It does not simulate storage, the inside of routers, or TLS: use loopback. More:
` + version.Pages + "docs/contributing/simulator.md"
