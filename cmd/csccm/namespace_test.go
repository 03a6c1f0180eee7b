// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/engine/report"
)

// A mistyped namespace must not change the Services or nodes of the controller that runs in another.
func TestNamespaceOfAnotherRelease(t *testing.T) {
	t.Parallel()
	_, config := cloudConfig(t)
	for name, args := range map[string][]string{
		"uninstall":     {"uninstall", "--orphan-load-balancers", "--remove-finalizers", "--yes"},
		"upgrade":       {"upgrade", "--yes"},
		"rollback":      {"rollback", "--yes"},
		"install":       {"install", "--cloud-config", config, "--yes"},
		"doctor":        {"doctor"},
		"status":        {"status"},
		"migrate-rules": {"migrate-rules", "--yes"},
		"taint":         {"taint", "--yes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newFakeCluster(t)
			a.set("/apis/apps/v1/deployments", `[{"metadata":{"namespace":"kube-system","name":"cloudstack-ccm","labels":{
				"app.kubernetes.io/name":"cloudstack-ccm","app.kubernetes.io/instance":"cloudstack-ccm"}}}]`)
			a.set("/api/v1/services", `[{"metadata":{"namespace":"default","name":"web","finalizers":["service.kubernetes.io/load-balancer-cleanup"]},"spec":{"type":"LoadBalancer"}}]`)
			args := append([]string{"--server", a.url, "-n", "other"}, args...)
			if name == "uninstall" || name == "upgrade" || name == "rollback" {
				args = append(args, "--journal", filepath.Join(t.TempDir(), "journal"))
			}
			c := execute(t, args...)
			require.Equal(t, report.ExitUsage, c.code, c.errOut)
			require.Contains(t, c.errOut, "error: release cloudstack-ccm is in kube-system, not in namespace other: nothing was changed\n  fix: use -n kube-system")
			require.Empty(t, a.changes(), "nothing is changed")

			args[3] = "kube-system"
			require.NotContains(t, execute(t, args...).errOut, "use -n")
		})
	}
}
