// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/internal/testenv"
	"github.com/csccm/csccm/pkg/node"
)

// machine is a VM of zone-1 with the given number of NICs, the third of which is the default one.
func machine(id int, name string, nics int) cloudstack.VirtualMachine {
	vm := cloudstack.VirtualMachine{ID: vmID(id), Name: name, State: cloudstack.VMRunning, ZoneID: "z1", ZoneName: "zone-1", ServiceOfferingName: "Small Instance"}
	for i := range nics {
		vm.NICs = append(vm.NICs, cloudstack.NIC{DeviceID: i, Default: i == min(2, nics-1), Type: "Isolated", IPv4: fmt.Sprintf("10.%d.%d.5", i, id)})
	}
	return vm
}

func TestNotFoundNamesWhatElseWasSeen(t *testing.T) {
	t.Parallel()
	vms := []cloudstack.VirtualMachine{machine(1, "vm-1", 1), machine(2, "w1", 1)}
	vms[0].DisplayName = "W1"
	vms[1].ZoneName, vms[1].ZoneID = "zone-2", "z2"
	p, err := assemble(&cloudstack.Config{Zone: "zone-1"}, DefaultOptions(), &fakeCloud{vms: vms})
	require.NoError(t, err)
	_, err = p.instances.InstanceMetadata(t.Context(), k8sNode("w1", ""))
	require.ErrorContains(t, err, `zone "zone-1" (1 of 2 VMs; zones with VMs: zone-1, zone-2)`)
	require.ErrorContains(t, err, "VM vm-1 ("+vmID(1)+") has W1 as its display name only")
	require.ErrorContains(t, err, "VM w1 ("+vmID(2)+") is in zone zone-2, outside of the configured one")
}

func TestTwoNodesDoNotShareAVM(t *testing.T) {
	t.Parallel()
	nodes := []*corev1.Node{k8sNode("w1.a", ""), k8sNode("w1.b", "")}
	p := newFakeProvider(t, machines(1), nodes...)
	require.ErrorContains(t, p.unknown(nodes[0]), `fits node "w1.b" as well`)
	onlyOne(t, p.events, "Warning AmbiguousVM", vmID(1))
	nodes[0].Spec.ProviderID = node.ProviderID(node.FormUpstream, vmID(1))
	p.describe(nodes[0]) // the provider ID decides
	require.ErrorContains(t, p.unknown(nodes[1]), `fits node "w1.a" as well`)
}

func TestProvidedNodeIPThatIsOnNoNIC(t *testing.T) {
	t.Parallel()
	p := newFakeProvider(t, machines(1))
	n := k8sNode("w1", "")
	n.Annotations = map[string]string{cloudproviderapi.AnnotationAlphaProvidedIPAddr: "10.1.0.2"}
	p.describe(n)
	assert.Empty(t, drain(p.events))
	n.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr] = "10.1.0.99"
	for range 3 {
		p.describe(n) // it is the framework that refuses
	}
	onlyOne(t, p.events, "Warning NodeIPNotOnVM", "--node-ip=10.1.0.99", "VM w1 (10.1.0.2)")
	n.Annotations = map[string]string{node.AnnotationExternalCIDRs: "wan"}
	p.describe(n)
	onlyOne(t, p.events, "Warning InvalidAnnotation", node.AnnotationExternalCIDRs, `"wan" is no network`)
}

// The framework patches a Node with several addresses of a type in every round, whether they changed or not.
func TestUnchangedAddressesAreNotRepeated(t *testing.T) {
	t.Parallel()
	p := newFakeProvider(t, []cloudstack.VirtualMachine{machine(1, "w1", 3)})
	n := k8sNode("w1", "")
	n.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider}}
	n.Status.Addresses = p.describe(n).NodeAddresses
	assert.Len(t, p.describe(n).NodeAddresses, 4, "a Node that is yet to be initialised gets them all")
	n.Spec.Taints = nil
	assert.Empty(t, p.describe(n).NodeAddresses)
	n.Spec.ProviderID = "external-cloudstack://" + machine(1, "w1", 3).ID
	n.Annotations = map[string]string{cloudproviderapi.AnnotationAlphaProvidedIPAddr: "10.1.1.5"}
	assert.Len(t, p.describe(n).NodeAddresses, 4, "the kubelet now chooses one")
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.1.1.5"}, {Type: corev1.NodeHostName, Address: "w1"}}
	assert.Empty(t, p.describe(n).NodeAddresses)
}

func TestNodeOptions(t *testing.T) {
	t.Parallel()
	vm := machine(1, "w1", 3)
	vm.ServiceOfferingID, vm.Tags = "so-1", map[string]string{"k8s/team": "a"}
	vm.AffinityGroups = []cloudstack.AffinityGroup{{ID: "ag-1", Name: "spread"}}
	o := DefaultOptions()
	o.Nodes = NodeOptions{InternalCIDRs: "10.1.0.0/16", ExternalCIDRs: "10.2.0.0/16", Labels: []string{"offering", "affinity-groups"}, LabelTagPrefix: "k8s/"}
	p, err := assemble(&cloudstack.Config{}, o, &fakeCloud{vms: []cloudstack.VirtualMachine{vm}})
	require.NoError(t, err)
	m, err := p.instances.InstanceMetadata(t.Context(), k8sNode("w1", ""))
	require.NoError(t, err)
	assert.Equal(t, []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: "10.1.1.5"}, {Type: corev1.NodeExternalIP, Address: "10.2.1.5"}, {Type: corev1.NodeHostName, Address: "w1"},
	}, m.NodeAddresses)
	assert.Equal(t, map[string]string{node.LabelOfferingID: "so-1", node.LabelAffinityPrefix + "spread": "ag-1", node.LabelTagPrefix + "team": "a"}, m.AdditionalLabels)
}

// What Nodes cost, counted by the server, for clusters of all sizes: calls go by the VMs of the account and
// by time, never by the number of Nodes.
func TestNodeBudgets(t *testing.T) {
	t.Parallel()
	for _, size := range []int{10, 100, 1000, 5000} {
		parallel(t, fmt.Sprint(size), func(t *testing.T) {
			if size > 1000 && testing.Short() {
				t.Skip("takes seconds")
			}
			env := newNodeEnv(t, size)
			clock, o := fakeClockOptions()
			p, err := New(env.Config(testAPIKey, testSecret), o, env.Option(), testenv.NoJitter)
			require.NoError(t, err)
			nodes := env.nodes(size)
			p.instances.nodes = func() ([]*corev1.Node, error) { return nodes, nil }
			pages := (size + 499) / 500
			spent := func() int { n := len(env.Calls("ccm")); env.Ledger().Reset(); return n }
			describeAll := func(list []*corev1.Node) {
				t.Helper()
				var wg sync.WaitGroup
				for w := range 16 {
					wg.Go(func() {
						for i := w; i < len(list); i += 16 {
							if _, err := p.instances.InstanceMetadata(t.Context(), list[i]); err != nil {
								t.Error(err)
							}
						}
					})
				}
				wg.Wait()
			}

			fresh := make([]*corev1.Node, size)
			for i := range fresh {
				fresh[i] = k8sNode(nodes[i].Name, "")
			}
			describeAll(fresh)
			assert.Equal(t, pages, spent(), "all Nodes at once share a flight")
			describeAll(nodes)
			assert.Zero(t, spent(), "a list serves all for its age")
			_, err = p.inventory.VMs(t.Context(), vmAge)
			require.NoError(t, err)
			assert.Zero(t, spent(), "load balancers among them")
			clock.Step(vmAge + time.Second)
			describeAll(nodes)
			assert.Equal(t, pages, spent(), "a steady round")

			env.Admin("stopVirtualMachine", "id", env.ids["w2"])
			spent()
			clock.Step(vmAge + time.Second)
			exists, err := p.instances.InstanceExists(t.Context(), nodes[1])
			require.NoError(t, err)
			assert.True(t, exists)
			off, err := p.instances.InstanceShutdown(t.Context(), nodes[1])
			require.NoError(t, err)
			assert.True(t, off)
			assert.Equal(t, pages, spent(), "one VM stopped")

			env.Admin("destroyVirtualMachine", "id", env.ids["w3"])
			spent()
			clock.Step(vmAge + time.Second)
			exists, err = p.instances.InstanceExists(t.Context(), nodes[2])
			require.NoError(t, err)
			assert.False(t, exists)
			assert.Equal(t, pages+1, spent(), "one VM destroyed: the list and the look-up by id")

			nobody := k8sNode("nobody", node.ProviderID(node.FormUpstream, vmID(1)))
			clock.Step(missAge + time.Second)
			_, err = p.instances.InstanceMetadata(t.Context(), nobody)
			require.Error(t, err)
			assert.Equal(t, 1, spent(), "an unknown id: one look-up, or the list where that is one call as well")
		})
	}
}
