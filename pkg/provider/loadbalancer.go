// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/provider/backoff"
	"github.com/csccm/csccm/pkg/provider/event"
	"github.com/csccm/csccm/pkg/provider/failover"
	"github.com/csccm/csccm/pkg/tenancy"
)

// loadBalancerDeps is what the load balancer half of the provider works with.
type loadBalancerDeps struct {
	loadbalancer.Options // of the reconciler; newLoadBalancer adds what it knows itself
	API                  loadbalancer.API
	Inventory            *inventory.Inventory
	// InventoryOf makes the inventory of another project, by name or id.
	InventoryOf func(project string) *inventory.Inventory
	Kube        kubernetes.Interface
	Recorder    event.Recorder
	// Services are those of the cluster.
	Services func(ctx context.Context) ([]*corev1.Service, error)
	// Nodes are those of the framework's cache.
	Nodes func() ([]*corev1.Node, error)
	// CleanOrphans removes what Services that are gone left, instead of only reporting it.
	CleanOrphans bool
	// SuspectAfter and Probe are those of a failover.Watch; Probe is the real one when nil.
	SuspectAfter time.Duration
	Probe        func(ctx context.Context, address string) bool
	// Tenancy is what the operator allows.
	Tenancy tenancy.Policy
	Clock   clock.WithTicker
	// Records holds what was taken out of the framework's copies of Services.
	Records *recordsCache
}

// loadBalancer adapts the reconciler to the framework.
type loadBalancer struct {
	deps       loadBalancerDeps
	reconciler *loadbalancer.Reconciler

	orphanCount prometheus.Gauge
	rounds      prometheus.Histogram
	moves       *prometheus.CounterVec

	nodes      nodeMemo
	endpoints  endpointCache
	heartbeats *failover.Watch
	namespaces *utilcache.Expiring // the labels of namespaces
	missing    *utilcache.Expiring // Nodes without VM, and when that was last found out
	orphans    map[string]bool     // as found in the last round; the drift loop's own
	swept      time.Time           // the last look for tags of deleted rules; the drift loop's own
	backoff    *backoff.Backoff
	wakeups    workqueue.TypedDelayingInterface[types.UID] // see followWakeups

	mu     sync.Mutex
	known  map[types.UID]*serviceState
	others map[string]*otherInventory // of other projects
}

// serviceState is what is remembered of a Service from the framework's first request for it until it is gone.
type serviceState struct {
	// service and nodes are what the framework last asked for: the Service and the nodes that it found eligible.
	service *corev1.Service
	nodes   []*corev1.Node
	// settled is set when the framework's last sync succeeded. It tries others again itself.
	settled  bool
	forwards bool               // as in work
	shown    []metav1.Condition // as last written; nil before that
	synced   *string            // the nodes with which the Service was last brought to its desired state
	doubtful bool               // the last sync failed in CloudStack
	unfit    bool               // no node can serve its forwarded ports
}

var _ cloudprovider.LoadBalancer = (*loadBalancer)(nil)

func newLoadBalancer(deps loadBalancerDeps) *loadBalancer {
	lb := &loadBalancer{
		deps:  deps,
		known: map[types.UID]*serviceState{}, others: map[string]*otherInventory{},
		namespaces: utilcache.NewExpiringWithClock(deps.Clock), missing: utilcache.NewExpiringWithClock(deps.Clock),
		backoff: backoff.New(deps.Clock), wakeups: workqueue.NewTypedDelayingQueue[types.UID](),
		orphanCount: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "cloudstack_orphans",
			Help: "Addresses, rules and network ACL items in CloudStack that were made for Services which are gone.",
		}),
		rounds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "cloudstack_drift_round_duration_seconds",
			Help:    "Time to compare all load balancers with CloudStack.",
			Buckets: []float64{0.1, 0.5, 1, 5, 15, 60, 300},
		}),
	}
	lb.heartbeats = lb.watchHeartbeats()
	lb.moves = newMoves()
	lb.endpoints = endpointCache{changed: lb.endpointsChanged, stop: make(chan struct{})}
	o := deps.Options
	o.Clock, o.Neighbours, o.Network, o.VMs = deps.Clock, lb.neighbours, lb.network, lb.vmsOf
	o.Project = func(ctx context.Context, name string) (string, error) { return lb.inventory(name).ProjectID(ctx) }
	o.Released = func() { lb.freed(backoff.ByAddress) }
	o.Log = func(service, message string) {
		klog.V(2).InfoS("Load balancer action", "service", service, "action", message)
	}
	lb.reconciler = loadbalancer.New(deps.API, o)
	return lb
}

// collectors are the load balancer's metrics.
func (lb *loadBalancer) collectors() []prometheus.Collector {
	return append(lb.forwardCollectors(), lb.reconciler.Metrics(), lb.orphanCount, lb.rounds)
}

// remember notes what the framework asks for.
func (lb *loadBalancer) remember(svc *corev1.Service, nodes []*corev1.Node) {
	lb.mu.Lock()
	defer lb.mu.Unlock()
	s := lb.known[svc.UID]
	if s == nil {
		s = &serviceState{}
		lb.known[svc.UID] = s
	}
	s.service, s.nodes, s.settled = svc, nodes, false
}

// with calls f with what is remembered of a Service, if anything, while nobody else reads or changes it.
func (lb *loadBalancer) with(uid types.UID, f func(*serviceState)) {
	lb.mu.Lock()
	defer lb.mu.Unlock()
	if s := lb.known[uid]; s != nil {
		f(s)
	}
}

// forget forgets what the framework asked for: the Service has no load balancer any more.
func (lb *loadBalancer) forget(uid types.UID) {
	lb.mu.Lock()
	delete(lb.known, uid)
	lb.mu.Unlock()
	lb.heartbeats.Use(string(uid), false)
}

// drop forgets a Service that is gone.
func (lb *loadBalancer) drop(uid types.UID) {
	lb.forget(uid)
	lb.backoff.Forget(uid)
}

// turn waits until nobody else works on the Service. All calls made with the context that it returns count for the
// Service's namespace.
func (lb *loadBalancer) turn(ctx context.Context, svc *corev1.Service) (context.Context, func(), error) {
	leave, err := lb.reconciler.Turn(ctx, string(svc.UID))
	return cloudstack.WithFlow(ctx, svc.Namespace), leave, err
}

// turnOf is turn for a Service as the framework last asked for it; nil when it is gone, or ctx has ended.
func (lb *loadBalancer) turnOf(ctx context.Context, uid types.UID) (context.Context, *serviceState, func()) {
	lb.mu.Lock()
	s := lb.known[uid]
	var svc *corev1.Service
	if s != nil {
		svc = s.service
	}
	lb.mu.Unlock()
	if s == nil {
		return ctx, nil, func() {}
	}
	ctx, unlock, err := lb.turn(ctx, svc)
	if err != nil {
		return ctx, nil, func() {}
	}
	lb.mu.Lock()
	defer lb.mu.Unlock()
	return ctx, lb.known[uid], unlock // it may have been asked for again, or deleted, in the meantime
}

// GetLoadBalancerName is upstream's name, the prefix of the rules' names.
func (lb *loadBalancer) GetLoadBalancerName(_ context.Context, _ string, svc *corev1.Service) string {
	return cloudprovider.DefaultLoadBalancerName(svc)
}

// GetLoadBalancer reports whether anything of the Service's remains in CloudStack.
func (lb *loadBalancer) GetLoadBalancer(ctx context.Context, _ string, svc *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	ctx, unlock, err := lb.turn(ctx, svc)
	if err != nil {
		return nil, false, err
	}
	defer unlock()
	svc = lb.deps.Records.restore(svc)
	if goes(svc) {
		if wait, err := lb.backoff.Held(backoff.DeletionOf(svc)); wait > 0 {
			return nil, false, err // the last attempt to delete it failed, and the next is not due
		}
	}
	w := lb.workOn(svc, nil) // a wrong annotation must not hide what is there
	req, err := lb.requestOf(ctx, w)
	if err != nil {
		return nil, false, err
	}
	ips, exists, err := lb.reconciler.Exists(ctx, req)
	if err == nil && !exists && goes(svc) {
		lb.drop(svc.UID) // the framework does not ask for its deletion
	}
	if err != nil || !exists {
		return nil, exists, err
	}
	ip := ""
	if len(ips) > 0 {
		ip = ips[0]
	}
	return status(w, ip), true, nil
}

// EnsureLoadBalancer brings the Service to its desired state.
func (lb *loadBalancer) EnsureLoadBalancer(ctx context.Context, _ string, svc *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	ctx, unlock, err := lb.turn(ctx, svc)
	if err != nil {
		return nil, err
	}
	defer unlock()
	lb.remember(svc, nodes)
	return lb.ensure(ctx, svc, nodes, lb.reconciler.Ensure)
}

// UpdateLoadBalancer brings the rules' members to the nodes. With the nodes of the last time it does nothing.
func (lb *loadBalancer) UpdateLoadBalancer(ctx context.Context, _ string, svc *corev1.Service, nodes []*corev1.Node) error {
	ctx, unlock, err := lb.turn(ctx, svc)
	if err != nil {
		return err
	}
	defer unlock()
	lb.remember(svc, nodes)
	if lb.backoff.Waiting(svc.UID) {
		// Its next attempt has the new nodes. The framework writes no Event for this error and does not retry.
		wait, _ := lb.backoff.Held(lb.attempt(lb.workOn(lb.deps.Records.restore(svc), nodes)))
		lb.wakeups.AddAfter(svc.UID, wait)
		return cloudprovider.ImplementedElsewhere
	}
	if lb.upToDate(ctx, svc, nodes) {
		return nil
	}
	_, err = lb.ensure(ctx, svc, nodes, lb.reconciler.Ensure)
	return err
}

// EnsureLoadBalancerDeleted removes everything of the Service's from CloudStack.
func (lb *loadBalancer) EnsureLoadBalancerDeleted(ctx context.Context, _ string, svc *corev1.Service) error {
	ctx, unlock, err := lb.turn(ctx, svc)
	if err != nil {
		return err
	}
	defer unlock()
	attempt := backoff.DeletionOf(svc)
	if wait, err := lb.backoff.Held(attempt); wait > 0 {
		return backoff.RetryAfter(err, wait)
	}
	svc = lb.deps.Records.restore(svc)
	w := lb.workOn(svc, nil) // what cannot be parsed must still be deleted
	lb.forget(svc.UID)
	req, err := lb.requestOf(ctx, w)
	if err != nil {
		return err
	}
	result, err := lb.reconciler.Delete(ctx, req)
	if err == nil {
		lb.clearCondition(ctx, svc)
		lb.drop(svc.UID)
		lb.freed(backoff.ByPort)
	}
	return lb.ended(w, attempt, err, progress(result))
}

// goes reports whether the Service no longer wants a load balancer.
func goes(svc *corev1.Service) bool {
	return svc.DeletionTimestamp != nil || svc.Spec.Type != corev1.ServiceTypeLoadBalancer
}
