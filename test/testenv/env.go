// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/test/internal/child"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/plane"
)

const (
	// User is the controller's CloudStack user.
	User = "ccm-a"
	// OtherUser is the CloudStack user of a second controller.
	OtherUser = "ccm-b"

	limit = 15 * time.Minute
	// Namespace is the namespace of the Services.
	Namespace = metav1.NamespaceDefault
	// quiet is the time without calls after which the controller counts as idle.
	quiet = 1500 * time.Millisecond
)

// Options configures an Env.
type Options struct {
	Programs Binaries
	Plane    string // the control plane's binary
	// On is a running API server, which Stop leaves running. If it is nil, New starts one.
	On *plane.Plane
	// VMs is the number of VMs in CloudStack, named w1, w2 and so on. The first of them are nodes; Nodes is their
	// number.
	VMs, Nodes int
	// Profile determines the duration of CloudStack's calls and jobs: instant, simulator or production.
	Profile string
	// World is YAML that replaces the simulator's world of VMs. It must have the users of this package. If it is
	// empty, that world is used.
	World string
	// Extra is YAML that is appended to the simulator's world.
	Extra string
	// Seed is the random seed of faults with a probability.
	Seed uint64
}

// Env is a test environment that has only what the controller sees: an API server, a simulated CloudStack in this
// process, and the controller as a child process. The Nodes have no kubelets: the test determines whether they are
// ready.
type Env struct {
	*plane.Plane
	Client     kubernetes.Interface
	Cloud      *CloudStack
	Controller *child.Process // nil when it does not run
	// CloudConfig is the path of the controller's cloud-config.
	CloudConfig string
	Latency     simulator.LatencyProfile

	programs Binaries
	borrowed bool // Stop leaves the API server running
	dir      string
	vms      map[string]string // IDs by name
}

// New starts an API server and a CloudStack, without the controller.
func New(ctx context.Context, o Options) (_ *Env, err error) {
	env := &Env{Plane: o.On, programs: o.Programs, borrowed: o.On != nil, vms: map[string]string{}}
	defer func() {
		if err != nil {
			env.Stop()
		}
	}()
	defer must.Return(&err)
	env.dir = must.Get(os.MkdirTemp("", "csccm-bench-"))
	env.CloudConfig = filepath.Join(env.dir, "cloud-config")
	env.Latency = must.Get(simulator.Profile(o.Profile))
	w := must.Get(simulator.LoadWorld(strings.NewReader(cmp.Or(o.World, world(o.VMs)) + o.Extra)))
	//nolint:contextcheck // the server outlives the call
	env.Cloud, err = StartCloudStackWith(simulator.Options{World: w, Latency: env.Latency, Seed: o.Seed})
	if err != nil {
		return nil, err
	}

	must.OK(env.configure(0))
	client := must.Get(env.Cloud.Client("inspector"))
	list := must.Get(client.ListVirtualMachines(ctx, cloudstack.VMQuery{}))
	for _, image := range list {
		env.vms[image.Name] = image.ID
	}

	if !env.borrowed {
		env.Plane = must.Get(plane.Start(ctx, plane.Options{Programs: o.Plane, APIOnly: true}))
	}

	config := must.Get(env.AdminConfig())
	config.ContentType = "application/vnd.kubernetes.protobuf"
	env.Client = must.Get(kubernetes.NewForConfig(config))
	return env, env.Join(ctx, 1, o.Nodes)
}

// world returns the simulator's world. Its public ranges have enough addresses for the Services of all benchmarks.
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
    users: [{name: ccm-a, password: password}, {name: ccm-b, password: password}, {name: inspector, password: password}]
networks:
  - {name: k8s-net, account: k8s, cidr: 10.1.0.0/16}
virtualMachines:
`)

	for i := 1; i <= vms; i++ {
		fmt.Fprintf(&w, "  - {name: w%d, account: k8s, offering: Small Instance, nics: [{network: k8s-net, ip: %s}]}\n",
			i, VMAddress(i))
	}

	return w.String()
}

// VMAddress returns the address of the VM w<i>.
func VMAddress(i int) string { return fmt.Sprintf("10.1.%d.%d", 1+i/200, 20+i%200) }

// Stop stops everything and removes the files.
func (env *Env) Stop() {
	env.Kill()
	if env.Plane != nil && !env.borrowed {
		env.Plane.Stop()
	}
	if env.Cloud != nil {
		env.Cloud.Stop()
	}
	_ = os.RemoveAll(env.dir)
}

// Kill kills the controller with SIGKILL.
func (env *Env) Kill() {
	if env.Controller != nil {
		env.Controller.Stop(0)
	}
	env.Controller = nil
}

// configure writes the controller's cloud-config. rate is its rate-limit: calls per second, 0 for none, or
// cloudconfig.AutoRate.
func (env *Env) configure(rate float64) (err error) {
	defer must.Return(&err)
	config := must.Get(env.Cloud.Config(User))
	config.RateLimit = rate
	return os.WriteFile(env.CloudConfig, config.Render(), 0o600)
}

// Start starts the controller and waits until it is idle. rate is its rate-limit in calls per second, 0 for none. The
// ledger must not be reset while Start runs.
func (env *Env) Start(ctx context.Context, rate float64, args ...string) (err error) {
	defer must.Return(&err)
	env.Kill()
	before := len(env.Calls())
	must.OK(env.Spawn(ctx, rate, args...))
	must.OK(env.Until(ctx, "the controller to call CloudStack", func() bool { return len(env.Calls()) > before }))
	return env.Idle(ctx)
}

// Spawn starts the controller and returns at once.
func (env *Env) Spawn(ctx context.Context, rate float64, args ...string) (err error) {
	defer must.Return(&err)
	env.Kill()
	must.OK(env.configure(rate))
	env.Controller, err = child.Start(ctx, child.Command{
		Name: "cloudstack-ccm",
		Path: env.programs.Controller,
		Log:  filepath.Join(env.dir, "controller.log"),
		Dir:  env.dir,
		Env:  []string{"TMPDIR=" + env.dir},
		Args: append([]string{
			"--cloud-provider=external-cloudstack", "--cloud-config=" + env.CloudConfig,
			"--kubeconfig=" + env.Kubeconfig,
			"--leader-elect=false", "--secure-port=0", "--v=1",
		}, args...),
	})
	return err
}

// Services creates the Services web<from> to web<to>, with n ports each.
func (env *Env) Services(ctx context.Context, from, to, n int) error {
	return each(from, to, func(i int) {
		svc := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web%d", i)},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
		}
		for p := range n {
			svc.Spec.Ports = append(svc.Spec.Ports,
				corev1.ServicePort{Name: fmt.Sprintf("p%d", p), Port: int32(8000 + p)})
		}
		must.Get(env.Client.CoreV1().Services(Namespace).Create(ctx, svc, metav1.CreateOptions{}))
	})
}

// each calls work for from, for to, and for each number between them.
func each(from, to int, work func(i int)) error {
	return must.Catch(func() { must.Each(to-from+1, func(i int) { work(from + i) }) })
}

// Served waits until exactly n Services have an address.
func (env *Env) Served(ctx context.Context, n int) error {
	return env.Until(ctx, fmt.Sprintf("%d Services to be served", n), func() bool {
		list, err := env.Client.CoreV1().Services(Namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return false
		}
		done := 0
		for _, it := range list.Items {
			if len(it.Status.LoadBalancer.Ingress) > 0 {
				done++
			}
		}
		return done == n
	})
}

// Clear deletes all Services and waits until the controller has removed their load balancers.
func (env *Env) Clear(ctx context.Context) (err error) {
	defer must.Return(&err)
	list := must.Get(env.Client.CoreV1().Services(Namespace).List(ctx, metav1.ListOptions{}))
	for _, it := range list.Items {
		if it.Spec.Type == corev1.ServiceTypeLoadBalancer {
			must.OK(env.Client.CoreV1().Services(Namespace).Delete(ctx, it.Name, metav1.DeleteOptions{}))
		}
	}
	return env.Until(ctx, "the Services to be deleted", func() bool {
		list, err := env.Client.CoreV1().Services(Namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		return err == nil &&
			!slices.ContainsFunc(list.Items,
				func(s corev1.Service) bool { return s.Spec.Type == corev1.ServiceTypeLoadBalancer })
	})
}

var polls = []string{"queryAsyncJobResult", "listAsyncJobs"}

// Calls returns the controller's calls since the last reset of the ledger.
func (env *Env) Calls() []simulator.Call { return env.Cloud.Ledger().Find("", User) }

// Spent returns the numbers of the controller's calls, without polls, and of its polls since the last reset of the
// ledger, and resets the ledger.
func (env *Env) Spent() (calls, polled int) {
	for _, c := range env.Calls() {
		if slices.Contains(polls, c.Command) {
			polled++
		} else {
			calls++
		}
	}
	env.Cloud.Ledger().Reset()
	return calls, polled
}

// Idle waits until the controller has made no calls for the time quiet.
func (env *Env) Idle(ctx context.Context) error {
	last, since := -1, time.Now()
	return env.Until(ctx, "the controller to be idle", func() bool {
		if n := len(env.Calls()); n != last {
			last, since = n, time.Now()
		}
		return time.Since(since) > quiet
	})
}

// Until waits until done returns true. If the controller has ended, the error says how.
func (env *Env) Until(ctx context.Context, what string, done func() bool) error {
	return Wait(ctx, limit, what, func(context.Context) error {
		if done() {
			return nil
		}
		if env.Controller != nil && env.Controller.Err() != nil {
			return env.Controller.Err()
		}
		return errors.New("not yet")
	})
}
