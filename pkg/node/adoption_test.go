// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	cloudproviderapi "k8s.io/cloud-provider/api"
	nodecontroller "k8s.io/cloud-provider/controllers/node"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"

	"github.com/csccm/csccm/pkg/internal/testenv"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/provider"
	"github.com/csccm/csccm/pkg/simulator"
)

// adoptionEnv is the framework's controller of Nodes and our provider with --adopt-nodes, on a fake API server and a simulated
// CloudStack, in the bubble of a synctest.
type adoptionEnv struct {
	*testenv.Cloud
	t    *testing.T
	kube *fake.Clientset

	written func() []string // "reason node" of each Event of ours

	mu   sync.Mutex
	most int // most Nodes that had the taint at the same time
}

// adoptionWorld has n VMs w1 ... wn, and two VMs of one name in two networks.
func adoptionWorld(n int) string {
	var b strings.Builder
	b.WriteString(oneNetwork + `  - {name: other, account: k8s, cidr: 10.2.0.0/16, sourceNAT: 203.0.113.11}
virtualMachines:
  - {name: twin, account: k8s, nics: [{network: net, ip: 10.1.9.1}]}
  - {name: twin, account: k8s, nics: [{network: other, ip: 10.2.9.1}]}
  - {name: two-nics, account: k8s, nics: [{network: net, ip: 10.1.9.2}, {network: other, ip: 10.2.9.2}]}
  - {name: external, account: k8s, nics: [{network: net, ip: 10.1.9.3}]}
`)
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, "  - {name: w%d, account: k8s, nics: [{network: net, ip: 10.1.1.%d}]}\n", i, i)
	}
	return b.String()
}

// runAdoption starts the controllers with VMs w1 ... wn and the given Nodes.
func runAdoption(t *testing.T, n int, present []*corev1.Node, test func(*adoptionEnv)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := &adoptionEnv{Cloud: testenv.New(t, adoptionWorld(n), simulator.Options{}), t: t, kube: testenv.Kube()}
		e.written = eventsOn(e.kube, "cloud-node-controller")
		e.join(present...)
		cfg := e.Config("key", "secret")
		cfg.ClusterID = "test"
		o := provider.DefaultOptions()
		o.AdoptNodes = true
		p, err := provider.New(cfg, o, e.Option())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		factory := informers.NewSharedInformerFactory(e.kube, 0)
		defer func() {
			cancel()
			factory.Shutdown()
			synctest.Wait()
		}()
		nodes := factory.Core().V1().Nodes()
		_, err = nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(any, any) {
			list, err := nodes.Lister().List(labels.Everything())
			if err != nil {
				t.Error(err)
			}
			e.mu.Lock()
			defer e.mu.Unlock()
			e.most = max(e.most, len(slices.DeleteFunc(list, func(n *corev1.Node) bool { return !node.HasTaint(n) })))
		}})
		require.NoError(t, err)
		p.SetInformers(factory)
		p.Initialize(clientBuilder{e.kube}, ctx.Done())
		c, err := nodecontroller.NewCloudNodeController(nodes, e.kube, p, 5*time.Minute, 20, 1)
		require.NoError(t, err)
		factory.Start(ctx.Done())
		factory.WaitForCacheSync(ctx.Done())
		go c.RunWithContext(ctx, controllersmetrics.NewControllerManagerMetrics("test"))
		test(e)
	})
}

// joined is a Node as a kubelet without --cloud-provider=external registers it.
func joined(name, ip string, changes ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1"},
		Status: corev1.NodeStatus{
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}, {Type: corev1.NodeHostName, Address: name}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, change := range changes {
		change(n)
	}
	return n
}

func (e *adoptionEnv) join(nodes ...*corev1.Node) {
	for _, n := range nodes {
		_, err := e.kube.CoreV1().Nodes().Create(e.t.Context(), n, metav1.CreateOptions{})
		require.NoError(e.t, err)
	}
}

func (e *adoptionEnv) node(name string) *corev1.Node {
	n, err := e.kube.CoreV1().Nodes().Get(e.t.Context(), name, metav1.GetOptions{})
	require.NoError(e.t, err)
	return n
}

func (e *adoptionEnv) tainted() (names []string) {
	list, err := e.kube.CoreV1().Nodes().List(e.t.Context(), metav1.ListOptions{})
	require.NoError(e.t, err)
	for i := range list.Items {
		if node.HasTaint(&list.Items[i]) {
			names = append(names, list.Items[i].Name)
		}
	}
	return names
}

// events are "reason node" of all Events on Nodes, without those of the framework.
func (e *adoptionEnv) events() []string {
	synctest.Wait()
	return slices.Compact(e.written())
}

// Twenty Nodes that CKS adds at once are initialised within a minute, at most five of them at a time.
func TestAdoptsTwentyNodesWithinAMinute(t *testing.T) {
	t.Parallel()
	runAdoption(t, 20, nil, func(e *adoptionEnv) {
		time.Sleep(time.Hour)
		for i := 1; i <= 20; i++ {
			e.join(joined(fmt.Sprintf("w%d", i), fmt.Sprintf("10.1.1.%d", i)))
		}
		time.Sleep(time.Minute)
		for i := 1; i <= 20; i++ {
			n := e.node(fmt.Sprintf("w%d", i))
			assert.True(t, strings.HasPrefix(n.Spec.ProviderID, "external-cloudstack://"), n.Name)
			assert.Empty(t, n.Spec.Taints)
			assert.Equal(t, "zone-1", n.Labels[corev1.LabelTopologyZone])
			assert.Equal(t, fmt.Sprintf("10.1.1.%d", i), n.Status.Addresses[0].Address)
		}
		assert.Len(t, e.events(), 20)
		assert.Contains(t, e.events(), "NodeAdopted w7")
		e.mu.Lock()
		assert.LessOrEqual(t, e.most, 5)
		e.mu.Unlock()
		e.Ledger().Reset()
		time.Sleep(time.Minute)
		assert.NotContains(t, e.Calls("ccm"), "listVirtualMachines", "nothing is asked while every Node is initialised")
	})
}

// A Node is adopted only where its VM is beyond doubt. The others keep all that they have, and one Event says why.
func TestAdoptionGates(t *testing.T) {
	t.Parallel()
	foreign := func(n *corev1.Node) { n.Spec.ProviderID = "k3s://" + n.Name }
	gpu := func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
	}
	nodes := []*corev1.Node{
		joined("w1", "10.1.1.1", gpu),
		joined("two-nics", "10.1.9.2"),
		joined("external", "", func(n *corev1.Node) {
			n.Annotations = map[string]string{cloudproviderapi.AnnotationAlphaProvidedIPAddr: "10.1.9.3"}
			n.Status.Addresses = nil
		}),
		joined("w2", "10.1.1.77"),
		joined("twin", "10.1.9.1"),
		joined("nobody", "10.1.1.78"),
		joined("w3", "10.1.1.3", foreign),
		joined("w4", "10.1.1.4", func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelTopologyZone: "rack-7"} }),
		joined("w5", "10.1.1.5", func(n *corev1.Node) { n.Status.Conditions = nil }),
	}
	runAdoption(t, 5, nodes, func(e *adoptionEnv) {
		time.Sleep(time.Hour)
		assert.Equal(t, []string{"AmbiguousVM twin", "NodeAdopted external", "NodeAdopted two-nics", "NodeAdopted w1", "NodeNotAdopted w2", "NodeNotAdopted w4", "NodeWithoutVM nobody"}, e.events())
		assert.NotEmpty(t, e.node("w1").Spec.ProviderID)
		assert.Equal(t, nodes[1].Status.Addresses, e.node("two-nics").Status.Addresses, "the kubelet, which is not external, writes the addresses")
		assert.NotEmpty(t, e.node("two-nics").Spec.ProviderID)
		assert.Equal(t, "10.1.9.3", e.node("external").Status.Addresses[0].Address, "nobody else writes the addresses of an external kubelet's Node")
		assert.Equal(t, "gpu", e.node("w1").Spec.Taints[0].Key, "taints of others stay")
		for _, name := range []string{"w2", "twin", "nobody", "w4", "w5"} {
			assert.Empty(t, e.node(name).Spec.ProviderID, name)
		}
		assert.Equal(t, "k3s://w3", e.node("w3").Spec.ProviderID)
		assert.Empty(t, e.tainted())
		e.Ledger().Reset()
		time.Sleep(time.Hour)
		assert.LessOrEqual(t, len(e.Calls("ccm")), 60, "refused Nodes cost little")

		// The owner corrects what the Events name; the kubelet of w5 is Ready.
		n := e.node("w5")
		n.Status.Conditions = nodes[0].Status.Conditions
		_, err := e.kube.CoreV1().Nodes().UpdateStatus(t.Context(), n, metav1.UpdateOptions{})
		require.NoError(t, err)
		n = e.node("w4")
		delete(n.Labels, corev1.LabelTopologyZone)
		_, err = e.kube.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{})
		require.NoError(t, err)
		time.Sleep(5*time.Minute + 10*time.Second)
		assert.NotEmpty(t, e.node("w5").Spec.ProviderID)
		assert.NotEmpty(t, e.node("w4").Spec.ProviderID)
	})
}
