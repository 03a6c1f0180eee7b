// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"bytes"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/check/inspect"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/simulator"
)

func byCode(r check.Report) map[string]check.Result {
	m := map[string]check.Result{}
	for _, c := range r.Checks {
		m[c.Code] = c
	}
	return m
}

// All checks work on every supported release of CloudStack, and share what they read.
func TestHealthyOnEveryRelease(t *testing.T) {
	t.Parallel()
	for _, version := range slices.DeleteFunc(simulator.Releases(), func(v string) bool { return v < "4.18" }) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			w := newWorldOf(t, version)
			w.env.Manifest = chartObjects
			w.storage(t)
			w.sim.Ledger().Reset()
			ran := map[string]check.Result{}
			for _, phase := range []check.Phase{check.PhaseInstalled, check.PhasePreflight} {
				for code, c := range byCode(inspect.Run(t.Context(), w.env, check.Selection{Phase: phase}, nil)) {
					ran[code] = c
					switch {
					case code == "HELM-002": // the objects carry no marks of Helm here
					case c.Message == "not made by CKS: no node has such a name":
						require.Equal(t, check.Skipped, c.Outcome, code)
					default:
						require.Equal(t, check.OK, c.Outcome, "%s %s: %s %v", code, c.Title, c.Message, c.Objects)
					}
				}
			}
			require.Len(t, ran, len(check.All()))
			require.Contains(t, ran["CS-001"].Message, version+".0.0")
			// Two runs with two rules cost this much, whatever the number of checks.
			for command, limit := range map[string]int{
				"listVirtualMachines": 3, "listCapabilities": 2, "listApis": 2, "listZones": 2, "listNetworks": 3, "listPublicIpAddresses": 3,
				"listLoadBalancerRules": 3, "listLoadBalancerRuleInstances": 2, "listFirewallRules": 1, "listProjects": 0,
			} {
				require.LessOrEqual(t, w.sim.Ledger().Count(command), limit, command)
			}
			for _, c := range w.sim.Ledger().Calls() {
				require.True(t, strings.HasPrefix(c.Command, "list"), "checks change nothing: %s", c.Command)
			}
			for _, a := range w.kube.Actions() {
				review := a.GetResource().Resource == "selfsubjectaccessreviews"
				require.True(t, review || a.GetVerb() == "get" || a.GetVerb() == "list", "checks change nothing: %s %s", a.GetVerb(), a.GetResource().Resource)
			}
		})
	}
}

// Each fault alone is found by its code.
func TestFaultsAreFound(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	for _, f := range faults() {
		found[f.code] = true
		t.Run(f.name(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			f.inject(t, w)
			phase := check.PhaseInstalled
			if f.preflight {
				phase = check.PhasePreflight
			}
			r := inspect.Run(t.Context(), w.env, check.Selection{Phase: phase}, nil)
			c := byCode(r)[f.code]
			require.Equal(t, f.outcome, c.Outcome, "%+v", c)
			require.NotEmpty(t, c.Message)
			require.NotEmpty(t, c.Remedy)
			requireUsable(t, r.Checks)
			said := c.Message
			for _, o := range c.Objects {
				said += "\n" + o.String() + ": " + o.Message
			}
			require.Contains(t, said, f.says)
			if f.outcome == check.Failed {
				require.Equal(t, 3, exitCode(r, check.SeverityError))
			}
			noKeys(t, w, r)
		})
	}
	for _, c := range check.All() {
		require.True(t, found[c.Code], "no fault is injected for %s", c.Code)
	}
}

// noKeys looks for the keys in every format of a report.
func noKeys(t *testing.T, w *world, r check.Report) {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, report.Encode(&b, "json", r))
	require.NoError(t, r.WriteText(&b, check.TextOptions{Verbose: true}))
	require.NoError(t, report.Encode(&b, "yaml", r))
	for _, name := range []string{"k8s-owner", "admin"} {
		apiKey, secretKey, _ := w.sim.Keys(name)
		require.NotContains(t, b.String(), apiKey, "no key in a report")
		require.NotContains(t, b.String(), secretKey, "no key in a report")
	}
}

// Kubernetes writes only those addresses of CloudStack that the kubelet's --node-ip leaves.
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
			r := byCode(inspect.Run(t.Context(), w.env, check.Selection{Phase: check.PhaseInstalled, Only: []string{"NODE-006"}}, nil))["NODE-006"]
			require.Equal(t, tc.outcome, r.Outcome, "%s %v", r.Message, r.Objects)
			if tc.says != "" {
				require.Contains(t, r.Objects[0].Message, tc.says)
			}
		})
	}
}

// A wrong project looks as if all VMs were gone. Nobody may be told to delete the Nodes.
func TestVMsAreInAnotherProject(t *testing.T) {
	t.Parallel()
	const project = "0b0b0b0b-0000-4000-8000-000000000001"
	for name, tc := range map[string]struct {
		own   string // VMs where the cloud-config looks
		codes []string
	}{
		"no VM at all": {`{"listvirtualmachinesresponse":{}}`, []string{"CS-004"}},
		"another VM": {
			`{"listvirtualmachinesresponse":{"count":1,"virtualmachine":[{"id":"0b0b0b0b-0000-4000-8000-000000000002","name":"database","zonename":"zone-1","state":"Running"}]}}`,
			[]string{"NODE-002", "NODE-003", "NODE-008"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.nodeDown(t)
			all := ""
			w.edit = func(_ url.Values, body string) string { all = body; return body }
			_, err := w.owner(t).ListVirtualMachines(t.Context(), cloudstack.VMQuery{})
			require.NoError(t, err)
			w.edit = func(q url.Values, body string) string {
				switch command := q.Get("command"); {
				case command == "listProjects":
					return `{"listprojectsresponse":{"count":1,"project":[{"id":"` + project + `","name":"op-proj","state":"Active"}]}}`
				case command == "listVirtualMachines" && q.Get("projectid") == project:
					return all
				case command == "listVirtualMachines":
					return tc.own
				}
				return body
			}
			r := inspect.Run(t.Context(), w.env, check.Selection{Phase: check.PhaseInstalled}, nil)
			failed := map[string]check.Result{}
			for _, c := range r.Checks {
				failed[c.Code] = c
				if c.Outcome == check.Failed {
					require.NotContains(t, c.Remedy, "delete the Node")
					require.NotContains(t, c.Remedy, "may go")
				}
			}
			for _, code := range tc.codes {
				require.Equal(t, check.Failed, failed[code].Outcome, code)
				require.Contains(t, failed[code].Message,
					"wrong account, project or zone: VMs of the nodes are elsewhere, 3 in project op-proj, zone zone-1 (--project op-proj, --zone zone-1)", code)
			}
		})
	}
}

// nodeDown makes one node NotReady, as after an outage.
func (w *world) nodeDown(t *testing.T) {
	t.Helper()
	n, err := w.kube.CoreV1().Nodes().Get(t.Context(), "demo-worker-1", metav1.GetOptions{})
	require.NoError(t, err)
	n.Status.Conditions[0].Status = corev1.ConditionFalse
	_, err = w.kube.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{})
	require.NoError(t, err)
}
