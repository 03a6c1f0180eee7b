// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package soak creates, changes and deletes Services, nodes and VMs at random, with the controller as a process, a real API server
// and a simulated CloudStack in which one call in twenty fails. It looks for broken promises all the time, and at the end compares
// CloudStack with the Services exactly.
package soak

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/processnode"
	"github.com/csccm/csccm/test/testenv"
)

var (
	duration = flag.Duration("duration", time.Minute, "how long to make changes; the checks at the end take a minute or two more")
	seed     = flag.Uint64("seed", 20260102, "of the random changes")
	faults   = flag.Float64("faults", 0.05, "share of the controller's calls that fail")
	most     = flag.Int("services", 8, "how many Services there are at most")
	pace     = flag.Duration("pace", 300*time.Millisecond, "time between two changes")
	profile  = flag.String("profile", "simulator", "how long CloudStack's calls and jobs take: instant, simulator or production")
)

const (
	vms          = 12 // the first two are members of foreign rules and are never removed
	firstNodes   = 5
	fewestNodes  = 3
	settle       = 10 * time.Minute
	managementUp = 2 * time.Second
	metricsPort  = 10258
)

// foreign holds addresses and rules in the same account and network that are not the controller's.
const foreign = `
publicIPs:
  - address: 198.18.7.249
    network: k8s-net
    loadBalancerRules:
      - {name: team-web, publicPort: 80, privatePort: 8080, protocol: tcp, members: [w1, w2]}
      - {name: a0123456789abcdef0123456789abcdef-tcp-443, publicPort: 443, privatePort: 30443, protocol: tcp, members: [w1]}
    firewallRules:
      - {protocol: tcp, startPort: 80, endPort: 80}
      - {protocol: tcp, startPort: 443, endPort: 443}
  - address: 198.18.7.250
    network: k8s-net
    firewallRules:
      - {protocol: tcp, startPort: 22, endPort: 22, cidrs: [192.0.2.0/24]}
`

// run is the state of a soak test. What is wanted of a Service is what the API server has of it.
type run struct {
	*testing.T
	env    *testenv.Env
	random *rand.Rand
	host   string // the address of the controller's metrics, used by nothing else, so that its port stays free between two processes

	services map[string][]string // the nodes with ready endpoints, by the name of the Service
	made     int
	nodes    map[string]bool // names of VMs that are nodes
	spare    []string        // VMs that are not nodes
	done     map[string]int  // changes by kind
}

func TestSoak(t *testing.T) {
	t.Parallel()
	path, there, err := plane.Cached(t.Context(), plane.Newest)
	require.NoError(t, err)
	if testing.Short() || !there {
		t.Skip("it takes two minutes, and needs the control plane: run go run ./cmd/plane-build")
	}
	programs, err := testenv.Build(t.Context(), testenv.BuildOptions{})
	require.NoError(t, err)
	r := &run{T: t, services: map[string][]string{}, nodes: map[string]bool{}, done: map[string]int{}, host: processnode.NewPodIP(t.Context())}
	r.random = rand.New(rand.NewPCG(*seed, 1)) // #nosec G404 -- the same seed must give the same changes
	r.env, err = testenv.New(t.Context(), testenv.Options{
		Programs: programs, Plane: path, VMs: vms, Nodes: firstNodes, Profile: *profile, Extra: foreign, Seed: *seed,
	})
	require.NoError(t, err)
	t.Cleanup(r.env.Stop)
	for i := 1; i <= vms; i++ {
		if name := fmt.Sprintf("w%d", i); i <= firstNodes {
			r.nodes[name] = true
		} else {
			r.spare = append(r.spare, name)
		}
	}
	w := r.watch()
	r.start()
	disarm := r.arm()
	begun := time.Now()
	early, late := r.change(w)
	took := time.Since(begun)
	for _, f := range disarm {
		f()
	}
	r.finish(w)
	r.print(w, took, early, late)
	require.NoError(t, errors.Join(w.err(), grown(early, late)))
}

// start starts the controller, also after a kill. --node-deletion-window, which guards against mistaken deletions of
// Nodes, is short because this test destroys VMs all the time.
func (r *run) start() {
	require.NoError(r, r.env.Spawn(r.Context(), 0, "--drift-period=10s", "--node-deletion-window=10s", "--bind-address="+r.host,
		fmt.Sprintf("--secure-port=%d", metricsPort), "--authorization-always-allow-paths=/metrics,/healthz,/readyz,/livez"))
}

// arm injects faults of every kind into the configured share of the controller's calls. It returns what removes them.
func (r *run) arm() (disarm []func()) {
	kinds := []string{"error", "error:code=530", "cut-before", "cut-after", "job-fails", "router-refuses", "throttled:delay=200ms", "delay:delay=500ms"}
	for _, k := range kinds {
		f, err := simulator.ParseFault("*:" + k)
		require.NoError(r, err)
		f.Caller, f.Probability = testenv.User, *faults/float64(len(kinds))
		disarm = append(disarm, r.env.Cloud.Inject(f))
	}
	return disarm
}

// change makes random changes for the duration, while the watch looks. The controller is killed only in the first half; then it
// returns what the process used soon after, and at the end.
func (r *run) change(w *watch) (early, late usage) {
	stop := make(chan struct{})
	var looks sync.WaitGroup
	looks.Go(func() {
		for tick := time.Tick(time.Second); ; {
			select {
			case <-stop:
				return
			case <-tick:
				w.look(r.Context())
			}
		}
	})
	defer func() { close(stop); looks.Wait() }()
	pause := time.Tick(*pace)
	do := func(from, to float64, acts []act) {
		part := time.Duration(float64(*duration) * (to - from))
		for begun := time.Now(); time.Since(begun) < part; <-pause {
			r.act(acts)
		}
	}
	do(0, 0.5, acts)
	do(0.5, 0.65, acts[1:])
	early = r.usage()
	do(0.65, 1, acts[1:])
	return early, r.usage()
}

// print logs the counts and measurements of the run as tables.
func (r *run) print(w *watch, took time.Duration, early, late usage) {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	line := func(format string, cells ...any) { _, _ = fmt.Fprintf(table, format+"\n", cells...) }
	line("\nseed\t%d", *seed)
	sum := 0
	line("\nchange\ttimes")
	for _, a := range acts {
		line("%s\t%d", a.name, r.done[a.name])
		sum += r.done[a.name]
	}
	line("all\t%d\n", sum)
	all := 0
	perMinute := func(what string, n int) { line("%s\t%d\t%.1f", what, n, float64(n)/took.Minutes()) }
	line("call of the controller\ttimes\tper minute")
	for _, c := range slices.SortedFunc(maps.Keys(w.calls), func(a, b string) int { return cmp.Or(cmp.Compare(w.calls[b], w.calls[a]), cmp.Compare(a, b)) }) {
		perMinute(c, w.calls[c])
		all += w.calls[c]
	}
	perMinute("all", all)
	perMinute("of them failed", w.failed)
	line("\nthe controller\tearlier\tat the end")
	for i, m := range gauges {
		line("%s\t%.0f\t%.0f", m.what, early[i], late[i])
	}
	line("\nlooks for broken promises\t%d", w.looks)
	line("broken promises\t%d", len(w.broken))
	_ = table.Flush()
	r.Log(text.String())
}
