// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/pkg/simulator"
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
	if err != nil {
		t.Fatal(err)
	}
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
	env := newClusterEnvOf(t, manyWorld(t, manyNodes), 20*time.Second, 2*time.Minute)
	env.joinMany(t, manyNodes)
	env.secret(t, string(env.config(t).Render()))
	env.install(t, embedded(t), map[string]any{"driftPeriod": "10h"}) // its calls would count as doctor's
	for i := range manyServices {
		env.balanced(t, fmt.Sprintf("web-%d", i), 80)
	}
	env.eventually(t, "all nodes and Services to be ready", func(ctx context.Context) error {
		nodes, err := env.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		services, serr := env.Client.CoreV1().Services(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
		if err := errors.Join(err, serr); err != nil {
			return err
		}
		waiting := 0
		for i := range nodes.Items {
			if hasTaint(&nodes.Items[i], taint) {
				waiting++
			}
		}
		for i := range services.Items {
			if s := &services.Items[i]; s.Spec.Type == "LoadBalancer" && len(s.Status.LoadBalancer.Ingress) == 0 {
				waiting++
			}
		}
		if waiting > 0 {
			return fmt.Errorf("%d wait", waiting)
		}
		return nil
	})

	env.cloud.Ledger().Reset()
	begun := time.Now()
	out, code := env.csccm(t, "", "doctor", "-o", "json")
	took := time.Since(begun)
	if code != 0 {
		t.Fatalf("doctor ended with %d:\n%s", code, out)
	}
	var r check.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	calls := len(env.cloud.Ledger().Calls())
	// One for each rule; the rest is read once, and the controller may make some of its own meanwhile.
	if calls > manyServices+20 {
		t.Errorf("%d calls to CloudStack", calls)
	}
	t.Logf("DOCTOR | %d nodes, %d Services | %.1f s, of which the checks took %.1f s | %d calls to CloudStack |",
		manyNodes, manyServices, took.Seconds(), float64(r.DurationMs)/1000, calls)
	slices.SortFunc(r.Checks, func(a, c check.Result) int { return cmp.Compare(c.DurationMs, a.DurationMs) })
	for _, c := range r.Checks[:8] {
		t.Logf("DOCTOR | %s | %d ms | %s", c.Code, c.DurationMs, c.Message)
	}
}

// joinMany joins the nodes w1 ... wN, some at once.
func (env *clusterEnv) joinMany(t *testing.T, n int) {
	t.Helper()
	numbers := make(chan int)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range numbers {
				if _, err := env.Join(t.Context(), processnode.Options{Name: fmt.Sprintf("w%d", i), Address: testenv.VMAddress(i)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := 1; i <= n; i++ {
		numbers <- i
	}
	close(numbers)
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}
