// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// TestMigrateRulesThereAndBack goes there and back over rules of every kind: legacy names, a duplicate on
// another address, an orphan, and another cluster's.
func TestMigrateRulesThereAndBack(t *testing.T) {
	t.Parallel()
	a := newFakeCluster(t)
	cloud, file := cloudConfig(t)
	secretKey := cloud.Config(t, "").SecretKey
	client := cloud.Client(t, "")
	const gone, foreign = "affffffffffffffffffffffffffffff0", "affffffffffffffffffffffffffffff1"
	vms, err := client.ListVirtualMachines(t.Context(), cloudstack.VMQuery{})
	require.NoError(t, err)
	ids := map[string]string{}
	for i := range vms {
		ids[vms[i].Name] = vms[i].ID
	}
	networks, err := client.ListNetworks(t.Context(), cloudstack.NetworkQuery{})
	require.NoError(t, err)
	s, err := client.AssociateIP(t.Context(), cloudstack.AssociateIPRequest{NetworkID: networks[0].ID})
	require.NoError(t, err)
	_, err = client.Jobs().Wait(t.Context(), "associateIpAddress", s.JobID)
	require.NoError(t, err)
	add := func(name string, port int, members ...string) {
		r, err := client.CreateLoadBalancerRule(t.Context(), cloudstack.CreateLoadBalancerRuleRequest{
			Name: name, Algorithm: "roundrobin", Protocol: "tcp", PublicIPID: s.ID, PublicPort: port, PrivatePort: 30000 + port,
		})
		require.NoError(t, err)
		_, err = client.Jobs().Wait(t.Context(), "createLoadBalancerRule", r.JobID)
		require.NoError(t, err)
		r, err = client.AssignToLoadBalancerRule(t.Context(), r.ID, cloudstack.VMs(members...))
		require.NoError(t, err)
		_, err = client.Jobs().Wait(t.Context(), "assignToLoadBalancerRule", r.JobID)
		require.NoError(t, err)
	}
	add(oldLB+"-tcp-80", 80, ids["demo-worker-1"]) // beside the legacy one on the Service's address
	add(gone+"-tcp-81", 81, ids["demo-worker-1"])  // its Service is gone
	add(foreign+"-tcp-82", 82, ids["demo-cp-1"])   // the VM is no node of this cluster
	add("made by hand", 83, ids["demo-worker-1"])  // of nobody
	before := states(t, client)

	a.set("/api/v1/services", `[{"metadata":{"namespace":"default","name":"web","uid":"01234567-89ab-cdef-0123-456789abcdef"},
		"spec":{"type":"LoadBalancer"},"status":{"loadBalancer":{"ingress":[{"ip":"203.0.113.20"}]}}}]`)
	a.set("/api/v1/nodes", `[{"metadata":{"name":"demo-worker-1"}},{"metadata":{"name":"demo-worker-2"}}]`)
	var text strings.Builder
	dir := t.TempDir()
	run := func(args ...string) string {
		c := execute(t, append([]string{"migrate-rules", "--server", a.url, "--cloud-config", file}, args...)...)
		require.Equal(t, 0, c.code, c.errOut)
		fmt.Fprintf(&text, "$ csccm migrate-rules %s\n%s%s\n", strings.Join(args, " "), c.out, c.errOut)
		return c.out
	}
	out := run("--dry-run")
	require.Contains(t, out, "2 to rename, 1 to delete, 0 with the current name, 1 orphan, 1 unattributed, 1 surplus, 0 duplicate, 1 of others")
	require.Equal(t, before, states(t, client))

	journal := filepath.Join(dir, "journal.jsonl")
	out = run("--yes", "--delete-orphans", "--journal", journal)
	require.Contains(t, out, "2 rules renamed, 2 rules deleted")
	after := states(t, client)
	require.Len(t, after, len(before)-2)
	for _, left := range []string{foreign + "-tcp-82", "made by hand"} {
		require.Contains(t, strings.Join(after, "\n"), left)
	}
	require.Contains(t, run("--dry-run"), "0 to rename, 0 to delete, 2 with the current name")

	out = run("--undo", journal, "--yes", "--journal", filepath.Join(dir, "undo.jsonl"))
	require.Contains(t, out, "2 rules renamed, 2 rules made again")
	require.Equal(t, before, states(t, client), "name, address, port, protocol, algorithm and members are as they were")
	cloud.Ledger().Reset()
	require.Equal(t, "Nothing to undo: what "+journal+" records is as it was before.\n", run("--undo", journal))
	require.Zero(t, cloud.Ledger().Count("updateLoadBalancerRule"))
	require.NotContains(t, text.String(), secretKey)
}

// states are all rules without their ids.
func states(t *testing.T, client *cloudapi.Client) []string {
	t.Helper()
	list, err := rules.Read(t.Context(), client, "")
	require.NoError(t, err)
	var out []string
	for i := range list {
		r := &list[i]
		protocol := r.Protocol
		if protocol == "" {
			protocol = "tcp" // CloudStack cannot take a protocol away again
		}
		out = append(out, fmt.Sprintf("%s %s:%d->%d %s %s %d", r.Name, r.PublicIP, r.PublicPort, r.PrivatePort, protocol, r.Algorithm, len(r.Members)))
	}
	slices.Sort(out)
	return out
}
