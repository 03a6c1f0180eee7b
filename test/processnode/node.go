// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package processnode runs Kubernetes nodes for tests and the demo without root, a container runtime or a separate
// network. A process node registers and sends heartbeats like a kubelet with --cloud-provider=external, and serves the
// parts of the kubelet's API that csccm uses. It runs Pods of known images as processes on this machine: with their
// command, environment, service account token, Secrets and probes, in their own root directory. It refuses Pods with
// unsupported features; their status or an Event gives the reason.
package processnode

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"mime"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
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
	// Images maps an image to the program that runs in its place. The image is a full reference, which takes
	// precedence, or a repository without tag and digest. In the Pod, the program is /<last part of the repository>.
	Images map[string]string

	// Joined is for a node that registered earlier: its kubelet has --cloud-provider=external, but the node has no
	// taint, because kubelets set the taint only at registration.
	Joined bool
	// NotExternal is for a kubelet without --cloud-provider=external: the node has no taint, and the kubelet writes its
	// addresses with every status.
	NotExternal bool
	// NoFlagz is for a kubelet older than 1.36: /flagz answers 404.
	NoFlagz bool
	// Plain runs Pods without a sandbox, as on a machine that allows no user namespaces.
	Plain bool
	// ProviderID is the spec's provider ID, as left by an earlier cloud provider.
	ProviderID string
	Labels     map[string]string
	// KubeletVersion defaults to the newest control plane's.
	KubeletVersion string
	// Heartbeat is the period of lease renewals.
	Heartbeat time.Duration
}

// Node is a running process node.
type Node struct {
	o        Options
	dir      string
	client   kubernetes.Interface
	recorder record.EventRecorder
	// plain is set if the machine allows no sandbox.
	plain atomic.Bool

	stop context.CancelFunc
	wg   sync.WaitGroup
	mu   sync.Mutex
	pods map[types.UID]*worker
}

const (
	kubeletPort  = 10250
	requestLimit = 10 * time.Second
)

// Start registers a node and starts its goroutines. The context bounds only the start.
func Start(ctx context.Context, o Options) (_ *Node, err error) {
	o.KubeletVersion = cmp.Or(o.KubeletVersion, plane.Version)
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	n := &Node{o: o, stop: stop, pods: map[types.UID]*worker{}}
	n.plain.Store(o.Plain)
	defer func() {
		if err != nil {
			err = fmt.Errorf("process node %s: %w", o.Name, err)
			n.Stop()
		}
	}()
	defer must.Return(&err)
	n.dir = must.Get(os.MkdirTemp(o.ControlPlane.Dir, "node-"+o.Name+"-"))
	n.connect(background)
	n.serve(background)
	n.register(ctx)
	n.wg.Go(func() { n.heartbeat(background) })
	n.watchPods(background)

	return n, nil
}

// Name returns the name of the node.
func (n *Node) Name() string { return n.o.Name }

// Stop stops the node like a power failure: it kills the Pods and ends the heartbeats and the kubelet API. The Node
// object and the Pod objects remain unchanged.
func (n *Node) Stop() {
	n.stop()
	n.mu.Lock()
	for _, w := range n.pods {
		w.abandon(true)
	}
	n.mu.Unlock()
	n.wg.Wait()
	removeAll(n.dir)
}

// PodLog returns the path of the latest log of a Pod's container, if this node has run the Pod.
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
	for _, w := range n.pods {
		if w.name() == namespace+"/"+pod {
			return w
		}
	}
	return nil
}

// connect creates the node's client. It has the certificate of a kubelet, so that the Node authorizer and the
// NodeRestriction admission plugin check its requests.
func (n *Node) connect(ctx context.Context) {
	config := must.Get(n.o.ControlPlane.ClientConfig("system:node:"+n.o.Name, "system:nodes"))
	config.UserAgent = "csccm-processnode"
	n.client = must.Get(kubernetes.NewForConfig(config))
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedv1.EventSinkImpl{Interface: n.client.CoreV1().Events("")})
	n.recorder = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kubelet", Host: n.o.Name})
}

// serve starts the kubelet's API on a free loopback port and routes the node's address to it.
func (n *Node) serve(ctx context.Context) {
	certificate := must.Get(n.o.ControlPlane.ServingCertificate("system:node:"+n.o.Name, []string{"system:nodes"},
		n.o.Address, n.o.Name))
	listener := must.Get((&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0"))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", n.serveLogs)
	if !n.o.NoFlagz {
		mux.HandleFunc("GET /flagz", n.serveFlagz)
	}

	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.TLS.VerifiedChains[0][0].Subject.CommonName != plane.KubeletClient {
				http.Error(w, "Forbidden", http.StatusForbidden)
				return
			}
			mux.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: requestLimit,
		ErrorLog:          log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate},
			ClientAuth: tls.RequireAndVerifyClientCert,
			ClientCAs:  must.Get(cert.NewPoolFromBytes(n.o.ControlPlane.CA())),
		},
	}

	n.wg.Go(func() { _ = server.ServeTLS(listener, "", "") })
	remove := n.o.ControlPlane.Route(net.JoinHostPort(n.o.Address, fmt.Sprint(kubeletPort)), listener.Addr().String())
	context.AfterFunc(ctx, func() { remove(); _ = server.Close() })
}

// serveFlagz returns the only flag that csccm reads. It supports only the structured format of Kubernetes 1.35 and
// later.
func (n *Node) serveFlagz(w http.ResponseWriter, r *http.Request) {
	newest, _, _ := strings.Cut(r.Header.Get("Accept"), ",")
	media, params, _ := mime.ParseMediaType(newest)
	if params["as"] != "Flagz" {
		http.Error(w, "accepted is application/json;as=Flagz;v=v1beta1;g=config.k8s.io", http.StatusNotAcceptable)
		return
	}
	provider := "external"
	if n.o.NotExternal {
		provider = ""
	}
	w.Header().Set("Content-Type", media)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind":       "Flagz",
		"apiVersion": "config.k8s.io/" + params["v"],
		"flags":      map[string]string{"cloud-provider": provider},
	})
}

// serveLogs serves kubectl logs with the log of the latest run. Of the options, it supports tailLines.
func (n *Node) serveLogs(w http.ResponseWriter, r *http.Request) {
	path, ok := n.PodLog(r.PathValue("namespace"), r.PathValue("pod"))
	text, err := os.ReadFile(path) // #nosec G304 -- a log of this node
	if !ok || err != nil {
		http.Error(w, "no log of pod "+r.PathValue("pod")+" on this node", http.StatusNotFound)
		return
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	if n, err := strconv.Atoi(r.URL.Query().Get("tailLines")); err == nil {
		lines = lines[max(0, len(lines)-1-n):] // the last line is empty, after the end of the log's last line
	}
	w.Header().Set("Content-Type", "text/plain")
	_, _ = w.Write(bytes.Join(lines, nil)) // #nosec G705 -- plain text
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
				n.removed(o)
			},
		},
	})
	n.wg.Go(func() { informer.RunWithContext(ctx) })
}

// sync starts a worker for a new Pod and passes updates of a known Pod to its worker.
func (n *Node) sync(ctx context.Context, o any) {
	pod := o.(*corev1.Pod) //nolint:forcetypeassert // the informer has no other objects
	n.mu.Lock()
	defer n.mu.Unlock()
	if w, ok := n.pods[pod.UID]; ok {
		w.update(pod)
	} else if ctx.Err() == nil && !over(pod.Status.Phase) {
		w := newWorker(ctx, n, pod)
		n.pods[pod.UID] = w
		n.wg.Go(func() { w.run(ctx) })
	}
}

// removed ends the worker of a Pod that was removed from the API. After a forced deletion its process is still
// running.
func (n *Node) removed(o any) {
	uid := o.(*corev1.Pod).UID //nolint:forcetypeassert // likewise
	n.mu.Lock()
	defer n.mu.Unlock()
	if w := n.pods[uid]; w != nil {
		w.abandon(false)
	}
	delete(n.pods, uid)
}

var lastPodIP atomic.Uint32

// NewPodIP returns a different loopback address for each Pod, so that replicas can bind the same port on one machine.
// The address depends on the process ID, so that programs that run at the same time use different addresses.
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
