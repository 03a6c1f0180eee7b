// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/commands/migrate"
	"github.com/csccm/csccm/pkg/cloudstack"
)

const oldLB = "a0123456789abcdef0123456789abcde"

// serviceOfOldRules owns the rules of the example world, by its UID.
const serviceOfOldRules = `[{"metadata":{"namespace":"default","name":"web","uid":"01234567-89ab-cdef-0123-456789abcdef"},"spec":{"type":"LoadBalancer"}}]`

func TestMigrateRules(t *testing.T) {
	t.Parallel()
	a := newFakeCluster(t)
	cloud, file := cloudConfig(t)
	secretKey := cloud.Config(t, "").SecretKey
	a.set("/api/v1/services", serviceOfOldRules)
	base := []string{"migrate-rules", "--server", a.url, "--cloud-config", file}
	journal := filepath.Join(t.TempDir(), "journal.jsonl")

	// Neither a dry run nor a run without --yes changes anything.
	for _, extra := range []string{"--dry-run", "--non-interactive"} {
		c := execute(t, append(base, extra)...)
		if extra == "--non-interactive" {
			require.Equal(t, 2, c.code, c.errOut)
		} else {
			require.Equal(t, 0, c.code, c.errOut)
		}
		require.Contains(t, c.out, oldLB+"-80")
		require.Contains(t, c.out, "rename to "+oldLB+"-tcp-80")
		require.Contains(t, c.out, "default/web")
		require.Contains(t, c.out, "2 to rename")
	}
	require.Zero(t, cloud.Ledger().Count("updateLoadBalancerRule"))

	c := execute(t, append(base, "--yes", "--journal", journal)...)
	require.Equal(t, 0, c.code, c.errOut)
	require.Contains(t, c.out, "2 rules renamed; journal: "+journal+"\nUndo:  csccm migrate-rules --server "+a.url+" --cloud-config "+file+" --undo "+journal+"\n")
	require.Contains(t, c.errOut, oldLB+"-80 -> "+oldLB+"-tcp-80: renamed")
	require.Equal(t, 2, cloud.Ledger().Count("updateLoadBalancerRule"))
	text, err := os.ReadFile(journal)
	require.NoError(t, err)
	require.NotContains(t, string(text)+c.out+c.errOut, secretKey)

	// A second run finds nothing to do.
	c = execute(t, append(base, "--yes", "-o", "json")...)
	require.Equal(t, 0, c.code, c.errOut)
	var r migrate.Result
	require.NoError(t, json.Unmarshal([]byte(c.out), &r))
	require.Empty(t, r.Steps)
	require.Len(t, r.Rules, 2)
	require.EqualValues(t, "current", r.Rules[0].Verdict)
	require.Equal(t, 2, r.Rules[0].Members)
}

// A deletion is shown as one, and the address that is left without a rule is named with what to do about it.
func TestMigrateRulesDeletesOrphans(t *testing.T) {
	t.Parallel()
	a := newFakeCluster(t)
	_, file := cloudConfig(t)
	a.set("/api/v1/nodes", `[{"metadata":{"name":"demo-worker-1"}},{"metadata":{"name":"demo-worker-2"}}]`)
	base := []string{"migrate-rules", "--server", a.url, "--cloud-config", file}
	c := execute(t, append(base, "--dry-run")...)
	require.Contains(t, c.out, "none: orphan")
	require.NotContains(t, c.out, "address 203.0.113.20")
	c = execute(t, append(base, "--dry-run", "--delete-orphans")...)
	require.Equal(t, 0, c.code, c.errOut)
	require.Contains(t, c.out, "delete (orphan)")
	require.Regexp(t, `! address 203\.0\.113\.20 has no load balancer rule any more and stays acquired: release it in\s+CloudStack \(id \S+\)`, c.out)
	c = execute(t, append(base, "--dry-run", "--delete-orphans", "-o", "json")...)
	var r migrate.Result
	require.NoError(t, json.Unmarshal([]byte(c.out), &r))
	require.EqualValues(t, "delete", r.Rules[0].Action)
	require.EqualValues(t, "orphan", r.Rules[0].Verdict)
	require.Len(t, r.Emptied, 1)
	require.Equal(t, "203.0.113.20", r.Emptied[0].IP)
}

func TestMigrateRulesWithoutTheService(t *testing.T) {
	t.Parallel()
	a := newFakeCluster(t)
	cloud, file := cloudConfig(t)
	a.set("/api/v1/nodes", `[{"metadata":{"name":"demo-worker-1"}},{"metadata":{"name":"demo-worker-2"}}]`)
	base := []string{"migrate-rules", "--server", a.url, "--cloud-config", file, "--yes", "--journal", filepath.Join(t.TempDir(), "j")}
	c := execute(t, base...)
	require.Equal(t, 0, c.code, c.errOut)
	require.Contains(t, c.out, "0 to rename, 0 to delete, 0 with the current name, 2 orphan, 0 unattributed, 0 surplus")
	require.Contains(t, c.out, "all its members are nodes of this cluster")
	require.Contains(t, c.out, "--lb "+oldLB)
	require.Zero(t, cloud.Ledger().Count("updateLoadBalancerRule"))

	c = execute(t, append(base, "--lb", oldLB, "-o", "json")...)
	require.Equal(t, 0, c.code, c.errOut)
	var r migrate.Result
	require.NoError(t, json.Unmarshal([]byte(c.out), &r))
	require.False(t, r.DryRun)
	require.Equal(t, 2, r.Done)
	require.NotEmpty(t, r.Journal)
	require.Equal(t, 2, cloud.Ledger().Count("updateLoadBalancerRule"))
}

func TestMigrateRulesErrors(t *testing.T) {
	t.Parallel()
	a := newFakeCluster(t)
	_, file := cloudConfig(t)
	a.set("/api/v1/services", serviceOfOldRules)
	foreign := filepath.Join(t.TempDir(), "foreign")
	require.NoError(t, os.WriteFile(foreign, []byte(`{"event":"run"}`+"\n"+`{"event":"before","before":{"apiUrl":"https://another/client/api"}}`+"\n"), 0o600))
	for says, args := range map[string][]string{
		"https://another/client/api":                            {"--undo", foreign},
		"--lb " + oldLB + "0: no rule is of that load balancer": {"--lb", oldLB, "--lb", oldLB + "0"},
	} {
		c := execute(t, append([]string{"migrate-rules", "--server", a.url, "--cloud-config", file}, args...)...)
		require.Equal(t, 2, c.code, c.out+c.errOut)
		require.Contains(t, c.errOut, says)
	}
}

// Rules of a provider that still runs are not renamed behind its back.
func TestMigrateRulesOfARunningProvider(t *testing.T) {
	t.Parallel()
	a := newFakeCluster(t)
	cloud, file := cloudConfig(t)
	client := cloud.Client(t, "")
	rules, err := client.ListLoadBalancerRules(t.Context(), cloudstack.LoadBalancerRuleQuery{Name: oldLB + "-80"})
	require.NoError(t, err)
	require.Len(t, rules, 1)
	s, err := client.UpdateLoadBalancerRule(t.Context(), cloudstack.UpdateLoadBalancerRuleRequest{
		ID: rules[0].ID, Name: "K8s_svc_kubernetes_default_web-tcp-80", Protocol: "tcp", Algorithm: rules[0].Algorithm,
	})
	require.NoError(t, err)
	_, err = client.Jobs().Wait(t.Context(), "updateLoadBalancerRule", s.JobID)
	require.NoError(t, err)

	a.set("/api/v1/services", `[{"metadata":{"namespace":"default","name":"web","uid":"01234567-89ab-cdef-0123-456789abcdef"},
		"spec":{"type":"LoadBalancer"},"status":{"loadBalancer":{"ingress":[{"ip":"203.0.113.20"}]}}}]`)
	a.set("/apis/apps/v1/deployments", `[{"metadata":{"namespace":"lw","name":"cloud-controller-manager"},"spec":{"replicas":1,"selector":{},"template":{}}}]`)
	base := []string{"migrate-rules", "--server", a.url, "--cloud-config", file, "--journal", filepath.Join(t.TempDir(), "j")}
	cloud.Ledger().Reset()
	c := execute(t, append(base, "--yes")...)
	require.Equal(t, 3, c.code)
	require.Contains(t, c.errOut, "Deployment lw/cloud-controller-manager")
	require.Contains(t, c.out, "2 to rename", "the plan is shown")
	require.Zero(t, cloud.Ledger().Count("updateLoadBalancerRule"))
	dry := execute(t, append(base, "--dry-run")...)
	require.Equal(t, c, dry, "a dry run promises what the run does")

	a.set("/apis/apps/v1/deployments", `[]`)
	c = execute(t, append(base, "--yes")...)
	require.Equal(t, 0, c.code, c.errOut)
	require.Equal(t, 2, cloud.Ledger().Count("updateLoadBalancerRule"))
}
