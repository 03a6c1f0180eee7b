// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bench measures the controller, which runs as a process, with a real API server and the simulator: how long Services take,
// how many API calls they need, and how much CPU and memory the controller uses. Each benchmark prints a Markdown table;
// docs/contributing/performance.md holds those of one run.
package bench

import (
	"flag"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/testenv"
)

var (
	latency = flag.String("profile", "simulator", "how long CloudStack's calls and jobs take: instant, simulator or production")
	large   = flag.Bool("large", false, "measure 5,000 nodes, too, which takes many minutes and some GB of memory")
)

// bench is one benchmark, with what its environments are made of.
type bench struct {
	*testing.B
	plane    string
	programs testenv.Binaries
}

// run prints a title and what a benchmark measures.
func run(b *testing.B, title string, measure func(bench)) {
	b.Helper()
	fmt.Printf("\n%s (%s, %d CPUs%s, latency profile %s)\n\n", title, time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), load(), *latency)
	require.NoError(b, must.Catch(func() {
		path := must.Get(plane.Ensure(b.Context(), plane.Newest, b.Output()))
		measure(bench{b, path, must.Get(testenv.Build(b.Context(), testenv.BuildOptions{}))})
	}))
}

// load returns the machine's load average: durations are longer on a busy machine.
func load() string {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return ""
	}
	avg, err := fs.LoadAvg()
	if err != nil {
		return ""
	}
	return fmt.Sprintf(", load %.1f", avg.Load1)
}

// newEnv starts an environment, which the caller stops.
func (b bench) newEnv(vms, nodes int, profile string) *testenv.Env {
	return must.Get(testenv.New(b.Context(), testenv.Options{Programs: b.programs, Plane: b.plane, VMs: vms, Nodes: nodes, Profile: profile}))
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
