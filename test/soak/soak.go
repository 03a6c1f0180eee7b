// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/processnode"
	"github.com/csccm/csccm/test/testenv"
)

// options configures a run.
type options struct {
	Programs       testenv.Binaries
	Plane          string
	Duration, Pace time.Duration
	Seed           int64
	Faults         float64
	Services       int
	Profile        string
	Out            io.Writer
}

const (
	vms          = 12 // the first two are members of foreign rules and are never removed
	firstNodes   = 5
	fewestNodes  = 3
	settle       = 10 * time.Minute
	controller   = testenv.User
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

// run is the state of a soak test.
type run struct {
	options
	env    *testenv.Env
	random *rand.Rand
	host   string // the address of the controller's metrics, used by nothing else, so that its port stays free between two processes

	services map[string]*service // desired state by name, as last written to the API server
	made     int
	nodes    map[string]bool // names of VMs that are nodes
	spare    []string        // VMs that are not nodes
	vmsMade  int
	done     map[string]int // changes by kind

	disarm []func() // each removes a fault
	served int      // number of Services whose rules were correct at the end
	watch  *watch
	gauges gauges
}

// soak runs everything and prints the summary.
func soak(ctx context.Context, o options) (err error) {
	defer must.Return(&err)
	r := &run{options: o, services: map[string]*service{}, nodes: map[string]bool{}, done: map[string]int{}}
	r.random = rand.New(rand.NewPCG(uint64(o.Seed), 1)) // #nosec G115 G404 -- the same seed must give the same changes
	_, _ = fmt.Fprintf(o.Out, "soak: seed %d, %s, %.0f %% faults\n", o.Seed, o.Duration, 100*o.Faults)
	r.env = must.Get(testenv.New(ctx, testenv.Options{
		Programs: o.Programs, Plane: o.Plane, VMs: vms, Nodes: firstNodes, Profile: o.Profile, Extra: foreign, Seed: uint64(o.Seed), // #nosec G115 -- any number is a valid seed
	}))
	defer r.env.Stop()
	for i := 1; i <= vms; i++ {
		if name := fmt.Sprintf("w%d", i); i <= firstNodes {
			r.nodes[name] = true
		} else {
			r.spare = append(r.spare, name)
		}
	}
	r.watch = must.Get(newWatch(ctx, r.env))
	r.host = processnode.NewPodIP(ctx)
	must.OK(r.start(ctx))
	begun := time.Now()
	err = r.change(ctx)
	took := time.Since(begun)
	err = errors.Join(err, must.Catch(func() { r.finish(ctx) }))
	r.print(took)
	return errors.Join(err, r.watch.err(), r.gauges.err())
}

// start starts the controller, also after a kill. --node-deletion-window, which guards against mistaken deletions of
// Nodes, is short because this test destroys VMs all the time.
func (r *run) start(ctx context.Context) error {
	return r.env.Spawn(ctx, 0, "--drift-period=10s", "--node-deletion-window=10s", "--bind-address="+r.host, fmt.Sprintf("--secure-port=%d", metricsPort),
		"--authorization-always-allow-paths=/metrics,/healthz,/readyz,/livez")
}

// arm injects faults of every kind into the configured share of the controller's calls.
func (r *run) arm() (err error) {
	defer must.Return(&err)
	kinds := []string{"error", "error:code=530", "cut-before", "cut-after", "job-fails", "router-refuses", "throttled:delay=200ms", "delay:delay=500ms"}
	for _, k := range kinds {
		f := must.Get(simulator.ParseFault("*:" + k))
		f.Caller, f.Probability = controller, r.Faults/float64(len(kinds))
		r.disarm = append(r.disarm, r.env.Cloud.Inject(f))
	}
	return nil
}

// change makes random changes for the duration and checks the invariants meanwhile.
func (r *run) change(ctx context.Context) error {
	if err := r.arm(); err != nil {
		return err
	}
	all := ctx
	ctx, cancel := context.WithTimeout(ctx, r.Duration)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { r.watch.run(ctx, time.Second) })
	wg.Go(func() {
		r.gauges.run(ctx, r.host)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			r.gauges.fill(all, r.host)
		}
	})
	defer wg.Wait()
	tick := time.NewTicker(r.Pace)
	defer tick.Stop()
	begun := time.Now()
	for {
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil
			}
			return ctx.Err()
		case <-tick.C:
			// The controller is killed only in the first half: memory is compared within
			// one process. A change that has begun is completed: its context is not ctx.
			if err := r.act(all, time.Since(begun) < r.Duration/2); err != nil && all.Err() == nil {
				cancel()
				return err
			}
		}
	}
}
