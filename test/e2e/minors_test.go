// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/processnode"
)

const (
	chartDir = "../../charts/cloudstack-ccm"
	// definitionsFile has the kinds of the Prometheus operator, copied from its module.
	definitionsFile = "../../charts/testdata/apischemas/prometheus-operator.yaml"
)

// flagzSince is the first minor whose kubelets serve their flags by default.
const flagzSince plane.Minor = "1.36"

// TestMinors installs on the API server of every supported minor. First it applies the chart with each set of values,
// without nodes. Then csccm installs the chart on nodes, as a DaemonSet: nodes are initialised, a Service gets its
// address, doctor finds no problem, and the DaemonSet becomes a Deployment and a DaemonSet again. Without CSCCM_MINORS
// only the newest minor is tested; make minors sets it to all, to built, or to names.
func TestMinors(t *testing.T) { //nolint:tparallel // one control plane at a time
	t.Parallel()
	if programs.skip != "" {
		t.Skip(programs.skip)
	}

	policy, err := os.ReadFile("../../docs/support-policy.md")
	require.NoError(t, err)
	minors := plane.Minors() // the newest first
	four := fmt.Sprintf("the four latest minors: %s, %s, %s, %s |", minors[3], minors[2], minors[1], minors[0])
	require.Contains(t, string(policy), four)
	asked := os.Getenv("CSCCM_MINORS")
	for _, minor := range minors {
		t.Run(string(minor), func(t *testing.T) { //nolint:paralleltest // a control plane at a time
			if minor == plane.Newest {
				testMinor(t, minor, newClusterEnv(t, nil))
				return
			}
			_, there, err := plane.Cached(t.Context(), minor)
			require.NoError(t, err)
			if asked != "all" && !strings.Contains(asked, string(minor)) && (asked != "built" || !there) {
				const left = "NOT TESTED: Kubernetes %s (make minors tests all; each control plane is built once, in " +
					"6 to 12 minutes)"
				fmt.Fprintf(os.Stderr, left+"\n", minor)
				t.Skipf(left, minor)
			}
			folder, err := plane.Ensure(t.Context(), minor, os.Stderr)
			require.NoError(t, err)
			p, err := plane.Start(t.Context(), plane.Options{Programs: folder, Audit: true, NodeGrace: defaultGrace})
			require.NoError(t, err)
			t.Cleanup(p.Stop)
			testMinor(t, minor, newClusterEnvOn(t, p, nil))
		})
	}
}

func testMinor(t *testing.T, minor plane.Minor, e *clusterEnv) {
	t.Helper()
	version, err := e.Client.Discovery().ServerVersion()
	require.NoError(t, err)
	require.Equal(t, minor.Release(), version.GitVersion)
	t.Run("chart", e.testChart) //nolint:paralleltest // before there are nodes
	for _, o := range []processnode.Options{cp1, worker1, joined(worker2)} {
		o.KubeletVersion, o.NoFlagz = minor.Release(), minor < flagzSince
		e.join(t, o)
	}
	e.service(t, "web", 80, 443)
	// On every node, not only on control plane nodes.
	everyNode := []string{"--set", "controlPlaneOnly=false"}
	e.csccm(t, adminPassword+"\n", installArgs(e,
		append([]string{"--set", "kind=DaemonSet"}, everyNode...)...)...).want(t, 0, "3 running")
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

	// Meanwhile only one Pod at a time leads, and the load balancer does not change.
	before, w := e.rulesAt(t, ip), e.witness(t)
	for _, kind := range []string{"Deployment", "DaemonSet"} {
		e.csccm(t, "", append([]string{"upgrade", "--yes", "--set", "kind=" + kind}, everyNode...)...).want(t, 0)
		ready(kind)
	}
	require.Equal(t, before, e.rulesAt(t, ip))
	w.checkReigns(t, 3) // a leader of the DaemonSet, one of the Deployment, and one of the new DaemonSet
	if minor == plane.Newest {
		t.Run("DaemonSet", e.testDaemonSet) //nolint:paralleltest // the cluster is shared
	}
}

// testChart applies what the chart renders with each of its value sets. The API server must report no warning, and all
// objects can be deleted again.
func (e *clusterEnv) testChart(t *testing.T) {
	kubectl := func(stdin string, args ...string) {
		t.Helper()
		out, err := e.kubectl(t.Context(), stdin, append(args, "--warnings-as-errors")...)
		require.NoError(t, err, out)
	}

	kubectl("", "create", "namespace", "monitoring")
	kubectl("", "create", "-f", definitionsFile)
	kubectl("", "wait", "--for=condition=Established", "--timeout=5m", "-f", definitionsFile)
	files, err := filepath.Glob(chartDir + "/ci/*-values.yaml")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 8)
	for _, file := range files {
		path, err := filepath.Abs(file)
		require.NoError(t, err)
		// csccm refuses other names, Helm does not.
		manifest := e.csccm(t, "", "template", "--values", path,
			"--set", "nameOverride=,fullnameOverride=cloud-controller-manager").want(t, 0).out
		kubectl(manifest, "apply", "--validate=strict", "-f", "-")
		kubectl(manifest, "delete", "--timeout=5m", "-f", "-")
	}
}

// testDaemonSet changes the installed DaemonSet, rolls a change back, and removes it.
func (e *clusterEnv) testDaemonSet(t *testing.T) {
	before := e.controllerPods(t)
	e.csccm(t, "", "upgrade", "--yes", "--set", "logVerbosity=4").want(t, 0, "3 running")
	e.runs(t, "DaemonSet", cp1.Name, worker1.Name, worker2.Name)
	for _, pod := range e.controllerPods(t) {
		require.NotContains(t, before, pod, "it was not replaced")
	}
	// There is no node on which the DaemonSet may run. csccm reports this at once.
	s := e.csccm(t, "", "upgrade", "--yes", "--set-string", "nodeSelector.no-such=label")
	require.NotZero(t, s.code)
	require.Contains(t, s.all, "no node")
	e.csccm(t, "", "rollback", "--yes").want(t, 0)
	e.runs(t, "DaemonSet", cp1.Name, worker1.Name, worker2.Name)
	e.csccm(t, "", "uninstall", "--yes", "--orphan-load-balancers").want(t, 0)
	require.Empty(t, e.controllerPods(t))
}
