// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	nodecontroller "k8s.io/cloud-provider/controllers/node"
	"k8s.io/cloud-provider/controllers/nodelifecycle"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/internal/testenv"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/provider/event"
)

// cluster runs the framework's own node controllers on a fake API server.
type cluster struct {
	t      *testing.T
	kube   *fake.Clientset
	asked  *atomic.Int32
	events chan string
	status func() // what the framework does for all initialised Nodes every 5 minutes
}

const monitorPeriod = 10 * time.Millisecond

// startCluster starts the controllers in real time, with short periods. The provider's clock stands still, so that the age
// of a list does not depend on the machine.
func startCluster(t *testing.T, p *Provider, nodes ...*corev1.Node) *cluster {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	objects := make([]runtime.Object, 0, len(nodes))
	for _, n := range nodes {
		objects = append(objects, n)
	}
	kube := testenv.Kube(objects...)
	factory := informers.NewSharedInformerFactory(kube, 0)
	recorder := record.NewFakeRecorder(1000)
	if p.client != nil {
		p.start(kube, ctx.Done()) // Events go to the API server
	} else {
		p.events.Store(event.NewNodes(recorder, p.options.Clock))
	}
	p.SetInformers(factory)

	counter := &counted{Interface: p, instances: p.instances}
	nodeInformer := factory.Core().V1().Nodes()
	init, err := nodecontroller.NewCloudNodeController(nodeInformer, kube, p, time.Hour, 1, 1)
	require.NoError(t, err)
	life, err := nodelifecycle.NewCloudNodeLifecycleController(nodeInformer, kube, counter, monitorPeriod, 1)
	require.NoError(t, err)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	m := controllersmetrics.NewControllerManagerMetrics("test")
	go init.RunWithContext(ctx, m)
	go life.Run(ctx, m)
	return &cluster{t: t, kube: kube, asked: &counter.asked, events: recorder.Events, status: func() { assert.NoError(t, init.UpdateNodeStatus(ctx)) }}
}

func (c *cluster) node(name string) (*corev1.Node, error) {
	return c.kube.CoreV1().Nodes().Get(c.t.Context(), name, metav1.GetOptions{})
}

func (c *cluster) eventually(what string, condition func() bool) {
	c.t.Helper()
	require.Eventually(c.t, condition, waitLong, 5*time.Millisecond, what)
}

// rounds waits until the lifecycle controller has asked n times about every Node.
func (c *cluster) rounds(n, nodes int) {
	c.t.Helper()
	until := c.asked.Load() + int32(n*nodes)
	c.eventually("the lifecycle controller goes round", func() bool { return c.asked.Load() >= until })
}

// counted counts what the lifecycle controller asks.
type counted struct {
	cloudprovider.Interface
	*instances
	asked atomic.Int32
}

func (c *counted) InstancesV2() (cloudprovider.InstancesV2, bool) { return c, true }

func (c *counted) InstanceExists(ctx context.Context, n *corev1.Node) (bool, error) {
	defer c.asked.Add(1)
	return c.instances.InstanceExists(ctx, n)
}

// uninitialised makes the Nodes w1 ... wN as kubelets with --cloud-provider=external register them.
func uninitialised(n int) []*corev1.Node {
	var out []*corev1.Node
	for i := 1; i <= n; i++ {
		k := k8sNode(fmt.Sprintf("w%d", i), "")
		k.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
		k.Status.Conditions[0].Status = corev1.ConditionTrue
		out = append(out, k)
	}
	return out
}

func tainted(n *corev1.Node, key string) bool {
	for _, t := range n.Spec.Taints {
		if t.Key == key {
			return true
		}
	}
	return false
}

// A Ready Node whose VM is expunged stays. One Event reports it, until the VM is back or the VM of another Node is missing.
func TestFrameworkReportsAReadyNodeWithoutVMOnce(t *testing.T) {
	t.Parallel()
	p := newFakeProvider(t, machines(6))
	cloud := p.api
	nodes := initialised(6)
	for i, n := range nodes {
		n.Status.Conditions[0].Status = corev1.ConditionTrue
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: cloud.vms[i].NICs[0].IPv4}, {Type: corev1.NodeHostName, Address: n.Name}}
	}
	c := startCluster(t, p.Provider, nodes...)
	rounds := func() (events []string) {
		for range 12 { // an hour
			p.clock.Step(5 * time.Minute)
			c.status()
		}
		for _, e := range drain(c.events) {
			if strings.Contains(e, string(event.NodeWithoutVM)) {
				events = append(events, e)
			}
		}
		return events
	}
	assert.Empty(t, rounds())
	gone := cloud.vms[1]
	cloud.remove("w2")
	events := rounds()
	require.Len(t, events, 1)
	assert.Contains(t, events[0], `Warning NodeWithoutVM node "w2" has no VM`)
	assert.Empty(t, rounds(), "not again while it lasts")
	cloud.set(func(f *fakeCloud) { f.vms = append(f.vms, gone) })
	assert.Empty(t, rounds())
	cloud.remove("w2")
	assert.Len(t, rounds(), 1, "again after a change")
	_, err := c.node("w2")
	require.NoError(t, err, "it is Ready: Kubernetes does not ask whether it exists")
}

// fakeCloud is the part of CloudStack that Nodes need, with the faults that tests want.
type fakeCloud struct {
	mu      sync.Mutex
	vms     []cloudstack.VirtualMachine
	listErr error                                   // of whole lists
	idErr   error                                   // of look-ups by id
	hidden  func(vm cloudstack.VirtualMachine) bool // what whole lists, although complete, leave out
	lists   int
	byID    []string // the ids that were asked for
}

func (f *fakeCloud) set(change func(f *fakeCloud)) { f.mu.Lock(); defer f.mu.Unlock(); change(f) }

func (f *fakeCloud) counts() (lists, byID int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lists, len(f.byID)
}

func (f *fakeCloud) ListVirtualMachines(_ context.Context, q cloudstack.VMQuery) ([]cloudstack.VirtualMachine, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if q.ID == "" {
		f.lists++
		var list []cloudstack.VirtualMachine
		for _, vm := range f.vms {
			if f.hidden == nil || !f.hidden(vm) {
				list = append(list, vm)
			}
		}
		return list, f.listErr
	}
	f.byID = append(f.byID, q.ID)
	for _, vm := range f.vms {
		if vm.ID == q.ID {
			return []cloudstack.VirtualMachine{vm}, f.idErr
		}
	}
	return nil, f.idErr
}

func (f *fakeCloud) ListNetworks(context.Context, cloudstack.NetworkQuery) ([]cloudstack.Network, error) {
	return nil, nil
}

func (f *fakeCloud) ListZones(context.Context) ([]cloudstack.Zone, error) {
	return []cloudstack.Zone{{ID: "z1", Name: "zone-1"}, {ID: "z2", Name: "zone-2"}}, nil
}

func (f *fakeCloud) ListProjects(context.Context) ([]cloudstack.Project, error) {
	return []cloudstack.Project{{ID: "p1", Name: "dev"}}, nil
}

func (f *fakeCloud) remove(name string) {
	f.set(func(f *fakeCloud) {
		f.vms = slices.DeleteFunc(f.vms, func(vm cloudstack.VirtualMachine) bool { return vm.Name == name })
	})
}

func vmID(i int) string { return fmt.Sprintf("00000000-0000-0000-0000-%012d", i) }

// machines makes VMs w1 ... wN, all running.
func machines(n int) []cloudstack.VirtualMachine {
	var out []cloudstack.VirtualMachine
	for i := 1; i <= n; i++ {
		out = append(out, cloudstack.VirtualMachine{
			ID: vmID(i), Name: fmt.Sprintf("w%d", i), State: cloudstack.VMRunning, ZoneID: "z1", ZoneName: "zone-1",
			ServiceOfferingName: "Small Instance",
			NICs:                []cloudstack.NIC{{Default: true, IPv4: fmt.Sprintf("10.1.%d.%d", i/250, i%250+1)}},
		})
	}
	return out
}

// k8sNode makes a Node with a provider ID, if there is one.
func k8sNode(name, providerID string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name)},
		Spec:       corev1.NodeSpec{ProviderID: providerID},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}},
	}
}

// initialised makes the Nodes of machines(n), as they are after initialisation.
func initialised(n int) []*corev1.Node {
	var out []*corev1.Node
	for i := 1; i <= n; i++ {
		out = append(out, k8sNode(fmt.Sprintf("w%d", i), node.ProviderID(node.FormUpstream, vmID(i))))
	}
	return out
}

// fakeProvider is a provider on a fake cloud.
type fakeProvider struct {
	*Provider
	t      *testing.T
	api    *fakeCloud
	clock  *clocktesting.FakeClock
	events chan string
}

// newFakeProvider makes a provider for VMs and Nodes.
func newFakeProvider(t *testing.T, vms []cloudstack.VirtualMachine, nodes ...*corev1.Node) *fakeProvider {
	t.Helper()
	clock, o := fakeClockOptions()
	p := &fakeProvider{t: t, api: &fakeCloud{vms: vms}, clock: clock}
	var err error
	p.Provider, err = assemble(&cloudstack.Config{}, o, p.api)
	require.NoError(t, err)
	recorder := record.NewFakeRecorder(1000)
	p.Provider.events.Store(event.NewNodes(recorder, p.clock))
	p.events = recorder.Events
	p.instances.nodes = func() ([]*corev1.Node, error) { return nodes, nil }
	return p
}

// describe returns the metadata of a Node.
func (p *fakeProvider) describe(n *corev1.Node) *cloudprovider.InstanceMetadata {
	p.t.Helper()
	m, err := p.instances.InstanceMetadata(p.t.Context(), n)
	require.NoError(p.t, err)
	return m
}

// unknown returns the error of a Node that has no metadata.
func (p *fakeProvider) unknown(n *corev1.Node) error {
	p.t.Helper()
	_, err := p.instances.InstanceMetadata(p.t.Context(), n)
	require.Error(p.t, err)
	return err
}

// spent checks the calls so far: whole lists, and look-ups by id.
func (p *fakeProvider) spent(lists, byID int, why string) {
	p.t.Helper()
	gotLists, gotByID := p.api.counts()
	assert.Equal(p.t, []int{lists, byID}, []int{gotLists, gotByID}, why)
}

// exists reports whether the VM of a Node exists.
func (p *fakeProvider) exists(n *corev1.Node) bool {
	p.t.Helper()
	exists, err := p.instances.InstanceExists(p.t.Context(), n)
	require.NoError(p.t, err)
	return exists
}

func drain(events chan string) []string {
	var out []string
	for {
		select {
		case e := <-events:
			out = append(out, e)
		default:
			return out
		}
	}
}

func onlyOne(t *testing.T, events chan string, parts ...string) {
	t.Helper()
	got := drain(events)
	require.Len(t, got, 1)
	for _, p := range parts {
		require.Contains(t, got[0], p)
	}
}
