// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package ckscheck

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/pkg/cloudstack"
)

func TestJoin(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(vm *cloudstack.VirtualMachine, disks map[string]int64)
		want   []string
	}{
		"well": {func(*cloudstack.VirtualMachine, map[string]int64) {}, nil},
		"stopped": {func(vm *cloudstack.VirtualMachine, _ map[string]int64) { vm.State = "Stopped" },
			[]string{"error vm-state"}},
		"another network": {func(vm *cloudstack.VirtualMachine, _ map[string]int64) { vm.NICs = vm.NICs[:1] },
			[]string{"error vm-network"}},
		"too small": {func(vm *cloudstack.VirtualMachine, _ map[string]int64) { vm.ServiceOfferingID = "small" },
			[]string{"error vm-small"}},
		"offering unknown": {func(vm *cloudstack.VirtualMachine, _ map[string]int64) { vm.ServiceOfferingID = "x" },
			nil},
		"small disk": {func(_ *cloudstack.VirtualMachine, d map[string]int64) { d["vm"] = 8<<30 - 1 },
			[]string{"error vm-small"}},
		"disk unknown": {func(_ *cloudstack.VirtualMachine, d map[string]int64) { delete(d, "vm") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := good()
			vm := cloudstack.VirtualMachine{
				ID: "vm", Name: "gpu-1", State: cloudstack.VMRunning, ServiceOfferingID: "node",
				NICs: []cloudstack.NIC{{NetworkID: "other"}, {NetworkID: f.Cluster.NetworkID}},
			}

			f.RootDisks = map[string]int64{"vm": 8 << 30}
			tc.change(&vm, f.RootDisks)
			f.Joining = []cloudstack.VirtualMachine{vm}
			require.ElementsMatch(t, append([]string{"warning node-key"}, tc.want...), codes(t, Join(f)))
		})
	}
}

func TestLeave(t *testing.T) {
	t.Parallel()
	f := good()
	require.Empty(t, codes(t, Leave(f)))
	f.Lost = map[string]string{"gpu-1": "cannot delete Pods that declare no controller: default/x"}
	require.Equal(t, []string{"error pods-lost"}, codes(t, Leave(f)))
	f.Unread = map[Subject]string{SubjectPods: "the API server does not answer"}
	f.Lost = nil
	require.Equal(t, []string{"error node-drain"}, codes(t, Leave(f)))
}

func TestUpgradeNamesNodesThatStay(t *testing.T) {
	t.Parallel()
	f := good()
	before := codes(t, Upgrade(f, "new"))
	f.Cluster.Nodes = append(f.Cluster.Nodes, cloudapi.ClusterVM{Name: "etcd-1", State: "Running", Etcd: true})
	require.Subset(t, codes(t, Upgrade(f, "new")), append(before, "warning node-etcd"))
	f.Cluster.Nodes[len(f.Cluster.Nodes)-1] = cloudapi.ClusterVM{Name: "gpu-1", State: "Running", External: true}
	require.Contains(t, codes(t, Upgrade(f, "new")), "warning node-added")
}
