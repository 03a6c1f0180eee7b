// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/test/internal/child"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/testbed"
)

// direct is an API server with the controller as a plain process: for tests that kill, pause and measure
// it. Its nodes are objects without a kubelet, so they are Ready or not as the test says.
type direct struct {
	*plane.Plane
	client kubernetes.Interface
	cloud  *testbed.CloudStack
	dir    string
}

// newDirect starts an API server and a CloudStack with the VMs w1 ... wN of the users ccm-a and ccm-b.
func newDirect(t *testing.T, vms int) *direct {
	t.Helper()
	d := &direct{Plane: borrow(t, plane.Options{APIOnly: true}), dir: t.TempDir()}
	var err error
	if d.cloud, err = testbed.StartCloudStack(directWorld(t, vms)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.cloud.Stop)
	config, err := d.AdminConfig()
	if err != nil {
		t.Fatal(err)
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	if d.client, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	return d
}

func directWorld(t *testing.T, vms int) *simulator.World {
	t.Helper()
	var w strings.Builder
	w.WriteString(`
version: 4.22.0.0
zones:
  - {name: zone-1, publicRanges: [203.0.113.10-203.0.113.99], hosts: [h1]}
serviceOfferings:
  - {name: Small Instance, cpus: 1, cpuSpeed: 500, memoryMiB: 512}
accounts:
  - {name: k8s, role: User, users: [{name: ccm-a, password: password}, {name: ccm-b, password: password}]}
networks:
  - {name: k8s-net, account: k8s, cidr: 10.1.0.0/16}
virtualMachines:
`)
	for i := 1; i <= vms; i++ {
		fmt.Fprintf(&w, "  - {name: w%d, account: k8s, offering: Small Instance, nics: [{network: k8s-net, ip: %s}]}\n", i, directIP(i))
	}
	world, err := simulator.LoadWorld(strings.NewReader(w.String()))
	if err != nil {
		t.Fatal(err)
	}
	return world
}

func directIP(i int) string { return fmt.Sprintf("10.1.%d.%d", 1+i/200, 20+i%200) }

func (d *direct) url() string {
	host, port := d.APIServer()
	return fmt.Sprintf("https://%s:%d", host, port)
}

// controller starts a replica as a user of both APIs: ccm-a or ccm-b.
func (d *direct) controller(t *testing.T, user string, args ...string) *child.Process {
	t.Helper()
	return d.controllerAt(t, user, d.url(), args...)
}

// controllerAt is controller with another way to the API server.
func (d *direct) controllerAt(t *testing.T, user, server string, args ...string) *child.Process {
	t.Helper()
	config, err := d.cloud.Config(user)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(d.dir, user)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cloud-config"), config.Render(), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := child.Start(t.Context(), child.Command{
		Name: user, Path: programs.Controller, Log: filepath.Join(d.dir, user+".log"), Dir: dir, Env: []string{"TMPDIR=" + dir},
		Args: append([]string{
			"--cloud-provider=external-cloudstack", "--cloud-config=" + filepath.Join(dir, "cloud-config"), "--kubeconfig=" + d.kubeconfig(t, user, server, dir),
			"--secure-port=0", "--v=2",
		}, args...),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Stop(0)
		if t.Failed() {
			t.Logf("log of %s ends with:\n%s", user, child.Tail(p.Log, 40))
		}
	})
	return p
}

// kubeconfig makes a user whom the audit log tells from others.
func (d *direct) kubeconfig(t *testing.T, user, server, dir string) string {
	t.Helper()
	rest, err := d.ClientConfig(user, "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	c := clientcmdapi.NewConfig()
	c.Clusters["c"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: rest.CAData}
	c.AuthInfos["u"] = &clientcmdapi.AuthInfo{ClientCertificateData: rest.CertData, ClientKeyData: rest.KeyData}
	c.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	c.CurrentContext = "x"
	file := filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(*c, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// register makes the Nodes w<from> ... w<to> as kubelets do; change may be nil.
func (d *direct) register(t *testing.T, from, to int, change func(*corev1.Node)) {
	t.Helper()
	numbers := make(chan int)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for i := range numbers {
				n := &corev1.Node{
					ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("w%d", i), Labels: map[string]string{corev1.LabelHostname: fmt.Sprintf("w%d", i)}},
					Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: taint, Value: "true", Effect: corev1.TaintEffectNoSchedule}}},
					Status: corev1.NodeStatus{
						// No InternalIP: a kubelet leaves it to the cloud provider, for which it is one more write.
						Addresses:  []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: fmt.Sprintf("w%d", i)}},
						Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
					},
				}
				if change != nil {
					change(n)
				}
				if _, err := d.client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := from; i <= to; i++ {
		numbers <- i
	}
	close(numbers)
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// notReady is what the node lifecycle controller of Kubernetes says of a kubelet that is silent.
func (d *direct) notReady(t *testing.T, name string) {
	t.Helper()
	n, err := d.client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	if _, err := d.client.CoreV1().Nodes().UpdateStatus(t.Context(), n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// vmOf is the id of a Node's VM.
func (d *direct) vmOf(t *testing.T, name string) string {
	t.Helper()
	n, err := d.client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, id, ok := strings.Cut(n.Spec.ProviderID, "://")
	if !ok {
		t.Fatalf("node %s has provider ID %q", name, n.Spec.ProviderID)
	}
	return id
}

// calls are the commands that the controllers have sent since the last reset.
func (d *direct) calls() map[string]int {
	out := map[string]int{}
	for _, c := range d.cloud.Ledger().Calls() {
		if strings.HasPrefix(c.Caller, "ccm-") {
			out[c.Command]++
		}
	}
	return out
}

// wait polls every few milliseconds and returns how long it took.
func wait(t *testing.T, limit time.Duration, what string, done func(context.Context) error) time.Duration {
	t.Helper()
	begun := time.Now()
	if err := testbed.Wait(t.Context(), limit, what, done); err != nil {
		t.Fatal(err)
	}
	return time.Since(begun)
}

// initialised waits until n Nodes are initialised.
func (d *direct) initialised(t *testing.T, n int, limit time.Duration) time.Duration {
	t.Helper()
	return wait(t, limit, fmt.Sprintf("%d nodes to be initialised", n), func(ctx context.Context) error {
		list, err := d.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return err
		}
		done := 0
		for i := range list.Items {
			if !hasTaint(&list.Items[i], taint) && list.Items[i].Spec.ProviderID != "" {
				done++
			}
		}
		if done < n {
			return fmt.Errorf("%d of %d", done, n)
		}
		return nil
	})
}
