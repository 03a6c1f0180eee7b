// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	nodecontroller "k8s.io/cloud-provider/controllers/node"
	"k8s.io/cloud-provider/controllers/nodelifecycle"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/internal/testenv"
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

// newCluster starts the controllers in real time, with short periods. The provider's clock stands still, so that the age
// of a list does not depend on the machine.
func newCluster(t *testing.T, cloud *fakeCloud, nodes ...*corev1.Node) *cluster {
	t.Helper()
	_, o := fakeClockOptions()
	p, err := assemble(&cloudstack.Config{}, o, cloud)
	require.NoError(t, err)
	return startCluster(t, p, nodes...)
}

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

func TestFrameworkLeavesANodeWithoutVMTainted(t *testing.T) {
	t.Parallel()
	nodes := uninitialised(2)
	c := newCluster(t, &fakeCloud{vms: machines(1)}, nodes...)
	c.eventually("w1 is initialised", func() bool {
		n, err := c.node("w1")
		return err == nil && n.Spec.ProviderID != ""
	})
	c.eventually("w2 gets an Event", func() bool { return len(c.events) > 0 })
	assert.Contains(t, <-c.events, `Warning NodeWithoutVM node "w2" has no VM: no VM with the name "w2"`)
	n, err := c.node("w2")
	require.NoError(t, err)
	assert.True(t, tainted(n, cloudproviderapi.TaintExternalCloudProvider))
}

// A Ready Node whose VM is expunged stays. One Event reports it, until the VM is back or the VM of another Node is missing.
func TestFrameworkReportsAReadyNodeWithoutVMOnce(t *testing.T) {
	t.Parallel()
	cloud := &fakeCloud{vms: machines(6)}
	clk, o := fakeClockOptions()
	p, err := assemble(&cloudstack.Config{}, o, cloud)
	require.NoError(t, err)
	nodes := initialised(6)
	for _, n := range nodes {
		n.Status.Conditions[0].Status = corev1.ConditionTrue
	}
	c := startCluster(t, p, nodes...)
	rounds := func() (events []string) {
		for range 12 { // an hour
			clk.SetTime(clk.Now().Add(5 * time.Minute))
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
	_, err = c.node("w2")
	require.NoError(t, err, "it is Ready: Kubernetes does not ask whether it exists")
}

// All Nodes are not ready: the framework deletes each one whose VM is reported missing.
func TestFrameworkNeverDeletesOnFaults(t *testing.T) {
	t.Parallel()
	fails := func(k cloudstack.Kind) func(*fakeCloud) {
		return func(f *fakeCloud) {
			f.listErr = &cloudstack.Error{Kind: k, Command: "listVirtualMachines"}
			f.idErr = f.listErr
		}
	}
	for _, c := range []struct {
		name  string
		fault func(*fakeCloud)
	}{
		{name: "401", fault: fails(cloudstack.KindAuth)},
		{name: "432", fault: fails(cloudstack.KindNotPermitted)},
		{name: "5xx", fault: fails(cloudstack.KindTransient)},
		{name: "throttled", fault: fails(cloudstack.KindThrottled)},
		{name: "another project: empty everywhere", fault: func(f *fakeCloud) { f.vms = nil }},
		{name: "lists are empty", fault: hide("")},
		{name: "one page of two", fault: func(f *fakeCloud) {
			f.vms = f.vms[:3]
			f.listErr = &cloudstack.Error{Kind: cloudstack.KindTransient, Command: "listVirtualMachines", Text: "page 2"}
		}},
		{name: "half of the list is missing", fault: func(f *fakeCloud) { f.vms = f.vms[:3] }},
		{name: "by id unknown, in the list", fault: func(f *fakeCloud) { f.idErr = &cloudstack.Error{Kind: cloudstack.KindNotFound} }},
	} {
		parallel(t, c.name, func(t *testing.T) {
			cloud := &fakeCloud{vms: machines(6)}
			cloud.set(c.fault)
			k := newCluster(t, cloud, initialised(6)...)
			k.rounds(5, 6)
			list, err := k.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			assert.Len(t, list.Items, 6)
			for _, n := range list.Items {
				assert.False(t, tainted(&n, cloudproviderapi.TaintNodeShutdown), n.Name)
			}
			for _, a := range k.kube.Actions() {
				assert.NotEqual(t, "delete", a.GetVerb())
			}
		})
	}
}
