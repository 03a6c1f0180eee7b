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

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/test/internal/child"
)

// TestNodesThatWereThereBefore is what a migration builds on: how the controllers treat Nodes that came into
// the cluster without a cloud provider, or with another one.
func TestNodesThatWereThereBefore(t *testing.T) {
	t.Parallel()
	e := newDirectEnv(t, 6)
	id := func(name string) string { return "external-cloudstack://" + e.vms.VM(name) }
	before := map[string][2]string{ // provider ID and instance type
		"w1": {}, "w2": {}, // of a kubelet without --cloud-provider
		"w3": {"k3s://w3", ""},
		"w4": {id("w4"), "SmallInstance"},             // upstream's
		"w5": {"cloudstack:///" + e.vms.VM("w5"), ""}, // Cluster API's
	}
	e.register(t, 1, 5, func(n *corev1.Node) {
		n.Spec.Taints, n.Spec.ProviderID = nil, before[n.Name][0]
		if kind := before[n.Name][1]; kind != "" {
			n.Labels[corev1.LabelInstanceTypeStable] = kind
		}
	})
	e.register(t, 6, 6, nil) // a new one, by which we see that the controllers work
	e.controller(t, "ccm-a", "--leader-elect=false")
	has := func(name, providerID, instanceType string) {
		t.Helper()
		e.eventually(t, fmt.Sprintf("node %s to have provider ID %q and instance type %q", name, providerID, instanceType), func(context.Context) error {
			n := e.node(t, name)
			if got := n.Labels[corev1.LabelInstanceTypeStable]; hasTaint(n, taint) || n.Spec.ProviderID != providerID || got != instanceType {
				return fmt.Errorf("taints %v, provider ID %q, instance type %q", n.Spec.Taints, n.Spec.ProviderID, got)
			}
			return nil
		})
	}
	has("w6", id("w6"), "Small_Instance")
	for name, want := range before {
		if n := e.node(t, name); n.Spec.ProviderID != want[0] || n.Labels[corev1.LabelInstanceTypeStable] != want[1] {
			t.Errorf("Node %s without the taint is changed: %q, %v", name, n.Spec.ProviderID, n.Labels)
		}
	}
	for _, name := range []string{"w1", "w3", "w5"} {
		patch := fmt.Appendf(nil, `{"spec":{"taints":[{"key":%q,"value":"true","effect":"PreferNoSchedule"}]}}`, taint)
		if _, err := e.Client.CoreV1().Nodes().Patch(t.Context(), name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	has("w1", id("w1"), "Small_Instance")
	has("w3", "k3s://w3", "Small_Instance")
	has("w5", before["w5"][0], "Small_Instance")

	// One without a provider ID and one of another provider are never judged, VM or none. The third, with an id of Cluster API's
	// form, is: its end says that the controller has been round.
	for _, name := range []string{"w2", "w3", "w5"} {
		e.destroy(t, name)
	}
	e.nodeGone(t, "w5")
	e.node(t, "w2")
	e.node(t, "w3")
}

// roundPeriod of the addresses of all Nodes: longer than a list of VMs is used, so that each round needs one.
const roundPeriod = 40 * time.Second

// TestScale measures the node half against a real API server: calls to CloudStack and seconds for nodes that
// come, stay, stop and go. By default it runs with 100 nodes; CSCCM_SCALE=10,100,1000,5000 says otherwise, and
// CSCCM_SCALE_ARGS gives the controller more flags (separated by blanks). The budgets are those of docs/nodes.md.
//
//nolint:paralleltest // a measurement wants the machine for itself
func TestScale(t *testing.T) {
	sizes := os.Getenv("CSCCM_SCALE")
	if sizes == "" {
		t.Parallel() // most of it is waiting
		sizes = "100"
	}
	for s := range strings.SplitSeq(sizes, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		require.NoError(t, err)
		t.Run(s, func(t *testing.T) { measure(t, n, strings.Fields(os.Getenv("CSCCM_SCALE_ARGS"))) })
	}
}

func measure(t *testing.T, n int, args []string) {
	e := newDirectEnv(t, n)
	e.register(t, 1, n, nil)
	pages := (n + 499) / 500
	e.cloud.Ledger().Reset()
	begun := time.Now()
	// A list of VMs is used for 30 s; what takes longer needs another.
	lists := func() int { return pages * (1 + int(time.Since(begun)/(30*time.Second))) }
	report := func(what string, took time.Duration, most int) {
		t.Helper()
		t.Logf("SCALE | %d | %s | %.1f s | %v |", n, what, took.Seconds(), e.calls())
		if got := e.calls()["listVirtualMachines"]; got > most {
			t.Errorf("%s: %d lists of VMs, at most %d are due", what, got, most)
		}
		e.cloud.Ledger().Reset()
		begun = time.Now()
	}
	p := e.controller(t, "ccm-a", append([]string{"--leader-elect=false", "--node-status-update-frequency=" + roundPeriod.String()}, args...)...)
	report("init", e.initialised(t, n), lists())
	rest, peak := memory(t, p)

	rounds := len(roundLines(t, p))
	e.eventually(t, "a round of all nodes", func(context.Context) error {
		if len(roundLines(t, p)) <= rounds {
			return errors.New("not yet")
		}
		return nil
	})
	lines := roundLines(t, p)
	took, err := time.ParseDuration(lines[len(lines)-1])
	require.NoError(t, err)
	report("steady round", took, pages)

	stopped, destroyed := fmt.Sprintf("w%d", n), fmt.Sprintf("w%d", n-1)
	e.admin(t, "stopVirtualMachine", map[string]string{"id": e.vms.VM(stopped), "forced": "true"})
	e.notReady(t, stopped)
	report("one VM stopped", e.tainted(t, stopped, shutdown), max(2*pages, lists()))
	e.tainted(t, stopped, corev1.TaintNodeOutOfService) // whose look-ups are not those below
	e.cloud.Ledger().Reset()
	begun = time.Now()
	e.destroy(t, destroyed)
	// And a look-up by its id for the deletion, and one for the out-of-service taint where that comes first.
	report("one VM destroyed", e.nodeGone(t, destroyed), max(2*pages, lists())+2)
	t.Logf("SCALE | %d | memory | %d MiB after init, %d MiB at the peak |", n, rest, peak)
}

var roundLine = regexp.MustCompile(`Update \d\d+ nodes status took ([0-9a-zµ.]+)\.`)

// roundLines are the durations of the rounds that the framework has logged.
func roundLines(t *testing.T, p *child.Process) (out []string) {
	t.Helper()
	log, err := os.ReadFile(p.Log)
	require.NoError(t, err)
	for _, m := range roundLine.FindAllStringSubmatch(string(log), -1) {
		out = append(out, m[1])
	}
	return out
}

// memory is a process's resident memory and its peak, in MiB.
func memory(t *testing.T, p *child.Process) (now, peak int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	require.NoError(t, err)
	for line := range strings.SplitSeq(string(status), "\n") {
		_, _ = fmt.Sscanf(line, "VmRSS: %d kB", &now)
		_, _ = fmt.Sscanf(line, "VmHWM: %d kB", &peak)
	}
	return now >> 10, peak >> 10
}
