// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package failover

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// probesAtOnce is the largest number of probes at the same time.
const probesAtOnce = 32

// Watch observes the leases of the kubelets while a Service needs it, and suspects nodes. It only reads.
type Watch struct {
	Kube kubernetes.Interface
	// Nodes are those of the informer's cache; its objects are shared.
	Nodes func() ([]*corev1.Node, error)
	// After is the age of a lease after which its node may be suspected; zero disables the watch.
	After time.Duration
	// Probe reports whether something answers at an address, within ProbeTimeout.
	Probe func(ctx context.Context, address string) bool
	// Changed is called when the set of suspected nodes changes. It must not block.
	Changed func()
	Clock   clock.WithTicker

	mu        sync.Mutex
	users     sets.Set[string]
	changed   chan struct{} // signals that users has changed; nil before Run
	suspicion *Suspicion    // nil while nobody needs the watch
	wake      chan struct{} // signals that suspicion has changed
	suspected map[string]string
	holding   bool // too many nodes would be suspected, so none is
}

// Use records whether a Service needs the watch.
func (w *Watch) Use(service string, needs bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.users.Has(service) == needs {
		return
	}
	if w.users == nil {
		w.users = sets.New[string]()
	}
	if needs {
		w.users.Insert(service)
	} else {
		w.users.Delete(service)
	}
	signal(w.changed)
}

// Run watches the nodes while a Service needs it, until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	if w.After <= 0 {
		return
	}

	changed := make(chan struct{}, 1)
	w.mu.Lock()
	w.changed = changed
	w.mu.Unlock()

	end := func() {}
	for {
		w.mu.Lock()
		switch needed, running := len(w.users) > 0, w.suspicion != nil; {
		case needed && !running:
			var session context.Context
			session, end = context.WithCancel(ctx)
			w.suspicion, w.wake = NewSuspicion(w.After), make(chan struct{}, 1)
			go w.watch(session, w.suspicion, w.wake)
		case !needed && running:
			end()
			w.suspicion, w.suspected, w.holding = nil, nil, false
		}
		w.mu.Unlock()

		select {
		case <-ctx.Done():
			end()
			return
		case <-changed:
		}
	}
}

// Suspected returns the suspected nodes with the reason.
func (w *Watch) Suspected() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.suspected)
}

// NodesChanged is called when a Node was added or deleted, or when its readiness changed.
func (w *Watch) NodesChanged() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.suspicion != nil {
		signal(w.wake)
	}
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// watch observes leases and probes kubelets until ctx ends.
func (w *Watch) watch(ctx context.Context, s *Suspicion, wake chan struct{}) {
	shrink := func(obj any) (any, error) { // obj is newly decoded: nobody else has it yet
		if lease, ok := obj.(*coordinationv1.Lease); ok {
			lease.ManagedFields = nil
		}
		return obj, nil
	}

	factory := informers.NewSharedInformerFactoryWithOptions(w.Kube, 0,
		informers.WithNamespace(corev1.NamespaceNodeLease), informers.WithTransform(shrink))
	leases := factory.Coordination().V1().Leases().Informer()
	seen := func(obj any) {
		lease, ok := obj.(*coordinationv1.Lease)
		if !ok || lease.Spec.RenewTime == nil {
			return
		}
		w.mu.Lock()
		news := s.Renewed(lease.Name, lease.Spec.RenewTime.UTC().Format(time.RFC3339Nano), w.Clock.Now())
		w.mu.Unlock()
		if news {
			signal(wake)
		}
	}

	w.look(s) // Renewed ignores nodes that it does not know

	// AddEventHandler fails only on a stopped informer, and this one has not started yet.
	_, _ = leases.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    seen,
		UpdateFunc: func(_, now any) { seen(now) },
	})

	factory.Start(ctx.Done())
	defer factory.Shutdown()

	for {
		probes, next := w.look(s)
		for name, address := range probes {
			go func() {
				answered := w.Probe(ctx, address)
				w.mu.Lock()
				s.Probed(name, answered, w.Clock.Now())
				w.mu.Unlock()
				signal(wake)
			}()
		}
		if !w.sleep(ctx, wake, next) {
			return
		}
	}
}

// look updates the suspicion from the cached Nodes. It returns the kubelet addresses to probe, by node name, and when
// to call look again.
func (w *Watch) look(s *Suspicion) (probes map[string]string, next time.Time) {
	nodes, err := w.Nodes()
	if err != nil {
		return nil, w.Clock.Now().Add(time.Second) // the cache is not filled yet
	}

	ready, addresses := make(map[string]bool, len(nodes)), make(map[string]string, len(nodes))
	for _, n := range nodes {
		addresses[n.Name] = kubeletAddress(n)
		ready[n.Name] = ProblemOf(n).Cause == "" && addresses[n.Name] != ""
	}

	w.mu.Lock()
	if w.suspicion != s {
		w.mu.Unlock()
		return nil, time.Time{} // this run has ended
	}

	now := w.Clock.Now()
	s.Nodes(ready)
	suspected, undecided := s.Suspected(now)
	changed, report := !maps.Equal(suspected, w.suspected), len(undecided) > 0 && !w.holding
	w.suspected, w.holding = suspected, len(undecided) > 0
	due, next := s.Due(now, probesAtOnce)
	w.mu.Unlock()

	if report {
		klog.InfoS("Too many nodes seem to be lost at once: none is suspected before Kubernetes says that it "+
			"is not Ready", "nodes", undecided)
	}

	if changed {
		klog.InfoS("The nodes that are suspected to be lost have changed", "nodes", slices.Sorted(maps.Keys(suspected)))
		w.Changed()
	}

	probes = make(map[string]string, len(due))
	for _, name := range due {
		probes[name] = addresses[name]
	}

	return probes, next
}

// sleep waits for a signal, or until a time if that is not zero. It returns false when ctx has ended.
func (w *Watch) sleep(ctx context.Context, wake <-chan struct{}, until time.Time) bool {
	var alarm <-chan time.Time
	if !until.IsZero() {
		timer := w.Clock.NewTimer(max(until.Sub(w.Clock.Now()), time.Millisecond))
		defer timer.Stop()
		alarm = timer.C()
	}
	select {
	case <-ctx.Done():
		return false
	case <-wake:
	case <-alarm:
	}
	return true
}

// kubeletAddress returns the host and port of a node's kubelet, or "" if the Node does not name them.
func kubeletAddress(n *corev1.Node) string {
	port := int(n.Status.DaemonEndpoints.KubeletEndpoint.Port)
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP && port > 0 {
			return net.JoinHostPort(a.Address, strconv.Itoa(port))
		}
	}
	return ""
}

// Answers reports whether something answers at a TCP address. A refused connection is an answer: the kubelet may be
// restarting, but the node is up and forwards traffic.
func Answers(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, ProbeTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil || errors.Is(err, syscall.ECONNREFUSED)
}
