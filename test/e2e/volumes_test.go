// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/testenv"
)

// TestStatefulSetMovesWithItsVolume stops the VM of a Pod with a volume. Without the taint out-of-service the Pod and the
// attachment of its volume stay; with the taint Kubernetes' own controllers start the Pod elsewhere.
func TestStatefulSetMovesWithItsVolume(t *testing.T) {
	t.Parallel()
	p := borrow(t, plane.Options{})
	vms, err := testenv.New(t.Context(), testenv.Options{On: p, VMs: 2, Profile: "instant"})
	require.NoError(t, err)
	t.Cleanup(vms.Stop)
	e := &directEnv{env: env{Plane: p, Client: vms.Client, cloud: vms.Cloud, home: t.TempDir()}, vms: vms}
	e.register(t, 1, 2, func(n *corev1.Node) {
		n.Annotations = map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
		n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("10")}
		n.Status.Capacity = n.Status.Allocatable
	})
	off := e.controller(t, "ccm-a", "--out-of-service-taint=off")
	e.initialised(t, 2)
	s := &storage{env: e}
	out, err := e.kubectl(t.Context(), "", "create", "-f", "testdata/volumes.yaml")
	require.NoError(t, err, out)
	s.play(t)
	var first string
	e.eventually(t, "the Pod runs with its volume", func(ctx context.Context) error {
		first, err = s.runsOn(ctx)
		return err
	})

	e.admin(t, "stopVirtualMachine", map[string]string{"id": vms.VM(first)})
	s.lost.Store(&first)
	e.notReady(t, first)
	e.eventually(t, "the Pod is evicted", func(ctx context.Context) error {
		pod, err := e.Client.CoreV1().Pods("default").Get(ctx, "db-0", metav1.GetOptions{})
		if err == nil && pod.DeletionTimestamp == nil {
			err = errors.New("it is not being deleted")
		}
		return err
	})
	if on, err := s.runsOn(t.Context()); err == nil {
		t.Fatalf("the Pod runs on %s without the taint", on)
	}
	off.Stop(10 * time.Second)

	begun := time.Now()
	e.controller(t, "ccm-b")
	e.eventually(t, "the Pod runs elsewhere", func(ctx context.Context) error {
		on, err := s.runsOn(ctx)
		if err == nil && on == first {
			err = fmt.Errorf("on %s", on)
		}
		return err
	})
	t.Logf("the Pod runs on the other node %s after the start of a controller that sets the taint", time.Since(begun).Round(time.Second))

	e.admin(t, "startVirtualMachine", map[string]string{"id": vms.VM(first)})
	s.lost.Store(nil)
	e.setReady(t, first, corev1.ConditionTrue)
	e.eventually(t, "the taint goes", func(context.Context) error {
		if n := e.node(t, first); hasTaint(n, corev1.TaintNodeOutOfService) {
			return errors.New("it is there")
		}
		return nil
	})
}

// storage is a StatefulSet of one Pod with a volume that has to be attached, and what real nodes and a CSI driver do for it.
type storage struct {
	env  *directEnv
	lost atomic.Pointer[string] // the node whose kubelet is silent
}

const driver = "disks.example.com"

// play does, until the end of the test, what the kubelets and the attacher of the CSI driver do.
func (s *storage) play(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if err := errors.Join(s.attach(ctx), s.kubelet(ctx, "w1"), s.kubelet(ctx, "w2")); err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
					t.Logf("nodes and driver: %v", err)
				}
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// attach attaches what Kubernetes asks for.
func (s *storage) attach(ctx context.Context) error {
	list, err := s.env.Client.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		if a := &list.Items[i]; !a.Status.Attached {
			a.Status.Attached = true
			if _, err := s.env.Client.StorageV1().VolumeAttachments().UpdateStatus(ctx, a, metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// kubelet renews the node's lease, runs its Pods when their volume is attached, removes those that are deleted, and says
// which volumes are in use. That of the lost node does nothing.
func (s *storage) kubelet(ctx context.Context, name string) error {
	if lost := s.lost.Load(); lost != nil && *lost == name {
		return nil
	}
	kube := s.env.Client
	if err := s.renew(ctx, name); err != nil {
		return err
	}
	n, err := kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	pods, err := kube.CoreV1().Pods("default").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + name})
	if err != nil {
		return err
	}
	var inUse []corev1.UniqueVolumeName
	if len(pods.Items) > 0 {
		inUse = []corev1.UniqueVolumeName{corev1.UniqueVolumeName("kubernetes.io/csi/" + driver + "^disk-1")}
	}
	if !slices.Equal(inUse, n.Status.VolumesInUse) {
		n.Status.VolumesInUse = inUse
		if _, err := kube.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		switch {
		case pod.DeletionTimestamp != nil:
			err = kube.CoreV1().Pods("default").Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))})
		case pod.Status.Phase == corev1.PodPending && len(n.Status.VolumesAttached) > 0:
			pod.Status.Phase = corev1.PodRunning
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
			_, err = kube.CoreV1().Pods("default").UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *storage) renew(ctx context.Context, name string) error {
	leases, now := s.env.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease), metav1.NowMicro()
	lease, err := leases.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: ptr.To(int32(40)), RenewTime: &now},
		}, metav1.CreateOptions{})
		return err
	}
	if err == nil && now.Sub(lease.Spec.RenewTime.Time) > 5*time.Second {
		lease.Spec.RenewTime = &now
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	return err
}

// runsOn returns the node on which the Pod runs and to which, alone, its volume is attached.
func (s *storage) runsOn(ctx context.Context) (string, error) {
	pod, err := s.env.Client.CoreV1().Pods("default").Get(ctx, "db-0", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	list, err := s.env.Client.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	var nodes []string
	for i := range list.Items {
		nodes = append(nodes, list.Items[i].Spec.NodeName)
	}
	if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil || len(nodes) != 1 || nodes[0] != pod.Spec.NodeName {
		return "", fmt.Errorf("Pod on %q is %s (deleted: %v), volume on %q", pod.Spec.NodeName, pod.Status.Phase, pod.DeletionTimestamp, strings.Join(nodes, ","))
	}
	return pod.Spec.NodeName, nil
}
