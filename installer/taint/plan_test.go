// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package taint

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
)

func lookup(vms ...cloudstack.VirtualMachine) *inventory.VMSnapshot {
	return inventory.NewVMSnapshot(time.Time{}, inventory.Scope{}, vms)
}

func vm(name, id, ip string) cloudstack.VirtualMachine {
	return cloudstack.VirtualMachine{
		ID: id, Name: name, State: cloudstack.VMRunning, ZoneName: "zone-1", ServiceOfferingName: "Small Instance",
		NICs: []cloudstack.NIC{{Default: true, IPv4: ip}},
	}
}

const (
	id1 = "11111111-1111-1111-1111-111111111111"
	id2 = "22222222-2222-2222-2222-222222222222"
	id3 = "33333333-3333-3333-3333-333333333333"
)

var vms = lookup(vm("cp-1", id1, "10.1.1.11"), vm("w-1", id2, "10.1.1.21"), vm("w-2", id3, "10.1.1.22"))

type change func(*corev1.Node)

func aNode(name, ip string, changes ...change) corev1.Node {
	n := corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:            name,
			ResourceVersion: "7",
			Labels:          map[string]string{corev1.LabelHostname: name},
		},
		Status: corev1.NodeStatus{
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: ip},
				{Type: corev1.NodeHostName, Address: name},
			},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}

	for _, c := range changes {
		c(&n)
	}

	return n
}

func controlPlane(n *corev1.Node) { n.Labels["node-role.kubernetes.io/control-plane"] = "" }
func notReady(n *corev1.Node)     { n.Status.Conditions[0].Status = corev1.ConditionUnknown }
func done(n *corev1.Node) {
	n.Spec.ProviderID = "external-cloudstack://" + id2
	n.Labels[corev1.LabelTopologyZone] = "zone-1"
	n.Labels[corev1.LabelInstanceTypeStable] = "Small_Instance"
}

func tainted(effect corev1.TaintEffect) change {
	return func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: Key, Value: "true", Effect: effect})
	}
}
func providerID(id string) change { return func(n *corev1.Node) { n.Spec.ProviderID = id } }
func label(k, v string) change    { return func(n *corev1.Node) { n.Labels[k] = v } }
func otherTaint(key string) change {
	return func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	}
}
func gates(p *Plan) (gates []string) {
	for _, pr := range p.Problems {
		gates = append(gates, pr.Gate+" "+pr.Node)
	}
	return gates
}
func planOf(nodes ...corev1.Node) *Plan { return NewPlan(Facts{Nodes: nodes, VMs: vms}) }

func TestPlan(t *testing.T) {
	t.Parallel()
	cp, w1, w2 := aNode("cp-1", "10.1.1.11", controlPlane), aNode("w-1", "10.1.1.21"), aNode("w-2", "10.1.1.22")
	noExecute := aNode("w-1", "10.1.1.21", tainted(corev1.TaintEffectNoExecute))
	waiting := aNode("w-2", "10.1.1.22", notReady, tainted(corev1.TaintEffectNoSchedule))
	noInternalIP := aNode("w-1", "", func(n *corev1.Node) { n.Status.Addresses = n.Status.Addresses[1:] })
	otherNodeIP := aNode("w-1", "10.1.1.21", func(n *corev1.Node) {
		n.Annotations = map[string]string{"alpha.kubernetes.io/provided-node-ip": "10.1.1.99"}
	})
	for name, tc := range map[string]struct {
		nodes  []corev1.Node
		order  string // the canary, then the rest
		gates  []string
		states map[string]State
	}{
		"worker first, control plane last": {[]corev1.Node{cp, w2, w1}, "w-1 w-2 cp-1", nil,
			map[string]State{"cp-1": StateNeeds, "w-1": StateNeeds, "w-2": StateNeeds}},
		"control plane alone is its own canary": {[]corev1.Node{cp}, "cp-1", nil, nil},
		"nothing to do": {[]corev1.Node{aNode("w-1", "10.1.1.21", done), waiting}, "", nil,
			map[string]State{"w-1": StateDone, "w-2": StateWaiting}},
		"provider ID by the kubelet, but no labels": {[]corev1.Node{aNode("w-1", "10.1.1.21",
			providerID("cloudstack:///"+id2))}, "w-1", nil, nil},
		"foreign provider ID is left alone": {
			[]corev1.Node{aNode("w-1", "10.1.1.21", providerID("k3s://w-1")), w2}, "w-2", nil,
			map[string]State{"w-1": StateForeign, "w-2": StateNeeds},
		},
		"NoExecute stops it": {[]corev1.Node{noExecute, w2}, "w-2",
			[]string{"no-execute w-1"}, nil},
		"NoExecute stops it even with nothing to taint": {[]corev1.Node{noExecute}, "", []string{"no-execute w-1"},
			nil},
		"not ready": {[]corev1.Node{w1, aNode("w-2", "10.1.1.22", notReady)}, "w-1 w-2",
			[]string{"ready w-2"}, nil},
		"not ready because it waits": {[]corev1.Node{w1, waiting}, "w-1", nil, nil},
		"no VM": {[]corev1.Node{w1, aNode("stranger", "10.9.9.9")}, "stranger w-1",
			[]string{"vm stranger"}, nil},
		"the InternalIP would change": {[]corev1.Node{aNode("w-1", "192.168.0.5")}, "w-1", []string{"internal-ip w-1"},
			nil},
		"a node without InternalIP gets its first": {[]corev1.Node{noInternalIP}, "w-1", nil, nil},
		"node IP that the VM has not":              {[]corev1.Node{otherNodeIP}, "w-1", []string{"node-ip w-1"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := planOf(tc.nodes...)
			require.Equal(t, tc.order, strings.Join(p.Order, " "))
			require.Equal(t, tc.gates, gates(p))
			for _, it := range p.Items {
				if want, known := tc.states[it.Name]; known {
					require.Equal(t, want, it.State)
				}
			}
			for _, pr := range p.Problems {
				require.NotEmpty(t, pr.Text)
				require.NotEmpty(t, pr.Remedy)
			}
			require.Equal(t, p, planOf(tc.nodes...), "same facts, same plan")
		})
	}

	two := lookup(vm("w-1", id2, "10.1.1.21"), vm("W-1", id3, "10.1.1.22"))
	require.Equal(t, []string{"vm w-1"}, gates(NewPlan(Facts{Nodes: []corev1.Node{w1}, VMs: two})),
		"two VMs of the name")
}
