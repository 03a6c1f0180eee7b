// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/commands/cks"
	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/pkg/simulator"
)

func planOf(t *testing.T, c command) *cks.Plan {
	t.Helper()
	p := decode[cks.Plan](t, c)
	require.Equal(t, 1, p.SchemaVersion)
	return p
}

// writes are the commands that changed something.
func writes(cloud *testenv.Cloud) []string {
	var out []string
	for _, call := range cloud.Ledger().Calls() {
		if !strings.HasPrefix(call.Command, "list") && !strings.HasPrefix(call.Command, "log") && !strings.HasPrefix(call.Command, "get") && !strings.HasPrefix(call.Command, "query") {
			out = append(out, call.Command)
		}
	}
	return out
}

// Each command that changes a cluster: a dry run writes nothing, --yes is needed, the good way, and a second run that finds
// nothing to do.
func TestCKSChanges(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args   []string
		before []string // command that comes first
		call   string
		check  func(t *testing.T, k *cloudapi.KubernetesCluster)
	}{
		"scale":      {[]string{"scale", "demo", "--size", "3"}, nil, "scaleKubernetesCluster", func(t *testing.T, k *cloudapi.KubernetesCluster) { t.Helper(); require.Equal(t, 3, k.Size) }},
		"scale down": {[]string{"scale", "demo", "--size", "1"}, nil, "scaleKubernetesCluster", func(t *testing.T, k *cloudapi.KubernetesCluster) { t.Helper(); require.Equal(t, 1, k.Size) }},
		"scale offerings": {[]string{"scale", "demo", "--worker-offering", "big"}, nil, "scaleKubernetesCluster", func(t *testing.T, k *cloudapi.KubernetesCluster) {
			t.Helper()
			require.Equal(t, "big", k.WorkerOfferingName)
		}},
		"scale offering": {[]string{"scale", "demo", "--offering", "big"}, nil, "scaleKubernetesCluster", func(t *testing.T, k *cloudapi.KubernetesCluster) {
			t.Helper()
			require.Equal(t, "big", k.OfferingName)
		}},
		"autoscaling": {[]string{"scale", "demo", "--autoscaling", "1-4"}, nil, "scaleKubernetesCluster", func(t *testing.T, k *cloudapi.KubernetesCluster) { t.Helper(); require.Equal(t, 4, k.MaxSize) }},
		"upgrade": {[]string{"upgrade", "demo", "--version", "1.33.4"}, nil, "upgradeKubernetesCluster", func(t *testing.T, k *cloudapi.KubernetesCluster) {
			t.Helper()
			require.Equal(t, "v1.33.4", k.Version)
		}},
		"stop":   {[]string{"stop", "demo"}, nil, "stopKubernetesCluster", func(t *testing.T, k *cloudapi.KubernetesCluster) { t.Helper(); require.Equal(t, "Stopped", k.State) }},
		"start":  {[]string{"start", "demo"}, []string{"stop", "demo", "--yes"}, "startKubernetesCluster", func(t *testing.T, k *cloudapi.KubernetesCluster) { t.Helper(); require.Equal(t, "Running", k.State) }},
		"delete": {[]string{"delete", "demo"}, nil, "deleteKubernetesCluster", func(t *testing.T, k *cloudapi.KubernetesCluster) { t.Helper(); require.Nil(t, k) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cloud := testenv.NewCKS(t)
			k := cloud.Cluster(t, "demo", nil)
			if tc.before != nil {
				require.Equal(t, 0, cksCommand(t, cloud, tc.before...).code)
				cloud.Ledger().Reset()
			}
			run := func(more ...string) command { return cksCommand(t, cloud, append(slices.Clone(tc.args), more...)...) }
			c := run("--dry-run")
			require.Equal(t, 0, c.code, c.errOut+c.out)
			require.Contains(t, c.out, "To do: "+tc.args[0]+" cluster demo")
			p := planOf(t, run("--dry-run", "-o", "json"))
			require.True(t, p.DryRun)
			require.Equal(t, cks.ActionChange, p.Action)
			c = run()
			require.Equal(t, 2, c.code, c.errOut)
			require.Contains(t, c.errOut, "nothing has been changed: --yes")
			require.Empty(t, writes(cloud))

			c = run("--yes", "-o", "json")
			require.Equal(t, 0, c.code, c.errOut)
			p = planOf(t, c)
			require.True(t, p.Done, c.out)
			require.NotEmpty(t, p.Job)
			require.NotEmpty(t, p.Changes)
			require.Equal(t, []string{tc.call}, writes(cloud))
			now, err := cloud.Client(t, "").KubernetesCluster(t.Context(), k.ID, "")
			require.NoError(t, err)
			tc.check(t, now)

			c = run("--yes")
			require.Equal(t, []string{tc.call}, writes(cloud), "the second run finds nothing to do")
			if tc.args[0] == "delete" {
				require.Equal(t, 2, c.code)
				return
			}
			require.Equal(t, 0, c.code, c.errOut)
			require.Contains(t, c.out, "nothing to do")
		})
	}
}

func TestCKSChangeFails(t *testing.T) {
	t.Parallel()
	cloud := testenv.NewCKS(t)
	cloud.Cluster(t, "demo", nil)
	remove := cloud.Inject(simulator.Fault{Command: "scaleKubernetesCluster", Kind: simulator.FaultCapacity})
	c := cksCommand(t, cloud, "scale", "demo", "--size", "3", "--yes", "-o", "json")
	remove()
	require.Equal(t, 1, c.code, c.errOut)
	p := planOf(t, c)
	require.False(t, p.Done)
	require.NotEmpty(t, p.Cause)
	require.Contains(t, c.errOut, "error: scale cluster demo failed, the cluster is ")
	require.Regexp(t, "csccm cks show .*--cloud-config .* demo", c.errOut)

	// A state that CloudStack would refuse stops the command before it writes.
	require.Equal(t, 0, cksCommand(t, cloud, "stop", "demo", "--yes").code)
	for _, args := range [][]string{{"scale", "demo", "--size", "3", "--yes"}, {"upgrade", "demo", "--version", "1.33.4", "--yes", "-o", "json"}} {
		cloud.Ledger().Reset()
		c = cksCommand(t, cloud, args...)
		require.Equal(t, 3, c.code, c.errOut+c.out)
		require.Contains(t, c.errOut, "only while it is Running")
		require.Empty(t, writes(cloud))
	}
	for _, args := range [][]string{
		{"scale", "demo"},
		{"scale", "demo", "--size", "0"},
		{"scale", "demo", "--size", "2", "--offering", "big"},
		{"scale", "demo", "--autoscaling", "5-2"},
		{"scale", "demo", "--offering", "nosuch"},
		{"upgrade", "demo"},
		{"upgrade", "demo", "--version", "9.9.9"},
		{"start"},
	} {
		require.Equal(t, 2, cksCommand(t, cloud, args...).code, args)
	}
}
