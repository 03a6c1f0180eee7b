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
	ktesting "k8s.io/client-go/testing"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/check/inspect"
	"github.com/csccm/csccm/pkg/service"
	"github.com/csccm/csccm/pkg/simulator"
)

// sized returns a healthy world with a number of nodes, three of which are the example's, and additional Services that
// are Ready.
func sized(t *testing.T, nodes, services int) *world {
	t.Helper()
	var extra []*corev1.Service
	for i := range services {
		port := corev1.ServicePort{Port: int32(1000 + i), NodePort: int32(31000 + i)}
		s := newBalancer("default", fmt.Sprintf("extra-%03d", i),
			fmt.Sprintf("0a23%04x-89ab-cdef-0123-4567890000ff", i), port)
		s.Status.Conditions = []metav1.Condition{
			{Type: service.ConditionReady, Status: metav1.ConditionTrue, Reason: "Reconciled"},
		}
		extra = append(extra, s)
	}

	w := newWorld(t, func(w *simulator.World) {
		var members []string
		for i := len(w.VirtualMachines); i < nodes; i++ {
			name := fmt.Sprintf("extra-%03d", i)
			nic := simulator.NIC{Network: "k8s-net", IP: fmt.Sprintf("10.1.1.%d", 100+i)}
			w.VirtualMachines = append(w.VirtualMachines,
				simulator.VirtualMachine{Name: name, Account: "k8s", NICs: []simulator.NIC{nic}})
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
				port, private := int(s.Spec.Ports[0].Port), int(s.Spec.Ports[0].NodePort)
				ip.LoadBalancerRules = append(ip.LoadBalancerRules, simulator.LoadBalancerRule{
					Name:       fmt.Sprintf("%s-tcp-%d", cloudprovider.DefaultLoadBalancerName(s), port),
					PublicPort: port, PrivatePort: private, Protocol: "tcp", Members: members,
				})
				ip.FirewallRules = append(ip.FirewallRules,
					simulator.FirewallRule{Protocol: "tcp", StartPort: &port, EndPort: &port})
			}
		}
	})

	for _, s := range extra {
		w.add(t, s)
	}

	return w
}

func verbOf(a ktesting.Action) string {
	return a.GetVerb() + " " + a.GetResource().Resource + "/" + a.GetSubresource() + " " + a.GetNamespace()
}

// counted runs the checks and counts the calls to CloudStack by command, to the API server by verb, and to kubelets.
func (w *world) counted(t *testing.T) (cloud, kube map[string]int, kubelets int, r check.Report) {
	t.Helper()
	w.kube.ClearActions()
	w.Ledger().Reset()
	asked := make(chan string, 1000)
	w.kubelet = func(node string) string { asked <- node; return "external" }
	r, _ = inspect.Run(t.Context(), w.env, check.Selection{Phase: check.PhaseInstalled}, nil)
	cloud, kube = map[string]int{}, map[string]int{}
	for _, c := range w.Ledger().Calls() {
		cloud[c.Command]++
	}
	for _, a := range w.kube.Actions() {
		kube[verbOf(a)]++
	}
	return cloud, kube, len(asked), r
}

// The calls of a healthy cluster: each list once for the checks and once for the controller's plan, and the members of
// no more than 16 rules. The test counts calls because they, unlike time, do not depend on the machine; 32 kubelets are
// asked at a time.
func TestBudgetOfDoctor(t *testing.T) {
	t.Parallel()
	_, kubeFew, _, _ := sized(t, 3, 0).counted(t)
	for _, c := range []struct{ nodes, services, lists, members, calls int }{
		{nodes: 3, services: 0, lists: 2, members: 2, calls: 17},
		{nodes: 3, services: 50, lists: 5, members: 0, calls: 18}, // the rules of each of the three VMs are listed
		{nodes: 100, services: 12, lists: 2, members: 14, calls: 29},
		// the example's Service of two ports has no condition
		{nodes: 100, services: 50, lists: 2, members: 2, calls: 17},
	} {
		t.Run(fmt.Sprintf("%d nodes, %d Services", c.nodes, c.services), func(t *testing.T) {
			t.Parallel()
			cloud, kube, kubelets, r := sized(t, c.nodes, c.services).counted(t)
			total := 0
			for command, n := range cloud {
				total += n
				if command != "listLoadBalancerRuleInstances" {
					require.LessOrEqual(t, n, c.lists, command)
				}
			}

			require.Equal(t, c.members, cloud["listLoadBalancerRuleInstances"])
			require.Equal(t, c.calls, total, cloud)
			require.Equal(t, kubeFew, kube)
			require.Less(t, len(kube), 40)
			require.Equal(t, c.nodes, kubelets)
			for _, code := range []string{"NODE-001", "NODE-002", "LB-001", "LB-002", "LB-003"} {
				require.Equal(t, check.OK, byCode(r, nil)[code].Outcome, "%+v", byCode(r, nil)[code])
			}
		})
	}
}

// If there are many Services, only those that are not Ready are planned, unless the load balancer checks were requested
// by name.
func TestPlansOfManyServices(t *testing.T) {
	t.Parallel()
	const nodes, services = 20, 30
	w := sized(t, nodes, services)
	change(t, w.kube.CoreV1().Nodes(), "extra-010",
		func(n *corev1.Node) { n.Labels[corev1.LabelNodeExcludeBalancers] = "" })
	for _, c := range []struct {
		sel   check.Selection
		found int // number of Services that LB-001 names
	}{
		{sel: check.Selection{}, found: 1}, // the example's Service, which has no condition
		{sel: check.Selection{Only: []string{"LB"}}, found: services + 1},
		{sel: check.Selection{AllMembers: true}, found: services + 1},
	} {
		c.sel.Phase = check.PhaseInstalled
		lb := byCode(inspect.Run(t.Context(), w.env, c.sel, nil))["LB-001"]
		require.Len(t, lb.Objects, c.found, "%+v", lb)
	}
}

// In a large cluster, a Service that is Ready is planned if it has a warning. Without a plan, the warning would count
// for an hour.
func TestPlansOfServicesWithWarnings(t *testing.T) {
	t.Parallel()
	w := sized(t, 20, 30)
	w.add(t, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: "e"},
		Type:           corev1.EventTypeWarning,
		Reason:         "NoBackends",
		LastTimestamp:  metav1.NewTime(fixed.Add(-time.Minute)),
		Source:         corev1.EventSource{Component: "service-controller"},
		InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: "default", Name: "extra-007"},
	})

	_, f := inspect.Run(t.Context(), w.env, check.Selection{Phase: check.PhaseInstalled}, nil)
	require.Len(t, f.Planned, 2, "and the example's Service, which has no condition")
	require.Contains(t, f.Planned, "default/extra-007")
}
