// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package suite runs the product against a CloudStack, as its users do: csccm as a program, Kubernetes' API, and a real
// control plane with process nodes. CloudStack is reached through the suite's proxy.
package suite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/test/cloud/proxy"
	"github.com/csccm/csccm/test/cloud/shape"
	"github.com/csccm/csccm/test/cloud/world"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/testenv"
)

// Options of a run.
type Options struct {
	Programs testenv.Binaries
	Plane    string // the control plane's program
	// URL of the CloudStack API; empty starts a simulator.
	URL    string
	Who    world.Credentials
	CAFile string
	Zone   string
	// Record is a folder for answers with unknown shapes; empty writes none.
	Record string
	// Shapes is the file that takes the shapes which a simulator gives and no recording has.
	Shapes string
	// JournalDir is the folder of journals.
	JournalDir string
	// Profile is how long a simulator's calls take.
	Profile string
	// Version is the release of CloudStack that a simulator plays; empty: the newest.
	Version string
	// Keep leaves everything in the cloud at the end.
	Keep bool
	Log  io.Writer
}

// Run is a run at work.
type Run struct {
	Options
	id      string
	started time.Time
	dir     string

	simulator *testenv.CloudStack
	guard     *proxy.Guard
	proxy     *proxy.Proxy
	world     *world.World
	journal   *world.Journal
	// suiteURL and productURL are where the API is reached.
	suiteURL, productURL string
	places               map[string]*place
	contract             *shape.Contract

	mu sync.Mutex
}

// simulatorLogin is that of a simulator's administrator.
var simulatorLogin = world.Credentials{User: "admin", Password: "password"}

// Start looks at the cloud and makes the run's domain and account. Whatever it returns must be stopped.
func Start(ctx context.Context, o Options) (*Run, error) {
	r := &Run{Options: o, id: world.NewRun(), started: time.Now(), places: map[string]*place{}}
	r.guard = proxy.NewGuard(world.PrefixOf(r.id))
	return r, must.Catch(func() {
		var err error
		r.dir = must.Get(os.MkdirTemp("", world.Prefix))
		if r.URL == "" { // a CloudStack right after its installation
			fresh := simulator.FreshWorld()
			fresh.Version = r.Version
			r.simulator = must.Get(testenv.StartCloudStackWith(simulator.Options{World: fresh, Latency: must.Get(simulator.Profile(r.Profile))})) //nolint:contextcheck // it outlives the call
			r.URL, r.Who = r.simulator.URL, simulatorLogin
		}
		r.startProxy(ctx)
		r.journal = &world.Journal{URL: r.URL, Dir: r.dir}
		must.OK(r.journal.Write(o.JournalDir, r.id))
		r.Say("run %s on %s", r.id, r.Cloud())
		r.world, err = world.New(ctx, world.Options{Run: r.id, URL: r.suiteURL, Who: r.Who, Zone: r.Zone, Guard: r.guard})
		must.OK(err)
	})
}

func (r *Run) startProxy(ctx context.Context) {
	o := proxy.Options{Upstream: r.URL, CAFile: r.CAFile, Guard: r.guard}
	recorded := func(name string) string {
		return filepath.Join(filepath.Dir(must.Get(plane.ModuleDir())), "pkg", "simulator", "testdata", name)
	}
	r.contract = must.Get(shape.Load(r.Shapes == "", recorded("golden"), recorded("golden-tags"), recorded("golden-cloud")))
	if o.Contract = r.contract; r.Record != "" {
		o.Recorder = must.Get(shape.NewRecorder(r.Record))
	}
	r.proxy = must.Get(proxy.New(o))
	r.suiteURL = must.Get(r.proxy.Listen(ctx, proxy.Suite))
	r.productURL = must.Get(r.proxy.Listen(ctx, proxy.Product))
}

// Cloud says what the run works on.
func (r *Run) Cloud() string {
	if r.simulator != nil {
		return "the simulator"
	}
	return r.URL
}

// Say writes a line to the log.
func (r *Run) Say(format string, a ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = fmt.Fprintf(r.Log, "%6.1fs  %s\n", time.Since(r.started).Seconds(), fmt.Sprintf(format, a...))
}

// Stop ends the clusters and removes all that the run has made. The context must not be the one that ^C ended.
func (r *Run) Stop(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, p := range r.places {
		wg.Go(p.stop)
	}
	wg.Wait()
	var err error
	if r.world != nil {
		if err = r.clean(ctx); err != nil && r.simulator == nil {
			r.Say("%v", err)
			r.Say("remove it by: make cloud CLOUDFLAGS=--clean CLOUD_RUN=%s (with the same CLOUD_URL and credentials)", r.id)
		}
	}
	if r.journal != nil && (err == nil && !r.Keep || r.simulator != nil) {
		err = errors.Join(err, r.journal.Remove())
	}
	if r.proxy != nil {
		err = errors.Join(err, r.proxy.Stop())
	}
	if r.simulator != nil {
		if r.Shapes != "" {
			err = errors.Join(err, r.contract.Save(r.Shapes))
		}
		r.simulator.Stop()
	}
	if r.dir != "" {
		err = errors.Join(err, os.RemoveAll(r.dir))
	}
	return err
}

func (r *Run) clean(ctx context.Context) (err error) {
	defer must.Return(&err)
	if r.Keep {
		r.Say("kept: everything whose name starts with %s", world.PrefixOf(r.id))
		return nil
	}
	c := &world.Cleaner{Run: r.id, API: world.Connect(ctx, r.suiteURL, r.Who), Guard: r.guard, Log: r.Say}
	defer func() { err = errors.Join(err, c.API.Logout(ctx)) }()
	must.OK(c.Clean(ctx))
	if r.simulator == nil {
		return nil
	}
	// In a simulator was only this run: it is as it was before.
	for _, l := range [][2]string{
		{"listVirtualMachines", "virtualmachine"}, {"listNetworks", "network"}, {"listVPCs", "vpc"}, {"listLoadBalancerRules", "loadbalancerrule"},
		{"listFirewallRules", "firewallrule"}, {"listProjects", "project"},
	} {
		left := c.API.List(ctx, l[0], l[1], world.Params{"listall": "true"})
		must.Be(len(left) == 0, "%s: %d objects are left", l[0], len(left))
	}
	must.Be(r.Shapes != "" || len(r.proxy.Unknown()) == 0,
		"the simulator gives shapes that are not in shape/simulator.json; a whole run with --write-shapes writes them")
	return nil
}

// Report is what the run found; left is what Stop returned.
func (r *Run) Report(results []Result, left error) *Report {
	return &Report{
		Cloud: r.Cloud(), Version: r.world.Offers.Version, Kubernetes: plane.Newest.Release(), Results: results, Took: time.Since(r.started),
		Unknown: r.proxy.Unknown(), Refused: r.guard.Refused(), Left: left,
	}
}
