// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	servicehelpers "k8s.io/cloud-provider/service/helpers"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/observe"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// Previewer says what the controller would do for Services. It only reads, from CloudStack and from the API server.
type Previewer struct {
	lb       *loadBalancer
	recorder *noticeRecorder
	cluster  string
}

// NewPreviewer makes a Previewer that decides as a controller with these options and this cloud-config would. It
// makes no call to CloudStack.
func NewPreviewer(ctx context.Context, cfg *cloudstack.Config, o Options, client *cloudstack.Client, kube kubernetes.Interface) (*Previewer, error) {
	p, err := assemble(cfg, o, client)
	if err != nil {
		return nil, err
	}
	p.client = client
	if err := p.readClusterUID(ctx, kube); err != nil {
		return nil, err
	}
	recorder := &noticeRecorder{notices: map[types.UID][]plan.Notice{}}
	return &Previewer{lb: newLoadBalancer(p.loadBalancerDeps(kube, recorder)), recorder: recorder, cluster: p.clusterID()}, nil
}

// ClusterID is the name of the cluster in the tags of what is its own.
func (p *Previewer) ClusterID() string { return p.cluster }

// Service says what would be done for a Service that Handles names, with these Nodes (all of the cluster). A refusal
// is part of the answer; an error means that it could not be found out. Policies are not applied.
func (p *Previewer) Service(ctx context.Context, svc *corev1.Service, nodes []*corev1.Node) (loadbalancer.Preview, error) {
	return p.service(ctx, svc, nodes, time.Time{})
}

// Round previews Services that share what is read of CloudStack: whole lists that were begun since.
type Round struct {
	*Previewer
	Since time.Time
}

// Service is Previewer.Service.
func (r Round) Service(ctx context.Context, svc *corev1.Service, nodes []*corev1.Node) (loadbalancer.Preview, error) {
	return r.service(ctx, svc, nodes, r.Since)
}

// Survey is what CloudStack has in the project of the cloud-config.
type Survey struct {
	VMs       *inventory.VMSnapshot
	Addresses []cloudstack.PublicIP
	Rules     []cloudstack.LoadBalancerRule
	Orphans   []observe.Orphan
}

// Survey reads the lists of the round; living reports whether a Service of the cluster has this UID.
func (r Round) Survey(ctx context.Context, living func(uid string) bool) (out Survey, err error) {
	age := max(time.Nanosecond, r.lb.deps.Clock.Since(r.Since))
	if out.VMs, err = r.lb.deps.Inventory.VMs(ctx, age); err != nil {
		return out, err
	}
	if out.Addresses, out.Rules, err = r.lb.reconciler.Lists(ctx, r.Since); err != nil {
		return out, err
	}
	out.Orphans, err = r.lb.reconciler.Orphans(ctx, r.Since, living)
	return out, err
}

// ProjectID is the project of the cloud-config; "" for the account's own.
func (p *Previewer) ProjectID(ctx context.Context) (string, error) {
	return p.lb.deps.Inventory.ProjectID(ctx)
}

func (p *Previewer) service(ctx context.Context, svc *corev1.Service, nodes []*corev1.Node, since time.Time) (loadbalancer.Preview, error) {
	preview := loadbalancer.Preview{Service: svc.Namespace + "/" + svc.Name, Actions: []plan.Step{}}
	var err error
	if leaves(svc) {
		var req loadbalancer.Request
		if req, err = p.lb.requestOf(ctx, p.lb.workOn(svc, nil)); err == nil { // what cannot be parsed would be deleted all the same
			req.BulkSince = since
			preview, err = p.lb.reconciler.PreviewDelete(ctx, req)
		}
	} else {
		// The way of the controller itself, with another last step.
		_, err = p.lb.sync(ctx, p.lb.workOn(svc, Eligible(nodes)), func(ctx context.Context, req loadbalancer.Request) (loadbalancer.Result, error) {
			var err error
			req.BulkSince = since
			preview, err = p.lb.reconciler.Preview(ctx, req)
			return loadbalancer.Result{}, err
		})
	}
	preview.Notices = append(p.recorder.take(svc.UID), preview.Notices...)
	if refusal, ok := errors.AsType[*plan.RefusalError](err); ok {
		preview.Refusal, err = refusal, nil
	}
	return preview, err
}

// Handles reports whether the controller works on a Service: one that asks for a load balancer of no other class, or
// one that had one and still holds the framework's finalizer.
func Handles(svc *corev1.Service) bool {
	return leaves(svc) || svc.DeletionTimestamp == nil && svc.Spec.Type == corev1.ServiceTypeLoadBalancer && svc.Spec.LoadBalancerClass == nil
}

func leaves(svc *corev1.Service) bool {
	return servicehelpers.HasLBFinalizer(svc) && (svc.DeletionTimestamp != nil || svc.Spec.Type != corev1.ServiceTypeLoadBalancer)
}

// noticeRecorder keeps Events in place of writing them.
type noticeRecorder struct {
	mu      sync.Mutex
	notices map[types.UID][]plan.Notice
}

func (r *noticeRecorder) Event(object runtime.Object, kind, reason, message string) {
	svc, ok := object.(*corev1.Service)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notices[svc.UID] = append(r.notices[svc.UID], plan.Notice{
		Warning: kind == corev1.EventTypeWarning, Reason: plan.Reason(reason), Message: message,
	})
}

func (r *noticeRecorder) take(uid types.UID) []plan.Notice {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer delete(r.notices, uid)
	return r.notices[uid]
}
