// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// joined returns the Node of a kubelet without --cloud-provider=external, and the VM that it runs on.
func joined() (*corev1.Node, *cloudstack.VirtualMachine) {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "w1", Labels: map[string]string{}, Annotations: map[string]string{}},
		Status: corev1.NodeStatus{
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: "10.1.1.5"},
				{Type: corev1.NodeHostName, Address: "w1"},
			},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}

	return n, &cloudstack.VirtualMachine{
		ID:                  "11111111-2222-3333-4444-555555555555",
		Name:                "w1",
		State:               cloudstack.VMRunning,
		ZoneName:            "z1",
		ServiceOfferingName: "Small",
		NICs:                []cloudstack.NIC{{Default: true, IPv4: "10.1.1.5"}, {IPv4: "10.2.2.5"}},
	}
}

func TestAdoptionRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*corev1.Node, *cloudstack.VirtualMachine)
		want   []Gate
	}{
		{"as CKS joins it", func(*corev1.Node, *cloudstack.VirtualMachine) {}, nil},
		{"the kubelet knows no address yet",
			func(n *corev1.Node, _ *cloudstack.VirtualMachine) { n.Status.Addresses = nil }, nil},
		{"labels that stay",
			func(n *corev1.Node, _ *cloudstack.VirtualMachine) { n.Labels[corev1.LabelTopologyZone] = "z1" }, nil},
		{"a zone that changes",
			func(n *corev1.Node, _ *cloudstack.VirtualMachine) { n.Labels[corev1.LabelTopologyZone] = "old" },
			[]Gate{GateLabels}},
		{"an instance type that changes", func(n *corev1.Node, _ *cloudstack.VirtualMachine) {
			n.Labels[corev1.LabelInstanceTypeStable] = "k3s"
		}, []Gate{GateLabels}},
		{"a VM of the same name elsewhere", func(_ *corev1.Node, vm *cloudstack.VirtualMachine) {
			vm.NICs = []cloudstack.NIC{{Default: true, IPv4: "10.9.9.9"}}
		}, []Gate{GateInternalIP}},
		{"the kubelet uses the second NIC", func(n *corev1.Node, _ *cloudstack.VirtualMachine) {
			n.Status.Addresses[0].Address = "10.2.2.5"
		}, []Gate{GateInternalIP}},
		{"--node-ip of no NIC", func(n *corev1.Node, _ *cloudstack.VirtualMachine) {
			n.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr] = "10.8.8.8"
		}, []Gate{GateNodeIP}},
		{"the VM is stopped, and the kubelet reports",
			func(_ *corev1.Node, vm *cloudstack.VirtualMachine) { vm.State = cloudstack.VMStopped }, []Gate{GateVM}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n, vm := joined()
			c.change(n, vm)
			var got []Gate
			for _, r := range AdoptionRefusals(n, vm, Options{}) {
				got = append(got, r.Gate)
				assert.NotEmpty(t, r.Text)
				assert.NotEmpty(t, r.Remedy)
			}

			assert.Equal(t, c.want, got)
		})
	}
}

func TestAdoptable(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		name   string
		change func(*corev1.Node)
		want   bool
	}{
		{"joined without the taint", func(*corev1.Node) {}, true},
		{"waits for the controller already", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: TaintKey, Effect: corev1.TaintEffectNoSchedule}}
		}, false},
		{"another taint", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "gpu"}} }, true},
		{"has a provider ID", func(n *corev1.Node) { n.Spec.ProviderID = "external-cloudstack://x" }, false},
		{"has a foreign provider ID", func(n *corev1.Node) { n.Spec.ProviderID = "k3s://w1" }, false},
		{"not Ready yet", func(n *corev1.Node) { n.Status.Conditions = nil }, false},
		{"is being deleted", func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{} }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n, _ := joined()
			c.change(n)
			assert.Equal(t, c.want, Adoptable(n))
		})
	}
}

// While no Node of a cluster is initialised, only one is adopted at a time; workers come before the control plane.
func TestAdoptionCandidates(t *testing.T) {
	t.Parallel()
	taint := func(annotated bool) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: TaintKey}}
			if annotated {
				n.Annotations = map[string]string{AnnotationAdoptedAt: "now"}
			}
		}
	}

	done := func(n *corev1.Node) {
		n.Spec.ProviderID = "cloudstack:///11111111-2222-3333-4444-555555555555"
		n.Labels = map[string]string{corev1.LabelTopologyZone: "zone-1"}
	}

	master := func(n *corev1.Node) { n.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""} }
	fresh := []*corev1.Node{readyNode("b"), readyNode("a", master), readyNode("c")}
	for _, c := range []struct {
		name string
		more []*corev1.Node
		free int
	}{
		{"none initialised", nil, 1},
		{"none initialised, one under way", []*corev1.Node{readyNode("x", taint(true))}, 0},
		{"one initialised", []*corev1.Node{readyNode("x", done)}, adoptAtOnce},
		{"two under way",
			[]*corev1.Node{readyNode("x", done), readyNode("y", taint(true)), readyNode("z", taint(true))},
			adoptAtOnce - 2},
		{"one of a kubelet's own", []*corev1.Node{readyNode("x", done), readyNode("y", taint(false))}, adoptAtOnce},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			candidates, free := adoptionCandidates(slices.Concat(fresh, c.more))
			var names []string
			for _, n := range candidates {
				names = append(names, n.Name)
			}
			assert.Equal(t, []string{"b", "c", "a"}, names)
			assert.Equal(t, c.free, free)
		})
	}
}

func readyNode(name string, changes ...func(*corev1.Node)) *corev1.Node {
	n := k8sNode(name, "")
	n.Status.Conditions[0].Status = corev1.ConditionTrue
	for _, change := range changes {
		change(n)
	}
	return n
}
