// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	cloudprovider "k8s.io/cloud-provider"
	cpapi "k8s.io/cloud-provider/api"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer"
)

// networkAge is how old the description of a network may be: services of an offering hardly change.
const networkAge = 10 * time.Minute

// loadBalancerDeps is what the load balancer half of the provider works with.
type loadBalancerDeps struct {
	API       loadbalancer.API
	Inventory *inventory.Inventory
	// InventoryOf makes the inventory of another project, by name or id.
	InventoryOf func(project string) *inventory.Inventory
	Kube        kubernetes.Interface
	Recorder    record.EventRecorder
	ClusterID   func() string
	DriftPeriod time.Duration
	Policy      loadbalancer.Policy
	LeaveACLs   bool
	// CleanOrphans removes what Services that are gone left, instead of only reporting it.
	CleanOrphans bool
	Clock        clock.PassiveClock
}

// loadBalancer adapts the reconciler to the framework.
type loadBalancer struct {
	deps       loadBalancerDeps
	reconciler *loadbalancer.Reconciler
	metrics    *loadBalancerMetrics

	endpoints endpointCache
	orphans   map[string]bool                                 // as found in the last round; the drift loop's own
	queue     workqueue.TypedRateLimitingInterface[types.UID] // Services whose endpoints changed
	turns     loadbalancer.KeyedMutex                         // one worker at a time on a Service

	mu       sync.Mutex
	seen     map[types.UID]*seenService // what the framework last asked for
	others   map[string]*inventory.Inventory
	shown    map[types.UID][]metav1.Condition
	synced   map[types.UID]string    // the nodes with which a Service was last brought to its desired state
	doubtful map[types.UID]bool      // Services whose last sync failed in CloudStack
	missing  map[types.UID]time.Time // Nodes without VM, and when that was last found out
}

var _ cloudprovider.LoadBalancer = (*loadBalancer)(nil)

func newLoadBalancer(deps loadBalancerDeps) *loadBalancer {
	if deps.Clock == nil {
		deps.Clock = clock.RealClock{}
	}
	lb := &loadBalancer{
		deps: deps, queue: newEndpointQueue(), seen: map[types.UID]*seenService{}, shown: map[types.UID][]metav1.Condition{}, others: map[string]*inventory.Inventory{},
		synced: map[types.UID]string{}, doubtful: map[types.UID]bool{}, missing: map[types.UID]time.Time{},
	}
	lb.endpoints.changed = lb.endpointsChanged
	lb.metrics = newLoadBalancerMetrics()
	lb.reconciler = loadbalancer.New(deps.API, loadbalancer.Options{
		ClusterID:   deps.ClusterID,
		Project:     func(ctx context.Context, name string) (string, error) { return lb.inventory(name).ProjectID(ctx) },
		Network:     lb.network,
		VMs:         lb.vmsOf,
		DriftPeriod: deps.DriftPeriod,
		Policy:      deps.Policy,
		LeaveACLs:   deps.LeaveACLs,
		Clock:       deps.Clock,
		Log: func(service, message string) {
			klog.V(2).InfoS("Load balancer action", "service", service, "action", message)
		},
	})
	return lb
}

// Collectors are the load balancer's metrics.
func (lb *loadBalancer) Collectors() []prometheus.Collector {
	return append([]prometheus.Collector{lb.reconciler.Metrics()}, lb.metrics.collectors()...)
}

// GetLoadBalancerName is upstream's name, the prefix of the rules' names.
func (lb *loadBalancer) GetLoadBalancerName(_ context.Context, _ string, svc *corev1.Service) string {
	return cloudprovider.DefaultLoadBalancerName(svc)
}

// GetLoadBalancer tells whether anything of the Service's remains in CloudStack.
func (lb *loadBalancer) GetLoadBalancer(ctx context.Context, _ string, svc *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	spec, _ := annotation.Parse(svc) // a wrong annotation must not hide what is there
	ips, exists, err := lb.reconciler.Exists(ctx, lb.request(svc, spec, nil))
	if err != nil || !exists {
		return nil, exists, err
	}
	ip := ""
	if len(ips) > 0 {
		ip = ips[0]
	}
	return status(svc, spec, ip), true, nil
}

// EnsureLoadBalancer brings the Service to its desired state.
func (lb *loadBalancer) EnsureLoadBalancer(ctx context.Context, _ string, svc *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	defer lb.turns.Lock([]string{string(svc.UID)})()
	lb.remember(svc, nodes)
	return lb.ensure(ctx, svc, nodes, lb.reconciler.Ensure)
}

// UpdateLoadBalancer brings the rules' members to the nodes. With the nodes of the last time it does nothing.
func (lb *loadBalancer) UpdateLoadBalancer(ctx context.Context, _ string, svc *corev1.Service, nodes []*corev1.Node) error {
	defer lb.turns.Lock([]string{string(svc.UID)})()
	lb.remember(svc, nodes)
	spec, err := annotation.Parse(svc)
	if err == nil && lb.upToDate(ctx, svc, spec, nodes) {
		return nil
	}
	_, err = lb.ensure(ctx, svc, nodes, lb.reconciler.Ensure)
	return err
}

// upToDate tells whether the Service was last brought to its desired state with the same backends.
func (lb *loadBalancer) upToDate(ctx context.Context, svc *corev1.Service, spec annotation.Spec, nodes []*corev1.Node) bool {
	chosen, err := lb.choose(ctx, svc, spec, nodes)
	if err != nil {
		return false
	}
	lb.mu.Lock()
	defer lb.mu.Unlock()
	last, known := lb.synced[svc.UID]
	return known && last == nodesKey(chosen)
}

// EnsureLoadBalancerDeleted removes everything of the Service's from CloudStack.
func (lb *loadBalancer) EnsureLoadBalancerDeleted(ctx context.Context, _ string, svc *corev1.Service) error {
	defer lb.turns.Lock([]string{string(svc.UID)})()
	spec, _ := annotation.Parse(svc) // what cannot be parsed must still be deleted
	lb.forget(svc.UID)
	lb.unsee(svc.UID)
	_, err := lb.reconciler.Delete(ctx, lb.request(svc, spec, nil))
	if err == nil {
		lb.note(svc.UID, nil, false, nil)
		lb.clearCondition(ctx, svc)
	}
	return lb.failed(svc, err)
}

type reconcile func(context.Context, loadbalancer.Request) (loadbalancer.Result, error)

// ensure is one sync: it chooses the backends, has them reconciled and shows the outcome on the Service.
func (lb *loadBalancer) ensure(ctx context.Context, svc *corev1.Service, nodes []*corev1.Node, do reconcile) (*corev1.LoadBalancerStatus, error) {
	status, err := lb.sync(ctx, svc, nodes, do)
	lb.mu.Lock()
	if s := lb.seen[svc.UID]; s != nil {
		s.settled = err == nil
	}
	lb.mu.Unlock()
	lb.showCondition(ctx, svc, err)
	return status, lb.failed(svc, err)
}

func (lb *loadBalancer) sync(ctx context.Context, svc *corev1.Service, nodes []*corev1.Node, do reconcile) (*corev1.LoadBalancerStatus, error) {
	events := serviceEvents{lb.deps.Recorder, svc}
	lb.forget(svc.UID)
	spec, err := annotation.Parse(svc)
	if err != nil {
		return nil, &loadbalancer.RefusalError{Reason: loadbalancer.ReasonInvalidAnnotation, Message: err.Error()}
	}
	for _, w := range spec.Warnings {
		events.warn(ReasonSettingWithout, w)
	}
	// What the Service alone decides is decided before anything is read.
	if refusal := loadbalancer.CheckService(loadbalancer.ServiceOf(svc)); refusal != nil {
		return nil, refusal
	}
	chosen, err := lb.choose(ctx, svc, spec, nodes)
	if err != nil {
		return nil, err
	}
	members, complete, err := lb.members(ctx, svc.UID, spec, chosen, events)
	if err != nil {
		return nil, err
	}
	switch {
	case len(nodes) == 0:
		events.warn(loadbalancer.ReasonNoBackends, "no node is eligible; the rules have no members, and nobody is served")
	case len(chosen) == 0:
		events.warn(loadbalancer.ReasonNoBackends, "no node is chosen ("+whyNone(svc, spec)+"); the rules have no members, and nobody is served")
	}
	req := lb.request(svc, spec, members)
	if len(chosen) == 0 && svc.Annotations[annotation.Addresses] == "" {
		// Nobody serves yet: the others tell in which network the address will be.
		if req.Reach, _, err = lb.members(ctx, svc.UID, spec, nodes, events); err != nil {
			return nil, err
		}
	}
	if vms := lb.inventory(spec.Project).LastVMs(); vms != nil && len(chosen) > 0 && len(chosen) < len(nodes) {
		// Pods that wander must not make the address move to another network.
		all, _ := match(vms, selected(spec, nodes))
		req.Reach = inZone(vms, all, spec.Zone)
	}
	result, err := do(ctx, req)
	lb.note(svc.UID, chosen, complete, err)
	if err != nil {
		return nil, err
	}
	if lb.deps.Policy == loadbalancer.PolicyDryRun {
		lb.tellPlan(events, result.Plan)
		return svc.Status.LoadBalancer.DeepCopy(), nil
	}
	return status(svc, spec, result.IP), nil
}

// tellPlan says in an Event what the policy dry-run keeps from being done.
func (lb *loadBalancer) tellPlan(events serviceEvents, plan []loadbalancer.Action) {
	if len(plan) == 0 {
		return
	}
	text := fmt.Sprintf("dry run: %d actions are not done, the first: %s", len(plan), plan[0].Label)
	events.notice(loadbalancer.Notice{Reason: ReasonDryRun, Message: text})
}

// note remembers how a sync ended.
func (lb *loadBalancer) note(uid types.UID, nodes []*corev1.Node, complete bool, err error) {
	lb.mu.Lock()
	defer lb.mu.Unlock()
	delete(lb.doubtful, uid)
	switch {
	case cloudstack.IsKind(err, cloudstack.KindJobFailed) || cloudstack.IsNotFound(err):
		lb.doubtful[uid] = true
	case err == nil && complete:
		lb.synced[uid] = nodesKey(nodes)
	}
}

func (lb *loadBalancer) forget(uid types.UID) {
	lb.mu.Lock()
	delete(lb.synced, uid)
	lb.mu.Unlock()
}

// failed makes an error the framework's, with an Event where the framework's own says too little.
func (lb *loadBalancer) failed(svc *corev1.Service, err error) error {
	if refusal, ok := errors.AsType[*loadbalancer.RefusalError](err); ok {
		serviceEvents{lb.deps.Recorder, svc}.warn(refusal.Reason, refusal.Error())
	}
	if wait, ok := errors.AsType[*loadbalancer.WaitError](err); ok {
		return cpapi.NewRetryError(wait.Message, wait.After)
	}
	return err
}

func (lb *loadBalancer) request(svc *corev1.Service, spec annotation.Spec, members []loadbalancer.Member) loadbalancer.Request {
	return loadbalancer.Request{
		Service: loadbalancer.ServiceOf(svc),
		Spec:    spec,
		Members: members,
		Records: &recordStore{kube: lb.deps.Kube, namespace: svc.Namespace, name: svc.Name, uid: svc.UID},
		Notify:  serviceEvents{lb.deps.Recorder, svc}.notice,
	}
}
