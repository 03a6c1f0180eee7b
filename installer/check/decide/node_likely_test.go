// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
)

// A node whose name fits no VM is told which VM it is, by what cannot deceive first.
func TestLikelyVM(t *testing.T) {
	t.Parallel()
	const id = "2b2c4b9e-5ef0-4b5c-9d51-0e7a6a3b2f10"
	vms := inventory.NewVMSnapshot(time.Time{}, inventory.Scope{}, []cloudstack.VirtualMachine{
		{ID: id, Name: "vm-1", State: "Running", NICs: []cloudstack.NIC{{MAC: "02:01:00:CC:00:01", IPv4: "10.1.1.21"}}},
		{ID: "other", Name: "vm-2", State: "Running", NICs: []cloudstack.NIC{{MAC: "02:01:00:cc:00:02", IPv4: "10.1.1.22"}}},
		{ID: "twin", Name: "vm-3", State: "Running", NICs: []cloudstack.NIC{{MAC: "02:01:00:cc:00:03", IPv4: "10.1.1.22"}}},
		{ID: "gone", Name: "vm-4", State: "Destroyed", NICs: []cloudstack.NIC{{MAC: "02:01:00:cc:00:04", IPv4: "10.1.1.24"}}},
	})
	with := func(change func(n *corev1.Node)) *corev1.Node {
		n := &corev1.Node{}
		n.Name = "worker-1"
		n.Annotations = map[string]string{}
		change(n)
		return n
	}
	address := func(ip string) func(n *corev1.Node) {
		return func(n *corev1.Node) {
			n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}}
		}
	}
	for name, tt := range map[string]struct {
		node *corev1.Node
		want string
	}{
		"nothing":       {with(func(*corev1.Node) {}), ""},
		"system UUID":   {with(func(n *corev1.Node) { n.Status.NodeInfo.SystemUUID = "2B2C4B9E-5EF0-4B5C-9D51-0E7A6A3B2F10" }), "by its system UUID it is VM vm-1 (" + id + ")"},
		"MAC of Antrea": {with(func(n *corev1.Node) { n.Annotations["node.antrea.io/mac-address"] = "02:01:00:cc:00:01" }), "by its MAC address it is VM vm-1 (" + id + ")"},
		"MAC in JSON": {with(func(n *corev1.Node) {
			n.Annotations["k8s.ovn.org/l3-gateway-config"] = `{"default":{"mac-address":"02:01:00:CC:00:02"}}`
		}), "by its MAC address it is VM vm-2 (other)"},
		"address":        {with(address("10.1.1.21")), "by its address it is VM vm-1 (" + id + ")"},
		"address of two": {with(address("10.1.1.22")), ""},
		"of a VM gone":   {with(address("10.1.1.24")), ""},
	} {
		require.Equal(t, tt.want, likelyVM(tt.node, vms), name)
	}
	f := Matches([]corev1.Node{*with(address("10.1.1.21"))}, vms)
	require.Contains(t, f.Objects[0].Message, "has no VM")
	require.Contains(t, f.Objects[0].Message, "by its address it is VM vm-1")
	require.Equal(t, "by its address it is VM vm-1 ("+id+")", f.Evidence["Node worker-1"])
}
