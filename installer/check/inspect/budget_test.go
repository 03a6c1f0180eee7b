// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ktesting "k8s.io/client-go/testing"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/check/inspect"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/service"
	"github.com/csccm/csccm/pkg/simulator"
)

const (
	rulesList = "listLoadBalancerRules"
	membersOf = "listLoadBalancerRuleInstances"
)

// sized is a healthy world with so many nodes in all, three of them the example's, and Services beside its own that the
// controller calls Ready.
func sized(t *testing.T, nodes, services int) *world {
	t.Helper()
	var extra []*corev1.Service
	for i := range services {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("extra-%03d", i), UID: types.UID(fmt.Sprintf("0a23%04x-89ab-cdef-0123-4567890000ff", i))}}
		s.Spec.Type, s.Spec.Ports = corev1.ServiceTypeLoadBalancer, []corev1.ServicePort{{Port: int32(1000 + i), NodePort: int32(31000 + i)}}
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.20"}}
		s.Status.Conditions = []metav1.Condition{{Type: service.ConditionReady, Status: metav1.ConditionTrue, Reason: "Reconciled"}}
		extra = append(extra, s)
	}
	w := newWorldWith(t, func(w *simulator.World) {
		var members []string
		for i := len(w.VirtualMachines); i < nodes; i++ {
			name := fmt.Sprintf("extra-%03d", i)
			w.VirtualMachines = append(w.VirtualMachines, simulator.VirtualMachine{Name: name, Account: "k8s", NICs: []simulator.NIC{{Network: "k8s-net", IP: fmt.Sprintf("10.1.1.%d", 100+i)}}})
			members = append(members, name)
		}
		for i := range w.PublicIPs {
			ip := &w.PublicIPs[i]
			if ip.Address != "203.0.113.20" {
				continue
			}
			for j := range ip.LoadBalancerRules {
				ip.LoadBalancerRules[j].Members = append(ip.LoadBalancerRules[j].Members, members...)
			}
			members = ip.LoadBalancerRules[0].Members
			for _, s := range extra {
				port := s.Spec.Ports[0]
				ip.LoadBalancerRules = append(ip.LoadBalancerRules, simulator.LoadBalancerRule{
					Name:       fmt.Sprintf("%s-tcp-%d", cloudprovider.DefaultLoadBalancerName(s), port.Port),
					PublicPort: int(port.Port), PrivatePort: int(port.NodePort), Protocol: "tcp", Members: members,
				})
				ip.FirewallRules = append(ip.FirewallRules, simulator.FirewallRule{Protocol: "tcp", StartPort: new(int(port.Port)), EndPort: new(int(port.Port))})
			}
		}
	})
	for _, s := range extra {
		s.CreationTimestamp = metav1.NewTime(w.now.Add(-time.Hour))
		w.add(t, s)
	}
	return w
}

// removeMember takes a node from the rule of a port.
func (w *world) removeMember(t *testing.T, port int, name string) {
	t.Helper()
	client, err := cloudapi.NewClient(w.env.CloudConfig)
	require.NoError(t, err)
	vms, err := client.ListVirtualMachines(t.Context(), cloudstack.VMQuery{Name: name})
	require.NoError(t, err)
	require.Len(t, vms, 1)
	rules, err := client.ListLoadBalancerRules(t.Context(), cloudstack.LoadBalancerRuleQuery{})
	require.NoError(t, err)
	for _, r := range rules {
		if r.PublicPort != port {
			continue
		}
		s, err := client.RemoveFromLoadBalancerRule(t.Context(), r.ID, cloudstack.VMs(vms[0].ID))
		require.NoError(t, err)
		_, err = client.Jobs().Wait(t.Context(), "removeFromLoadBalancerRule", s.JobID)
		require.NoError(t, err)
	}
}

// counted runs the checks and counts the calls to CloudStack by command, to the API server by verb, and to kubelets.
func (w *world) counted(t *testing.T, sel check.Selection) (cloud, kube map[string]int, kubelets int, r check.Report) {
	t.Helper()
	w.kube.ClearActions()
	w.sim.Ledger().Reset()
	asked := make(chan string, 1000)
	w.kubelet = func(node string) string { asked <- node; return "external" }
	sel.Phase = check.PhaseInstalled
	r = inspect.Run(t.Context(), w.env, sel, nil)
	cloud, kube = map[string]int{}, map[string]int{}
	for _, c := range w.sim.Ledger().Calls() {
		cloud[c.Command]++
	}
	for _, a := range w.kube.Actions() {
		kube[verbOf(a)]++
	}
	return cloud, kube, len(asked), r
}

func verbOf(a ktesting.Action) string {
	return a.GetVerb() + " " + a.GetResource().Resource + "/" + a.GetSubresource() + " " + a.GetNamespace()
}

// The calls of a healthy cluster: each list once for the checks and once for the controller's plan, and the members of no
// more than 16 rules. That, not the wall clock of a busy machine, is what keeps the run short; kubelets are asked 32 at a
// time. The end-to-end test TestDoctorOnAHundredNodes measures.
func TestBudgetOfDoctor(t *testing.T) {
	t.Parallel()
	_, kubeFew, _, _ := sized(t, 3, 0).counted(t, check.Selection{})
	for _, c := range []struct{ nodes, services, lists, members, calls int }{
		{nodes: 3, services: 0, lists: 2, members: 2, calls: 17},
		{nodes: 3, services: 50, lists: 5, members: 0, calls: 18}, // the rules of three VMs
		{nodes: 100, services: 12, lists: 2, members: 14, calls: 29},
		{nodes: 100, services: 50, lists: 2, members: 2, calls: 17}, // the example's Service of two ports has no condition
	} {
		t.Run(fmt.Sprintf("%d nodes, %d Services", c.nodes, c.services), func(t *testing.T) {
			t.Parallel()
			cloud, kube, kubelets, r := sized(t, c.nodes, c.services).counted(t, check.Selection{})
			total := 0
			for command, n := range cloud {
				total += n
				if command != membersOf {
					require.LessOrEqual(t, n, c.lists, command)
				}
			}
			require.Equal(t, c.members, cloud[membersOf])
			require.Equal(t, c.calls, total, cloud)
			require.Equal(t, kubeFew, kube)
			require.Less(t, len(kube), 40)
			require.Equal(t, c.nodes, kubelets)
			for _, code := range []string{"NODE-001", "NODE-002", "LB-001", "LB-002", "LB-003"} {
				require.Equal(t, check.OK, byCode(r)[code].Outcome, "%+v", byCode(r)[code])
			}
		})
	}
}

// Of many Services those that are not Ready are planned; who asks for the load balancers has all planned.
func TestPlansOfManyServices(t *testing.T) {
	t.Parallel()
	const nodes, services = 40, 30
	for name, c := range map[string]struct {
		notReady bool
		sel      check.Selection
		found    int // Services that LB-001 names
	}{
		"a Service that is Ready":                      {},
		"a Service that is not Ready":                  {notReady: true, found: 1},
		"a Service that is Ready, asked for":           {sel: check.Selection{Only: []string{"LB"}}, found: 1},
		"a Service that is Ready, with all of members": {sel: check.Selection{AllMembers: true}, found: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := sized(t, nodes, services)
			w.removeMember(t, 1015, "extra-010")
			if c.notReady {
				s, err := w.kube.CoreV1().Services("default").Get(t.Context(), "extra-015", metav1.GetOptions{})
				require.NoError(t, err)
				s.Status.Conditions = nil
				_, err = w.kube.CoreV1().Services("default").UpdateStatus(t.Context(), s, metav1.UpdateOptions{})
				require.NoError(t, err)
			}
			_, _, _, r := w.counted(t, c.sel)
			lb := byCode(r)["LB-001"]
			require.Len(t, lb.Objects, c.found, "%+v", lb)
			if c.found == 0 {
				require.Contains(t, lb.Message, "31 Services; 30 of them are Ready and were not compared, --only LB compares all")
			}
		})
	}
}
