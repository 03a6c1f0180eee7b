// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/commands/lbtest"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/pkg/simulator/datapath"
)

// testedNamespaces are those that csccm test makes.
const testedNamespaces = "csccm-test-"

// loopbackWorld is the example with public addresses of this machine's loopback, at which the data path can listen.
func loopbackWorld() *simulator.World {
	w := simulator.ExampleWorld()
	w.Zones[0].PublicRanges = append([]string{"127.77.0.10-127.77.0.30"}, w.Zones[0].PublicRanges...)
	return w
}

// nodePorts leads node ports to Pods, as kube-proxy does on real nodes.
func (env *clusterEnv) nodePorts(t *testing.T, members *datapath.Members) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	t.Cleanup(func() { cancel(); <-ended })
	follow := func() error {
		to := map[string]string{}
		services, err := env.Client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		nodes, err := env.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range services.Items {
			s := &services.Items[i]
			if !strings.HasPrefix(s.Namespace, testedNamespaces) {
				continue
			}
			pods, err := env.Client.CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: s.Spec.Selector})})
			if err != nil {
				return err
			}
			for j := range pods.Items {
				for _, p := range s.Spec.Ports {
					for k := range nodes.Items {
						if ip := pods.Items[j].Status.PodIP; ip != "" && len(nodes.Items[k].Status.Addresses) > 0 {
							to[net.JoinHostPort(nodes.Items[k].Status.Addresses[0].Address, fmt.Sprint(p.NodePort))] = net.JoinHostPort(ip, p.TargetPort.String())
						}
					}
				}
			}
		}
		return members.Set(to)
	}
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			if err := follow(); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
}

// testable is a cluster with the controller, in which a load balancer carries traffic.
func testable(t *testing.T) *clusterEnv {
	t.Helper()
	env := newClusterEnv(t, loopbackWorld())
	members := &datapath.Members{}
	path, err := datapath.Start(t.Context(), env.cloud.Simulator, datapath.Options{Mode: datapath.Direct, Members: members})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(path.Close)
	env.join(t, cp1, worker1, worker2)
	env.secret(t, string(env.config(t).Render()))
	chart, err := helm.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	env.install(t, chart, nil)
	env.eventually(t, "nodes are initialised", func(ctx context.Context) error {
		for _, name := range []string{"demo-worker-1", "demo-worker-2"} {
			n, err := env.node(ctx, name)
			if err != nil {
				return err
			}
			if n.Spec.ProviderID == "" {
				return fmt.Errorf("%s has no provider ID", name)
			}
		}
		return nil
	})
	env.nodePorts(t, members)
	return env
}

// nothingLeft looks for what csccm test makes, in the cluster and in CloudStack.
func (env *clusterEnv) nothingLeft(t *testing.T, addresses int) {
	t.Helper()
	list, err := env.Client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if strings.HasPrefix(list.Items[i].Name, testedNamespaces) {
			t.Errorf("namespace %s is left", list.Items[i].Name)
		}
	}
	if n := env.publicAddresses(t); n != addresses {
		t.Errorf("%d public addresses, %d before the test", n, addresses)
	}
}

func (env *clusterEnv) publicAddresses(t *testing.T) int {
	t.Helper()
	client, err := cloudstack.NewClient(env.config(t))
	if err != nil {
		t.Fatal(err)
	}
	ips, err := client.ListPublicIPs(t.Context(), cloudstack.PublicIPQuery{})
	if err != nil {
		t.Fatal(err)
	}
	return len(ips)
}

// TestLoadBalancerTest has csccm test make a real load balancer: it answers inside and outside, over TCP and the PROXY
// protocol, and nothing is left of it.
func TestLoadBalancerTest(t *testing.T) {
	t.Parallel()
	env := testable(t)
	before := env.publicAddresses(t)
	ctx, cancel := context.WithTimeout(t.Context(), commandLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, programs.CLI, "test", "--yes", "-o", "json")
	cmd.Env = []string{"KUBECONFIG=" + env.Kubeconfig, "HOME=" + env.home, "PATH=" + os.Getenv("PATH")}
	cmd.Dir = env.home
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, said.String())
	}
	var r lbtest.Result
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	if !r.Passed || len(r.Steps) != 6 {
		t.Fatalf("%+v\n%s", r, said.String())
	}
	for _, s := range r.Steps {
		if s.Outcome != lbtest.OK {
			t.Errorf("%+v", s)
		}
	}
	if !strings.HasPrefix(r.Address, "127.77.0.") || !strings.Contains(r.Steps[4].Text, "PROXY protocol names the client 127.0.0.1:") {
		t.Errorf("%s: %s", r.Address, r.Steps[4].Text)
	}
	env.nothingLeft(t, before)
}

// TestLoadBalancerTestEnds takes the way that the Service goes away: the test fails with exit code 3, ^C ends it, and both
// leave nothing.
func TestLoadBalancerTestEnds(t *testing.T) {
	t.Parallel()
	env := testable(t)
	before := env.publicAddresses(t)
	remove := env.cloud.Inject(simulator.Fault{Command: "associateIpAddress", Kind: simulator.FaultErrorBefore})
	out, code := env.csccm(t, "", "test", "--yes", "--address-timeout", "3s")
	if code != 3 || !strings.Contains(out, "not within 3s: Service csccm-test-") {
		t.Fatalf("exit code %d: %s", code, out)
	}
	remove()
	env.nothingLeft(t, before)

	ctx, cancel := context.WithTimeout(t.Context(), commandLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, programs.CLI, "test", "--yes", "--skip-outside")
	cmd.Env = []string{"KUBECONFIG=" + env.Kubeconfig, "HOME=" + env.home, "PATH=" + os.Getenv("PATH")}
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	env.eventually(t, "the Service is made", func(ctx context.Context) error {
		list, err := env.Client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if strings.HasPrefix(list.Items[i].Namespace, testedNamespaces) && list.Items[i].Spec.Type == corev1.ServiceTypeLoadBalancer {
				return nil
			}
		}
		return apierrors.NewNotFound(corev1.Resource("services"), testedNamespaces)
	})
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Fatalf("exit code %d: %s", code, said.String())
	}
	env.nothingLeft(t, before)
}
