// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bare runs a cluster with only what the controller sees: an API server whose Nodes have no kubelet, a
// simulated CloudStack in this process, and the controller as a child process. Benchmarks, soak tests and transcripts
// use it.
package bare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/test/internal/child"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/testbed"
)

const (
	user  = "ccm" // the controller's CloudStack user
	limit = 15 * time.Minute
	// Namespace is the namespace of the Services.
	Namespace = metav1.NamespaceDefault
	// quiet is the time without calls after which the controller counts as idle.
	quiet = 1500 * time.Millisecond
)

// Options configures a Bed.
type Options struct {
	Programs testbed.Binaries
	Plane    string // the control plane's binary
	// VMs is the number of VMs in CloudStack, named w1, w2 and so on; the first Nodes of them are Nodes.
	VMs, Nodes int
	// Profile is how long CloudStack's calls and jobs take: instant, simulator or production.
	Profile string
	// Extra is YAML that is appended to the simulator's world.
	Extra string
	// Seed is the random seed of faults with a probability.
	Seed uint64
}

// Bed is a test environment: an API server, a simulated CloudStack and the controller as a process.
type Bed struct {
	*plane.Plane
	Kube       kubernetes.Interface
	Cloud      *testbed.CloudStack
	Controller *child.Process // nil when it does not run
	// CloudConfig is the path of the controller's cloud-config.
	CloudConfig string
	Latency     simulator.LatencyProfile

	programs testbed.Binaries
	dir      string
	vms      map[string]string // IDs by name
}

// New starts an API server and a CloudStack, without the controller.
func New(ctx context.Context, o Options) (_ *Bed, err error) {
	x := &Bed{programs: o.Programs, vms: map[string]string{}}
	defer func() {
		if err != nil {
			x.Stop()
		}
	}()
	if x.dir, err = os.MkdirTemp("", "csccm-bench-"); err != nil {
		return nil, err
	}
	x.CloudConfig = filepath.Join(x.dir, "cloud-config")
	if x.Latency, err = simulator.Profile(o.Profile); err != nil {
		return nil, err
	}
	w, err := simulator.LoadWorld(strings.NewReader(world(o.VMs) + o.Extra))
	if err != nil {
		return nil, err
	}
	if x.Cloud, err = testbed.StartCloudStackWith(simulator.Options{World: w, Latency: x.Latency, Seed: o.Seed}); err != nil { //nolint:contextcheck // the server outlives the call
		return nil, err
	}
	if err := x.configure(0); err != nil {
		return nil, err
	}
	client, err := x.Cloud.Client("inspector")
	if err != nil {
		return nil, err
	}
	list, err := client.ListVirtualMachines(ctx, cloudstack.VMQuery{})
	if err != nil {
		return nil, err
	}
	for i := range list {
		x.vms[list[i].Name] = list[i].ID
	}
	if x.Plane, err = plane.Start(ctx, plane.Options{Binary: o.Plane, APIOnly: true}); err != nil {
		return nil, err
	}
	config, err := x.AdminConfig()
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 1000, 2000
	if x.Kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	return x, x.Join(ctx, 1, o.Nodes)
}

// world returns the simulator's world. Its public ranges have enough addresses for the Services of every benchmark.
func world(vms int) string {
	var w strings.Builder
	w.WriteString(`
version: 4.22.0.0
zones:
  - {name: zone-1, publicRanges: [198.18.0.1-198.18.7.250], hosts: [h1]}
serviceOfferings:
  - {name: Small Instance, cpus: 1, cpuSpeed: 500, memoryMiB: 512}
accounts:
  - name: k8s
    role: User
    limits: {publicIPs: -1}
    users: [{name: ccm, password: password}, {name: inspector, password: password}]
networks:
  - {name: k8s-net, account: k8s, cidr: 10.1.0.0/16}
virtualMachines:
`)
	for i := 1; i <= vms; i++ {
		fmt.Fprintf(&w, "  - {name: w%d, account: k8s, offering: Small Instance, nics: [{network: k8s-net, ip: 10.1.%d.%d}]}\n", i, 1+i/200, 20+i%200)
	}
	return w.String()
}

// Stop stops everything and removes the files.
func (x *Bed) Stop() {
	x.Kill()
	if x.Plane != nil {
		x.Plane.Stop()
	}
	if x.Cloud != nil {
		x.Cloud.Stop()
	}
	_ = os.RemoveAll(x.dir)
}

// Kill kills the controller with SIGKILL.
func (x *Bed) Kill() {
	if x.Controller != nil {
		x.Controller.Stop(0)
	}
	x.Controller = nil
}

// configure writes the controller's cloud-config; rate is its rate-limit in calls per second, 0 for none.
func (x *Bed) configure(rate float64) error {
	config, err := x.Cloud.Config(user)
	if err != nil {
		return err
	}
	config.RateLimit = rate
	return os.WriteFile(x.CloudConfig, config.Render(), 0o600)
}

// Start starts the controller and waits until it is idle. rate is its rate-limit in calls per second, 0 for none.
func (x *Bed) Start(ctx context.Context, rate float64, args ...string) error {
	if err := x.Launch(ctx, rate, args...); err != nil {
		return err
	}
	return x.Idle(ctx)
}

// Launch starts the controller and waits for its first call. The ledger must not be reset meanwhile.
func (x *Bed) Launch(ctx context.Context, rate float64, args ...string) error {
	x.Kill()
	before := len(x.Calls())
	if err := x.Spawn(ctx, rate, args...); err != nil {
		return err
	}
	return x.Until(ctx, "the controller to call CloudStack", func() bool { return len(x.Calls()) > before })
}

// Spawn starts the controller and returns at once.
func (x *Bed) Spawn(ctx context.Context, rate float64, args ...string) error {
	x.Kill()
	err := x.configure(rate)
	if err != nil {
		return err
	}
	x.Controller, err = child.Start(ctx, child.Command{
		Name: "cloudstack-ccm", Path: x.programs.Controller, Log: filepath.Join(x.dir, "controller.log"), Dir: x.dir, Env: []string{"TMPDIR=" + x.dir},
		Args: append([]string{
			"--cloud-provider=external-cloudstack", "--cloud-config=" + x.CloudConfig, "--kubeconfig=" + x.Kubeconfig,
			"--leader-elect=false", "--secure-port=0", "--v=1",
		}, args...),
	})
	return err
}

// Join creates the Nodes w<from> to w<to>, initialised and ready.
func (x *Bed) Join(ctx context.Context, from, to int) error {
	return parallel(from, to, func(i int) error { return x.JoinVM(ctx, fmt.Sprintf("w%d", i)) })
}

// Services creates the Services web<from> to web<to> with n ports each.
func (x *Bed) Services(ctx context.Context, from, to, n int) error {
	return parallel(from, to, func(i int) error {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web%d", i)}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
		for p := range n {
			svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: fmt.Sprintf("p%d", p), Port: int32(8000 + p)})
		}
		_, err := x.Kube.CoreV1().Services(Namespace).Create(ctx, svc, metav1.CreateOptions{})
		return err
	})
}

// Served waits until exactly n Services have an address.
func (x *Bed) Served(ctx context.Context, n int) error {
	return x.Until(ctx, fmt.Sprintf("%d Services to be served", n), func() bool {
		list, err := x.Kube.CoreV1().Services(Namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return false
		}
		done := 0
		for i := range list.Items {
			if len(list.Items[i].Status.LoadBalancer.Ingress) > 0 {
				done++
			}
		}
		return done == n
	})
}

// Clear deletes all Services and waits until the controller has removed their load balancers.
func (x *Bed) Clear(ctx context.Context) error {
	list, err := x.Kube.CoreV1().Services(Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		if list.Items[i].Spec.Type == corev1.ServiceTypeLoadBalancer {
			if err := x.Kube.CoreV1().Services(Namespace).Delete(ctx, list.Items[i].Name, metav1.DeleteOptions{}); err != nil {
				return err
			}
		}
	}
	return x.Until(ctx, "the Services to be deleted", func() bool {
		list, err := x.Kube.CoreV1().Services(Namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		return err == nil && !slices.ContainsFunc(list.Items, func(s corev1.Service) bool { return s.Spec.Type == corev1.ServiceTypeLoadBalancer })
	})
}

var polls = []string{"queryAsyncJobResult", "listAsyncJobs"}

// Calls returns the controller's calls since the last reset of the ledger.
func (x *Bed) Calls() []simulator.Call { return x.Cloud.Ledger().Find("", user) }

// Spent counts the controller's calls since the last reset of the ledger, polls separately, and resets it.
func (x *Bed) Spent() (calls, polled int) {
	for _, c := range x.Calls() {
		if slices.Contains(polls, c.Command) {
			polled++
		} else {
			calls++
		}
	}
	x.Cloud.Ledger().Reset()
	return calls, polled
}

// Idle waits until the controller has made no call for a while.
func (x *Bed) Idle(ctx context.Context) error {
	last, since := -1, time.Now()
	return x.Until(ctx, "the controller to be idle", func() bool {
		if n := len(x.Calls()); n != last {
			last, since = n, time.Now()
		}
		return time.Since(since) > quiet
	})
}

// Until waits until done returns true. Its error names the controller's exit when the controller has ended.
func (x *Bed) Until(ctx context.Context, what string, done func() bool) error {
	return testbed.Wait(ctx, limit, what, func(context.Context) error {
		if done() {
			return nil
		}
		if x.Controller != nil {
			if err := x.Controller.Err(); err != nil {
				return fmt.Errorf("%w; its log ends with:\n%s", err, child.Tail(x.Controller.Log, 10))
			}
		}
		return errors.New("not yet")
	})
}

// parallel calls work for each of from to to, at most 16 at a time.
func parallel(from, to int, work func(i int) error) error {
	var group sync.WaitGroup
	var mu sync.Mutex
	var all []error
	gate := make(chan struct{}, 16)
	for i := from; i <= to; i++ {
		gate <- struct{}{}
		group.Go(func() {
			defer func() { <-gate }()
			if err := work(i); err != nil {
				mu.Lock()
				all = append(all, err)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return errors.Join(all...)
}
