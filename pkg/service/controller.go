// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package service is the controller of Services of type LoadBalancer. It replaces the service controller of Kubernetes,
// and uses the same finalizer and Events.
//
// Changes of Services, Nodes, EndpointSlices and kubelet leases, and the timer of drift rounds, only add the keys of
// Services to one queue, which is fair to all namespaces. A worker always reads the newest objects of its Service.
package service

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/node/failover"
	"github.com/csccm/csccm/pkg/tenancy"
)

// Deps are the dependencies of the controller.
type Deps struct {
	// Options configure the load balancers; the controller sets those that it provides itself.
	loadbalancer.Options
	Mode      string // default mode of Services; annotation.Auto if empty
	Inventory *inventory.Inventory
	// InventoryOf returns the inventory of another project by name or id.
	InventoryOf func(project string) *inventory.Inventory
	Kube        kubernetes.Interface
	Recorder    Recorder
	// Services returns all Services in the informer's cache, and Nodes all Nodes. The objects are shared and must not
	// be changed.
	Services func() ([]*corev1.Service, error)
	Nodes    func() ([]*corev1.Node, error)
	// CleanOrphans removes objects of deleted Services from CloudStack. Without it, they are only reported.
	CleanOrphans bool
	// SuspectAfter and Probe are passed to failover.Watch.
	SuspectAfter time.Duration
	Probe        func(ctx context.Context, address string) bool
	Tenancy      tenancy.Policy
	Classes      Classes
	Clock        clock.WithTicker
}

// Recorder is the part of record.EventRecorder that the controller uses.
type Recorder interface {
	Event(object runtime.Object, kind, reason, message string)
}

// Controller keeps the load balancers of Services in the state that the Services ask for.
type Controller struct {
	Deps
	reconciler *loadbalancer.Reconciler
	queue      workqueue.TypedDelayingInterface[Key]
	fair       *fairQueue // orders the queue
	book       *book
	members    node.Members
	endpoints  *endpoints
	stop       context.CancelFunc
	heartbeats *failover.Watch
	namespaces *utilcache.Expiring       // labels of namespaces, by name
	projects   *utilcache.LRUExpireCache // inventories of other projects, by the name or id that Services use

	orphanCount prometheus.Gauge
	rounds      prometheus.Histogram
	tagged      []string  // projects with tags of this cluster; used by drift rounds only
	swept       time.Time // the last sweep of tags of deleted rules; used by drift rounds only

	mu      sync.Mutex
	states  map[Key]*state
	budgets budgets
	freedAt time.Time // when an address or port last became available
}

// state is everything that is remembered about a Service. Losing it costs calls, but affects no result. Only the worker
// of the Service uses memory, ready and lacksVM; the controller's lock protects the rest.
type state struct {
	memory loadbalancer.Memory
	// ready is when each node first had a ready endpoint, with externalTrafficPolicy Local; nil before the first sync.
	ready map[string]time.Time
	retry retry
	// upkeep is the backoff for maintaining a Service while retry delays its next sync.
	upkeep retry
	// since is when the last drift round began. Reads from before that time are not trusted.
	since time.Time
	// touched means that this process has worked on the Service, which may therefore have something in CloudStack.
	touched   bool
	served    bool   // the last sync succeeded
	unhealthy bool   // no node can serve its forwarded ports
	lacksVM   bool   // a node had no VM when the last sync succeeded
	asked     string // version.asked of the version that was synced last
	// version is the newest version that the informer has shown or this process has written. It is kept until the
	// clean-up of a deleted Service ends.
	*version
	deleted bool
	// budgetAt is when the budget of the namespace allows the sync of a change by the owner; zero if no change waits.
	budgetAt time.Time
	// admitted is when another namespace last started to share an address that the Service waits for.
	admitted time.Time
	// wrote is the status that this process has written last; nil if none. overwrites counts the changes that others
	// have made to it since the last drift round.
	wrote      *corev1.LoadBalancerStatus
	overwrites int
}

// forwarding reports whether the Service may have port forwardings.
func (s *state) forwarding() bool {
	return s.version != nil && s.forwards && !s.deleted
}

// New returns a controller. It makes no call.
func New(d Deps) *Controller {
	fair := newFairQueue()
	c := &Controller{
		Deps:       d,
		queue:      newQueue(d.Clock, fair),
		fair:       fair,
		book:       newBook(d.Tenancy.AddressReservation.Duration, d.Clock),
		namespaces: utilcache.NewExpiringWithClock(d.Clock),
		projects:   utilcache.NewLRUExpireCacheWithClock(mostInventories, d.Clock),
		states:     map[Key]*state{}, budgets: budgets{},
	}

	c.members.All = d.Nodes
	c.heartbeats = &failover.Watch{
		Kube: d.Kube, Nodes: d.Nodes, After: d.SuspectAfter, Probe: d.Probe, Clock: d.Clock,
		Changed: func() { c.wake(0, (*state).forwarding) }, // forwarded ports may have to move
	}

	if d.Probe == nil {
		c.heartbeats.Probe = failover.Answers
	}

	ended, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.endpoints = &endpoints{kube: d.Kube, changed: c.endpointsChanged, stop: ended.Done()}
	c.initMetrics()

	o := d.Options
	o.Clock, o.Book = d.Clock, c.book
	c.reconciler = loadbalancer.New(o)
	return c
}

// Run works until the context ends. The informers' caches must have synced before.
func (c *Controller) Run(ctx context.Context, workers int) {
	services, err := c.Services()
	if err != nil {
		klog.ErrorS(err, "Cannot list the Services: no load balancer is synced")
		return
	}
	for _, svc := range services {
		c.ServiceChanged(svc) // the address book must be complete before the first sync
	}

	c.fair.most = max(1, workers-1)
	context.AfterFunc(ctx, c.Stop)

	var all sync.WaitGroup
	for range workers {
		all.Go(func() { c.work(ctx) })
	}
	all.Go(func() { c.heartbeats.Run(ctx) })
	all.Go(func() { c.runRounds(ctx) })
	all.Wait()
}

// Stop shuts down the queue. Run does so when its context ends.
func (c *Controller) Stop() {
	c.queue.ShutDown()
	c.stop()
}

// work syncs Services from the queue until it shuts down.
func (c *Controller) work(ctx context.Context) {
	for {
		k, ended := c.queue.Get()
		if ended {
			return
		}
		if after, _ := c.Sync(ctx, k); after > 0 {
			c.queue.AddAfter(k, after)
		}
		c.fair.done(k)
		c.queue.Done(k)
	}
}

// with calls f with the state of a Service, if there is one, while the lock is held.
func (c *Controller) with(k Key, f func(*state)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.states[k]; s != nil {
		f(s)
	}
}

// stateOf returns the state of a Service, a new one if necessary. The caller holds the controller's lock.
func (c *Controller) stateOf(k Key) *state {
	s := c.states[k]
	if s == nil {
		s = &state{}
		c.states[k] = s
	}
	return s
}

// deleteState deletes the state of a Service that has nothing left in CloudStack. While the Service exists, its newest
// version is kept: otherwise an older one that the informer shows later would count as new.
func (c *Controller) deleteState(k Key) {
	c.mu.Lock()
	s := c.states[k]
	delete(c.states, k)
	lives := s != nil && !s.deleted && s.version != nil
	if lives {
		c.states[k] = &state{version: s.version}
	}

	if !lives || !s.wants {
		c.book.remove(k.UID)
	}
	c.mu.Unlock()
	c.heartbeats.Use(string(k.UID), false)
	c.tryNext(false) // the Service no longer competes for free addresses and ports
}

// learn makes a version of a Service the newest one, unless it is older than the newest, and updates the address book.
// It returns the newest version before and after, both nil if the Service does not concern the controller. ours means
// that the controller handles the Service, or has worked on it, so that the Service may have objects in CloudStack.
func (c *Controller) learn(svc *corev1.Service) (was, is *version, ours bool) {
	k, admits := KeyOf(svc), false
	c.mu.Lock()
	_, known := c.states[k]
	c.mu.Unlock()
	if !known && !c.Classes.Handles(svc) {
		return nil, nil, false
	}

	is = c.version(svc)
	c.mu.Lock()
	s := c.stateOf(k)
	was, ours = s.version, is.handled || s.touched
	if was != nil && (older(svc, was.svc) || svc.ResourceVersion == was.svc.ResourceVersion) {
		is = was
	} else {
		s.version = is
		if ours {
			admits = c.admit(is, c.book.set(is))
		} else {
			c.book.remove(k.UID)
		}
	}
	c.mu.Unlock()

	if admits {
		c.tryNext(false)
	}
	return was, is, ours
}
