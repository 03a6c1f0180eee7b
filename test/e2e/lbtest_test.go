// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/commands/lbtest"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/pkg/simulator/datapath"
)

// testedNamespaces are those that csccm test makes.
const testedNamespaces = "csccm-test-"

// testedServices are the Services of csccm test.
func (e *clusterEnv) testedServices(ctx context.Context) ([]corev1.Service, error) {
	list, err := e.Client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(s corev1.Service) bool { return !strings.HasPrefix(s.Namespace, testedNamespaces) }), nil
}

// nodePorts leads node ports to Pods, as kube-proxy does on real nodes.
func (e *clusterEnv) nodePorts(ctx context.Context, members *datapath.Members) error {
	to := map[string]string{}
	services, err := e.testedServices(ctx)
	if err != nil {
		return err
	}
	for i := range services {
		s := &services[i]
		pods, err := e.Client.CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: s.Spec.Selector})})
		if err != nil {
			return err
		}
		for j := range pods.Items {
			for _, p := range s.Spec.Ports {
				for _, node := range []string{cp1.Address, worker1.Address, worker2.Address} {
					if ip := pods.Items[j].Status.PodIP; ip != "" {
						to[net.JoinHostPort(node, fmt.Sprint(p.NodePort))] = net.JoinHostPort(ip, p.TargetPort.String())
					}
				}
			}
		}
	}
	return members.Set(to)
}

// TestLoadBalancerTestEnds has csccm test make a real load balancer: it answers inside and outside, over TCP and the PROXY
// protocol. Then its address never comes, which is exit code 3, and ^C ends it. Nothing is left of any of them.
func TestLoadBalancerTestEnds(t *testing.T) {
	t.Parallel()
	world := simulator.ExampleWorld() // with public addresses of this machine's loopback, at which the data path can listen
	world.Zones[0].PublicRanges = append([]string{"127.77.0.10-127.77.0.30"}, world.Zones[0].PublicRanges...)
	e := newClusterEnv(t, world)
	members := &datapath.Members{}
	path, err := datapath.Start(t.Context(), e.cloud.Simulator, datapath.Options{Mode: datapath.Direct, Members: members, HAProxy: datapath.FindHAProxy()})
	require.NoError(t, err)
	t.Cleanup(path.Close)
	e.join(t, cp1, worker1, worker2)
	e.secret(t, string(e.config(t, owner).Render()))
	e.install(t, nil)
	e.runs(t, "Deployment")
	e.initialised(t, 3)
	ctx, stop := context.WithCancel(t.Context())
	following := make(chan struct{})
	t.Cleanup(func() { stop(); <-following })
	go func() {
		defer close(following)
		for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
			if err := e.nodePorts(ctx, members); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
		}
	}()
	client := e.api(t, owner)
	addresses := func() int {
		ips, err := client.ListPublicIPs(t.Context(), cloudstack.PublicIPQuery{})
		require.NoError(t, err)
		return len(ips)
	}
	before := addresses()
	run := func(name string, do func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			do(t)
			list, err := e.Client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			for i := range list.Items {
				if strings.HasPrefix(list.Items[i].Name, testedNamespaces) {
					t.Errorf("namespace %s is left", list.Items[i].Name)
				}
			}
			if n := addresses(); n != before {
				t.Errorf("%d public addresses, %d before the test", n, before)
			}
		})
	}
	run("it passes", func(t *testing.T) {
		s := e.csccm(t, "", "test", "--yes", "-o", "json").want(t, 0)
		var r lbtest.Result
		if err := json.Unmarshal([]byte(s.out), &r); err != nil || !r.Passed || len(r.Steps) != 7 {
			t.Fatalf("%v\n%s", err, s.all)
		}
		for _, step := range r.Steps {
			if step.Outcome != lbtest.OK {
				t.Errorf("%+v", step)
			}
		}
		if !strings.HasPrefix(r.Address, "127.77.0.") || !strings.Contains(r.Steps[5].Text, "PROXY protocol names the client 127.0.0.1:") {
			t.Errorf("%s: %s", r.Address, r.Steps[5].Text)
		}
	})
	run("it fails", func(t *testing.T) {
		defer e.cloud.Inject(simulator.Fault{Command: "associateIpAddress", Kind: simulator.FaultErrorBefore})()
		e.csccm(t, "", "test", "--yes", "--address-timeout", "3s").want(t, 3, "not within 3s: Service csccm-test-")
	})
	run("^C ends it", func(t *testing.T) {
		cmd := e.command(t.Context(), "test", "--yes")
		var out output
		cmd.Stdout, cmd.Stderr = &out, &out
		require.NoError(t, cmd.Start())
		e.eventually(t, "the Service is made", func(ctx context.Context) error {
			services, err := e.testedServices(ctx)
			if err == nil && !slices.ContainsFunc(services, func(s corev1.Service) bool { return s.Spec.Type == corev1.ServiceTypeLoadBalancer }) {
				err = errors.New("not yet")
			}
			return err
		})
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 130 {
			t.Fatalf("exit code %d: %s", code, out.String())
		}
	})
}
