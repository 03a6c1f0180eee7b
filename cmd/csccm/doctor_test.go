// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/commands/explain"
)

// TestDoctorExplains: without a cluster, a kubeconfig and a network.
func TestDoctorExplains(t *testing.T) {
	t.Parallel()
	nowhere := []string{"--server", "http://127.0.0.1:1", "--color", "never"}
	for name, want := range map[string]string{
		"NODE-008":                    "csccm doctor --only NODE-008 -v",
		"CloudStackCCMNoLeader":       `absent(leader_election_master_status{name="cloud-controller-manager"} == 1)`,
		"porttaken":                   "kubectl get events -A --field-selector involvedObject.kind=Service,reason=PortTaken",
		"NodeWithoutVM":               "Event on a Node, Warning",
		"CloudStackError":             "Reason of a condition of a Service",
		"OrphanedInCloudStack":        "https://github.com/csccm/csccm/blob/main/docs/runbooks.md#orphanedincloudstack",
		"CloudStackCCMInventoryStale": "Alert, warning, after 15m",
	} {
		c := execute(t, append(nowhere, "doctor", "--explain", name)...)
		require.Equal(t, 0, c.code, name+c.errOut)
		require.Empty(t, c.errOut, name)
		require.Contains(t, c.out, want, name)
		require.Contains(t, c.out, "How to end it", name)
	}
	c := execute(t, append(nowhere, "doctor", "--explain", "InvalidAnnotation", "-o", "json")...)
	require.Equal(t, 0, c.code, c.errOut)
	var topic explain.Topic
	require.NoError(t, json.Unmarshal([]byte(c.out), &topic))
	require.Equal(t, "InvalidAnnotation", topic.Name)
	require.Len(t, topic.Entries, 2, "on Services and on Nodes")

	c = execute(t, append(nowhere, "doctor", "--explain", "PortTakne")...)
	require.Equal(t, 2, c.code)
	require.Contains(t, c.errOut, "did you mean PortTaken?")

	c = execute(t, "__complete", "doctor", "--explain", "")
	for _, name := range []string{"CloudStackCCMDrift\talert", "PortTaken\tevent", "Waiting\tcondition", "LB-003\tcheck"} {
		require.Contains(t, c.out, name)
	}
}
