// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/processnode"
)

// flagzSince is the minor from which kubelets show their flags without being asked to.
const flagzSince plane.Minor = "1.36"

// TestMinors installs on the API server of every supported minor: the chart with each set of values, without nodes; then by
// csccm with nodes, as a DaemonSet: nodes are initialised, a Service gets its address, doctor is content, and the DaemonSet becomes
// a Deployment and a DaemonSet again. Without CSCCM_MINORS only the newest is tested; make minors sets it to all, to built, or to names.
// What is left out is said.
func TestMinors(t *testing.T) { //nolint:tparallel // one control plane at a time
	t.Parallel()
	if programs.skip != "" {
		t.Skip(programs.skip)
	}
	asked := os.Getenv("CSCCM_MINORS")
	for _, minor := range plane.Minors() {
		t.Run(string(minor), func(t *testing.T) { //nolint:paralleltest // a control plane at a time
			if minor == plane.Newest {
				testMinor(t, minor, newClusterEnv(t, nil))
				return
			}
			_, there, err := plane.Cached(t.Context(), minor)
			require.NoError(t, err)
			if asked != "all" && !strings.Contains(asked, string(minor)) && (asked != "built" || !there) {
				const left = "NOT TESTED: Kubernetes %s (make minors tests all; each control plane is built once, in 6 to 12 minutes)"
				fmt.Fprintf(os.Stderr, left+"\n", minor)
				t.Skipf(left, minor)
			}
			binary, err := plane.Ensure(t.Context(), minor, os.Stderr)
			require.NoError(t, err)
			p, err := plane.Start(t.Context(), plane.Options{Binary: binary, Audit: true, NodeGrace: defaultGrace})
			require.NoError(t, err)
			t.Cleanup(p.Stop)
			testMinor(t, minor, newClusterEnvOn(t, p, nil, time.Second))
		})
	}
}

func testMinor(t *testing.T, minor plane.Minor, e *clusterEnv) {
	t.Helper()
	version, err := e.Client.Discovery().ServerVersion()
	if err != nil || version.GitVersion != minor.Release() {
		t.Fatalf("the API server is %v, want %s: %v", version, minor.Release(), err)
	}
	t.Run("chart", func(t *testing.T) { testChart(t, e) }) //nolint:paralleltest // before there are nodes
	for _, o := range []processnode.Options{cp1, worker1, joined(worker2)} {
		o.KubeletVersion, o.NoFlagz = minor.Release(), minor < flagzSince
		e.join(t, o)
	}
	e.service(t, "web", 80, 443)
	// On every node, not only on those of the control plane.
	everyNode := []string{"--set", "controlPlaneOnly=false"}
	e.csccm(t, adminPassword+"\n", installArgs(e, append([]string{"--set", "kind=DaemonSet"}, everyNode...)...)...).want(t, 0, "3 running")
	ready := func(kind string) {
		t.Helper()
		nodes := []string{cp1.Name, worker1.Name, worker2.Name}
		if kind == "Deployment" {
			nodes = nil
		}
		e.runs(t, kind, nodes...)
		e.csccm(t, "", "status").want(t, 0, minor.Release(), " Pods ready, leader ")
		e.csccm(t, "", "doctor").want(t, 0)
	}
	ready("DaemonSet")
	e.initialised(t, 3)
	ip := e.address(t, "web")
	e.wantRules(t, ip, "443:demo-worker-1,demo-worker-2", "80:demo-worker-1,demo-worker-2")

	// One Pod at a time leads meanwhile, and the load balancer stays as it is.
	before, w := e.rulesAt(t, ip), e.witness(t)
	for _, kind := range []string{"Deployment", "DaemonSet"} {
		e.csccm(t, "", append([]string{"upgrade", "--yes", "--set", "kind=" + kind}, everyNode...)...).want(t, 0)
		ready(kind)
	}
	if after := e.rulesAt(t, ip); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the rules were\n%v, and are\n%v", before, after)
	}
	w.checkReigns(t, 3) // before, of the Deployment, after it
	t.Logf("Kubernetes %s: installed, nodes initialised, a Service with an address, doctor content", minor.Release())
	if minor == plane.Newest {
		t.Run("DaemonSet", e.testDaemonSet) //nolint:paralleltest // the cluster is shared
	}
}

// testDaemonSet changes the installed DaemonSet, rolls a change back, and removes it.
func (e *clusterEnv) testDaemonSet(t *testing.T) {
	before := e.controllerPods(t)
	e.csccm(t, "", "upgrade", "--yes", "--set", "logVerbosity=4").want(t, 0, "3 running")
	e.runs(t, "DaemonSet", cp1.Name, worker1.Name, worker2.Name)
	for _, pod := range e.controllerPods(t) {
		if slices.Contains(before, pod) {
			t.Errorf("%s was not replaced", pod)
		}
	}
	// No node is one that it may run on, which is said at once.
	if s := e.csccm(t, "", "upgrade", "--yes", "--set-string", "nodeSelector.no-such=label"); s.code == 0 || !strings.Contains(s.all, "no node") {
		t.Errorf("a DaemonSet for no node: csccm upgrade ended with %d:\n%s", s.code, s.all)
	}
	e.csccm(t, "", "rollback", "--yes").want(t, 0)
	e.runs(t, "DaemonSet", cp1.Name, worker1.Name, worker2.Name)
	e.csccm(t, "", "uninstall", "--yes", "--orphan-load-balancers").want(t, 0)
	if pods := e.controllerPods(t); len(pods) > 0 {
		t.Errorf("uninstalled, and there are %v", pods)
	}
}

// TestSupportPolicyNamesTheMinors holds the pages that name the tested minors to those that are.
func TestSupportPolicyNamesTheMinors(t *testing.T) {
	t.Parallel()
	var names []string
	for _, m := range plane.Minors() {
		names = append(names, string(m))
	}
	slices.Sort(names)
	for page, want := range map[string]string{
		"support-policy.md": "| supported | the four latest minors: " + strings.Join(names, ", ") + " |",
		"checks.md":         names[0] + " to " + names[len(names)-1] + " are tested",
	} {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("docs/%s does not say %q: %v", page, want, err)
		}
	}
	if len(names) != 4 {
		t.Errorf("%v are not four minors", names)
	}
}
