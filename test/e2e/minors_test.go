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

	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/processnode"
)

// flagzSince is the minor from which kubelets show their flags without being asked to.
const flagzSince plane.Minor = "1.36"

// TestMinors installs on the API server of every supported minor: the chart with each set of values, without nodes; then by
// csccm with nodes, which are initialised, a Service gets its address, doctor is content, and the Deployment becomes a
// DaemonSet and a Deployment again. Control planes that are not built are built only if CSCCM_MINORS=all (make minors) or names them;
// what is left out is said.
func TestMinors(t *testing.T) { //nolint:tparallel // one control plane at a time
	t.Parallel()
	if programs.skip != "" {
		t.Skip(programs.skip)
	}
	asked := strings.Split(os.Getenv("CSCCM_MINORS"), ",")
	for _, minor := range plane.Minors() {
		t.Run(string(minor), func(t *testing.T) { //nolint:paralleltest // a control plane at a time
			binary, there, err := plane.Cached(t.Context(), minor)
			if err != nil {
				t.Fatal(err)
			}
			if !there && !slices.Contains(asked, string(minor)) && !slices.Contains(asked, "all") {
				const left = "NOT TESTED: the control plane of Kubernetes %s is not built here (make minors builds it, in 6 to 12 minutes)"
				fmt.Fprintf(os.Stderr, left+"\n", minor)
				t.Skipf(left, minor)
			}
			if !there {
				if binary, err = plane.Ensure(t.Context(), minor, plane.Print(os.Stderr)); err != nil {
					t.Fatal(err)
				}
			}
			p, err := plane.Start(t.Context(), plane.Options{Minor: minor, Binary: binary, Audit: true, NodeGrace: defaultGrace})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.Stop)
			env := newClusterEnvOn(t, p, nil, time.Second)
			version, err := env.Client.Discovery().ServerVersion()
			if err != nil || version.GitVersion != minor.Release() {
				t.Fatalf("the API server is %v, want %s: %v", version, minor.Release(), err)
			}
			t.Run("chart", func(t *testing.T) { testChart(t, env) }) //nolint:paralleltest // before there are nodes
			for _, o := range []processnode.Options{cp1, worker1, joined(worker2)} {
				o.KubeletVersion, o.NoFlagz = minor.Release(), minor < flagzSince
				env.join(t, o)
			}
			env.balanced(t, "web", 80, 443)
			out, code := env.csccm(t, adminPassword+"\n", installArgs(env)...)
			if code != 0 {
				t.Fatalf("csccm install on %s ended with %d:\n%s", minor.Release(), code, out)
			}
			env.initialized(t, cp1.Name, worker1.Name, worker2.Name)
			env.wantRules(t, env.address(t, "web"), "443:demo-worker-1,demo-worker-2", "80:demo-worker-1,demo-worker-2")
			if out, code := env.csccm(t, "", "doctor"); code != 0 {
				t.Errorf("doctor on %s ended with %d:\n%s", minor.Release(), code, out)
			}
			if out, code := env.csccm(t, "", "status"); code != 0 || !strings.Contains(out, minor.Release()) {
				t.Errorf("status on %s ended with %d:\n%s", minor.Release(), code, out)
			}
			t.Run("as a DaemonSet and back", func(t *testing.T) { testKinds(t, env) }) //nolint:paralleltest // the cluster is shared
			t.Logf("Kubernetes %s: installed, nodes initialised, a Service with an address, doctor content", minor.Release())
		})
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
		"support-policy.md": "| supported | the three latest minors: " + strings.Join(names, ", ") + " |",
		"checks.md":         names[0] + " to " + names[len(names)-1] + " are tested",
		"chart.md":          "every set of `ci/` on " + strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1] + " (",
	} {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("docs/%s does not say %q: %v", page, want, err)
		}
	}
	if len(names) != 3 {
		t.Errorf("%v are not three minors", names)
	}
}
