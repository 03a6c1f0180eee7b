// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/seal"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/pkg/tenancy"
)

const (
	webUID     = "7c3e1b52-0000-4000-8000-00000000abcd"
	foreignIP  = "203.0.113.30"
	sourceNAT  = "203.0.113.10"
	testSecret = "canary-secret-key-3f9a"
	testAPIKey = "canary-api-key-77b1"
)

// lbWorld is an isolated network with five VMs and what others have beside us:
// an address with rules whose names look like ours, a port forwarding's firewall rule.
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

// fastClock lets the job waiter poll fifty times as often as in earnest.
type fastClock struct{ clock.RealClock }

func (c fastClock) NewTimer(d time.Duration) clock.Timer { return c.RealClock.NewTimer(d / 50) }

// bed is a simulated CloudStack, a cluster with one Service, and the controller.
type bed struct {
	t        *testing.T
	sim      *simulator.Simulator
	kube     *fake.Clientset
	lb       *loadBalancer
	recorder *record.FakeRecorder
	clock    *clocktesting.FakePassiveClock
	killer   *killer
	inspect  *cloudstack.Client
	url      string
	project  string
	vpc      bool // the world has a VPC
	options  func(*loadBalancerDeps)
	noTags   bool         // the role may not tag
	later    atomic.Int64 // how far the simulator's clock is ahead, in nanoseconds
}

// laterClock is the real clock, moved ahead.
type laterClock struct {
	clock.RealClock
	by *atomic.Int64
}

func (c laterClock) Now() time.Time { return c.RealClock.Now().Add(time.Duration(c.by.Load())) }

// newKube is fake.NewClientset without managed fields, which cost the tests a third of their time.
func newKube() *fake.Clientset {
	tracker := clienttesting.NewObjectTracker(scheme.Scheme, scheme.Codecs.UniversalDecoder())
	kube := &fake.Clientset{}
	kube.AddReactor("*", "*", clienttesting.ObjectReaction(tracker))
	kube.AddWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
		w, err := tracker.Watch(a.GetResource(), a.GetNamespace())
		return true, w, err
	})
	return kube
}

type bedOption func(*bed, *string)

func withWorld(change func(string) string) bedOption {
	return func(_ *bed, w *string) { *w = change(*w) }
}

func newBed(t *testing.T, options ...bedOption) *bed {
	t.Helper()
	b := &bed{
		t:        t,
		kube:     newKube(),
		killer:   &killer{},
		recorder: record.NewFakeRecorder(10000),
		clock:    clocktesting.NewFakePassiveClock(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)),
	}
	b.kube.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return b.killer.isDead(), nil, errKilled
	})
	text := lbWorld
	for _, o := range options {
		o(b, &text)
	}
	world, err := simulator.LoadWorld(strings.NewReader(text))
	require.NoError(t, err)
	b.sim, err = simulator.New(simulator.Options{World: world, Clock: laterClock{by: &b.later}})
	require.NoError(t, err)
	server := httptest.NewServer(b.sim.Handler())
	t.Cleanup(func() { server.Close(); b.sim.Close() })
	b.url = server.URL + "/client/api"
	b.inspect = b.client("inspect", "inspect")
	b.restart()
	return b
}

func (b *bed) client(key, secret string, options ...cloudstack.Option) *cloudstack.Client {
	c, err := cloudstack.NewClient(&cloudstack.Config{
		APIURL: b.url, APIKey: key, SecretKey: secret, Timeout: time.Minute, JobTimeout: 100 * time.Hour,
	}, append(options, cloudstack.WithClock(fastClock{}))...)
	require.NoError(b.t, err)
	return c
}

// restart kills the controller and starts it anew: nothing but CloudStack and the API server remembers.
func (b *bed) restart() {
	b.killer.revive(b.t.Context())
	api := b.client(testAPIKey, testSecret, cloudstack.WithTransport(b.killer))
	inventoryOf := func(project string) *inventory.Inventory {
		return inventory.New(api, inventory.Options{ProjectID: project, Clock: b.clock})
	}
	deps := loadBalancerDeps{
		API:         loadbalancer.FromClient(api),
		Inventory:   inventoryOf(b.project),
		InventoryOf: inventoryOf,
		Kube:        b.kube,
		Recorder:    b.recorder,
		ClusterID:   func() string { return "test" },
		Seal:        seal.New(func() []string { return []string{seal.DeriveKey(testSecret)} }),
		DriftPeriod: 5 * time.Minute,
		// Tests of tenants set a policy; the others are about what every namespace could ask for before there was one.
		Tenancy: &tenancy.Policy{TrustedNamespaces: []tenancy.Namespaces{tenancy.Named(tenancy.Everybody)}},
		Clock:   b.clock,
	}
	if b.options != nil {
		b.options(&deps)
	}
	b.lb = newLoadBalancer(deps)
}

// service makes the Service in the cluster.
func (b *bed) service(ports []int, change ...func(*corev1.Service)) {
	b.t.Helper()
	svc := newService(ports, change...)
	_, err := b.kube.CoreV1().Services(svc.Namespace).Create(b.t.Context(), svc, metav1.CreateOptions{})
	require.NoError(b.t, err)
}

func newService(ports []int, change ...func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: webUID, Annotations: map[string]string{}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: servicePorts(ports...)},
	}
	for _, c := range change {
		c(svc)
	}
	return svc
}

func servicePorts(ports ...int) []corev1.ServicePort {
	var out []corev1.ServicePort
	for _, p := range ports {
		out = append(out, corev1.ServicePort{Name: fmt.Sprintf("p%d", p), Protocol: corev1.ProtocolTCP, Port: int32(p), NodePort: int32(30000 + p%2000)})
	}
	return out
}

func (b *bed) get() *corev1.Service { return b.getAs("web") }

func (b *bed) getAs(name string) *corev1.Service {
	b.t.Helper()
	svc, err := b.kube.CoreV1().Services("default").Get(b.t.Context(), name, metav1.GetOptions{})
	require.NoError(b.t, err)
	return svc
}

func (b *bed) change(change func(*corev1.Service)) { b.changeAs("web", change) }

func (b *bed) changeAs(name string, change func(*corev1.Service)) {
	b.t.Helper()
	svc := b.getAs(name)
	if svc.Annotations == nil {
		svc.Annotations = map[string]string{}
	}
	change(svc)
	_, err := b.kube.CoreV1().Services("default").Update(b.t.Context(), svc, metav1.UpdateOptions{})
	require.NoError(b.t, err)
}

func nodesNamed(names ...string) []*corev1.Node {
	var out []*corev1.Node
	for _, n := range names {
		out = append(out, k8sNode(n, ""))
	}
	return out
}

// sync does what the framework does for a changed Service.
func (b *bed) sync(nodes ...string) error { return b.syncAs("web", nodes...) }

func (b *bed) syncAs(name string, nodes ...string) error {
	svc := b.getAs(name)
	b.lb.backoff.Forget(svc.UID) // its time has come
	status, err := b.lb.EnsureLoadBalancer(b.killer.life(), "kubernetes", svc, nodesNamed(nodes...))
	if err != nil {
		return err
	}
	b.changeAs(name, func(s *corev1.Service) { s.Status.LoadBalancer = *status })
	return nil
}

func (b *bed) mustSync(nodes ...string) {
	b.t.Helper()
	require.NoError(b.t, b.sync(nodes...))
}

// remove does what the framework does for a Service that goes; done is false when it would try again.
func (b *bed) remove() error { return b.removeAs("web") }

func (b *bed) removeAs(name string) error {
	svc := b.getAs(name)
	b.lb.backoff.Forget(svc.UID) // its time has come
	_, exists, err := b.lb.GetLoadBalancer(b.killer.life(), "kubernetes", svc)
	if err != nil || !exists {
		return err
	}
	return b.lb.EnsureLoadBalancerDeleted(b.killer.life(), "kubernetes", svc)
}

func (b *bed) ip() string {
	b.t.Helper()
	ingress := b.get().Status.LoadBalancer.Ingress
	require.Len(b.t, ingress, 1)
	return ingress[0].IP
}

func (b *bed) events() []string { return drain(b.recorder.Events) }

func (b *bed) event(reason loadbalancer.Reason) string {
	for _, e := range b.events() {
		if strings.Contains(e, " "+string(reason)+" ") {
			return e
		}
	}
	return ""
}

// dump describes everything in the account in a form that has no ids in it:
// one line an address, rule and firewall rule.
func (b *bed) dump() []string {
	b.t.Helper()
	ctx := context.Background()
	c, p := b.inspect, b.project
	vms, err := c.ListVirtualMachines(ctx, cloudstack.VMQuery{ProjectID: p})
	require.NoError(b.t, err)
	names := map[string]string{}
	for i := range vms {
		names[vms[i].ID] = vms[i].Name
	}
	all := false
	var out []string
	ips, err := c.ListPublicIPs(ctx, cloudstack.PublicIPQuery{ProjectID: p})
	require.NoError(b.t, err)
	for _, state := range []string{"Allocating", "Releasing"} {
		stranded, err := c.ListPublicIPs(ctx, cloudstack.PublicIPQuery{State: state, AllocatedOnly: &all, ProjectID: p})
		require.NoError(b.t, err)
		ips = append(ips, stranded...)
	}
	for i := range ips {
		keys := []string{}
		for k, v := range ips[i].Tags {
			keys = append(keys, k+"="+v)
		}
		slices.Sort(keys)
		out = append(out, fmt.Sprintf("address %s %s %v", ips[i].Address, ips[i].State, keys))
		firewall, err := c.ListFirewallRules(ctx, cloudstack.FirewallRuleQuery{PublicIPID: ips[i].ID, ProjectID: p})
		if err != nil {
			continue // an address on its way
		}
		for j := range firewall {
			f := &firewall[j]
			out = append(out, fmt.Sprintf("firewall %s %s %d-%d %v", ips[i].Address, f.Protocol, f.StartPort, f.EndPort, f.CIDRs))
		}
	}
	rules, err := c.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{ProjectID: p})
	require.NoError(b.t, err)
	for i := range rules {
		r := &rules[i]
		list, err := c.ListLoadBalancerMembers(ctx, r.ID)
		require.NoError(b.t, err)
		members := []string{}
		for j := range list {
			members = append(members, names[list[j].VMID])
		}
		slices.Sort(members)
		out = append(out, fmt.Sprintf("rule %s %s %d->%d %s %s %v %v", r.PublicIP, r.Name, r.PublicPort, r.PrivatePort, r.Protocol, r.Algorithm, r.CIDRs, members))
	}
	if b.vpc {
		out = append(out, b.dumpVPC(names)...)
	}
	slices.Sort(out)
	return out
}

// of returns the lines of a dump that concern an address.
func of(dump []string, ip string) []string {
	var out []string
	for _, line := range dump {
		if strings.Contains(line, " "+ip+" ") {
			out = append(out, strings.Replace(line, " "+ip, "", 1))
		}
	}
	return out
}

var pollCommands = []string{"queryAsyncJobResult", "listAsyncJobs"}

// calls are the controller's calls since the last reset, polls left out.
func (b *bed) calls() []string {
	var out []string
	for _, c := range b.sim.Ledger().Calls() {
		if c.Caller == "ccm" && !slices.Contains(pollCommands, c.Command) {
			out = append(out, c.Command)
		}
	}
	return out
}

func (b *bed) reset() { b.sim.Ledger().Reset() }

// watched waits until somebody watches the objects of a kind: the fake API server tells nobody of a change that comes
// between his list and his watch.
func (b *bed) watched(resource string) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		return slices.ContainsFunc(b.kube.Actions(), func(a clienttesting.Action) bool { return a.Matches("watch", resource) })
	}, waitLong, waitStep, resource)
}

func annotate(pairs ...string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		if s.Annotations == nil {
			s.Annotations = map[string]string{}
		}
		for i := 0; i < len(pairs); i += 2 {
			s.Annotations[pairs[i]] = pairs[i+1]
		}
	}
}

func uid(s string) func(*corev1.Service) { return func(svc *corev1.Service) { svc.UID = types.UID(s) } }
