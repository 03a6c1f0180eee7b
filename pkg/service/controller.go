// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package service is the controller of Services of type LoadBalancer. It takes the place of Kubernetes' own service
// controller, with its finalizer and its Events.
//
// Services, Nodes, EndpointSlices, the leases of kubelets and the timer of drift rounds only put keys of Services into
// one queue, which is fair by namespace. Whoever works on a Service reads the newest objects.
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
	"github.com/csccm/csccm/pkg/loadbalancer/observe"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/node/failover"
	"github.com/csccm/csccm/pkg/tenancy"
)

// Deps are what the controller works with.
type Deps struct {
	// Options of the load balancers; the controller sets those that it provides itself.
	loadbalancer.Options
	API       loadbalancer.API
	Mode      string // of Services that choose none; annotation.Auto when empty
	Inventory *inventory.Inventory
	// InventoryOf is the inventory of another project by name or id.
	InventoryOf func(project string) *inventory.Inventory
	Kube        kubernetes.Interface
	Recorder    Recorder
	// Services are all Services as the informer has them, Nodes all Nodes. The objects are shared.
	Services func() ([]*corev1.Service, error)
	Nodes    func() ([]*corev1.Node, error)
	// CleanOrphans removes what Services that are gone left in CloudStack; otherwise it is reported only.
	CleanOrphans bool
	// SuspectAfter and Probe are those of failover.Watch.
	SuspectAfter time.Duration
	Probe        func(ctx context.Context, address string) bool
	Tenancy      tenancy.Policy
	Classes      Classes
	Clock        clock.WithTicker
}

// Recorder is what is used of a record.EventRecorder.
type Recorder interface {
	Event(object runtime.Object, kind, reason, message string)
}

// Controller keeps the load balancers of Services as the Services ask for.
type Controller struct {
	Deps
	reconciler *loadbalancer.Reconciler
	queue      workqueue.TypedDelayingInterface[Key]
	fair       *fairQueue // the order of queue
	book       *book
	members    node.Members
	endpoints  *endpoints
	stop       context.CancelFunc
	heartbeats *failover.Watch
	namespaces *utilcache.Expiring       // the labels of namespaces
	projects   *utilcache.LRUExpireCache // the inventories of other projects, by what Services call these

	orphanCount prometheus.Gauge
	rounds      prometheus.Histogram
	moves       *prometheus.CounterVec
	tagged      []string  // projects with this cluster's tags; of the drift rounds alone
	swept       time.Time // the last look for tags of deleted rules; of the drift rounds alone

	mu      sync.Mutex
	states  map[Key]*state
	pace    pace
	freedAt time.Time // when something last became free
}

// state is what is remembered of a Service: the one memory of it. To lose it costs calls, never correctness. The worker
// of the Service alone uses memory and ready; the rest is read and changed under the controller's lock.
type state struct {
	memory loadbalancer.Memory
	// ready is since when nodes have ready endpoints, with policy Local; nil before the first sync.
	ready map[string]time.Time
	retry retry
	// upkeep is the wait after failures to keep up what serves while retry waits.
	upkeep retry
	// since is when the last drift round began: what was read before does not count.
	since time.Time
	// touched means that the Service was worked on by this process: something of it may be in CloudStack.
	touched   bool
	served    bool   // the last sync succeeded
	unhealthy bool   // no node can serve its forwarded ports
	lacks     bool   // a node has no VM
	asked     string // by the version that was synced last
	// The newest version that the informer has shown or this process has written; of a Service that is gone all that is
	// left of it.
	*version
	gone bool
	// jobEnded is closed when a job has ended that the last sync left running.
	jobEnded <-chan struct{}
	// turn is when a change of the owner is worked on that has to wait for the namespace's budget.
	turn time.Time
	// admitted is when the Service was last admitted to an address of another namespace.
	admitted time.Time
	// wrote is the status that this process has written last; nil for none. overwrites counts the changes of others to
	// it since the last drift round.
	wrote      *corev1.LoadBalancerStatus
	overwrites int
	orphans    []observe.Orphan // what was found in CloudStack of a Service that does not exist
}

// forwarding reports whether the Service may have port forwardings.
func (s *state) forwarding() bool {
	return s.version != nil && s.content != nil && s.forwards && !s.gone
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
		states:     map[Key]*state{}, pace: pace{},
	}

	c.members.All = d.Nodes
	c.heartbeats = &failover.Watch{
		Kube: d.Kube, Nodes: d.Nodes, After: d.SuspectAfter, Probe: d.Probe, Clock: d.Clock,
		Changed: func() { c.wake(0, (*state).forwarding) }, // other nodes than before may serve these
	}

	if d.Probe == nil {
		c.heartbeats.Probe = failover.Answers
	}

	ended, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.endpoints = &endpoints{kube: d.Kube, changed: c.endpointsChanged, stop: ended.Done()}
	c.initMetrics()
	o := d.Options
	o.Clock, o.Book, o.Network, o.VMs = d.Clock, c.book, c.network, c.vmsOf
	o.Project = func(ctx context.Context, name string) (string, error) { return c.inventory(name).ProjectID(ctx) }
	c.reconciler = loadbalancer.New(d.API, o)
	return c
}

// Run works until the context ends. The informers that the controller depends on have been filled.
func (c *Controller) Run(ctx context.Context, workers int) {
	services, err := c.Services()
	if err != nil {
		klog.ErrorS(err, "The Services cannot be listed: no load balancer is worked on")
		return
	}
	for _, svc := range services {
		c.ServiceChanged(svc) // the address book is complete before the first Service is worked on
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

// Stop ends the queue. Run does so when its context ends.
func (c *Controller) Stop() {
	c.queue.ShutDown()
	c.stop()
}

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

// with calls f with what is remembered of a Service, if anything, while nobody else reads or changes it.
func (c *Controller) with(k Key, f func(*state)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.states[k]; s != nil {
		f(s)
	}
}

// stateOf returns what is remembered of a Service, nothing at first. The controller's lock is held.
func (c *Controller) stateOf(k Key) *state {
	s := c.states[k]
	if s == nil {
		s = &state{}
		c.states[k] = s
	}
	return s
}

// forget forgets what is remembered of a Service that has nothing in CloudStack any more. While it exists its newest
// version stays, or an older one that the informer shows later would count as new.
func (c *Controller) forget(k Key) {
	c.mu.Lock()
	s := c.states[k]
	delete(c.states, k)
	lives := s != nil && !s.gone && s.version != nil
	if lives {
		c.states[k] = &state{version: s.version}
	}
	if !lives || !s.wants {
		c.book.remove(k.UID)
	}
	c.mu.Unlock()
	c.heartbeats.Use(string(k.UID), false)
	c.tryNext(false) // it does not need what became free
}

// learn makes a version of a Service the newest one, unless it is older, and brings the address book up to date. It
// returns the newest version before and now, both nil for a Service that the controller has nothing to do with. ours is
// set when the controller handles it, or has worked on it: something of it may be in CloudStack.
func (c *Controller) learn(svc *corev1.Service) (was, is *version, ours bool) {
	k, admits := KeyOf(svc), false
	is = c.Classes.version(svc)
	ours = is.handled

	c.mu.Lock()
	if s := c.states[k]; s != nil {
		was, ours = s.version, ours || s.touched
	}
	switch {
	case was == nil && !ours:
		is = nil
	case was != nil && (older(svc, was.svc) || svc.ResourceVersion == was.svc.ResourceVersion):
		is = was
	default:
		is.inherit(was)
		s := c.stateOf(k)
		s.version, s.orphans = is, nil
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
