// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package processnode is a kind of Kubernetes node for tests and the demo that
// needs no root, no container runtime and no network of its own. It registers and
// heartbeats as a kubelet with --cloud-provider=external does, serves the parts of
// the kubelet's API that csccm asks, and runs Pods of known images as processes on
// this machine: with their command, environment, service account token, Secrets,
// ConfigMaps and probes, in a root directory of their own. Whatever it cannot do it
// refuses with a status that says so.
package processnode

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
)

// ControlPlane is what a node needs of the cluster that it joins.
type ControlPlane interface {
	// ClientConfig connects as a user with a certificate of the cluster's CA.
	ClientConfig(user string, groups ...string) (*rest.Config, error)
	// ServingCertificate is a certificate that the API server trusts for hosts.
	ServingCertificate(user string, groups []string, hosts ...string) (tls.Certificate, error)
	// CA is the cluster's CA as PEM; KubeletClient the API server's name at kubelets.
	CA() []byte
	KubeletClient() string
	// APIServer is where Pods reach the API server from this machine.
	APIServer() (host string, port int)
	// Route leads what the API server dials at address to a listener on loopback.
	Route(address, listener string) (remove func())
}

// Options of a node.
type Options struct {
	ControlPlane ControlPlane
	Name         string
	// Address is the node's InternalIP, as its VM has it. Nothing listens there.
	Address string
	// Images maps an image to the program that stands for it: a whole reference, which
	// comes first, or a repository without tag and digest. Inside the Pod the program is
	// /<last part of the repository>.
	Images map[string]string
	// Dir is the parent of the node's folder; empty means the system's temporary folder.
	Dir string

	// NotExternal is a kubelet without --cloud-provider=external: no taint, no
	// annotation, and it writes its own addresses over everybody else's.
	NotExternal bool
	// Joined is a node that registered before: external by its flags, but without
	// the taint, which kubelets set at registration alone.
	Joined bool
	// NoFlagz is a kubelet older than 1.36: /flagz is not found.
	NoFlagz bool
	// ProviderID is what an earlier cloud provider left in the spec.
	ProviderID  string
	Labels      map[string]string
	Annotations map[string]string
	// KubeletVersion is v1.37.1 when empty.
	KubeletVersion string
	// Heartbeat is the lease's period; 0 means the kubelet's (10 s).
	Heartbeat time.Duration
	// RestartBackoff is the first delay before a container starts again; 0 means
	// 1 s. The kubelet's is 10 s.
	RestartBackoff time.Duration
	Logger         *slog.Logger
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

// Start registers a node and starts its work. The context bounds the start alone.
func Start(ctx context.Context, o Options) (_ *Node, err error) {
	if o.Name == "" || net.ParseIP(o.Address) == nil || o.ControlPlane == nil {
		return nil, fmt.Errorf("process node %q: name, address (%q is not an IP address?) and control plane are needed", o.Name, o.Address)
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
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Logger = o.Logger.With("node", o.Name)
	n := &Node{o: o, pods: map[types.UID]*worker{}}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	n.stop = stop
	defer func() {
		if err != nil {
			err = fmt.Errorf("process node %s: %w", o.Name, err)
			n.Stop()
		}
	}()
	if n.dir, err = os.MkdirTemp(o.Dir, "csccm-node-"+o.Name+"-"); err != nil {
		return nil, err
	}
	n.cleanup = append(n.cleanup, func() { removeAll(n.dir) })
	if n.images, err = loadImages(o.Images); err != nil {
		return nil, err
	}
	if err = n.connect(); err != nil {
		return nil, err
	}
	if err = n.serve(ctx); err != nil {
		return nil, err
	}
	if err = n.register(ctx); err != nil {
		return nil, err
	}
	if err = n.renewLease(ctx); err != nil {
		return nil, err
	}
	n.wg.Go(func() { n.heartbeat(background) })
	n.watchPods(background)
	return n, nil
}

// Name is the name of the node.
func (n *Node) Name() string { return n.o.Name }

// Stop is the power switch: the node's Pods are killed, its heartbeats end, its
// API is gone. The Node object and the Pods' objects stay as they are.
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

// PodLog is the path of the newest log of a Pod's container, if this node has
// ever run it.
func (n *Node) PodLog(namespace, pod string) (string, bool) {
	w := n.find(namespace, pod)
	if w == nil {
		return "", false
	}
	return w.logFile(0)
}

// PodPID is the process id of a Pod's container while it runs.
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
			// Of two with one name the younger counts; the other is on its way out.
			if found == nil || found.latest().CreationTimestamp.Before(&p.CreationTimestamp) {
				found = w
			}
		}
	}
	return found
}

// connect makes the node's client: the certificate of a kubelet, so that the Node
// authorizer and the NodeRestriction admission plugin judge everything it does.
func (n *Node) connect() error {
	config, err := n.o.ControlPlane.ClientConfig("system:node:"+n.o.Name, "system:nodes")
	if err != nil {
		return err
	}
	config.UserAgent = "csccm-processnode"
	config.QPS = -1
	if n.client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(eventSink(n.client))
	n.cleanup = append(n.cleanup, broadcaster.Shutdown)
	n.recorder = broadcaster.NewRecorder(eventScheme, corev1.EventSource{Component: "kubelet", Host: n.o.Name})
	return nil
}

// serve starts the kubelet's API on a free loopback port and leads the node's
// own address to it.
func (n *Node) serve(ctx context.Context) error {
	cert, err := n.o.ControlPlane.ServingCertificate("system:node:"+n.o.Name, []string{"system:nodes"}, n.o.Address, n.o.Name)
	if err != nil {
		return err
	}
	pool, err := certPool(n.o.ControlPlane.CA())
	if err != nil {
		return err
	}
	n.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	n.server = &http.Server{
		Handler:           n.handler(),
		ReadHeaderTimeout: requestLimit,
		ErrorLog:          slog.NewLogLogger(n.o.Logger.Handler(), slog.LevelDebug),
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert},
			ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: pool,
		},
	}
	n.wg.Go(func() {
		if err := n.server.ServeTLS(n.listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			n.o.Logger.Error("kubelet API ended", "error", err)
		}
	})
	remove := n.o.ControlPlane.Route(net.JoinHostPort(n.o.Address, fmt.Sprint(kubeletPort)), n.listener.Addr().String())
	server := n.server
	// Stop waits for the server's goroutine, so it must end before that.
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
