// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/testenv/leftby"
	"github.com/csccm/csccm/pkg/simulator/datapath"
	"github.com/csccm/csccm/test/testenv"
	"github.com/csccm/csccm/test/traffic"
)

// TestTrafficFromUpstream sends requests to the Services of a cluster that Apache's provider v1.2.0 left, while csccm
// takes over with the command of docs/migrate.md. No request fails, and no open connection is closed.
func TestTrafficFromUpstream(t *testing.T) {
	t.Parallel()
	e := newClusterEnv(t, nil)
	state, err := leftby.Load(leftby.Apache)
	require.NoError(t, err)
	for i := range state.Kubernetes.Services {
		e.leave(t, state, &state.Kubernetes.Services[i])
	}
	world, err := state.World()
	require.NoError(t, err)
	e.cloud, err = testenv.StartCloudStack(world)
	require.NoError(t, err)
	t.Cleanup(e.cloud.Stop)
	for i := range state.Kubernetes.Nodes {
		n, o := &state.Kubernetes.Nodes[i], joined(worker1)
		o.Name, o.Address, o.ProviderID, o.Labels = n.Name, n.Status.Addresses[0].Address, n.Spec.ProviderID, n.Labels
		e.join(t, o)
	}
	e.secret(t, string(e.config(t, leftby.Account).Render()))
	// The nodes do not know this image, so it never runs.
	e.precededBy(t, testenv.Predecessor{Image: "apache/cloudstack-kubernetes-provider:v1.2.0"})
	targets := e.forwarded(t, state)
	// a busy machine may be slow
	client := traffic.Start(t.Context(), "takeover", traffic.Options{Targets: targets, Open: true, Timeout: limit})
	t.Cleanup(func() { client.Stop() })

	install := []string{"install", "--yes", "--accept", "all", "--pin", "default/documented", "--skip-taint"}
	e.csccm(t, "", append(install, processFlags...)...).want(t, 0)
	e.recorded(t)
	r := client.Stop()
	require.NoError(t, r.Err())
	assert.Greater(t, r.Requests, 10*len(targets)) // the client sends requests to the targets in turn
	t.Logf("TRAFFIC | %d requests in %s | longest gap %s |", r.Requests, r.Took, r.LongestGap)
}

// leave creates a Service with its ports and status, and renames its rules after its new UID.
func (e *clusterEnv) leave(t *testing.T, state *leftby.State, s *corev1.Service) {
	t.Helper()
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name, Annotations: s.Annotations, Finalizers: s.Finalizers},
		Spec:       s.Spec,
	}

	svc.Spec.ClusterIP, svc.Spec.ClusterIPs = "", nil
	services := e.Client.CoreV1().Services(metav1.NamespaceDefault)
	made, err := services.Create(t.Context(), svc, metav1.CreateOptions{})
	require.NoError(t, err)
	made.Status = s.Status

	// upstream's program
	_, err = services.UpdateStatus(t.Context(), made, metav1.UpdateOptions{FieldManager: "cloudstack-ccm"})
	require.NoError(t, err)
	name := func(s *corev1.Service) string { return "a" + strings.ReplaceAll(string(s.UID), "-", "")[:31] }
	for i := range state.CloudStack.LoadBalancerRule {
		r := &state.CloudStack.LoadBalancerRule[i]
		r.Name = strings.Replace(r.Name, name(s), name(made), 1)
	}
}

// forwarded starts a backend for each VM and the simulator's data path. It returns the addresses of the rules that
// allow clients on this machine.
func (e *clusterEnv) forwarded(t *testing.T, state *leftby.State) (targets []string) {
	t.Helper()
	to, public := map[string]string{}, map[string]string{} // backends by member, addresses by ID
	for _, v := range state.CloudStack.VirtualMachine {
		b, err := traffic.StartBackend(t.Context(), v.Name, "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(b.Stop)
		for _, r := range state.CloudStack.LoadBalancerRule {
			to[net.JoinHostPort(v.NIC[0].IPAddress, r.PrivatePort)] = b.Address()
		}
	}

	members, err := datapath.ParseMembers(to)
	require.NoError(t, err)
	path, err := datapath.Start(t.Context(), e.cloud.Simulator,
		datapath.Options{Mode: datapath.Loopback, Members: members})
	require.NoError(t, err)
	t.Cleanup(path.Close)
	for _, ip := range state.CloudStack.PublicIPAddress {
		public[ip.ID] = ip.IPAddress
	}

	for _, r := range state.CloudStack.LoadBalancerRule {
		if r.PublicPort == "5432" || r.PublicPort == "8443" { // Services restricted and cidrs
			continue
		}
		at, ok := path.Listen(net.JoinHostPort(public[r.PublicIPID], r.PublicPort))
		require.True(t, ok, r.Name)
		targets = append(targets, at)
	}

	return targets
}
