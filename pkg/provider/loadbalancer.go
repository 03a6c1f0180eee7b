// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
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
	API         loadbalancer.API
	Inventory   *inventory.Inventory
	Kube        kubernetes.Interface
	Recorder    record.EventRecorder
	ClusterID   func() string
	DriftPeriod time.Duration
	Clock       clock.PassiveClock
}

// loadBalancer adapts the reconciler to the framework.
type loadBalancer struct {
	deps       loadBalancerDeps
	reconciler *loadbalancer.Reconciler

	mu       sync.Mutex
	synced   map[types.UID]string    // the nodes with which a Service was last brought to its desired state
	doubtful map[types.UID]bool      // Services whose last sync failed in CloudStack
	missing  map[types.UID]time.Time // Nodes without VM, and when that was last found out
}

var _ cloudprovider.LoadBalancer = (*loadBalancer)(nil)

func newLoadBalancer(deps loadBalancerDeps) *loadBalancer {
	if deps.Clock == nil {
		deps.Clock = clock.RealClock{}
	}
	lb := &loadBalancer{deps: deps, synced: map[types.UID]string{}, doubtful: map[types.UID]bool{}, missing: map[types.UID]time.Time{}}
	lb.reconciler = loadbalancer.New(deps.API, loadbalancer.Options{
		ClusterID:   deps.ClusterID,
		Project:     deps.Inventory.ProjectID,
		Network:     lb.network,
		DriftPeriod: deps.DriftPeriod,
		Clock:       deps.Clock,
		Log: func(service, message string) {
			klog.V(2).InfoS("Load balancer action", "service", service, "action", message)
		},
	})
	return lb
}

// Collectors are the load balancer's metrics.
func (lb *loadBalancer) Collectors() []prometheus.Collector {
	return []prometheus.Collector{lb.reconciler.Metrics()}
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
	return lb.ensure(ctx, svc, nodes)
}

// UpdateLoadBalancer brings the rules' members to the nodes. With the nodes of the last time it does nothing.
func (lb *loadBalancer) UpdateLoadBalancer(ctx context.Context, _ string, svc *corev1.Service, nodes []*corev1.Node) error {
	lb.mu.Lock()
	last, known := lb.synced[svc.UID]
	lb.mu.Unlock()
	if known && last == nodesKey(nodes) {
		return nil
	}
	_, err := lb.ensure(ctx, svc, nodes)
	return err
}

// EnsureLoadBalancerDeleted removes everything of the Service's from CloudStack.
func (lb *loadBalancer) EnsureLoadBalancerDeleted(ctx context.Context, _ string, svc *corev1.Service) error {
	spec, _ := annotation.Parse(svc) // what cannot be parsed must still be deleted
	lb.forget(svc.UID)
	_, err := lb.reconciler.Delete(ctx, lb.request(svc, spec, nil))
	if err == nil {
		lb.note(svc.UID, nil, false, nil)
	}
	return lb.failed(svc, err)
}

func (lb *loadBalancer) ensure(ctx context.Context, svc *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	events := serviceEvents{lb.deps.Recorder, svc}
	lb.forget(svc.UID)
	spec, err := annotation.Parse(svc)
	if err != nil {
		return nil, lb.failed(svc, &loadbalancer.RefusalError{Reason: loadbalancer.ReasonInvalidAnnotation, Message: err.Error()})
	}
	for _, w := range spec.Warnings {
		events.warn(ReasonSettingWithout, w)
	}
	// What the Service alone decides is decided before anything is read.
	if refusal := loadbalancer.CheckService(facts(svc)); refusal != nil {
		return nil, lb.failed(svc, refusal)
	}
	members, complete, err := lb.members(ctx, svc.UID, nodes, events)
	if err != nil {
		return nil, lb.failed(svc, err)
	}
	if len(nodes) == 0 {
		events.warn(loadbalancer.ReasonNoBackends, "no node is eligible; the rules have no members, and nobody is served")
	}
	result, err := lb.reconciler.Ensure(ctx, lb.request(svc, spec, members))
	lb.note(svc.UID, nodes, complete, err)
	if err != nil {
		return nil, lb.failed(svc, err)
	}
	return status(svc, spec, result.IP), nil
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
		Service: facts(svc),
		Spec:    spec,
		Members: members,
		Records: &recordStore{kube: lb.deps.Kube, namespace: svc.Namespace, name: svc.Name, uid: svc.UID},
		Notify:  serviceEvents{lb.deps.Recorder, svc}.notice,
	}
}

func (lb *loadBalancer) network(ctx context.Context, id string) (loadbalancer.Network, error) {
	n, err := lb.deps.Inventory.Network(ctx, id, networkAge)
	if err != nil {
		return loadbalancer.Network{}, err
	}
	out := loadbalancer.Network{
		ID: n.ID, Name: n.Name, VPCID: n.VPCID, Type: n.Type,
		LoadBalancer: n.HasService("Lb"), Firewall: n.HasService("Firewall"), DNS: n.HasService("Dns"),
	}
	if providers := n.ServiceProviders["Lb"]; len(providers) > 0 {
		out.Provider = providers[0]
	}
	return out, nil
}

// facts is what the planner needs of a Service.
func facts(svc *corev1.Service) loadbalancer.Service {
	out := loadbalancer.Service{UID: string(svc.UID), Namespace: svc.Namespace, Name: svc.Name, LB: cloudprovider.DefaultLoadBalancerName(svc)}
	for _, p := range svc.Spec.Ports {
		out.Ports = append(out.Ports, loadbalancer.Port{Name: p.Name, Protocol: string(p.Protocol), Port: int(p.Port), NodePort: int(p.NodePort)})
	}
	for _, i := range svc.Status.LoadBalancer.Ingress {
		if i.IP != "" {
			out.StatusIPs = append(out.StatusIPs, i.IP)
		}
	}
	return out
}

// status is what the Service shows. A hostname stands in place of the address,
// so that kube-proxy does not take a short cut. With the PROXY protocol the
// mode Proxy says the same of the address.
func status(svc *corev1.Service, spec annotation.Spec, ip string) *corev1.LoadBalancerStatus {
	ingress := corev1.LoadBalancerIngress{Hostname: spec.Hostname}
	if spec.Hostname == "" {
		if ip == "" {
			return &corev1.LoadBalancerStatus{}
		}
		mode := corev1.LoadBalancerIPModeVIP
		if spec.ProxyProtocol.Any() {
			mode = corev1.LoadBalancerIPModeProxy
		}
		ingress.IP, ingress.IPMode = ip, &mode
	}
	for _, p := range svc.Spec.Ports {
		protocol := p.Protocol
		if protocol == "" {
			protocol = corev1.ProtocolTCP
		}
		ingress.Ports = append(ingress.Ports, corev1.PortStatus{Port: p.Port, Protocol: protocol})
	}
	return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{ingress}}
}
