// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	cloudprovider "k8s.io/cloud-provider"
	nodecontroller "k8s.io/cloud-provider/controllers/node"
	"k8s.io/cloud-provider/controllers/nodelifecycle"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"

	"github.com/csccm/csccm/pkg/internal/testenv"
)

// framework is what the framework's Node controllers use of a provider.
type framework struct {
	cloudprovider.Interface
	*Nodes
}

func (f framework) Instances() (cloudprovider.Instances, bool) { return nil, false }

func (f framework) InstancesV2() (cloudprovider.InstancesV2, bool) { return f.Nodes, true }

// A Ready Node whose VM is expunged stays. One Event reports it, until the VM is back or the VM of another Node is missing.
func TestFrameworkReportsAReadyNodeWithoutVMOnce(t *testing.T) {
	t.Parallel()
	p := newFakeNodes(t, machines(6))
	cloud := p.api
	nodes, objects := initialised(6), []runtime.Object{}
	for i, n := range nodes {
		n.Status.Conditions[0].Status = corev1.ConditionTrue
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: cloud.vms[i].NICs[0].IPv4}, {Type: corev1.NodeHostName, Address: n.Name}}
		objects = append(objects, n)
	}
	kube := testenv.Kube(objects...)
	factory := informers.NewSharedInformerFactory(kube, 0)
	informer := factory.Core().V1().Nodes()
	init, err := nodecontroller.NewCloudNodeController(informer, kube, framework{Nodes: p.Nodes}, time.Hour, 1, 1)
	require.NoError(t, err)
	life, err := nodelifecycle.NewCloudNodeLifecycleController(informer, kube, framework{Nodes: p.Nodes}, 10*time.Millisecond, 1)
	require.NoError(t, err)
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	m := controllersmetrics.NewControllerManagerMetrics("test")
	go init.RunWithContext(t.Context(), m)
	go life.Run(t.Context(), m)
	rounds := func() (events []string) {
		for range 12 { // an hour
			p.clock.Step(5 * time.Minute)
			require.NoError(t, init.UpdateNodeStatus(t.Context()))
		}
		for _, e := range drain(p.events) {
			if strings.Contains(e, string(ReasonWithoutVM)) {
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
	_, err = kube.CoreV1().Nodes().Get(t.Context(), "w2", metav1.GetOptions{})
	require.NoError(t, err, "it is Ready: Kubernetes does not ask whether it exists")
}
