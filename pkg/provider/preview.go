// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	servicehelpers "k8s.io/cloud-provider/service/helpers"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer"
)

// Previewer says what the controller would do for Services. It reads from CloudStack and the cluster, and writes
// to neither.
type Previewer struct {
	lb       *loadBalancer
	recorder *noticeRecorder
	cluster  string
}

// NewPreviewer makes a Previewer of the controller with these settings. It makes no call. What it watches in the
// cluster, for externalTrafficPolicy Local, is watched until stop is closed.
func NewPreviewer(cfg *cloudstack.Config, o Options, kube kubernetes.Interface, stop <-chan struct{}, clientOptions ...cloudstack.Option) (*Previewer, error) {
	p, err := New(cfg, o, clientOptions...)
	if err != nil {
		return nil, err
	}
	recorder := &noticeRecorder{notices: map[types.UID][]loadbalancer.Notice{}}
	out := &Previewer{lb: newLoadBalancer(p.loadBalancerDeps(kube, recorder)), recorder: recorder, cluster: p.clusterID()}
	out.lb.endpoints.run(stop)
	return out, nil
}

// ClusterID is the name of the cluster in the tags of what is its own.
func (p *Previewer) ClusterID() string { return p.cluster }

// Preview says what would be done for a Service that Concerned names. Nodes are all Nodes of the cluster. A Service
// that would be refused is no error: the Preview says why.
func (p *Previewer) Preview(ctx context.Context, svc *corev1.Service, nodes []*corev1.Node) (loadbalancer.Preview, error) {
	preview := loadbalancer.Preview{Service: svc.Namespace + "/" + svc.Name, Actions: []loadbalancer.Action{}}
	var err error
	if leaves(svc) {
		spec, _ := annotation.Parse(svc) // what cannot be parsed would be deleted all the same
		preview, err = p.lb.reconciler.PreviewDelete(ctx, p.lb.request(svc, spec, nil))
	} else {
		// The way of the controller itself, with another last step.
		_, err = p.lb.sync(ctx, svc, filterNodes(nodes, eligible), func(ctx context.Context, req loadbalancer.Request) (loadbalancer.Result, error) {
			var err error
			preview, err = p.lb.reconciler.Preview(ctx, req)
			return loadbalancer.Result{}, err
		})
	}
	preview.Notices = append(p.recorder.take(svc.UID), preview.Notices...)
	if refusal, ok := errors.AsType[*loadbalancer.RefusalError](err); ok {
		preview.Refusal, err = refusal, nil
	}
	return preview, err
}

// Concerned tells whether the controller works on a Service: one that asks for a load balancer of no other class, or
// one that had one and still holds the framework's finalizer.
func Concerned(svc *corev1.Service) bool {
	return leaves(svc) || svc.DeletionTimestamp == nil && svc.Spec.Type == corev1.ServiceTypeLoadBalancer && svc.Spec.LoadBalancerClass == nil
}

func leaves(svc *corev1.Service) bool {
	return servicehelpers.HasLBFinalizer(svc) && (svc.DeletionTimestamp != nil || svc.Spec.Type != corev1.ServiceTypeLoadBalancer)
}

// autoscalerTaint is on Nodes that the cluster autoscaler is about to remove.
const autoscalerTaint = "ToBeDeletedByClusterAutoscaler"

// eligible tells whether the framework gives a Node to the provider as a backend. The framework keeps its own
// function to itself.
func eligible(n *corev1.Node) bool {
	if v, labelled := n.Labels[corev1.LabelNodeExcludeBalancers]; labelled {
		if excluded, err := strconv.ParseBool(v); err != nil || excluded {
			return false
		}
	}
	for _, t := range n.Spec.Taints {
		if t.Key == autoscalerTaint {
			return false
		}
	}
	return n.DeletionTimestamp.IsZero()
}

// noticeRecorder keeps Events in place of writing them.
type noticeRecorder struct {
	mu      sync.Mutex
	notices map[types.UID][]loadbalancer.Notice
}

func (r *noticeRecorder) Event(object runtime.Object, kind, reason, message string) {
	svc, ok := object.(*corev1.Service)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notices[svc.UID] = append(r.notices[svc.UID], loadbalancer.Notice{
		Warning: kind == corev1.EventTypeWarning, Reason: loadbalancer.Reason(reason), Message: message,
	})
}

func (r *noticeRecorder) Eventf(object runtime.Object, kind, reason, format string, args ...any) {
	r.Event(object, kind, reason, fmt.Sprintf(format, args...))
}

func (r *noticeRecorder) AnnotatedEventf(object runtime.Object, _ map[string]string, kind, reason, format string, args ...any) {
	r.Eventf(object, kind, reason, format, args...)
}

func (r *noticeRecorder) take(uid types.UID) []loadbalancer.Notice {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer delete(r.notices, uid)
	return r.notices[uid]
}
