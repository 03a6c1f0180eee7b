// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package processnode

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/test/internal/must"
)

const (
	uninitializedTaint = "node.cloudprovider.kubernetes.io/uninitialized"
	providedIP         = "alpha.kubernetes.io/provided-node-ip"
	leaseSeconds       = 40
	// statusPeriod is the kubelet's nodeStatusReportFrequency.
	statusPeriod = 5 * time.Minute
)

// register creates the Node object as a kubelet does on its first start. When the
// object already exists (a restart), its taints and addresses remain unchanged.
func (n *Node) register(ctx context.Context) error {
	node, err := n.client.CoreV1().Nodes().Create(ctx, n.newNode(), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		if node, err = n.client.CoreV1().Nodes().Get(ctx, n.o.Name, metav1.GetOptions{}); err != nil {
			return fmt.Errorf("read the Node object: %w", err)
		}
		n.uid = node.UID
		return n.patchStatus(ctx, node)
	}
	if err != nil {
		return fmt.Errorf("register: %w", err)
	}
	n.uid = node.UID
	return nil
}

func (n *Node) newNode() *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: n.o.Name,
			Labels: map[string]string{
				corev1.LabelHostname: n.o.Name, corev1.LabelOSStable: runtime.GOOS, corev1.LabelArchStable: runtime.GOARCH,
				"beta.kubernetes.io/os": runtime.GOOS, "beta.kubernetes.io/arch": runtime.GOARCH,
			},
			Annotations: map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
		},
		Spec: corev1.NodeSpec{ProviderID: n.o.ProviderID},
	}
	if !n.o.NotExternal {
		node.Annotations[providedIP] = n.o.Address
	}
	if !n.o.Joined && !n.o.NotExternal {
		node.Spec.Taints = []corev1.Taint{{Key: uninitializedTaint, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	}
	maps.Copy(node.Labels, n.o.Labels)
	node.Status = n.status(nil)
	node.Status.Addresses = n.addresses()
	return node
}

func (n *Node) addresses() []corev1.NodeAddress {
	return []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: n.o.Address}, {Type: corev1.NodeHostName, Address: n.o.Name}}
}

// status returns the node's status without the addresses. Conditions whose status did
// not change keep their transition time.
func (n *Node) status(old []corev1.NodeCondition) corev1.NodeStatus {
	now := metav1.Now()
	since := func(t corev1.NodeConditionType, s corev1.ConditionStatus) metav1.Time {
		for _, c := range old {
			if c.Type == t && c.Status == s {
				return c.LastTransitionTime
			}
		}
		return now
	}
	var conditions []corev1.NodeCondition
	for _, c := range []struct {
		kind            corev1.NodeConditionType
		status          corev1.ConditionStatus
		reason, message string
	}{
		{corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"},
		{corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"},
		{corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID", "kubelet has sufficient PID available"},
		{corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "process node is posting ready status"},
	} {
		conditions = append(conditions, corev1.NodeCondition{Type: c.kind, Status: c.status, Reason: c.reason, Message: c.message,
			LastHeartbeatTime: now, LastTransitionTime: since(c.kind, c.status)})
	}
	resources := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("20Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	id := sha256.Sum256([]byte(n.o.Name))
	return corev1.NodeStatus{
		Capacity: resources, Allocatable: resources, Conditions: conditions,
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: kubeletPort}},
		NodeInfo: corev1.NodeSystemInfo{
			KubeletVersion: n.o.KubeletVersion, OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH,
			ContainerRuntimeVersion: "process://1.0.0", OSImage: "csccm process node", KernelVersion: "none",
			MachineID: fmt.Sprintf("%x", id[:16]), BootID: fmt.Sprintf("%x-boot", id[:8]),
			SystemUUID: fmt.Sprintf("%x-%x-%x-%x-%x", id[0:4], id[4:6], id[6:8], id[8:10], id[10:16]),
		},
	}
}

// heartbeat renews the lease. It writes the status every statusPeriod, and when the node
// lifecycle controller has marked the node not ready.
func (n *Node) heartbeat(ctx context.Context) {
	tick := time.NewTicker(n.o.Heartbeat)
	defer tick.Stop()
	reported := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if n.renewLease(ctx) != nil {
			continue // the next try is soon
		}
		node, err := n.client.CoreV1().Nodes().Get(ctx, n.o.Name, metav1.GetOptions{})
		if err != nil {
			continue // the Node was deleted; a kubelet does not register again either
		}
		if isReady(node) && time.Since(reported) < statusPeriod {
			continue
		}
		if n.patchStatus(ctx, node) == nil {
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
	if _, err := n.client.CoreV1().Nodes().Patch(ctx, n.o.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("update the node's status: %w", err)
	}
	return nil
}

func (n *Node) renewLease(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	leases := n.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	now, duration := metav1.NowMicro(), int32(leaseSeconds)
	lease, err := leases.Get(ctx, n.o.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: n.o.Name, OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "Node", Name: n.o.Name, UID: n.uid}}},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &n.o.Name, LeaseDurationSeconds: &duration, RenewTime: &now},
		}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	lease.Spec.RenewTime = &now
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}

func isReady(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
