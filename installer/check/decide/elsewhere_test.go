// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/pkg/cloudstack"
)

func TestDecideMisplaced(t *testing.T) {
	t.Parallel()
	inZone := func(v cloudstack.VirtualMachine, zone string) cloudstack.VirtualMachine {
		v.ZoneName = zone
		return v
	}
	lost := []corev1.Node{nodeWith("a", providerID("cloudstack:///"+idA)), nodeWith("b")}
	for name, tc := range map[string]struct {
		places       []credentials.Place
		zone         string
		message, fix string
	}{
		"nowhere that the keys see": {message: "x; wrong account, project or zone", fix: "--account"},
		"another project": {
			places:  []credentials.Place{{VMs: []cloudstack.VirtualMachine{vm(idC, "c", "")}}, {Project: "op-proj", VMs: []cloudstack.VirtualMachine{vm(idA, "a", ""), vm(idB, "b", "")}}},
			message: "2 in project op-proj", fix: "project op-proj: --project op-proj",
		},
		"the account itself": {
			places:  []credentials.Place{{VMs: []cloudstack.VirtualMachine{vm(idA, "a", "")}}},
			message: "1 in the account itself", fix: "the account itself: no --project",
		},
		"another zone of the project": {
			places:  []credentials.Place{{Project: Here, VMs: []cloudstack.VirtualMachine{inZone(vm(idA, "a", ""), "z2"), inZone(vm(idB, "b", ""), "z2")}}},
			zone:    "z1",
			message: "2 in zone z2", fix: "zone z2: --zone z2",
		},
		"another zone of another project": {
			places:  []credentials.Place{{Project: "p", VMs: []cloudstack.VirtualMachine{inZone(vm(idB, "b", ""), "z2")}}},
			zone:    "z1",
			message: "1 in project p, zone z2", fix: "--project p --zone z2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := Elsewhere(Problemf("x").Fix("delete the Node"), lost, tc.places, tc.zone)
			require.Contains(t, f.Message, tc.message)
			require.Contains(t, f.Remedy, tc.fix)
			require.Contains(t, f.Remedy, "do not delete any Node")
		})
	}
}

func TestWithoutVM(t *testing.T) {
	t.Parallel()
	destroyed := vm(idC, "gone", "")
	destroyed.State = cloudstack.VMDestroyed
	vms := snapshot(vm(idA, "a", ""), destroyed)
	renamed := nodeWith("other-name")
	renamed.Status.NodeInfo.SystemUUID = idA
	nodes := WithoutVM([]corev1.Node{nodeWith("a"), nodeWith("gone"), renamed, nodeWith("lost")}, vms)
	require.Len(t, nodes, 1)
	require.Equal(t, "lost", nodes[0].Name)
}
