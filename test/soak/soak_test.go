// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package soak creates, changes and deletes Services, nodes and VMs at random. The controller runs as a process, with
// a real API server and a simulated CloudStack in which one call in twenty fails. The test looks for broken promises
// all the time. At the end it compares CloudStack with the Services exactly.
package soak

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/processnode"
	"github.com/csccm/csccm/test/testenv"
)

var (
	duration = flag.Duration("duration", 0,
		"how long to make changes; the checks at the end take a minute or two more; 0: not at all")
	seed = flag.Uint64("seed", 20260102, "of the random changes")
)

const (
	faults       = 0.05 // share of the controller's calls that fail
	pace         = 300 * time.Millisecond
	vms          = 12 // the first two are members of foreign rules and are never removed
	firstNodes   = 5
	fewestNodes  = 3
	mostServices = 8
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

// run is the state of a soak test. The wanted state of a Service is what the API server has.
type run struct {
	*testing.T
	env    *testenv.Env
	random *rand.Rand
	// the address of the controller's metrics, used by nothing else, so that its port stays free between two processes
	host string

	services map[string][]string // the nodes with ready endpoints, by the name of the Service
	made     int
	nodes    map[string]bool // names of VMs that are nodes
	spare    []string        // VMs that are not nodes
	done     map[string]int  // number of changes by kind
}

func TestSoak(t *testing.T) {
	t.Parallel()
	path, there, err := plane.Cached(t.Context(), plane.Newest)
	require.NoError(t, err)
	if *duration == 0 || !there {
		t.Skip("each night, and by make soak")
	}
	require.NoError(t, must.Catch(func() { soak(t, path) }))
}

func soak(t *testing.T, plane string) {
	r := &run{T: t, services: map[string][]string{}, nodes: map[string]bool{}, done: map[string]int{}}
	r.host = processnode.NewPodIP(t.Context())
	r.random = rand.New(rand.NewPCG(*seed, 1)) // #nosec G404 -- the same seed must give the same changes
	r.env = must.Get(testenv.New(t.Context(), testenv.Options{
		Programs: must.Get(testenv.Build(t.Context(), t.Output())), Plane: plane,
		VMs: vms, Nodes: firstNodes, Profile: "simulator", Extra: foreign, Seed: *seed,
	}))

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
	var disarm []func()
	kinds := strings.Fields("error error:code=530 cut-before cut-after job-fails router-refuses " +
		"throttled:delay=200ms delay:delay=500ms")
	for _, k := range kinds {
		f := must.Get(simulator.ParseFault("*:" + k))
		f.Caller, f.Probability = testenv.User, faults/float64(len(kinds))
		disarm = append(disarm, r.env.Cloud.Inject(f))
	}

	early, late := r.change(w)
	for _, f := range disarm {
		f()
	}

	r.finish(w)
	t.Logf("seed %d: changes %v, %d looks, %d calls failed of %v", *seed, r.done, w.looks, w.failed, w.calls)
	t.Logf("the controller used %v, at the end %v", early, late)
	require.Empty(t, w.broken)
	for name, slack := range gauges {
		require.LessOrEqual(t, late[name], early[name]*1.25+slack, "the controller grows: %s", name)
	}
}

// start starts the controller, also after a kill. --node-deletion-window protects Nodes against mistaken deletion.
// Here it is short, because this test destroys VMs all the time.
func (r *run) start() {
	must.OK(r.env.Spawn(r.Context(), 0, "--drift-period=10s", "--node-deletion-window=10s", "--bind-address="+r.host,
		fmt.Sprintf("--secure-port=%d", metricsPort),
		"--authorization-always-allow-paths=/metrics,/healthz,/readyz,/livez"))
}

// change makes random changes for the duration of the test, while w checks the cluster every second. It kills the
// controller only in the first half, so that the process then grows old. It returns the metrics of the process soon
// after the last kill and at the end.
func (r *run) change(w *watch) (early, late map[string]float64) {
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
	pause := time.Tick(pace)
	do := func(part float64, acts []act) {
		for begun := time.Now(); time.Since(begun) < time.Duration(float64(*duration)*part); <-pause {
			r.act(acts)
		}
	}

	do(0.5, acts)
	do(0.15, acts[1:])
	early = r.usage()
	do(0.35, acts[1:])
	return early, r.usage()
}

// gauges are metrics that must not grow with the process's age by more than a quarter plus the given slack.
var gauges = map[string]float64{
	"go_goroutines":                 50,
	"go_memstats_heap_inuse_bytes":  16 << 20,
	"process_resident_memory_bytes": 32 << 20,
}

// usage returns the minimum of several readings of the controller's metrics.
func (r *run) usage() map[string]float64 {
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		// #nosec G402 -- the controller's self-signed certificate, on loopback
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	defer client.CloseIdleConnections()
	least := map[string]float64{}
	for range 5 {
		testenv.Await(r.Context(), settle, "the controller's metrics", func(context.Context) {
			resp := must.Get(client.Get(fmt.Sprintf("https://%s:%d/metrics", r.host, metricsPort)))
			text := must.Get(io.ReadAll(resp.Body))
			must.OK(resp.Body.Close())
			for name := range gauges {
				found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(text)
				must.Be(found != nil, "%s is missing", name)
				value := must.Get(strconv.ParseFloat(string(found[1]), 64))
				if was, known := least[name]; !known || value < was {
					least[name] = value
				}
			}
		})
		time.Sleep(time.Second)
	}

	return least
}
