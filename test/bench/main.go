// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench measures the controller, which runs as a process, with a real API server and the simulator: how long
// Services take, how many API calls they need, and how much CPU and memory the controller uses. It prints Markdown
// tables; docs/contributing/performance.md holds those of one run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/internal/program"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/testenv"
)

// part is a benchmark that prints one table.
type part struct {
	name, title string
	run         func(context.Context, *bench) error
	named       bool // runs only when it is named: it takes many minutes and some GB of memory
}

var (
	thousand     = size{vms: 5000, nodes: 1000, services: 500, drift: 30 * time.Second}
	fiveThousand = size{vms: 5100, nodes: 5000, services: 1000, drift: 150 * time.Second}
)

var parts = []part{
	{name: "ports", title: "One Service by its number of ports (5 nodes)", run: byPorts},
	{name: "nodes", title: "One Service of 5 ports by the number of nodes", run: byNodes},
	{name: "concurrency", title: "50 Services of 2 ports created at once", run: byConcurrency},
	{name: "scale", title: "The controller at " + thousand.String(), run: thousand.atScale},
	{name: "large", title: "The controller at " + fiveThousand.String(), run: fiveThousand.atScale, named: true},
}

// bench is the configuration of a run.
type bench struct {
	programs testenv.Binaries
	plane    string
	profile  string
}

func (b *bench) newEnv(ctx context.Context, vms, nodes int, profile string) (*testenv.Env, error) {
	return testenv.New(ctx, testenv.Options{Programs: b.programs, Plane: b.plane, VMs: vms, Nodes: nodes, Profile: profile})
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx)
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	defer must.Return(&err)
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	b := &bench{}
	only := flag.String("only", "", "parts to run, separated by commas: "+strings.Join(names, ", ")+"; empty: all but large")
	bin := flag.String("bin-dir", os.Getenv("CSCCM_BIN_DIR"), "folder with the product's programs; empty: build them")
	flag.StringVar(&b.profile, "profile", "simulator", "how long CloudStack's calls and jobs take: instant, simulator or production")
	flag.Parse()
	wanted := strings.FieldsFunc(*only, func(r rune) bool { return r == ',' })
	for _, w := range wanted {
		if !slices.Contains(names, w) {
			return fmt.Errorf("--only: unknown part %q; the parts are %s", w, strings.Join(names, ", "))
		}
	}

	b.plane = must.Get(plane.Ensure(ctx, plane.Newest, program.Print(os.Stderr)))
	b.programs = must.Get(testenv.Build(ctx, testenv.BuildOptions{Dir: *bin, LDFlags: os.Getenv("CSCCM_LDFLAGS")}))
	fmt.Printf("%s, %d CPUs%s, latency profile %s\n", time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), load(), b.profile)
	for _, p := range parts {
		if !slices.Contains(wanted, p.name) && (p.named || len(wanted) > 0) {
			continue
		}
		fmt.Printf("\n%s\n\n", p.title)
		if err := must.Catch(func() { must.OK(p.run(ctx, b)) }); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", p.name, err), ctx.Err())
		}
	}
	return nil
}

// load returns the machine's load average: durations are longer on a busy machine.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(text), " ")
	return ", load " + first
}

// row prints a line of a table.
func row(cells ...any) {
	text := make([]string, 0, len(cells))
	for _, c := range cells {
		text = append(text, fmt.Sprint(c))
	}
	fmt.Println("| " + strings.Join(text, " | ") + " |")
}

func header(cells ...any) {
	row(cells...)
	fmt.Println("|" + strings.Repeat("---|", len(cells)))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
