// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	"github.com/csccm/csccm/installer/kube/helm"
)

// TestPlainManifest applies what csccm template renders for people without Helm, twice, and removes it.
func TestPlainManifest(t *testing.T) {
	t.Parallel()
	chart := applyRequest(t, nil).Chart
	manifest, err := helm.Template(t.Context(), "kube-system", helm.ApplyRequest{Name: chart.Name(), Chart: chart, KubeVersion: "v1.37.0"})
	if err != nil {
		t.Fatal(err)
	}
	e := newDirectEnv(t, 1)
	kubectl := func(args ...string) string {
		t.Helper()
		out, err := e.kubectl(t.Context(), manifest, append(args, "-f", "-")...)
		if err != nil {
			t.Fatalf("kubectl %v: %v\n%s", args, err, out)
		}
		return out
	}
	objects := strings.Count(manifest, "\nkind: ")
	if out := kubectl("apply", "--validate=strict"); strings.Count(out, " created\n") != objects || strings.Contains(out, "Warning") {
		t.Errorf("want %d objects created and no warning:\n%s", objects, out)
	}
	// kubectl says "configured" of a PodDisruptionBudget each time, because its patches replace the selector.
	if out := kubectl("apply", "--validate=strict"); strings.Count(out, " unchanged\n")+strings.Count(out, " configured\n") != objects ||
		!strings.Contains(out, "deployment.apps/cloudstack-cloud-controller-manager unchanged\n") {
		t.Errorf("applied again, want %d objects, and the Deployment unchanged:\n%s", objects, out)
	}
	if out := kubectl("delete"); strings.Count(out, " deleted") != objects {
		t.Errorf("want %d objects deleted:\n%s", objects, out)
	}
}
