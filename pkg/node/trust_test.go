// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// created sets the creation time of a Node; a larger value makes the Node younger.
func created(minute int) nodeOption {
	return func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(time.Unix(int64(60*minute), 0)) }
}

func waiting(n *corev1.Node) {
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: cloudproviderapi.TaintExternalCloudProvider})
}

// uid makes the order of UIDs the opposite of the order of names.
func uid(s types.UID) nodeOption { return func(n *corev1.Node) { n.UID = s } }

// If two Nodes match one VM, the younger one does not get it, neither when it joins nor later.
func TestSecurityVMOfAnotherNode(t *testing.T) {
	t.Parallel()
	bound := ProviderID(FormUpstream, testVMID(1))
	for name, c := range map[string]struct {
		victim, later *corev1.Node
	}{
		"the same provider ID, new": {newNode("w1", providerID(bound), created(1)),
			newNode("evil", providerID("cloudstack:///"+testVMID(1)), provided("10.1.0.2"), waiting, created(2))},
		"the same provider ID, initialised": {newNode("w1", providerID(bound), created(1)),
			newNode("evil", providerID(bound), created(2))},
		"the VM's own name": {newNode("w1.example.org", providerID(bound), created(1)),
			newNode("w1", waiting, created(2))},
		"the first label of the name": {newNode("w1", providerID(bound), created(1)),
			newNode("w1.evil", waiting, created(2))},
		"the host name label and addresses": {newNode("w1", providerID(bound), created(1)),
			newNode("evil", hostLabel("w1"), provided("10.1.0.2"), waiting, created(2))},
		"a victim without a provider ID": {newNode("w1", created(1)),
			newNode("evil", providerID(bound), provided("10.1.0.2"), waiting, created(2))},
		"a victim of another provider": {newNode("w1", providerID("k3s://w1"), created(1)),
			newNode("evil", providerID(bound), created(2))},
		"the same second": {newNode("w1", providerID(bound), uid("a")),
			newNode("evil", providerID(bound), uid("b"))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newFakeNodes(t, machines(2), c.later, c.victim)
			require.NotEmpty(t, p.describe(c.victim).ProviderID, "the victim is not disturbed")
			for range 2 {
				require.ErrorContains(t, p.unknown(c.later),
					`VM w1 (id `+testVMID(1)+`) belongs to node "`+c.victim.Name+`", which is older`)
			}
			onlyOne(t, p.events, "Warning VMRefused", c.victim.Name)

			vms, err := p.VMs.VMs(t.Context(), time.Hour)
			require.NoError(t, err)
			members := &Members{All: p.List}
			got, failed := members.Match(vms, []*corev1.Node{c.later})
			require.Empty(t, got, "also where the Service does not have the victim's Node")
			require.Len(t, failed, 1)
			got, _ = members.Match(vms, []*corev1.Node{c.later, c.victim})
			require.Len(t, got, 1)
			assert.Equal(t, c.victim.Name, got[0].Node)
		})
	}
}

// The host name and the provider ID do not suffice to match a Node with a VM, because a kubelet can choose both freely.
func TestSecurityVMOutsideOfTheCluster(t *testing.T) {
	t.Parallel()
	db := vm(1, "db", cloudstack.VMRunning)
	db.NICs = []cloudstack.NIC{{Default: true, IPv4: "10.1.1.9", SecondaryIP: []string{"10.1.1.10"}}}
	db.Tags = map[string]string{"cluster": "prod"}
	id1 := "cloudstack:///" + id(1)
	for name, c := range map[string]struct {
		nodeVMs string
		node    *corev1.Node
		refused string
	}{
		"host name label": {
			node:    newNode("w9", hostLabel("db"), waiting),
			refused: "only its kubelet says",
		},
		"host name in the status": {
			node:    newNode("w9", address(corev1.NodeHostName, "db.example.org")),
			refused: "only its kubelet says",
		},
		"host name label and another address": {
			node:    newNode("w9", hostLabel("db"), provided("10.1.1.8")),
			refused: "neither the node's name nor its addresses",
		},
		"host name label and one of two addresses": {
			node:    newNode("w9", hostLabel("db"), provided("10.1.1.9,10.1.1.8")),
			refused: "neither the node's name nor its addresses",
		},
		"host name label and the VM's address": {node: newNode("w9", hostLabel("db"), provided("10.1.1.9"))},
		"host name label and the VM's secondary address": {
			node: newNode("w9", hostLabel("db"), address(corev1.NodeInternalIP, "10.1.1.10")),
		},
		"provider ID of a new Node": {
			node:    newNode("w9", providerID(id1), waiting),
			refused: "only its kubelet says",
		},
		"provider ID of a new Node with the VM's name": {node: newNode("db.example.org", providerID(id1), waiting)},
		"provider ID of a new Node with an address": {
			node: newNode("w9", providerID(id1), waiting, provided("10.1.1.9")),
		},
		"provider ID, and the VM was renamed later": {node: newNode("w9", providerID(id1))},

		"named, and none of node-vms": {
			nodeVMs: "prod-*",
			node:    newNode("db"),
			refused: "not one of the VMs that may be nodes (node-vms = prod-*",
		},
		"by provider ID, and none": {
			nodeVMs: "prod-*",
			node:    newNode("w9", providerID(id1)),
			refused: "node-vms",
		},
		"by host name, and one of node-vms": {
			nodeVMs: "d?",
			node:    newNode("w9", hostLabel("db")),
			refused: "only its kubelet says",
		},
		"by provider ID, and one of node-vms": {nodeVMs: "D*", node: newNode("w9", providerID(id1), waiting)},
		"with the tag":                        {nodeVMs: "cluster = prod", node: newNode("db")},
		"with another value of the tag":       {nodeVMs: "cluster=test", node: newNode("db"), refused: "node-vms"},
		"without the tag":                     {nodeVMs: "role=", node: newNode("db"), refused: "node-vms"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Match(lookup(c.nodeVMs, db), c.node)
			if c.refused == "" {
				require.NoError(t, err)
				require.Equal(t, db.ID, got.ID)
				return
			}
			require.ErrorContains(t, err, c.refused)
			require.Equal(t, ReasonVMRefused, ReasonOf(err))
			require.Empty(t, got.ID)
			_, failed := new(Members).Match(lookup(c.nodeVMs, db), []*corev1.Node{c.node})
			require.Len(t, failed, 1, "it is behind no load balancer")
			if HasVMID(c.node) {
				missing, total := withoutVM(lookup(c.nodeVMs, db), []*corev1.Node{c.node})
				assert.Equal(t, []int{0, 1}, []int{len(missing), total}, "the VM exists: no Node is deleted")
			}
		})
	}
}

// The framework's second round makes the same decisions as the first, and overwrites what the kubelet has written in
// between.
func TestSecurityAddressesInALaterRound(t *testing.T) {
	t.Parallel()
	p := newFakeNodes(t, machines(1))
	n := initialised(1)[0]
	n.Status.Addresses = p.describe(n).NodeAddresses
	require.Empty(t, p.describe(n).NodeAddresses, "nothing to change")

	n.Annotations = map[string]string{AnnotationInternalCIDRs: "10.9.9.0/24"}
	n.Status.Addresses[0].Address = "10.9.9.9"
	assert.Equal(t, "10.1.0.2", p.describe(n).NodeAddresses[0].Address)
	onlyOne(t, p.events, "Warning InvalidAnnotation", "VM w1 has no address in 10.9.9.0/24")

	n.Annotations = map[string]string{AnnotationAdoptedAt: "2026-01-01T00:00:00Z"}
	assert.NotEmpty(t, p.describe(n).NodeAddresses,
		"a mark that the kubelet wrote itself does not let it keep a foreign address")
	n.Status.Addresses[0].Address = "10.1.0.2"
	assert.Empty(t, p.describe(n).NodeAddresses, "a kubelet that is not external writes the VM's addresses itself")
}
