// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package processnode runs Kubernetes nodes for tests and the demo without root, a
// container runtime or a separate network. A process node registers and sends
// heartbeats like a kubelet with --cloud-provider=external, serves the parts of the
// kubelet's API that csccm uses, and runs Pods of known images as processes on this
// machine: with their command, environment, service account token, Secrets,
// ConfigMaps and probes, in their own root directory. It refuses Pods with features
// that it does not support, and their status says why.
package processnode

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/cert"

	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/plane"
)

// Options configures a node.
type Options struct {
	ControlPlane *plane.Plane
	Name         string
	// Address is the node's InternalIP, the address of its VM. Nothing listens there.
	Address string
	// Images maps an image to the program that runs in its place. The image is a full
	// reference, which takes precedence, or a repository without tag and digest. In the
	// Pod, the program is /<last part of the repository>.
	Images map[string]string
	// Dir is the parent of the node's folder; empty means the system's temporary folder.
	Dir string

	// Joined is for a node that registered earlier: its kubelet has
	// --cloud-provider=external, but the node has no taint, because kubelets set the
	// taint only at registration.
	Joined bool
	// NotExternal is for a kubelet without --cloud-provider=external: the node has no taint, and the kubelet writes its
	// addresses with every status.
	NotExternal bool
	// NoFlagz is for a kubelet older than 1.36: /flagz answers 404.
	NoFlagz bool
	// ProviderID is the spec's provider ID, as left by an earlier cloud provider.
	ProviderID string
	Labels     map[string]string
	// KubeletVersion defaults to the newest control plane's.
	KubeletVersion string
	// Heartbeat is the period of lease renewals; 0 means the kubelet's (10 s).
	Heartbeat time.Duration
}

// Node is a running process node.
type Node struct {
	o        Options
	dir      string
	client   kubernetes.Interface
	recorder record.EventRecorder
	uid      types.UID
	// plain is for machines that allow no sandbox: Pods run without it.
	plain atomic.Bool

	stop    context.CancelFunc
	wg      sync.WaitGroup
	cleanup []func()

	mu   sync.Mutex
	pods map[types.UID]*worker
}

const (
	kubeletPort      = 10250
	defaultHeartbeat = 10 * time.Second
	requestLimit     = 10 * time.Second
)

// Start registers a node and starts its goroutines. The context bounds only the start.
func Start(ctx context.Context, o Options) (_ *Node, err error) {
	if o.Name == "" || net.ParseIP(o.Address) == nil || o.ControlPlane == nil {
		return nil, fmt.Errorf("process node %q: a name, an IP address (got %q) and a control plane are required", o.Name, o.Address)
	}
	o.Heartbeat, o.KubeletVersion = cmp.Or(o.Heartbeat, defaultHeartbeat), cmp.Or(o.KubeletVersion, plane.Version)
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	n := &Node{o: o, stop: stop, pods: map[types.UID]*worker{}}
	defer func() {
		if err != nil {
			err = fmt.Errorf("process node %s: %w", o.Name, err)
			n.Stop()
		}
	}()
	defer must.Return(&err)
	n.dir = must.Get(os.MkdirTemp(o.Dir, "csccm-node-"+o.Name+"-"))
	n.cleanup = append(n.cleanup, func() { removeAll(n.dir) })
	n.connect()
	n.serve(background)
	n.register(ctx)
	n.wg.Go(func() { n.heartbeat(background) })
	n.watchPods(background)
	return n, nil
}

// Name returns the name of the node.
func (n *Node) Name() string { return n.o.Name }

// Stop stops the node as a power failure would: it kills the Pods and ends the
// heartbeats and the kubelet API. The Node object and the Pod objects remain unchanged.
func (n *Node) Stop() {
	n.stop()
	n.mu.Lock()
	for _, w := range n.pods {
		w.abandon(true)
	}
	n.mu.Unlock()
	n.wg.Wait()
	for _, undo := range n.cleanup {
		undo()
	}
	n.cleanup = nil
}

// PodLog returns the path of the latest log of a Pod's container, if this node has run
// the Pod.
func (n *Node) PodLog(namespace, pod string) (string, bool) {
	if w := n.find(namespace, pod); w != nil {
		return w.logFile()
	}
	return "", false
}

// PodPID returns the process ID of a Pod's container while it runs.
func (n *Node) PodPID(namespace, pod string) (int, bool) {
	if w := n.find(namespace, pod); w != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.process != nil {
			return w.process.PID(), true
		}
	}
	return 0, false
}

func (n *Node) find(namespace, pod string) *worker {
	n.mu.Lock()
	defer n.mu.Unlock()
	var found *worker
	for _, w := range n.pods {
		if p := w.latest(); p.Namespace == namespace && p.Name == pod {
			// Of two Pods with the same name, the older one is being deleted.
			if found == nil || found.latest().CreationTimestamp.Before(&p.CreationTimestamp) {
				found = w
			}
		}
	}
	return found
}

// connect creates the node's client. It has the certificate of a kubelet, so that the
// Node authorizer and the NodeRestriction admission plugin check its requests.
func (n *Node) connect() {
	config := must.Get(n.o.ControlPlane.ClientConfig("system:node:"+n.o.Name, "system:nodes"))
	config.UserAgent = "csccm-processnode"
	n.client = must.Get(kubernetes.NewForConfig(config))
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&typedv1.EventSinkImpl{Interface: n.client.CoreV1().Events("")})
	n.cleanup = append(n.cleanup, broadcaster.Shutdown)
	n.recorder = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kubelet", Host: n.o.Name})
}

// serve starts the kubelet's API on a free loopback port and routes the node's address
// to it.
func (n *Node) serve(ctx context.Context) {
	certificate := must.Get(n.o.ControlPlane.ServingCertificate("system:node:"+n.o.Name, []string{"system:nodes"}, n.o.Address, n.o.Name))
	listener := must.Get((&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0"))
	server := &http.Server{
		Handler:           n.handler(),
		ReadHeaderTimeout: requestLimit,
		ErrorLog:          log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate},
			ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: must.Get(cert.NewPoolFromBytes(n.o.ControlPlane.CA())),
		},
	}
	n.wg.Go(func() { _ = server.ServeTLS(listener, "", "") })
	remove := n.o.ControlPlane.Route(net.JoinHostPort(n.o.Address, fmt.Sprint(kubeletPort)), listener.Addr().String())
	context.AfterFunc(ctx, func() { remove(); _ = server.Close() })
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
	if ctx.Err() != nil || over(pod.Status.Phase) {
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
	defer n.mu.Unlock()
	if w := n.pods[pod.UID]; w != nil {
		w.abandon(false)
	}
	delete(n.pods, pod.UID)
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
