// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/test/internal/child"
)

// roundPeriod of the addresses of all Nodes: longer than a list of VMs is used, so that each round needs one.
const roundPeriod = 40 * time.Second

// TestScale measures the node half against a real API server: calls to CloudStack and seconds for nodes that
// come, stay, stop and go. By default it runs with 100 nodes; CSCCM_SCALE=10,100,1000,5000 says otherwise, and CSCCM_SCALE_ARGS gives the controller more flags (separated by blanks). The budgets are
// those of docs/nodes.md.
//
//nolint:paralleltest // a measurement wants the machine for itself
func TestScale(t *testing.T) {
	sizes := os.Getenv("CSCCM_SCALE")
	if sizes == "" {
		t.Parallel() // most of it is waiting; a measurement wants the machine for itself
		sizes = "100"
	}
	for s := range strings.SplitSeq(sizes, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil {
			t.Fatal(err)
		}
		t.Run(s, func(t *testing.T) { measure(t, n, strings.Fields(os.Getenv("CSCCM_SCALE_ARGS"))) })
	}
}

func measure(t *testing.T, n int, args []string) {
	env := newDirectEnv(t, n)
	env.register(t, 1, n, nil)
	pages := (n + 499) / 500
	env.Cloud.Ledger().Reset()
	begun := time.Now()
	// A list of VMs is used for 30 s; what takes longer needs another.
	lists := func() int { return pages * (1 + int(time.Since(begun)/(30*time.Second))) }
	p := env.controller(t, "ccm-a", append([]string{"--leader-elect=false", "--node-status-update-frequency=" + roundPeriod.String()}, args...)...)
	env.initialised(t, n, 30*time.Minute)
	row(t, n, "init", time.Since(begun), env.calls())
	atMost(t, "init", env.calls()["listVirtualMachines"], lists())
	rest, peak := memory(t, p)

	rounds := len(roundLines(t, p))
	env.Cloud.Ledger().Reset()
	wait(t, 5*roundPeriod, "a round of all nodes", func(context.Context) error {
		if len(roundLines(t, p)) <= rounds {
			return errors.New("not yet")
		}
		return nil
	})
	lines := roundLines(t, p)
	took, err := time.ParseDuration(lines[len(lines)-1])
	if err != nil {
		t.Fatal(err)
	}
	row(t, n, "steady round", took, env.calls())
	atMost(t, "steady round", env.calls()["listVirtualMachines"], pages)

	stopped, destroyed := fmt.Sprintf("w%d", n), fmt.Sprintf("w%d", n-1)
	vm := env.VM(stopped)
	if _, err := env.Cloud.Admin(t.Context(), "stopVirtualMachine", map[string]string{"id": vm, "forced": "true"}); err != nil {
		t.Fatal(err)
	}
	env.Cloud.Ledger().Reset()
	begun = time.Now()
	env.notReady(t, stopped)
	took = wait(t, limit, "the taint of a stopped VM", func(ctx context.Context) error {
		node, err := env.Client.CoreV1().Nodes().Get(ctx, stopped, metav1.GetOptions{})
		if err != nil || !hasTaint(node, shutdown) {
			return errors.Join(err, errors.New("not yet"))
		}
		return nil
	})
	row(t, n, "one VM stopped", took, env.calls())
	atMost(t, "one VM stopped", env.calls()["listVirtualMachines"], max(2*pages, lists()))

	vm = env.VM(destroyed)
	if _, err := env.Cloud.Admin(t.Context(), "destroyVirtualMachine", map[string]string{"id": vm, "expunge": "true"}); err != nil {
		t.Fatal(err)
	}
	env.Cloud.Ledger().Reset()
	begun = time.Now()
	env.notReady(t, destroyed)
	took = wait(t, limit, "the Node of a destroyed VM to go", func(ctx context.Context) error {
		_, err := env.Client.CoreV1().Nodes().Get(ctx, destroyed, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("not yet"))
	})
	row(t, n, "one VM destroyed", took, env.calls())
	atMost(t, "one VM destroyed", env.calls()["listVirtualMachines"], max(2*pages, lists())+1)
	t.Logf("SCALE | %d | memory | %d MiB after init, %d MiB at the peak |", n, rest, peak)
}

func row(t *testing.T, n int, what string, took time.Duration, calls map[string]int) {
	t.Helper()
	t.Logf("SCALE | %d | %s | %.1f s | %v |", n, what, took.Seconds(), calls)
}

func atMost(t *testing.T, what string, got, most int) {
	t.Helper()
	if got > most {
		t.Errorf("%s: %d lists of VMs, at most %d are due", what, got, most)
	}
}

var roundLine = regexp.MustCompile(`Update \d\d+ nodes status took ([0-9a-zµ.]+)\.`)

// roundLines are the durations of the rounds that the framework has logged.
func roundLines(t *testing.T, p *child.Process) []string {
	t.Helper()
	log, err := os.ReadFile(p.Log)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range roundLine.FindAllStringSubmatch(string(log), -1) {
		out = append(out, m[1])
	}
	return out
}

// memory is a process's resident memory and its peak, in MiB.
func memory(t *testing.T, p *child.Process) (now, peak int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(string(status), "\n") {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		kib, _ := strconv.Atoi(f[1])
		switch f[0] {
		case "VmRSS:":
			now = kib >> 10
		case "VmHWM:":
			peak = kib >> 10
		}
	}
	return now, peak
}
