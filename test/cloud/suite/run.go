// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package suite tests the product on a CloudStack as users run it: csccm as a program, Kubernetes' API, and a real
// control plane with process nodes. All calls to CloudStack go through the suite's proxy.
package suite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	// Record is a folder for answers with unknown shapes; empty: they are not written.
	Record string
	// Shapes is the file for the simulator's shapes that are in no recording.
	Shapes string
	// JournalDir is the folder of journals.
	JournalDir string
	// Profile is the simulator's latency profile.
	Profile string
	// Version is the CloudStack release that the simulator simulates; empty means the newest.
	Version string
	// Keep leaves everything in the cloud at the end.
	Keep bool
	Log  io.Writer
}

// Run is a run in progress.
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
	// suiteURL and productURL are the proxy's URLs of the API.
	suiteURL, productURL string
	places               map[string]*place
	contract             *shape.Contract

	mu sync.Mutex
}

// simulatorLogin is the login of the simulator's administrator.
var simulatorLogin = world.Credentials{User: "admin", Password: "password"}

// Start inspects the cloud and creates the run's domain and account. The caller must stop the returned run, even after
// an error.
func Start(ctx context.Context, o Options) (*Run, error) {
	r := &Run{Options: o, id: world.NewRun(), started: time.Now(), places: map[string]*place{}}
	r.guard = proxy.NewGuard(world.PrefixOf(r.id))
	return r, must.Catch(func() {
		var err error
		r.dir = must.Get(os.MkdirTemp("", world.Prefix))
		if r.URL == "" { // a CloudStack right after its installation
			fresh := simulator.FreshWorld()
			fresh.Version = r.Version
			//nolint:contextcheck // it outlives this call
			r.simulator = must.Get(testenv.StartCloudStackWith(simulator.Options{
				World:   fresh,
				Latency: must.Get(simulator.Profile(r.Profile)),
			}))
			r.URL, r.Who = r.simulator.URL, simulatorLogin
		}

		r.startProxy(ctx)
		r.journal = &world.Journal{URL: r.URL, Dir: r.dir}
		must.OK(r.journal.Write(o.JournalDir, r.id))
		r.Say("run %s on %s", r.id, r.Cloud())
		r.world, err = world.New(ctx,
			world.Options{Run: r.id, URL: r.suiteURL, Who: r.Who, Zone: r.Zone, Guard: r.guard})
		must.OK(err)
	})
}

func (r *Run) startProxy(ctx context.Context) {
	o := proxy.Options{Upstream: r.URL, CAFile: r.CAFile, Guard: r.guard}
	recorded := func(name string) string {
		return filepath.Join(filepath.Dir(must.Get(plane.ModuleDir())), "pkg", "simulator", "testdata", name)
	}
	r.contract = must.Get(shape.Load(r.Shapes == "", recorded("golden"), recorded("golden-tags"),
		recorded("golden-cloud")))
	if o.Contract = r.contract; r.Record != "" {
		o.Recorder = must.Get(shape.NewRecorder(r.Record))
	}
	r.proxy = must.Get(proxy.New(o))
	r.suiteURL = must.Get(r.proxy.Listen(ctx, proxy.Suite))
	r.productURL = must.Get(r.proxy.Listen(ctx, proxy.Product))
}

// Cloud describes the cloud in which the run takes place.
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

// Stop stops the clusters and removes everything that the run created. The context must not be the one that ^C cancels.
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
			r.Say("remove it by: make cloud CLOUDFLAGS=--clean CLOUD_RUN=%s (with the same CLOUD_URL and credentials)",
				r.id)
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

	// Only this run used the simulator, so nothing may be left in it.
	for _, l := range [][2]string{
		{"listVirtualMachines", "virtualmachine"}, {"listNetworks", "network"}, {"listVPCs", "vpc"},
		{"listLoadBalancerRules", "loadbalancerrule"}, {"listFirewallRules", "firewallrule"},
		{"listProjects", "project"},
	} {
		left := c.API.List(ctx, l[0], l[1], world.Params{"listall": "true"})
		must.Be(len(left) == 0, "%s: %d objects are left", l[0], len(left))
	}

	must.Be(r.Shapes != "" || len(r.proxy.Unknown()) == 0,
		"the simulator gives shapes that are not in shape/simulator.json; a whole run with --write-shapes writes them")
	return nil
}

// Report returns the results of the run; left is the error of Stop.
func (r *Run) Report(results []Result, left error) *Report {
	return &Report{
		Cloud:      r.Cloud(),
		Version:    r.world.Offers.Version,
		Kubernetes: plane.Newest.Release(),
		Results:    results,
		Took:       time.Since(r.started),
		Unknown:    r.proxy.Unknown(),
		Refused:    r.guard.Refused(),
		Left:       left,
	}
}

// The verdicts. A scenario that the cloud does not support has not passed.
const (
	passed = "ok"
	failed = "**failed**"
	unable = "cannot"
)

// Result is the result of one scenario.
type Result struct {
	Name    string
	Verdict string
	Took    time.Duration
	// Calls is the number of the product's calls.
	Calls int
	// Seen is a note of the scenario, the reason why the cloud does not support it, or its error.
	Seen string
}

// Report is the report of a run.
type Report struct {
	// Cloud, Version and Kubernetes describe the environment.
	Cloud, Version, Kubernetes string
	Took                       time.Duration
	Results                    []Result
	// Unknown are shapes of answers that are in no recording.
	Unknown []string
	// Refused are the calls that the guard stopped.
	Refused []string
	// Left is the reason why objects may remain in the cloud.
	Left error
}

// count returns how many scenarios have a verdict.
func (r *Report) count(verdict string) (n int) {
	for _, result := range r.Results {
		if result.Verdict == verdict {
			n++
		}
	}
	return n
}

// OK reports whether nothing failed, at least one scenario passed, the guard refused no call, and nothing is left.
func (r *Report) OK() bool {
	return r.count(failed) == 0 && r.count(passed) > 0 && len(r.Refused) == 0 && r.Left == nil
}

// Markdown returns the report as a section of a page.
func (r *Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b,
		"%s, CloudStack %s, Kubernetes %s: %d passed, %d failed, %d cannot be done "+
			"here, in %s.\n\n", //nolint:dupword // a sentence
		r.Cloud, r.Version, r.Kubernetes, r.count(passed), r.count(failed), r.count(unable), r.Took.Round(time.Second))

	b.WriteString("| scenario | result | seconds | calls | what was seen |\n|---|---|---|---|---|\n")
	for _, x := range r.Results {
		// A | would end the table's cell.
		seen := strings.ReplaceAll(strings.Join(strings.Fields(x.Seen), " "), "|", "\\|")
		fmt.Fprintf(&b, "| %s | %s | %.1f | %d | %s |\n", x.Name, x.Verdict, x.Took.Seconds(), x.Calls, seen)
	}

	list := func(title string, items []string) {
		fmt.Fprintf(&b, "\n%s\n", strings.Join(append([]string{title}, items...), "\n\n- "))
	}
	if len(r.Refused) > 0 {
		list("The guard refused these calls, so the run failed:", r.Refused)
	}

	list(fmt.Sprintf("Answers with a shape that is not recorded: %d.", len(r.Unknown)), r.Unknown)
	if r.Left != nil {
		fmt.Fprintf(&b, "\nNot everything was removed: %v\n", r.Left)
	}

	return b.String()
}

// AllRuns makes Clean remove the objects of all runs that are found in the cloud.
const AllRuns = "all"

// Clean removes the objects that runs left in a cloud. which is one run, AllRuns, or "" for all runs with a journal.
func Clean(ctx context.Context, o Options, which string) (err error) {
	defer must.Return(&err)
	journals := must.Get(world.Journals(o.JournalDir))
	var runs, there []string
	for run, j := range journals {
		if j.URL != o.URL || which != "" && which != AllRuns && which != run {
			continue
		}
		runs = append(runs, run)
		if strings.HasPrefix(filepath.Base(j.Dir), world.Prefix) {
			must.OK(os.RemoveAll(j.Dir))
		}
	}

	// Listing runs changes nothing, so any run's guard will do.
	must.OK(o.through(ctx, "none00", func(c *world.Cleaner) { there = world.Runs(ctx, c.API) }))
	switch which {
	case "":
	case AllRuns:
		runs = append(runs, there...)
	default:
		runs = append(runs, which)
	}

	slices.Sort(runs)
	runs = slices.Compact(runs)
	var errs []error
	for _, run := range runs {
		_, _ = fmt.Fprintf(o.Log, "run %s\n", run)
		err := o.through(ctx, run, func(c *world.Cleaner) { must.OK(c.Clean(ctx)) })
		if j := journals[run]; err == nil && j != nil {
			err = j.Remove()
		}
		errs = append(errs, err)
	}

	rest := slices.DeleteFunc(there, func(run string) bool { return slices.Contains(runs, run) })
	if len(rest) > 0 {
		_, _ = fmt.Fprintf(o.Log,
			"runs without a journal here, which somebody else may be working with: %s; remove one by CLOUD_RUN=ID, "+
				"or all by CLOUD_RUN=all\n",
			strings.Join(rest, ", "))
	}

	if len(runs) == 0 && len(rest) == 0 {
		_, _ = fmt.Fprintln(o.Log, "nothing is left of any run")
	}

	return errors.Join(errs...)
}

// through calls do with a cleaner whose calls go through the proxy and the guard of a run.
func (o *Options) through(ctx context.Context, run string, do func(*world.Cleaner)) error {
	g := proxy.NewGuard(world.PrefixOf(run))
	err := must.Catch(func() {
		p := must.Get(proxy.New(proxy.Options{Upstream: o.URL, CAFile: o.CAFile, Guard: g}))
		defer p.Stop() //nolint:errcheck // it records nothing
		c := &world.Cleaner{
			Run: run, API: world.Connect(ctx, must.Get(p.Listen(ctx, proxy.Suite)), o.Who), Guard: g,
			Log: func(format string, a ...any) { _, _ = fmt.Fprintf(o.Log, "  "+format+"\n", a...) },
		}
		defer c.API.Logout(context.WithoutCancel(ctx)) //nolint:errcheck // the session ends by itself, too
		do(c)
	})
	if refused := g.Refused(); len(refused) > 0 {
		err = errors.Join(err, fmt.Errorf("the guard refused %s", strings.Join(refused, "; ")))
	}
	return err
}
