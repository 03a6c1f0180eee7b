// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ktesting "k8s.io/client-go/testing"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/csccm/csccm/installer/check"
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

func TestHealthyClusterIsGreen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.env.Manifest = chartObjects
	w.sim.Ledger().Reset()
	ran := map[string]bool{}
	for _, phase := range []check.Phase{check.PhaseInstalled, check.PhasePreflight} {
		r := check.Run(t.Context(), w.env, check.Selection{Phase: phase}, nil)
		for _, c := range r.Checks {
			ran[c.Code] = true
			if c.Code == "HELM-002" { // the objects carry no marks of Helm here
				continue
			}
			require.Equal(t, check.OK, c.Outcome, "%s %s: %s %v", c.Code, c.Title, c.Message, c.Objects)
		}
	}
	require.Len(t, ran, len(check.All()))
	// Facts are shared: two runs with two rules cost this much, whatever the number of checks.
	for command, limit := range map[string]int{
		"listVirtualMachines": 2, "listCapabilities": 2, "listApis": 2, "listZones": 2, "listNetworks": 2, "listPublicIpAddresses": 2,
		"listLoadBalancerRules": 2, "listLoadBalancerRuleInstances": 4, "listProjects": 0,
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
}

// All checks work on every release of CloudStack.
func TestHealthyOnEveryRelease(t *testing.T) {
	t.Parallel()
	for _, version := range simulator.Releases() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			w := newWorldOf(t, version)
			w.env.Manifest = chartObjects
			for _, phase := range []check.Phase{check.PhaseInstalled, check.PhasePreflight} {
				for code, c := range byCode(check.Run(t.Context(), w.env, check.Selection{Phase: phase}, nil)) {
					if code == "HELM-002" { // the objects carry no marks of Helm here
						continue
					}
					require.Equal(t, check.OK, c.Outcome, "%s %s: %s %v", code, c.Title, c.Message, c.Objects)
					if code == "CS-001" {
						require.Contains(t, c.Message, version+".0.0")
					}
				}
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
			r := check.Run(t.Context(), w.env, check.Selection{Phase: phase}, nil)
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
				require.Equal(t, 3, r.ExitCode(check.SeverityError))
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
	require.NoError(t, r.WriteJSON(&b))
	require.NoError(t, r.WriteText(&b, check.TextOptions{Verbose: true}))
	require.NoError(t, r.WriteYAML(&b))
	require.NoError(t, r.WriteJUnit(&b, check.SeverityWarning))
	for _, name := range []string{"k8s-owner", "admin"} {
		apiKey, secretKey, _ := w.sim.Keys(name)
		require.NotContains(t, b.String(), apiKey, "no key in a report")
		require.NotContains(t, b.String(), secretKey, "no key in a report")
	}
}

// The calls that a hundred nodes and fifty Services cost: one for each kubelet, one for each rule, and not one more
// for anything else than three nodes cost. That, not the wall clock of a busy machine, is what keeps the run
// short; kubelets are asked 32 at a time, rules 8 at a time. The end-to-end test TestDoctorOnAHundredNodes measures.
func TestHundredNodes(t *testing.T) {
	t.Parallel()
	calls := func(nodes, services int) (kube, cloud map[string]int, kubelets int, r check.Report) {
		w := newWorld(t)
		for i := range nodes {
			require.NoError(t, w.kube.Tracker().Add(w.node(fmt.Sprintf("extra-%03d", i), "10.2.0.1")))
		}
		w.balance(t, services)
		w.kube.ClearActions()
		w.sim.Ledger().Reset()
		asked := make(chan string, 1000)
		w.kubelet = func(node string) string { asked <- node; return "external" }
		r = check.Run(t.Context(), w.env, check.Selection{Phase: check.PhaseInstalled}, nil)
		kube, cloud = map[string]int{}, map[string]int{}
		for _, a := range w.kube.Actions() {
			kube[verbOf(a)]++
		}
		for _, c := range w.sim.Ledger().Calls() {
			cloud[c.Command]++
		}
		return kube, cloud, len(asked), r
	}
	const members = "listLoadBalancerRuleInstances"
	kube, cloud, kubelets, _ := calls(0, 0)
	kubeMany, cloudMany, kubeletsMany, many := calls(100, 50)
	require.Equal(t, kube, kubeMany)
	require.Equal(t, cloud[members]+50, cloudMany[members])
	delete(cloud, members)
	delete(cloudMany, members)
	delete(cloudMany, "listProjects") // where are the VMs of the 100 nodes?
	require.Equal(t, cloud, cloudMany)
	require.Equal(t, 3, kubelets)
	require.Equal(t, 103, kubeletsMany)
	require.Equal(t, check.OK, byCode(many)["NODE-001"].Outcome)
	require.Len(t, byCode(many)["NODE-002"].Objects, 100)
	require.Len(t, byCode(many)["LB-001"].Objects, 50, "the rules have no members yet")
	require.Less(t, len(kube), 40)
}

// balance adds Services, each with a rule without members.
func (w *world) balance(t *testing.T, services int) {
	t.Helper()
	if services == 0 {
		return
	}
	client, err := cloudstack.NewClient(w.env.CloudConfig)
	require.NoError(t, err)
	addresses, err := client.ListPublicIPs(t.Context(), cloudstack.PublicIPQuery{Address: "203.0.113.20"})
	require.NoError(t, err)
	require.Len(t, addresses, 1)
	for i := range services {
		port := 1000 + i
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("extra-%02d", i), UID: types.UID(fmt.Sprintf("0a234567-89ab-cdef-0123-4567890000%02x", i))}}
		s.CreationTimestamp = metav1.NewTime(w.now.Add(-time.Hour))
		s.Spec.Type, s.Spec.Ports = corev1.ServiceTypeLoadBalancer, []corev1.ServicePort{{Port: int32(port), NodePort: int32(30000 + port)}}
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.20"}}
		w.add(t, s)
		r, err := client.CreateLoadBalancerRule(t.Context(), cloudstack.CreateLoadBalancerRuleRequest{
			Name: fmt.Sprintf("%s-tcp-%d", cloudprovider.DefaultLoadBalancerName(s), port), Algorithm: "roundrobin", Protocol: "tcp",
			PublicIPID: addresses[0].ID, PublicPort: port, PrivatePort: 30000 + port,
		})
		require.NoError(t, err)
		_, err = client.Jobs().Wait(t.Context(), "createLoadBalancerRule", r.JobID)
		require.NoError(t, err)
	}
}

func verbOf(a ktesting.Action) string {
	return a.GetVerb() + " " + a.GetResource().Resource + "/" + a.GetSubresource() + " " + a.GetNamespace()
}
