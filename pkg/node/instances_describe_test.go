// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/csccm/csccm/pkg/cloudstack"
)

func TestNotFoundNamesWhatElseWasSeen(t *testing.T) {
	t.Parallel()
	vms := []cloudstack.VirtualMachine{machine(1, "vm-1", 1), machine(2, "w1", 1)}
	vms[0].DisplayName = "W1"
	vms[1].ZoneName, vms[1].ZoneID = "zone-2", "z2"
	err := newFakeNodesIn(t, "zone-1", vms).unknown(k8sNode("w1", ""))
	require.ErrorContains(t, err, `zone "zone-1" (1 of 2 VMs; zones with VMs: zone-1, zone-2)`)
	require.ErrorContains(t, err, "VM vm-1 ("+testVMID(1)+") has W1 as its display name only")
	require.ErrorContains(t, err, "VM w1 ("+testVMID(2)+") is in zone zone-2, outside of the configured one")
}

func TestTwoNodesDoNotShareAVM(t *testing.T) {
	t.Parallel()
	nodes := []*corev1.Node{k8sNode("w1.a", ""), k8sNode("w1.b", "")}
	p := newFakeNodes(t, machines(1), nodes...)
	require.ErrorContains(t, p.unknown(nodes[0]), `matches node "w1.b" as well`)
	onlyOne(t, p.events, "Warning AmbiguousVM", testVMID(1))
	nodes[0].Spec.ProviderID = ProviderID(FormUpstream, testVMID(1))
	p.describe(nodes[0]) // the provider ID decides
	require.ErrorContains(t, p.unknown(nodes[1]), `belongs to node "w1.a"`)
}

func TestProvidedNodeIPThatIsOnNoNIC(t *testing.T) {
	t.Parallel()
	p := newFakeNodes(t, machines(1))
	n := k8sNode("w1", "")
	n.Annotations = map[string]string{cloudproviderapi.AnnotationAlphaProvidedIPAddr: "10.1.0.2"}
	p.describe(n)
	assert.Empty(t, drain(p.events))
	n.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr] = "10.1.0.99"
	for range 3 {
		p.describe(n) // this succeeds; the framework refuses the Node
	}
	onlyOne(t, p.events, "Warning NodeIPNotOnVM", "--node-ip=10.1.0.99", "VM w1 (10.1.0.2)")
	n.Annotations = map[string]string{AnnotationExternalCIDRs: "wan"}
	p.describe(n)
	onlyOne(t, p.events, "Warning InvalidAnnotation", AnnotationExternalCIDRs, `"wan" is not a network`)
}

// The framework patches a Node with several addresses of one type in every round, even if they have not changed.
func TestUnchangedAddressesAreNotRepeated(t *testing.T) {
	t.Parallel()
	p := newFakeNodes(t, []cloudstack.VirtualMachine{machine(1, "w1", 3)})
	n := k8sNode("w1", "")
	n.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider}}
	n.Status.Addresses = p.describe(n).NodeAddresses
	assert.Len(t, p.describe(n).NodeAddresses, 4, "a Node that is yet to be initialised gets them all")
	n.Spec.Taints = nil
	assert.Empty(t, p.describe(n).NodeAddresses)
	n.Spec.ProviderID = "external-cloudstack://" + machine(1, "w1", 3).ID
	n.Annotations = map[string]string{cloudproviderapi.AnnotationAlphaProvidedIPAddr: "10.1.1.5"}
	assert.Len(t, p.describe(n).NodeAddresses, 4, "the kubelet now chooses one")
	n.Status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: "10.1.1.5"},
		{Type: corev1.NodeHostName, Address: "w1"},
	}
	assert.Empty(t, p.describe(n).NodeAddresses)
}

// machine returns a VM in zone-1 with the given number of NICs, of which the third is the default one.
func machine(id int, name string, nics int) cloudstack.VirtualMachine {
	vm := cloudstack.VirtualMachine{
		ID:                  testVMID(id),
		Name:                name,
		State:               cloudstack.VMRunning,
		ZoneID:              "z1",
		ZoneName:            "zone-1",
		ServiceOfferingName: "Small Instance",
	}

	for i := range nics {
		vm.NICs = append(vm.NICs,
			cloudstack.NIC{
				DeviceID: i,
				Default:  i == min(2, nics-1),
				Type:     "Isolated",
				IPv4:     fmt.Sprintf("10.%d.%d.5", i, id),
			})
	}

	return vm
}

// A VM that is being created has no NIC yet.
func TestVMWithoutNIC(t *testing.T) {
	t.Parallel()
	p := newFakeNodes(t, machines(2))
	p.api.vms[1].NICs = nil
	nodes := []*corev1.Node{k8sNode("w1", ""), k8sNode("w2", "")}
	vms, err := p.VMs.VMs(t.Context(), 0)
	require.NoError(t, err)
	members, failed := new(Members).Match(vms, nodes)
	require.Len(t, members, 1, "the other node serves")
	assert.Equal(t, testVMID(1), members[0].VMID)
	require.Len(t, failed, 1)
	require.ErrorContains(t, failed[0].Err, "has no NIC")

	// The Node without addresses causes no error, and its VM exists.
	p.describe(nodes[1])
	assert.True(t, p.exists(initialised(2)[1]))
}

func TestInstanceMetadataIsOneListForAllNodes(t *testing.T) {
	t.Parallel()
	p := newFakeNodes(t, machines(5))
	for round := range 3 {
		for i := 1; i <= 5; i++ {
			m := p.describe(k8sNode(fmt.Sprintf("w%d", i), ""))
			assert.Equal(t, []string{"external-cloudstack://" + testVMID(i), "Small_Instance", "zone-1"},
				[]string{m.ProviderID, m.InstanceType, m.Zone})
		}
		p.spent(round+1, 0, "")
		p.clock.Step(5 * time.Minute)
	}
}

func TestUnknownNodesShareTheirLists(t *testing.T) {
	t.Parallel()
	p := newFakeNodes(t, machines(1))
	p.describe(k8sNode("w1", ""))
	p.clock.Step(MissAge + time.Second)
	p.api.set(func(f *fakeCloud) { f.vms = machines(6) })
	for i := 2; i <= 6; i++ {
		p.describe(k8sNode(fmt.Sprintf("w%d", i), ""))
	}
	p.spent(2, 0, "five new Nodes, one new list")
	for i := range 5 {
		require.Equal(t, ReasonWithoutVM, ReasonOf(p.unknown(k8sNode(fmt.Sprintf("nobody%d", i), ""))))
	}
	p.spent(2, 0, "Nodes that stay unknown cause no list within MissAge")
	assert.Len(t, drain(p.events), 5)
}

// If a list has many pages, looking up one VM by its ID is cheaper than the list. After as many look-ups as the list
// has pages, the list is read.
func TestUnknownNodesByIDInALargeAccount(t *testing.T) {
	t.Parallel()
	p := newFakeNodes(t, machines(1001))
	p.describe(k8sNode("w1", ""))
	p.clock.Step(MissAge + time.Second)
	p.api.set(func(f *fakeCloud) { f.vms = machines(1010) })
	for i := 1002; i <= 1010; i++ {
		p.describe(k8sNode("n", ProviderID(FormClusterAPI, testVMID(i))))
	}
	p.spent(2, 3, "")
}

func TestInstanceMetadataErrors(t *testing.T) {
	t.Parallel()
	p := newFakeNodes(t,
		append(machines(2),
			cloudstack.VirtualMachine{ID: testVMID(9), Name: "W2", ZoneName: "zone-2", State: cloudstack.VMRunning}))
	require.ErrorContains(t, p.unknown(k8sNode("lost.example.org", "")),
		`node "lost.example.org" has no VM: no VM with the name "lost.example.org" or "lost" in the API key's own account, all zones (3 VMs)`)
	onlyOne(t, p.events, "Warning NodeWithoutVM", `no VM with the name "lost.example.org" or "lost"`)
	for range 3 {
		require.ErrorContains(t, p.unknown(k8sNode("w2", "")), testVMID(9))
	}
	onlyOne(t, p.events, "Warning AmbiguousVM", testVMID(2), testVMID(9))
	p.clock.Step(eventPause)
	require.Error(t, p.unknown(k8sNode("w2", "")))
	onlyOne(t, p.events, "AmbiguousVM")
	require.ErrorContains(t, p.unknown(k8sNode("w1", "cloudstack:///w1")), `node "w1": provider id "cloudstack:///w1"`)
	onlyOne(t, p.events, "Warning InvalidProviderID")

	p.api.set(func(f *fakeCloud) {
		f.listErr = &cloudstack.Error{Kind: cloudstack.KindAuth, Command: "listVirtualMachines"}
	})
	p.clock.Step(time.Hour)
	assert.True(t, cloudstack.IsKind(p.unknown(k8sNode("w1", "")), cloudstack.KindAuth))
	assert.Empty(t, drain(p.events), "what is wrong with CloudStack is no Event on every Node")
}
