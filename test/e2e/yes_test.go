// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/test/plane"
)

// TestYesIsMissing runs every command that changes something without a terminal and without --yes: exit code 2, the flag
// is named, and nothing is changed. A dry run ends with exit code 0, in each of its forms.
func TestYesIsMissing(t *testing.T) { //nolint:tparallel // the parts share one cluster
	t.Parallel()
	d := newDirect(t, 2, plane.Options{})
	good, err := d.cloud.Config("ccm-a")
	if err != nil {
		t.Fatal(err)
	}
	file := d.file(t, "cloud-config", string(good.Render()))
	password := d.file(t, "password", "password")
	// A release with two revisions. No node runs its Pods, so the rollouts do not end.
	for _, args := range [][]string{
		{"install", "--cloud-config", file, "--skip-self-test", "--skip-taint"}, {"upgrade", "--set", "logVerbosity=3"},
	} {
		if s := d.csccm(t, nil, append(args, "--yes", "--rollout-timeout", "1s")...); s.code != 124 {
			t.Fatalf("%v: exit code %d:\n%s%s", args, s.code, s.out, s.errOut)
		}
	}
	d.register(t, 1, 2, func(n *corev1.Node) { n.Spec.Taints = nil }) // nodes that were there before the controller
	gates := []string{"--skip-gate", "controller,rollout"}
	commands := map[string][]string{
		"install": {"--cloud-config", file, "--set", "logVerbosity=4"}, "upgrade": {"--set", "logVerbosity=4"}, "rollback": nil, "uninstall": nil,
		"rotate-keys": {"--admin-user", "admin", "--admin-password-file", password}, "taint": gates,
	}
	before := d.state(t)
	unchanged := func(t *testing.T) {
		t.Helper()
		if now := d.state(t); !slices.Equal(before, now) {
			t.Errorf("it was\n%q\nand is\n%q", before, now)
		}
	}
	for command, args := range commands {
		t.Run(command, func(t *testing.T) {
			refused(t, d.csccm(t, nil, slices.Concat([]string{command}, args)...), 2, "is not given, and there is no terminal to ask on", "--yes")
			unchanged(t)
			for _, flag := range []string{"--dry-run", "--dry-run=client", "--dry-run=server", "--dry-run=true"} {
				if s := d.csccm(t, nil, slices.Concat([]string{command, flag}, args)...); s.code != 0 {
					t.Errorf("%s: exit code %d:\n%s%s", flag, s.code, s.out, s.errOut)
				}
			}
			unchanged(t)
		})
	}
}
