// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/test/processnode"
)

// TestChain is the main job on a new cluster: helm install, Deployment, ReplicaSet,
// Pods, leader election, nodes, a Service through its life, failover, VMs that go.
// The parts build on each other.
func TestChain(t *testing.T) {
	t.Parallel()
	// A node is to be seen to have stopped.
	env := newClusterEnvOf(t, nil, time.Second, 20*time.Second)
	env.join(t, cp1, worker1, worker2)
	env.balanced(t, "web", 80, 443)
	env.secret(t, string(env.config(t).Render()))
	env.install(t, embedded(t), map[string]any{"replicaCount": 2})

	step := func(name string, do func(*testing.T)) {
		t.Helper()
		if !t.Run(name, do) {
			t.FailNow()
		}
	}
	step("nodes are initialised", func(t *testing.T) { testNodes(t, env) })
	var ip string
	step("a Service gets its address", func(t *testing.T) {
		ip = env.address(t, "web")
		env.wantRules(t, ip, "443:demo-worker-1,demo-worker-2", "80:demo-worker-1,demo-worker-2")
	})
	step("ports change", func(t *testing.T) {
		services := env.Client.CoreV1().Services(metav1.NamespaceDefault)
		env.eventually(t, "the Service to take its new ports", func(ctx context.Context) error {
			s, err := services.Get(ctx, "web", metav1.GetOptions{})
			if err != nil {
				return err
			}
			s.Spec.Ports = servicePorts([]int32{443, 8080})
			_, err = services.Update(ctx, s, metav1.UpdateOptions{})
			return err
		})
		env.wantRules(t, ip, "443:demo-worker-1,demo-worker-2", "8080:demo-worker-1,demo-worker-2")
		if now := env.address(t, "web"); now != ip {
			t.Errorf("the address changed from %s to %s", ip, now)
		}
	})
	step("csccm plan finds nothing to do, and what a change would", func(t *testing.T) { testPlan(t, env) })
	step("another Pod takes over", func(t *testing.T) { testFailover(t, env) })
	step("a VM is stopped", func(t *testing.T) { testStopped(t, env, ip) })
	step("a VM is destroyed", func(t *testing.T) { testDestroyed(t, env, ip) })
	step("the Service is deleted", func(t *testing.T) {
		env.remove(t, "web")
		wantOnlyWorldsAddresses(t, env)
	})
	step("only calls that a User may make", func(t *testing.T) { testPrivileges(t, env) })
	step("no secret in the logs", func(t *testing.T) {
		config, logs := env.config(t), env.logs(t.Context())
		if logs == "" {
			t.Fatal("no logs to look at")
		}
		for _, secret := range []string{config.SecretKey, config.APIKey, "signature="} {
			if strings.Contains(logs, secret) {
				t.Error("a key or a signature is in the controller's log")
			}
		}
	})
}

func testNodes(t *testing.T, env *clusterEnv) {
	env.initialized(t, cp1.Name, worker1.Name, worker2.Name)
	client, err := env.cloud.Client(owner)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	vms, err := client.ListVirtualMachines(t.Context(), cloudstack.VMQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, vm := range vms {
		n, err := env.node(t.Context(), vm.Name)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{
			"provider ID": "external-cloudstack://" + vm.ID,
			"type":        "Small_Instance", "zone": "zone-1", "region": "zone-1",
			"addresses": fmt.Sprintf("[{InternalIP %s} {Hostname %s}]", vm.NICs[0].IPv4, vm.Name),
		}
		got := map[string]string{
			"provider ID": n.Spec.ProviderID,
			"type":        n.Labels[corev1.LabelInstanceTypeStable], "zone": n.Labels[corev1.LabelTopologyZone], "region": n.Labels[corev1.LabelTopologyRegion],
			"addresses": fmt.Sprint(n.Status.Addresses),
		}
		for what := range want {
			if got[what] != want[what] {
				t.Errorf("node %s: %s is %q, want %q", vm.Name, what, got[what], want[what])
			}
		}
	}
}

// testFailover kills the leader without warning.
func testFailover(t *testing.T, env *clusterEnv) {
	holder := func(ctx context.Context) (string, error) {
		l, err := env.Client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, lease, metav1.GetOptions{})
		if err != nil || l.Spec.HolderIdentity == nil {
			return "", errors.Join(err, errors.New("the lease has no holder"))
		}
		return *l.Spec.HolderIdentity, nil
	}
	first, err := holder(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pods, err := env.pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	killed := ""
	for i := range pods {
		path, ok := env.PodLog(metav1.NamespaceSystem, pods[i].Name)
		if !ok {
			continue
		}
		log, err := os.ReadFile(path) // #nosec G304 -- a log of the test
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(log), "uccessfully acquired lease") {
			continue
		}
		for _, n := range env.Nodes() {
			if pid, ok := n.PodPID(metav1.NamespaceSystem, pods[i].Name); ok {
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				killed = pods[i].Name
			}
		}
	}
	if killed == "" {
		t.Fatalf("no Pod's log says that it leads; the lease is held by %q", first)
	}
	env.eventually(t, "another leader", func(ctx context.Context) error {
		now, err := holder(ctx)
		if err != nil {
			return err
		}
		if now == first {
			return fmt.Errorf("still %s", first)
		}
		return nil
	})
	// The new leader works, and the killed container is back.
	env.balanced(t, "second", 81)
	ip := env.address(t, "second")
	env.wantRules(t, ip, "81:demo-worker-1,demo-worker-2")
	if err := env.Client.CoreV1().Services(metav1.NamespaceDefault).Delete(t.Context(), "second", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	env.eventually(t, "Pod "+killed+" to be restarted", func(ctx context.Context) error {
		pod, err := env.Client.CoreV1().Pods(metav1.NamespaceSystem).Get(ctx, killed, metav1.GetOptions{})
		if err == nil && pod.Status.ContainerStatuses[0].RestartCount == 0 {
			err = errors.New("not yet")
		}
		return err
	})
	env.eventually(t, "both Pods to be ready again", env.rolledOut)
}

// running finds a node and the ID of its VM.
func (env *clusterEnv) running(t *testing.T, name string) (*processnode.Node, string) {
	t.Helper()
	n, err := env.node(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	_, id, ok := strings.Cut(n.Spec.ProviderID, "://")
	if !ok {
		t.Fatalf("node %s has provider ID %q", name, n.Spec.ProviderID)
	}
	all := env.Nodes()
	i := slices.IndexFunc(all, func(n *processnode.Node) bool { return n.Name() == name })
	return all[i], id
}

func testStopped(t *testing.T, env *clusterEnv, ip string) {
	n, vm := env.running(t, worker2.Name)
	n.Stop()
	if _, err := env.cloud.Admin(t.Context(), "stopVirtualMachine", map[string]string{"id": vm, "forced": "true"}); err != nil {
		t.Fatal(err)
	}
	env.eventually(t, "the node of the stopped VM to be tainted", func(ctx context.Context) error {
		n, err := env.node(ctx, worker2.Name)
		if err != nil {
			return err
		}
		if !hasTaint(n, shutdown) {
			return fmt.Errorf("taints %v", n.Spec.Taints)
		}
		return nil
	})
	if _, err := env.node(t.Context(), worker2.Name); err != nil {
		t.Errorf("the node of a stopped VM is gone: %v", err)
	}
	_ = ip
}

func testDestroyed(t *testing.T, env *clusterEnv, ip string) {
	_, vm := env.running(t, worker2.Name)
	if _, err := env.cloud.Admin(t.Context(), "destroyVirtualMachine", map[string]string{"id": vm, "expunge": "true"}); err != nil {
		t.Fatal(err)
	}
	env.eventually(t, "the node of the destroyed VM to go", func(ctx context.Context) error {
		_, err := env.node(ctx, worker2.Name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("still there"))
	})
	env.wantRules(t, ip, "443:demo-worker-1", "8080:demo-worker-1")
	for _, name := range []string{cp1.Name, worker1.Name} {
		if _, err := env.node(t.Context(), name); err != nil {
			t.Errorf("a node with a VM is gone: %v", err)
		}
	}
}

// wantOnlyWorldsAddresses checks that nothing of the controller's is left in CloudStack.
func wantOnlyWorldsAddresses(t *testing.T, env *clusterEnv) {
	t.Helper()
	client, err := env.cloud.Client(owner)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	env.eventually(t, "CloudStack to be as it was", func(ctx context.Context) error {
		ips, err := client.ListPublicIPs(ctx, cloudstack.PublicIPQuery{})
		if err != nil {
			return err
		}
		var addresses []string
		for i := range ips {
			addresses = append(addresses, ips[i].Address)
		}
		slices.Sort(addresses)
		if want := []string{"203.0.113.10", "203.0.113.20"}; !slices.Equal(addresses, want) {
			return fmt.Errorf("addresses %v, want %v", addresses, want)
		}
		got, err := env.rules(ctx, "203.0.113.20")
		if err != nil {
			return err
		}
		if len(got) != 2 {
			return fmt.Errorf("the world's own rules are %v", got)
		}
		return nil
	})
}

// testPrivileges looks at every call of the whole test: the controller's caller is
// a plain User, so what is refused or not listed would show here.
func testPrivileges(t *testing.T, env *clusterEnv) {
	commands := map[string]int{}
	for _, c := range env.cloud.Ledger().Calls() {
		if c.Caller != owner {
			continue
		}
		commands[c.Command]++
		if c.ErrorCode == 432 || c.ErrorCode == 401 {
			t.Errorf("call %d, %s, was refused with %d", c.Seq, c.Command, c.ErrorCode)
		}
	}
	if commands["listVirtualMachines"] == 0 || commands["createLoadBalancerRule"] == 0 {
		t.Errorf("the ledger shows none of the controller's calls: %v", commands)
	}
	t.Logf("calls of the whole chain: %v", commands)
}
