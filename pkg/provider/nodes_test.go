// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"
	"slices"
	"sync"
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
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	nodecontroller "k8s.io/cloud-provider/controllers/node"
	"k8s.io/cloud-provider/controllers/nodelifecycle"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/internal/testenv"
	"github.com/csccm/csccm/pkg/node"
)

func TestNodeOptions(t *testing.T) {
	t.Parallel()
	vm := machines(1)[0]
	vm.NICs = append(vm.NICs, cloudstack.NIC{DeviceID: 1, Type: "Isolated", IPv4: "10.2.1.5"})
	vm.ServiceOfferingID, vm.Tags = "so-1", map[string]string{"k8s/team": "a"}
	vm.AffinityGroups = []cloudstack.AffinityGroup{{ID: "ag-1", Name: "spread"}}
	o := DefaultOptions()
	o.Nodes = NodeOptions{InternalCIDRs: "10.1.0.0/16", ExternalCIDRs: "10.2.0.0/16", Labels: []string{"offering", "affinity-groups"}, LabelTagPrefix: "k8s/"}
	p, err := assemble(&cloudstack.Config{}, o, &fakeCloud{vms: []cloudstack.VirtualMachine{vm}})
	require.NoError(t, err)
	m, err := p.instances.InstanceMetadata(t.Context(), k8sNode("w1", ""))
	require.NoError(t, err)
	assert.Equal(t, []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: "10.1.0.2"}, {Type: corev1.NodeExternalIP, Address: "10.2.1.5"}, {Type: corev1.NodeHostName, Address: "w1"},
	}, m.NodeAddresses)
	assert.Equal(t, map[string]string{node.LabelOfferingID: "so-1", node.LabelAffinityPrefix + "spread": "ag-1", node.LabelTagPrefix + "team": "a"}, m.AdditionalLabels)
}

// What Nodes cost, counted by the server, for clusters of all sizes: calls go by the VMs of the account and
// by time, never by the number of Nodes.
func TestNodeBudgets(t *testing.T) {
	t.Parallel()
	for _, size := range []int{10, 100, 1000, 5000} {
		parallel(t, fmt.Sprint(size), func(t *testing.T) {
			if size > 1000 && testing.Short() {
				t.Skip("takes seconds")
			}
			env := newNodeEnv(t, size)
			clock, o := fakeClockOptions()
			p, err := New(env.Config(testAPIKey, testSecret), o, env.Option(), testenv.NoJitter)
			require.NoError(t, err)
			nodes := env.nodes(size)
			p.instances.List = func() ([]*corev1.Node, error) { return nodes, nil }
			pages := (size + 499) / 500
			spent := func() int { n := len(env.Calls("ccm")); env.Ledger().Reset(); return n }
			describeAll := func(list []*corev1.Node) {
				t.Helper()
				var wg sync.WaitGroup
				for w := range 16 {
					wg.Go(func() {
						for i := w; i < len(list); i += 16 {
							if _, err := p.instances.InstanceMetadata(t.Context(), list[i]); err != nil {
								t.Error(err)
							}
						}
					})
				}
				wg.Wait()
			}

			fresh := make([]*corev1.Node, size)
			for i := range fresh {
				fresh[i] = k8sNode(nodes[i].Name, "")
			}
			describeAll(fresh)
			assert.Equal(t, pages, spent(), "all Nodes at once share a flight")
			describeAll(nodes)
			assert.Zero(t, spent(), "a list serves all for its age")
			_, err = p.inventory.VMs(t.Context(), node.VMAge)
			require.NoError(t, err)
			assert.Zero(t, spent(), "load balancers among them")
			clock.Step(node.VMAge + time.Second)
			describeAll(nodes)
			assert.Equal(t, pages, spent(), "a steady round")

			env.Admin("stopVirtualMachine", "id", env.ids["w2"])
			spent()
			clock.Step(node.VMAge + time.Second)
			exists, err := p.instances.InstanceExists(t.Context(), nodes[1])
			require.NoError(t, err)
			assert.True(t, exists)
			off, err := p.instances.InstanceShutdown(t.Context(), nodes[1])
			require.NoError(t, err)
			assert.True(t, off)
			assert.Equal(t, pages, spent(), "one VM stopped")

			env.Admin("destroyVirtualMachine", "id", env.ids["w3"])
			spent()
			clock.Step(node.VMAge + time.Second)
			exists, err = p.instances.InstanceExists(t.Context(), nodes[2])
			require.NoError(t, err)
			assert.False(t, exists)
			assert.Equal(t, pages+1, spent(), "one VM destroyed: the list and the look-up by id")

			nobody := k8sNode("nobody", node.ProviderID(node.FormUpstream, vmID(1)))
			clock.Step(node.MissAge + time.Second)
			_, err = p.instances.InstanceMetadata(t.Context(), nobody)
			require.Error(t, err)
			assert.Equal(t, 1, spent(), "an unknown id: one look-up, or the list where that is one call as well")
		})
	}
}

func fakeClockOptions() (*clocktesting.FakeClock, Options) {
	c := clocktesting.NewFakeClock(time.Now())
	o := DefaultOptions()
	o.Clock = c
	return c, o
}

func TestOptionsValidate(t *testing.T) {
	t.Parallel()
	o := DefaultOptions()
	require.NoError(t, o.Validate())
	o.DriftPeriod, o.Tenancy = 0, "{}"
	require.NoError(t, o.Validate())
	bad := Options{
		ProviderIDFormat: "x", InstanceTypeFormat: "y", DriftPeriod: time.Second, DeletionGuard: node.DeletionLimit{Percent: 101, Window: -1},
		Tenancy: `{"annotations":{"networks":{"deny":true}}}`, Nodes: NodeOptions{InternalCIDRs: "x", ExternalCIDRs: "y", Labels: []string{"z"}},
	}
	for _, part := range []string{
		"--provider-id-format", "--instance-type-format", "--drift-period", "--node-deletion-limit", "--node-deletion-window",
		`--tenancy: tenancy.annotations: there is no annotation "networks"`,
		`--node-internal-cidrs: "x"`, `--node-external-cidrs: "y"`, `--node-labels: "z"`,
	} {
		require.ErrorContains(t, bad.Validate(), part)
	}
}

// cluster runs the framework's own node controllers on a fake API server.
type cluster struct {
	t     *testing.T
	kube  *fake.Clientset
	asked *atomic.Int32
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
	p.start(kube, ctx.Done())
	p.SetInformers(factory)

	counter := &counted{Interface: p, Nodes: p.instances}
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
	return &cluster{t: t, kube: kube, asked: &counter.asked}
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
	*node.Nodes
	asked atomic.Int32
}

func (c *counted) InstancesV2() (cloudprovider.InstancesV2, bool) { return c, true }

func (c *counted) InstanceExists(ctx context.Context, n *corev1.Node) (bool, error) {
	defer c.asked.Add(1)
	return c.Nodes.InstanceExists(ctx, n)
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
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}

var machines, vmID, k8sNode, drain = testenv.Machines, testenv.VMID, testenv.Node, testenv.Drain

// fakeCloud is the part of CloudStack that contact with it needs, with the faults that tests want.
type fakeCloud struct {
	testenv.Elsewhere
	mu      sync.Mutex
	vms     []cloudstack.VirtualMachine
	listErr error
	lists   int
}

func (f *fakeCloud) set(change func(f *fakeCloud)) { f.mu.Lock(); defer f.mu.Unlock(); change(f) }

func (f *fakeCloud) listed() int { f.mu.Lock(); defer f.mu.Unlock(); return f.lists }

func (f *fakeCloud) ListVirtualMachines(_ context.Context, q cloudstack.VMQuery) ([]cloudstack.VirtualMachine, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if q.ID == "" {
		f.lists++
	}
	return slices.DeleteFunc(slices.Clone(f.vms), func(vm cloudstack.VirtualMachine) bool { return q.ID != "" && vm.ID != q.ID }), f.listErr
}
