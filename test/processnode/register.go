// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package processnode

import (
	"context"
	"encoding/json"
	"maps"
	"runtime"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/apimachinery/lease"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/test/internal/must"
)

const (
	uninitializedTaint = "node.cloudprovider.kubernetes.io/uninitialized"
	providedIP         = "alpha.kubernetes.io/provided-node-ip"
	leaseSeconds       = 40
	// statusPeriod is the kubelet's nodeStatusReportFrequency.
	statusPeriod = 5 * time.Minute
)

// register creates the Node object as a kubelet does on its first start. If the object already exists (a restart), its
// taints and addresses remain unchanged.
func (n *Node) register(ctx context.Context) {
	_, err := n.client.CoreV1().Nodes().Create(ctx, n.newNode(), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		err = n.patchStatus(ctx, must.Get(n.client.CoreV1().Nodes().Get(ctx, n.o.Name, metav1.GetOptions{})))
	}
	must.OK(err)
}

func (n *Node) newNode() *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: n.o.Name, Annotations: map[string]string{},
		Labels: map[string]string{
			corev1.LabelHostname:   n.o.Name,
			corev1.LabelOSStable:   runtime.GOOS,
			corev1.LabelArchStable: runtime.GOARCH,
		},
	}, Spec: corev1.NodeSpec{ProviderID: n.o.ProviderID}}

	if !n.o.NotExternal {
		node.Annotations[providedIP] = n.o.Address
	}

	if !n.o.Joined && !n.o.NotExternal {
		node.Spec.Taints = []corev1.Taint{
			{Key: uninitializedTaint, Value: "true", Effect: corev1.TaintEffectNoSchedule},
		}
	}

	maps.Copy(node.Labels, n.o.Labels)
	node.Status = n.status(nil)
	node.Status.Addresses = n.addresses()
	return node
}

func (n *Node) addresses() []corev1.NodeAddress {
	return []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: n.o.Address},
		{Type: corev1.NodeHostName, Address: n.o.Name},
	}
}

// status returns the node's status without the addresses. Conditions whose status did not change keep their transition
// time.
func (n *Node) status(old []corev1.NodeCondition) corev1.NodeStatus {
	ready := corev1.NodeCondition{
		Type:              corev1.NodeReady,
		Status:            corev1.ConditionTrue,
		Reason:            "KubeletReady",
		LastHeartbeatTime: metav1.Now(),
	}

	ready.LastTransitionTime = ready.LastHeartbeatTime
	for _, o := range old {
		if o.Type == ready.Type && o.Status == ready.Status {
			ready.LastTransitionTime = o.LastTransitionTime
		}
	}

	resources := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("2"),
		corev1.ResourceMemory: resource.MustParse("4Gi"),
		corev1.ResourcePods:   resource.MustParse("110"),
	}

	return corev1.NodeStatus{
		Capacity: resources, Allocatable: resources, Conditions: []corev1.NodeCondition{ready},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: kubeletPort}},
		NodeInfo: corev1.NodeSystemInfo{
			KubeletVersion: n.o.KubeletVersion, OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH,
			ContainerRuntimeVersion: "process://1.0.0", OSImage: "csccm process node", KernelVersion: "none",
		},
	}
}

// heartbeat renews the lease. It writes the status every statusPeriod, and after the node lifecycle controller has
// marked the node not ready.
func (n *Node) heartbeat(ctx context.Context) {
	const namespace = corev1.NamespaceNodeLease
	c := lease.NewController(clock.RealClock{}, n.client, n.o.Name, leaseSeconds, nil, n.o.Heartbeat, n.o.Name,
		namespace, nil)
	n.wg.Go(func() { c.Run(ctx) })
	reported := time.Now()
	for sleep(ctx, n.o.Heartbeat) {
		node, err := n.client.CoreV1().Nodes().Get(ctx, n.o.Name, metav1.GetOptions{})
		// Like a kubelet, it does not register again after its Node was deleted.
		if err == nil && (!isReady(node) || time.Since(reported) > statusPeriod) && n.patchStatus(ctx, node) == nil {
			reported = time.Now()
		}
	}
}

func (n *Node) patchStatus(ctx context.Context, node *corev1.Node) (err error) {
	defer must.Return(&err)
	status := n.status(node.Status.Conditions)
	if len(node.Status.Addresses) == 0 || n.o.NotExternal {
		status.Addresses = n.addresses()
	}
	patch := must.Get(json.Marshal(map[string]any{"status": status}))
	_, err = n.client.CoreV1().Nodes().Patch(ctx, n.o.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{},
		"status")
	return err
}

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
