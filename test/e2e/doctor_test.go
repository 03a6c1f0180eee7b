// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/processnode"
	"github.com/csccm/csccm/test/testenv"
)

const (
	manyNodes    = 100
	manyServices = 50
)

// manyWorld has a VM for each of n nodes and a public address for each of as many Services.
func manyWorld(t *testing.T, n int) *simulator.World {
	t.Helper()
	var w strings.Builder
	w.WriteString(`
zones:
  - {name: zone-1, publicRanges: [203.0.113.10-203.0.113.199]}
accounts:
  - {name: k8s, role: User, users: [{name: k8s-owner}], limits: {publicIPs: -1, virtualMachines: -1}}
networks:
  - {name: k8s-net, account: k8s, cidr: 10.1.0.0/16}
virtualMachines:
`)
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&w, "  - {name: w%d, account: k8s, nics: [{network: k8s-net, ip: %s}]}\n", i, testenv.VMAddress(i))
	}
	world, err := simulator.LoadWorld(strings.NewReader(w.String()))
	require.NoError(t, err)
	return world
}

// TestDoctorOnAHundredNodes measures doctor on a healthy cluster of 100 nodes, each with a kubelet that answers, and 50
// Services of type LoadBalancer. What it costs is asserted, how long it takes on this machine is printed; the
// goal on a free one is 5 s.
func TestDoctorOnAHundredNodes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a hundred nodes: not with -short")
	}
	// As many nodes would keep the machine busy with their heartbeats.
	e := newClusterEnvOn(t, borrow(t, plane.Options{NodeGrace: 2 * time.Minute}), manyWorld(t, manyNodes), 20*time.Second)
	joins := errgroup.Group{}
	joins.SetLimit(8)
	for i := 1; i <= manyNodes; i++ {
		joins.Go(func() error {
			_, err := e.nodes.Join(t.Context(), processnode.Options{Name: fmt.Sprintf("w%d", i), Address: testenv.VMAddress(i)})
			return err
		})
	}
	require.NoError(t, joins.Wait())
	e.secret(t, string(e.config(t, owner).Render()))
	e.install(t, map[string]any{"controlPlaneOnly": false, "driftPeriod": "10h"}) // its calls would count as doctor's
	for i := range manyServices {
		e.service(t, fmt.Sprintf("web-%d", i), 80)
	}
	e.runs(t, "Deployment")
	e.initialised(t, manyNodes)
	for i := range manyServices {
		e.address(t, fmt.Sprintf("web-%d", i))
	}

	e.cloud.Ledger().Reset()
	begun := time.Now()
	s := e.csccm(t, "", "doctor", "-o", "json").want(t, 0)
	took := time.Since(begun)
	var r check.Report
	require.NoError(t, json.Unmarshal([]byte(s.out), &r))
	calls := len(e.cloud.Ledger().Calls())
	// The controller may make some of its own meanwhile.
	if calls > 30 {
		t.Errorf("%d calls to CloudStack", calls)
	}
	t.Logf("DOCTOR | %d nodes, %d Services | %.1f s, of which the checks took %.1f s | %d calls to CloudStack |",
		manyNodes, manyServices, took.Seconds(), float64(r.DurationMs)/1000, calls)
	slices.SortFunc(r.Checks, func(a, c check.Result) int { return cmp.Compare(c.DurationMs, a.DurationMs) })
	for _, c := range r.Checks[:8] {
		t.Logf("DOCTOR | %s | %d ms | %s", c.Code, c.DurationMs, c.Message)
	}
}
