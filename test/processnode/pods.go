// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package processnode

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
)

var eventScheme = scheme.Scheme

func eventSink(client kubernetes.Interface) record.EventSink {
	return &typedv1.EventSinkImpl{Interface: client.CoreV1().Events("")}
}

// watchPods watches the Pods that are bound to this node.
func (n *Node) watchPods(ctx context.Context) {
	mine := fields.OneTermEqualSelector("spec.nodeName", n.o.Name)
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(n.client.CoreV1().RESTClient(), "pods", corev1.NamespaceAll, mine),
		ObjectType:    &corev1.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { n.sync(ctx, o) },
			UpdateFunc: func(_, o any) { n.sync(ctx, o) },
			DeleteFunc: func(o any) {
				if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
					o = last.Obj
				}
				if pod, ok := o.(*corev1.Pod); ok {
					n.podRemoved(pod)
				}
			},
		},
	})
	n.wg.Go(func() { informer.RunWithContext(ctx) })
}

// sync starts a worker for a new Pod and passes updates of a known Pod to its worker.
func (n *Node) sync(ctx context.Context, o any) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if w, ok := n.pods[pod.UID]; ok {
		w.update(pod)
		return
	}
	if ctx.Err() != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return
	}
	w := newWorker(ctx, n, pod)
	n.pods[pod.UID] = w
	n.wg.Go(func() { w.run(ctx) })
}

// podRemoved ends the worker of a Pod that was removed from the API. After a forced deletion
// its process still runs.
func (n *Node) podRemoved(pod *corev1.Pod) {
	n.mu.Lock()
	w := n.pods[pod.UID]
	delete(n.pods, pod.UID)
	n.mu.Unlock()
	if w != nil {
		w.remove()
	}
}

var lastPodIP atomic.Uint32

// NewPodIP returns a different loopback address for each Pod, so that replicas can bind
// the same port on one machine. The address depends on the process ID, so that programs
// that run at the same time use different addresses.
func NewPodIP(ctx context.Context) string {
	const perProcess = 254
	pid := os.Getpid()
	ip := fmt.Sprintf("127.%d.%d.%d", 1+(pid>>8)%250, pid&0xff, lastPodIP.Add(1)%perProcess+1)
	// Only on Linux does the loopback interface have all of 127.0.0.0/8.
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", ip+":0")
	if err != nil {
		return "127.0.0.1"
	}
	_ = l.Close()
	return ip
}
