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
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"

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
	// KubeletVersion defaults to v1.37.1.
	KubeletVersion string
	// Heartbeat is the period of lease renewals; 0 means the kubelet's (10 s).
	Heartbeat time.Duration
	// RestartBackoff is the initial delay before a container restarts; 0 means 1 s. The
	// kubelet's is 10 s.
	RestartBackoff time.Duration
}

// Node is a running process node.
type Node struct {
	o        Options
	dir      string
	client   kubernetes.Interface
	recorder record.EventRecorder
	listener net.Listener
	server   *http.Server
	sandbox  sandbox
	images   map[string]image
	uid      types.UID

	stop    context.CancelFunc
	wg      sync.WaitGroup
	cleanup []func()

	mu   sync.Mutex
	pods map[types.UID]*worker
}

const (
	kubeletPort        = 10250
	defaultHeartbeat   = 10 * time.Second
	defaultBackoff     = time.Second
	defaultKubelet     = "v1.37.1"
	requestLimit       = 10 * time.Second
	serverCloseTimeout = 2 * time.Second
)

// Start registers a node and starts its goroutines. The context bounds only the start.
func Start(ctx context.Context, o Options) (_ *Node, err error) {
	if o.Name == "" || net.ParseIP(o.Address) == nil || o.ControlPlane == nil {
		return nil, fmt.Errorf("process node %q: a name, an IP address (got %q) and a control plane are required", o.Name, o.Address)
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = defaultHeartbeat
	}
	if o.RestartBackoff == 0 {
		o.RestartBackoff = defaultBackoff
	}
	if o.KubeletVersion == "" {
		o.KubeletVersion = defaultKubelet
	}
	n := &Node{o: o, pods: map[types.UID]*worker{}}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	n.stop = stop
	defer func() {
		if err != nil {
			err = fmt.Errorf("process node %s: %w", o.Name, err)
			n.Stop()
		}
	}()
	defer must.Return(&err)
	n.dir = must.Get(os.MkdirTemp(o.Dir, "csccm-node-"+o.Name+"-"))
	n.cleanup = append(n.cleanup, func() { removeAll(n.dir) })
	n.images = must.Get(loadImages(o.Images))
	must.OK(n.connect())
	must.OK(n.serve(ctx))
	must.OK(n.register(ctx))
	must.OK(n.renewLease(ctx))
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
	workers := make([]*worker, 0, len(n.pods))
	for _, w := range n.pods {
		workers = append(workers, w)
	}
	n.mu.Unlock()
	for _, w := range workers {
		w.abandon()
	}
	for _, w := range workers {
		<-w.done
	}
	n.wg.Wait()
	for i := len(n.cleanup) - 1; i >= 0; i-- {
		n.cleanup[i]()
	}
	n.cleanup = nil
}

// PodLog returns the path of the latest log of a Pod's container, if this node has run
// the Pod.
func (n *Node) PodLog(namespace, pod string) (string, bool) {
	w := n.find(namespace, pod)
	if w == nil {
		return "", false
	}
	return w.logFile()
}

// PodPID returns the process ID of a Pod's container while it runs.
func (n *Node) PodPID(namespace, pod string) (int, bool) {
	w := n.find(namespace, pod)
	if w == nil {
		return 0, false
	}
	return w.pid()
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
func (n *Node) connect() (err error) {
	defer must.Return(&err)
	config := must.Get(n.o.ControlPlane.ClientConfig("system:node:"+n.o.Name, "system:nodes"))
	config.UserAgent = "csccm-processnode"
	config.QPS = -1
	n.client = must.Get(kubernetes.NewForConfig(config))
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(eventSink(n.client))
	n.cleanup = append(n.cleanup, broadcaster.Shutdown)
	n.recorder = broadcaster.NewRecorder(eventScheme, corev1.EventSource{Component: "kubelet", Host: n.o.Name})
	return nil
}

// serve starts the kubelet's API on a free loopback port and routes the node's address
// to it.
func (n *Node) serve(ctx context.Context) (err error) {
	defer must.Return(&err)
	cert := must.Get(n.o.ControlPlane.ServingCertificate("system:node:"+n.o.Name, []string{"system:nodes"}, n.o.Address, n.o.Name))
	pool := must.Get(certPool(n.o.ControlPlane.CA()))
	n.listener = must.Get((&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0"))
	n.server = &http.Server{
		Handler:           n.handler(),
		ReadHeaderTimeout: requestLimit,
		ErrorLog:          log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert},
			ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: pool,
		},
	}
	n.wg.Go(func() { _ = n.server.ServeTLS(n.listener, "", "") })
	remove := n.o.ControlPlane.Route(net.JoinHostPort(n.o.Address, fmt.Sprint(kubeletPort)), n.listener.Addr().String())
	server := n.server
	// Stop waits for the server's goroutine, so n.stop must close the server.
	n.stop = chain(n.stop, func() { remove(); _ = server.Close() })
	return nil
}

func chain(f context.CancelFunc, more func()) context.CancelFunc {
	var once sync.Once
	return func() { f(); once.Do(more) }
}

func (n *Node) path(parts ...string) string {
	return filepath.Join(append([]string{n.dir}, parts...)...)
}
