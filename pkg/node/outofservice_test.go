// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/cloud-provider/controllers/nodelifecycle"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"

	"github.com/csccm/csccm/pkg/internal/testenv"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/provider"
	"github.com/csccm/csccm/pkg/simulator"
)

// outageEnv is the framework's controller of the life of Nodes and our provider, on a fake API server and a simulated CloudStack
// with VMs w0 ... w9, in the bubble of a synctest.
type outageEnv struct {
	*testenv.Cloud
	t    *testing.T
	kube *fake.Clientset
	ids  map[string]string // of VMs by name

	written func() []string // "reason node" of each Event of ours
}

func outageWorld() string {
	var b strings.Builder
	b.WriteString(oneNetwork + `virtualMachines:
`)
	for i := range 10 {
		fmt.Fprintf(&b, "  - {name: w%d, account: k8s, nics: [{network: net, ip: 10.1.1.1%d}]}\n", i, i)
	}
	return b.String()
}

type settings struct {
	scope      node.OutOfService
	kubernetes string
}

// runOutage starts the controllers with Nodes w0 ... w9, all Ready.
func runOutage(t *testing.T, s settings, test func(*outageEnv)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := &outageEnv{Cloud: testenv.New(t, outageWorld(), simulator.Options{}), t: t, kube: testenv.Kube(), ids: map[string]string{}}
		e.kube.Discovery().(*fakediscovery.FakeDiscovery).FakedServerVersion = &version.Info{GitVersion: s.kubernetes}
		e.written = eventsOn(e.kube, "cloud-node-lifecycle-controller")
		vms, ok := e.Admin("listVirtualMachines", "listall", "true")["virtualmachine"].([]any)
		require.True(t, ok)
		for _, v := range vms {
			vm := v.(map[string]any)
			e.ids[vm["name"].(string)] = vm["id"].(string)
		}
		for name, id := range e.ids {
			n := &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1"},
				Spec:       corev1.NodeSpec{ProviderID: node.ProviderID(node.FormUpstream, id), Taints: []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}},
			}
			if name == "w9" {
				n.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""}
			}
			_, err := e.kube.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{})
			require.NoError(t, err)
			e.ready(name, corev1.ConditionTrue)
		}
		cfg := e.Config("key", "secret")
		cfg.ClusterID = "test"
		o := provider.DefaultOptions()
		o.OutOfService = string(s.scope)
		p, err := provider.New(cfg, o, e.Option())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		factory := informers.NewSharedInformerFactory(e.kube, 0)
		defer func() {
			cancel()
			factory.Shutdown()
			synctest.Wait()
		}()
		p.SetInformers(factory)
		p.Initialize(clientBuilder{e.kube}, ctx.Done())
		life, err := nodelifecycle.NewCloudNodeLifecycleController(factory.Core().V1().Nodes(), e.kube, p, 5*time.Second, 1)
		require.NoError(t, err)
		factory.Start(ctx.Done())
		factory.WaitForCacheSync(ctx.Done())
		go life.Run(ctx, controllersmetrics.NewControllerManagerMetrics("test"))
		time.Sleep(time.Minute)
		test(e)
	})
}

func (e *outageEnv) node(name string) *corev1.Node {
	n, err := e.kube.CoreV1().Nodes().Get(e.t.Context(), name, metav1.GetOptions{})
	require.NoError(e.t, err)
	return n
}

// ready sets the condition Ready, as kubelets and the node controller of Kubernetes do.
func (e *outageEnv) ready(name string, status corev1.ConditionStatus) {
	n := e.node(name)
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	_, err := e.kube.CoreV1().Nodes().UpdateStatus(e.t.Context(), n, metav1.UpdateOptions{})
	require.NoError(e.t, err)
}

// lose stops a VM, or destroys and expunges it, and its kubelet goes silent.
func (e *outageEnv) lose(name, command string, pairs ...string) {
	e.Admin(command, append([]string{"id", e.ids[name]}, pairs...)...)
	time.Sleep(30 * time.Second)
	e.ready(name, corev1.ConditionUnknown)
}

// attached says which volumes the node has, as the attach-detach controller of Kubernetes does.
func (e *outageEnv) attached(name string, volumes ...corev1.AttachedVolume) {
	n := e.node(name)
	n.Status.VolumesAttached = volumes
	_, err := e.kube.CoreV1().Nodes().UpdateStatus(e.t.Context(), n, metav1.UpdateOptions{})
	require.NoError(e.t, err)
}

// outOfService are the names of Nodes with the taint.
func (e *outageEnv) outOfService() (names []string) {
	list, err := e.kube.CoreV1().Nodes().List(e.t.Context(), metav1.ListOptions{})
	require.NoError(e.t, err)
	for i := range list.Items {
		if slices.ContainsFunc(list.Items[i].Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService }) {
			names = append(names, list.Items[i].Name)
		}
	}
	return names
}

func (e *outageEnv) exists(name string) bool {
	list, err := e.kube.CoreV1().Nodes().List(e.t.Context(), metav1.ListOptions{})
	require.NoError(e.t, err)
	return slices.ContainsFunc(list.Items, func(n corev1.Node) bool { return n.Name == name })
}

func (e *outageEnv) events(reason string) (nodes []string) {
	synctest.Wait()
	for _, text := range e.written() {
		if is, name, _ := strings.Cut(text, " "); is == reason {
			nodes = append(nodes, name)
		}
	}
	return nodes
}

var workers = settings{node.OutOfServiceWorkers, "v1.37.1"}

// A Node whose VM was stopped is out of service within seconds, and in service again when the VM and the kubelet run.
func TestStoppedVM(t *testing.T) {
	t.Parallel()
	runOutage(t, workers, func(e *outageEnv) {
		e.lose("w1", "stopVirtualMachine")
		time.Sleep(20 * time.Second) // a round, and another one after a conflict
		n := e.node("w1")
		assert.Contains(t, n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute})
		assert.Equal(t, "gpu", n.Spec.Taints[0].Key, "taints of others stay")
		assert.Equal(t, []string{"w1"}, e.outOfService())
		assert.Equal(t, []string{"w1"}, e.events("NodeOutOfService"))

		e.Admin("startVirtualMachine", "id", e.ids["w1"])
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"w1"}, e.outOfService(), "the kubelet is not Ready")
		e.ready("w1", corev1.ConditionTrue)
		time.Sleep(time.Minute)
		assert.Empty(t, e.outOfService())
		assert.NotContains(t, e.node("w1").Annotations, node.AnnotationOutOfServiceSince)
		assert.Equal(t, []string{"w1"}, e.events("NodeInService"))
	})
}

// Whatever is not proven changes nothing: the Node keeps its Pods.
func TestNoProof(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		settings
		node string
		lose func(e *outageEnv, name string)
	}{
		"the VM runs":              {workers, "w1", func(e *outageEnv, name string) { e.ready(name, corev1.ConditionUnknown) }},
		"the VM is stopped, Ready": {workers, "w1", func(e *outageEnv, name string) { e.Admin("stopVirtualMachine", "id", e.ids[name]) }},
		"the VM reboots":           {workers, "w1", func(e *outageEnv, name string) { e.lose(name, "rebootVirtualMachine") }},
		"of the control plane":     {workers, "w9", func(e *outageEnv, name string) { e.lose(name, "stopVirtualMachine") }},
		"switched off":             {settings{node.OutOfServiceOff, "v1.37.1"}, "w1", func(e *outageEnv, name string) { e.lose(name, "stopVirtualMachine") }},
		"the keys are refused": {workers, "w1", func(e *outageEnv, name string) {
			e.Inject(simulator.Fault{Command: "listVirtualMachines", Caller: "ccm", Kind: simulator.FaultErrorBefore, HTTPStatus: 401, Text: "unable to verify user credentials and/or request signature"})
			e.lose(name, "stopVirtualMachine")
		}},
		"somebody else has decided": {workers, "w1", func(e *outageEnv, name string) { e.lose(name, "stopVirtualMachine"); e.taintByHand(name) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runOutage(t, c.settings, func(e *outageEnv) {
				c.lose(e, c.node)
				e.Ledger().Reset()
				time.Sleep(10 * time.Minute)
				assert.Empty(t, e.events("NodeOutOfService"))
				assert.NotContains(t, e.node(c.node).Annotations, node.AnnotationOutOfServiceSince)
				if name != "the keys are refused" { // then the framework asks in each of its rounds
					assert.LessOrEqual(t, len(e.Calls("ccm")), 60, "a Node that is not Ready costs little")
				}
			})
		})
	}
	t.Run("of the control plane, where all are wanted", func(t *testing.T) {
		t.Parallel()
		runOutage(t, settings{node.OutOfServiceAll, "v1.37.1"}, func(e *outageEnv) {
			e.lose("w9", "stopVirtualMachine")
			time.Sleep(20 * time.Second)
			assert.Equal(t, []string{"w9"}, e.outOfService())
		})
	})
}

// No more Nodes are out of service at once than the guard lets be deleted; the others say so.
func TestGuardOfOutOfService(t *testing.T) {
	t.Parallel()
	runOutage(t, workers, func(e *outageEnv) {
		for i := range 6 {
			e.lose(fmt.Sprintf("w%d", i), "stopVirtualMachine")
		}
		time.Sleep(10 * time.Minute)
		assert.Equal(t, []string{"w0", "w1"}, e.outOfService(), "20 % of 10")
		assert.ElementsMatch(t, []string{"w2", "w3", "w4", "w5"}, e.events("OutOfServiceRefused"), "once each")
	})
}

// The Node of a VM that is gone is deleted when its volumes are detached, but waits no longer than two minutes.
func TestVolumesAreDetachedBeforeTheNodeIsDeleted(t *testing.T) {
	t.Parallel()
	volume := corev1.AttachedVolume{Name: "kubernetes.io/csi/csi.cloudstack.apache.org^v1"}
	for name, detach := range map[string]bool{"detached": true, "never detached": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runOutage(t, workers, func(e *outageEnv) {
				e.attached("w1", volume)
				e.lose("w1", "destroyVirtualMachine", "expunge", "true")
				e.lose("w2", "destroyVirtualMachine", "expunge", "true")
				time.Sleep(time.Minute)
				assert.Equal(t, []string{"w1"}, e.outOfService())
				assert.False(t, e.exists("w2"), "nothing is attached to it")
				if detach {
					e.attached("w1")
					time.Sleep(20 * time.Second)
				} else {
					time.Sleep(50 * time.Second)
				}
				assert.False(t, e.exists("w1"))
			})
		})
	}
}

func (e *outageEnv) taintByHand(name string) {
	n := e.node(name)
	n.Annotations = nil
	n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
	_, err := e.kube.CoreV1().Nodes().Update(e.t.Context(), n, metav1.UpdateOptions{})
	require.NoError(e.t, err)
}
