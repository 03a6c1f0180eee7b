// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/pkg/simulator"
)

// Kubernetes writes only those addresses of CloudStack that the kubelet's --node-ip leaves. The clock of the checks
// stands still: a check that waited for a second look would not end.
func TestAddressesOfVMWithTwoNICs(t *testing.T) {
	t.Parallel()
	const kubeletIP, first, second = "alpha.kubernetes.io/provided-node-ip", "10.1.1.21", "10.2.2.21"
	for name, tc := range map[string]struct {
		node    func(n *corev1.Node)
		flag    string // of the controller
		outcome check.Outcome
		says    string
	}{
		"--node-ip of the first NIC": {node: func(n *corev1.Node) { n.Annotations[kubeletIP] = first }, outcome: check.OK},
		"--node-ip of the second NIC": {outcome: check.OK, node: func(n *corev1.Node) {
			n.Annotations[kubeletIP], n.Status.Addresses[0].Address = second, second
		}},
		"--node-ip that the VM does not have": {
			node: func(n *corev1.Node) { n.Annotations[kubeletIP] = "10.99.0.1" }, outcome: check.Warning,
			says: "--node-ip 10.99.0.1 of its kubelet is none of CloudStack's addresses, InternalIP 10.1.1.21, InternalIP 10.2.2.21",
		},
		"--node-internal-cidrs of the controller": {node: func(*corev1.Node) {}, flag: "--node-internal-cidrs=10.1.0.0/16", outcome: check.OK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorldWith(t, func(w *simulator.World) {
				w.Networks = append(w.Networks, simulator.Network{Name: "second", Account: "k8s", CIDR: "10.2.2.0/24"})
				for i := range w.VirtualMachines {
					if vm := &w.VirtualMachines[i]; vm.Name == "demo-worker-1" {
						vm.NICs = append(vm.NICs, simulator.NIC{Network: "second", IP: second})
					}
				}
			})
			w.changeNode(t, "demo-worker-1", tc.node)
			if tc.flag != "" {
				d, err := w.kube.AppsV1().Deployments(system).Get(t.Context(), "cloudstack-cloud-controller-manager", metav1.GetOptions{})
				require.NoError(t, err)
				d.Spec.Template.Spec.Containers[0].Args = append(d.Spec.Template.Spec.Containers[0].Args, tc.flag)
				_, err = w.kube.AppsV1().Deployments(system).Update(t.Context(), d, metav1.UpdateOptions{})
				require.NoError(t, err)
			}
			r := byCode(check.Run(t.Context(), w.env, check.Selection{Phase: check.PhaseInstalled, Only: []string{"NODE-006"}}, nil))["NODE-006"]
			require.Equal(t, tc.outcome, r.Outcome, "%s %v", r.Message, r.Objects)
			if tc.says != "" {
				require.Contains(t, r.Objects[0].Message, tc.says)
			}
		})
	}
}
