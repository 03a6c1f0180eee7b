// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
)

// lookup returns a complete list of VMs. nodeVMs is the value of node-vms in the cloud-config; it may be empty.
func lookup(nodeVMs string, vms ...cloudstack.VirtualMachine) *inventory.VMSnapshot {
	return inventory.NewVMSnapshot(time.Time{}, inventory.Scope{Project: "p", NodeVMs: nodeVMs}, vms)
}

func id(n byte) string { return strings.Repeat(string('0'+rune(n)), 8) + someID[8:] }

func vm(n byte, name string, state cloudstack.VMState) cloudstack.VirtualMachine {
	return cloudstack.VirtualMachine{ID: id(n), Name: name, State: state, ZoneName: "zone-1"}
}

func at(ip string, vm cloudstack.VirtualMachine) cloudstack.VirtualMachine {
	vm.NICs = []cloudstack.NIC{{Default: true, IPv4: ip}}
	return vm
}

type nodeOption func(*corev1.Node)

func providerID(s string) nodeOption { return func(n *corev1.Node) { n.Spec.ProviderID = s } }
func hostLabel(s string) nodeOption {
	return func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelHostname: s} }
}
func address(t corev1.NodeAddressType, s string) nodeOption {
	return func(n *corev1.Node) {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: t, Address: s})
	}
}

func newNode(name string, options ...nodeOption) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, o := range options {
		o(n)
	}
	return n
}

func TestMatch(t *testing.T) {
	t.Parallel()
	vms := lookup("",
		at("10.0.0.1", vm(1, "worker-1", cloudstack.VMRunning)),
		at("10.0.0.2", vm(2, "Worker-2", cloudstack.VMStopped)),
		vm(3, "twin", cloudstack.VMRunning),
		vm(4, "TWIN", cloudstack.VMRunning),
		vm(5, "reborn", cloudstack.VMDestroyed),
		vm(6, "reborn", cloudstack.VMRunning),
		vm(7, "dead", cloudstack.VMExpunging),
		vm(8, "broken", cloudstack.VMError),
	)

	for _, c := range []struct {
		name string
		node *corev1.Node
		want byte
		err  string
	}{
		{name: "by provider id", node: newNode("any", providerID("cloudstack:///"+id(1))), want: 1},
		{
			name: "the provider id wins over the name",
			node: newNode("worker-1", providerID("external-cloudstack://"+id(2))),
			want: 2,
		},
		{name: "by name", node: newNode("worker-1"), want: 1},
		{name: "by name without case", node: newNode("worker-2"), want: 2},
		{name: "by the first label of an FQDN", node: newNode("worker-1.example.org"), want: 1},
		{
			name: "by the host name label and an address",
			node: newNode("ip-10-0-0-1", hostLabel("worker-1"), provided("10.0.0.1")),
			want: 1,
		},
		{
			name: "by the host name in the status and an address",
			node: newNode("n1", address(corev1.NodeHostName, "WORKER-2.example.org"),
				address(corev1.NodeInternalIP, "10.0.0.2")),
			want: 2,
		},
		{
			name: "by name with a provider id of another scheme",
			node: newNode("worker-1", providerID("k3s://worker-1")),
			want: 1,
		},
		{name: "a destroyed VM with the same name is ignored", node: newNode("reborn"), want: 6},
		{name: "a VM in error exists", node: newNode("broken"), want: 8},
		{
			name: "the provider id decides: no fall-back to the name",
			node: newNode("worker-1", providerID("cloudstack:///"+id(9))),
			err: `node "worker-1" has no VM: no VM with the id ` + id(9) +
				` (its provider id) in project "p", all zones (8 VMs)`,
		},
		{
			name: "destroyed, by id", node: newNode("reborn", providerID("cloudstack:///"+id(5))),
			err: `node "reborn" has no VM: the VM with the id ` + id(5) +
				` (its provider id) in project "p", all zones (8 VMs) is Destroyed`,
		},
		{
			name: "destroyed, by name", node: newNode("dead"),
			err: `node "dead" has no VM: the VM with the name "dead" in project "p", all zones (8 VMs) is Expunging`,
		},
		{
			name: "not found", node: newNode("Nobody.example.org"),
			err: `node "Nobody.example.org" has no VM: no VM with the name "nobody.example.org" or "nobody" in project "p", all zones (8 VMs)`,
		},
		{
			name: "two VMs with the same name", node: newNode("twin"),
			err: `node "twin" is ambiguous: 2 VMs are named "twin" in project "p", all zones (8 VMs): twin (id ` +
				id(3) + `, zone zone-1, Running), TWIN (id ` + id(4) + `, zone zone-1, Running); rename one`,
		},
		{
			name: "no CloudStack id",
			node: newNode("worker-1", providerID("cloudstack:///worker-1")),
			err:  `node "worker-1": provider id "cloudstack:///worker-1", which is the kubelet's --provider-id: "worker-1" is not a UUID`,
		},
		{name: "no name at all", node: newNode(""), err: "has no VM"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := Match(vms, c.node)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, id(c.want), got.ID)
		})
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	n := newNode("Node.example.org", hostLabel("host.example.org"), address(corev1.NodeInternalIP, "10.0.0.1"),
		address(corev1.NodeHostName, "node.example.org"))
	assert.Equal(t, []string{"node.example.org", "host.example.org", "node", "host"}, Names(n))
	assert.Equal(t, []string{"10.0.0.1"}, Names(newNode("10.0.0.1")), "an address has no first label")
	assert.Empty(t, Names(newNode("")))
}

func TestUnshared(t *testing.T) {
	t.Parallel()

	web := vm(1, "web", cloudstack.VMRunning)
	for _, c := range []struct {
		name   string
		node   *corev1.Node
		others []*corev1.Node
		err    string
	}{
		{name: "the only node", node: newNode("web.a")},
		{name: "the node itself", node: newNode("web.a"), others: []*corev1.Node{newNode("web.a")}},
		{name: "the VM has the full name", node: newNode("WEB"), others: []*corev1.Node{newNode("web.b")}},
		{
			name:   "the other nodes have other VMs",
			node:   newNode("web.a"),
			others: []*corev1.Node{newNode("web.b", providerID("cloudstack:///"+id(2))), newNode("db.a")},
		},
		{
			name:   "another new node matches too",
			node:   newNode("web.a"),
			others: []*corev1.Node{newNode("Web.b")},
			err:    `matches node "Web.b" as well`,
		},
		{
			name:   "another node has the VM",
			node:   newNode("web.a", created(1)),
			others: []*corev1.Node{newNode("x", providerID("external-cloudstack://"+id(1)))},
			err:    `belongs to node "x"`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := Unshared(&web, c.node, c.others)
			if c.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.err)
		})
	}
}

// Members of load balancers need the ID as well as provider IDs do.
func TestVMWithoutIDIsNotFound(t *testing.T) {
	t.Parallel()
	broken := vm(1, "w1", cloudstack.VMRunning)
	broken.ID = ""
	_, err := Match(lookup("", broken), newNode("w1"))
	assert.Equal(t, ReasonWithoutVM, ReasonOf(err))
}

// FuzzMatch checks, for arbitrary names, that the VM found has one of the Node's names, and that a VM with the Node's
// full name is found or makes the Node ambiguous.
func FuzzMatch(f *testing.F) {
	f.Add("worker-1", "worker-1", "", "")
	f.Add("WORKER-1.Example.ORG", "worker-1", "host.example.org", "")
	f.Add("kühl", "KÜHL", "", "cloudstack:///x")
	f.Add(strings.Repeat("a", 63), strings.Repeat("A", 63), "..", "k3s://")
	f.Fuzz(func(t *testing.T, name, vmName, host, provider string) {
		vms := lookup("", vm(1, vmName, cloudstack.VMRunning), vm(2, "other", cloudstack.VMRunning))
		n := newNode(name, hostLabel(host), providerID(provider))
		got, err := Match(vms, n)
		if err != nil {
			assert.NotEmpty(t, err.Error())
			if provider == "" && name != "" && strings.EqualFold(strings.ToLower(name), vmName) {
				require.ErrorContains(t, err, "ambiguous")
			}
			return
		}

		if !HasVMID(n) {
			found := false
			for _, s := range Names(n) {
				found = found || strings.EqualFold(s, got.Name)
			}
			assert.True(t, found, "%q is none of %q", got.Name, Names(n))
		}
	})
}

// A cached result is used only for the same version of the Node and the same list of VMs.
func TestMembers(t *testing.T) {
	t.Parallel()
	p := newFakeNodes(t, machines(2))
	vms, err := p.VMs.VMs(t.Context(), 0)
	require.NoError(t, err)
	n := func(name, version string) *corev1.Node {
		out := k8sNode(name, "")
		out.UID, out.ResourceVersion = types.UID("uid-"+name), version
		return out
	}
	var memo Members
	for range 2 {
		members, failed := memo.Match(vms, []*corev1.Node{n("w2", "1"), n("w1", "1"), n("w9", "1")})
		require.Len(t, members, 2)
		assert.Equal(t, []string{testVMID(2), testVMID(1)}, []string{members[0].VMID, members[1].VMID},
			"in the order of the nodes")
		require.Len(t, failed, 1)
		assert.Equal(t, "w9", failed[0].Node.Name)
	}
	renamed := n("w1", "2")
	renamed.Name = "w8"
	_, failed := memo.Match(vms, []*corev1.Node{renamed})
	assert.Len(t, failed, 1, "another version")

	p.api.vms = p.api.vms[:1]
	p.VMs.Reset()
	fewer, err := p.VMs.VMs(t.Context(), 0)
	require.NoError(t, err)
	_, failed = memo.Match(fewer, []*corev1.Node{n("w2", "1")})
	assert.Len(t, failed, 1, "another list of VMs")
	members, _ := memo.Match(vms, []*corev1.Node{n("w2", "1")})
	assert.Len(t, members, 1)

	for i := range 100 {
		memo.Match(vms, []*corev1.Node{n(fmt.Sprint("new", i), "1")})
	}
	assert.LessOrEqual(t, len(memo.found[weak.Make(vms)].values), 9, "nodes that are gone are forgotten")
}

func TestMembersKey(t *testing.T) {
	t.Parallel()
	nodes := initialised(3)
	for i, n := range nodes {
		n.UID, n.ResourceVersion = types.UID(fmt.Sprint(i)), "1"
	}

	all := Key(nodes)
	assert.Equal(t, all, Key([]*corev1.Node{nodes[2], nodes[0], nodes[1]}), "in any order")
	assert.NotEqual(t, all, Key(nodes[:2]))
	moved := nodes[1].DeepCopy()
	moved.ResourceVersion = "2"
	assert.Equal(t, all, Key([]*corev1.Node{nodes[0], moved, nodes[2]}), "nothing that matters has changed")
	moved.ResourceVersion, moved.Spec.ProviderID = "3", "external-cloudstack://other"
	assert.NotEqual(t, all, Key([]*corev1.Node{nodes[0], moved, nodes[2]}))
}
