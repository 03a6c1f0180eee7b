// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"cmp"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/internal/testenv"
	"github.com/csccm/csccm/pkg/service"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/pkg/tenancy"
	"github.com/csccm/csccm/pkg/testenv/process"
)

const (
	webUID     = "7c3e1b52-0000-4000-8000-00000000abcd"
	mailUID    = "9d3e1b52-0000-4000-8000-00000000abcd"
	foreignIP  = "203.0.113.30"
	sourceNAT  = "203.0.113.10"
	testSecret = "canary-secret-key-3f9a"
	testAPIKey = "canary-api-key-77b1"
)

// lbWorld is an isolated network with five VMs, and an address with rules of others whose names resemble ours.
const lbWorld = `
version: 4.22.0.0
zones:
  - {name: zone-1, publicRanges: [203.0.113.10-203.0.113.99], hosts: [h1]}
accounts:
  - {name: admin, role: Root Admin, users: [{name: admin, password: password}]}
  - name: k8s
    role: User
    users:
      - {name: ccm, password: password, apiKey: ` + testAPIKey + `, secretKey: ` + testSecret + `}
      - {name: inspector, password: password, apiKey: inspect, secretKey: inspect}
  - name: other
    role: User
    users: [{name: other, password: password}]
networks:
  - {name: k8s-net, account: k8s, cidr: 10.1.1.0/24, sourceNAT: 203.0.113.10}
  - {name: other-net, account: other, cidr: 10.1.2.0/24, sourceNAT: 203.0.113.11}
  - {name: second-net, account: k8s, cidr: 10.1.3.0/24, sourceNAT: 203.0.113.12}
virtualMachines:
  - {name: w1, account: k8s, nics: [{network: k8s-net, ip: 10.1.1.21}]}
  - {name: w2, account: k8s, nics: [{network: k8s-net, ip: 10.1.1.22}]}
  - {name: w3, account: k8s, nics: [{network: k8s-net, ip: 10.1.1.23}]}
  - {name: w4, account: k8s, nics: [{network: k8s-net, ip: 10.1.1.24}]}
  - {name: w5, account: k8s, nics: [{network: k8s-net, ip: 10.1.1.25}]}
  - {name: s1, account: k8s, nics: [{network: second-net, ip: 10.1.3.21}]}
  - {name: o1, account: other, nics: [{network: other-net, ip: 10.1.2.21}]}
publicIPs:
  - address: 203.0.113.30
    network: k8s-net
    loadBalancerRules:
      - {name: web-tcp-80, publicPort: 80, privatePort: 30080, protocol: tcp, members: [w1]}
      - {name: a7c3e1b52000040008000000000000ff-tcp-81, publicPort: 81, privatePort: 30081, protocol: tcp, members: [w1]}
    firewallRules:
      - {protocol: tcp, startPort: 80, endPort: 80}
      - {protocol: tcp, startPort: 2222, endPort: 2222, cidrs: [198.51.100.0/24]}
  - {address: 203.0.113.31, network: k8s-net}
  - {address: 203.0.113.32, network: second-net}
  - {address: 203.0.113.33, network: other-net}
`

// TestMain makes garbage collection less frequent, because it took a fifth of the time of the tests.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// fastClock makes the job waiter poll fifty times as often as in production.
type fastClock struct{ clock.RealClock }

func (c fastClock) NewTimer(d time.Duration) clock.Timer { return c.RealClock.NewTimer(d / 50) }

// serviceEnv is a simulated CloudStack, an API server with Services, and the load balancers of the controller.
type serviceEnv struct {
	account
	provider *Provider
	lb       *service.Controller
	recorder *record.FakeRecorder
	clock    *clocktesting.FakeClock
	process  *process.Process
	noTags   bool     // the role may not tag
	nodes    []string // for a sync that names none
	before   []string // the dump at the start
	latency  simulator.LatencyProfile
	deps     func(*service.Deps)
	watching atomic.Pointer[func(command string)] // called after each call of the controller

	// lies changes the copies of Services that the controller sees; it may be nil.
	lies func(*corev1.Service)

	current atomic.Pointer[[]*corev1.Node] // of the cluster
}

type envOption func(env *serviceEnv, world *string)

func withWorld(change func(string) string) envOption {
	return func(_ *serviceEnv, w *string) { *w = change(*w) }
}

var dumps sync.Map // project and text of a world -> function that returns its dump

func newEnv(t *testing.T, options ...envOption) *serviceEnv {
	t.Helper()
	env := &serviceEnv{
		account:  account{apiServer: apiServer{t: t, kube: testenv.Kube()}},
		recorder: record.NewFakeRecorder(10000),
		clock:    clocktesting.NewFakeClock(time.Now()),
		nodes:    []string{"w1", "w2"},
	}

	world := lbWorld
	for _, o := range options {
		o(env, &world)
	}

	env.Cloud = testenv.New(t, world, simulator.Options{Latency: env.latency})
	env.inspect = env.Client("inspect", "inspect", cloudstack.WithClock(fastClock{}))
	env.setNodes(nil)
	env.restart()
	before, _ := dumps.LoadOrStore(env.project+world, sync.OnceValue(env.dump)) // the dump has no IDs
	env.before = before.(func() []string)()
	t.Cleanup(func() { env.lb.Stop() })
	return env
}

// restart kills the controller and starts another one. Only CloudStack and the API server keep their state.
func (env *serviceEnv) restart() {
	if env.process != nil {
		env.process.Kill()
	}

	env.process = process.New(env.t.Context(), env.kube)
	if env.lb != nil {
		env.lb.Stop()
	}

	cfg := env.Config(testAPIKey, testSecret)
	cfg.ClusterID, cfg.ProjectID, cfg.Timeout, cfg.JobTimeout = "test", env.project, time.Minute, 100*time.Hour
	o := DefaultOptions()
	o.Clock = env.clock
	var err error
	env.provider, err = New(cfg, o, cloudstack.WithTransport(env.Transport(env.around)),
		cloudstack.WithClock(fastClock{}))
	require.NoError(env.t, err)
	deps := env.provider.serviceDeps(env.process.Kube, env.recorder)
	deps.Services, deps.Nodes = env.services, env.clusterNodes
	deps.Tenancy = tenancy.Policy{TrustedNamespaces: []string{tenancy.Everybody}}
	if env.tenants {
		deps.Tenancy = tenantPolicy(env.noTags)
	}

	if env.deps != nil {
		env.deps(&deps)
	}

	env.lb = service.New(deps)
}

// services and clusterNodes are the caches of the controller. They are always equal to the API server's state.
func (env *serviceEnv) services() ([]*corev1.Service, error) {
	list, err := env.kube.CoreV1().Services(metav1.NamespaceAll).List(env.t.Context(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	out := make([]*corev1.Service, 0, len(list.Items))
	for i := range list.Items {
		if env.lies != nil {
			env.lies(&list.Items[i])
		}
		out = append(out, &list.Items[i])
	}
	return out, nil
}

func (env *serviceEnv) clusterNodes() ([]*corev1.Node, error) { return *env.current.Load(), nil }

// setNodes replaces the nodes of the cluster.
func (env *serviceEnv) setNodes(nodes []*corev1.Node) { env.current.Store(&nodes) }

// noticed passes all existing Services to the controller, as its informer does.
func (env *serviceEnv) noticed() {
	all, _ := env.services()
	for _, svc := range all {
		env.lb.ServiceChanged(svc)
	}
}

// attempt syncs a Service once, unless the Service has to wait for a retry.
func (env *serviceEnv) attempt(key string) error {
	svc := env.get(key)
	if env.lies != nil {
		env.lies(svc)
	}
	env.lb.ServiceChanged(svc) // as the controller's informer does
	_, err := env.lb.Sync(env.process.Context(), service.KeyOf(svc))
	return err
}

// around kills the process at the chosen call of the controller, and calls the watcher.
func (env *serviceEnv) around(
	_ *http.Request, form url.Values, send func() (*http.Response, error),
) (res *http.Response, err error) {
	command := form.Get("command")
	err = env.process.Call(command, func() error {
		res, err = send()
		if watch := env.watching.Load(); watch != nil && *watch != nil {
			(*watch)(command)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}

// watch sets the function that is called after each call of the controller.
func (env *serviceEnv) watch(after func(command string)) { env.watching.Store(&after) }

// sync syncs a changed Service that is due, as the queue does. If the Service is not of type LoadBalancer, its load
// balancer is removed.
func (env *serviceEnv) sync(key string, nodes ...string) error {
	env.t.Helper()
	if nodes == nil {
		nodes = env.nodes
	}
	env.setNodes(nodesNamed(nodes...))
	env.noticed()
	env.lb.Retry()
	return env.attempt(key)
}

func (env *serviceEnv) mustSync(key string, nodes ...string) {
	env.t.Helper()
	require.NoError(env.t, env.sync(key, nodes...), key)
}

// remove changes a Service to one without a load balancer, syncs it, and changes it back to type LoadBalancer.
func (env *serviceEnv) remove(key string) error {
	env.t.Helper()
	env.edit(key, ofType(corev1.ServiceTypeClusterIP))
	err := env.sync(key)
	if !env.process.Dead() {
		env.edit(key, ofType(corev1.ServiceTypeLoadBalancer))
	}
	return err
}

// update syncs a Service with other nodes.
func (env *serviceEnv) update(key string, nodes ...string) {
	env.t.Helper()
	env.setNodes(nodesNamed(nodes...))
	require.NoError(env.t, env.attempt(key))
}

// repeat calls act until it succeeds, like the framework's queue, and advances the clock between the attempts.
func (env *serviceEnv) repeat(act func(*serviceEnv) error) error {
	var err error
	for range 12 {
		if err = act(env); err == nil {
			return nil
		}
		env.advance(20 * time.Second)
	}
	return err
}

func (env *serviceEnv) advance(d time.Duration) { env.clock.Step(d) }

// round makes a round of the drift loop, one Service after the other, so that a seed always gives the same order.
func (env *serviceEnv) round() {
	env.noticed()
	keys := env.lb.Round(env.t.Context())
	slices.SortFunc(keys, func(a, b service.Key) int { return cmp.Compare(a.UID, b.UID) })
	for _, k := range keys {
		_, _ = env.lb.Sync(env.t.Context(), k)
	}
}

func (env *serviceEnv) events() []string { return testenv.Drain(env.recorder.Events) }

// calls returns the controller's calls since the last reset, without polls.
func (env *serviceEnv) calls() []string { return env.Calls("ccm") }

func (env *serviceEnv) reset() { env.Ledger().Reset() }

// forget deletes a Service without finalizers, and tells the controller as its informer does.
func (env *serviceEnv) forget(key string) {
	env.t.Helper()
	svc := env.get(key)
	env.apiServer.forget(key)
	env.lb.ServiceDeleted(svc)
}
