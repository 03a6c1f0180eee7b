// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer"
)

// taintBeingDeleted is the cluster autoscaler's mark on a node that goes.
const taintBeingDeleted = "ToBeDeletedByClusterAutoscaler"

// Previewer says what the controller would do for Services. It only reads, from CloudStack and from the API server.
type Previewer struct{ lb *loadBalancer }

// NewPreviewer makes a Previewer that decides as a controller with these options and this cloud-config would.
func NewPreviewer(cfg *cloudstack.Config, o Options, client *cloudstack.Client, kube kubernetes.Interface) (*Previewer, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	p, err := assemble(cfg, o, client)
	if err != nil {
		return nil, err
	}
	p.client = client
	return &Previewer{newLoadBalancer(loadBalancerDeps{
		API: loadbalancer.FromClient(client), Inventory: p.inventory, InventoryOf: p.inventoryOf, Kube: kube, Recorder: noEvents{},
		ClusterID: p.clusterID, DriftPeriod: p.options.DriftPeriod, LeaveACLs: !o.ManageNetworkACLs, Clock: p.options.Clock,
	})}, nil
}

// Service says what would be done for a Service with these Nodes (all of the cluster). A refusal is part of the
// answer; an error means that it could not be found out.
func (p *Previewer) Service(ctx context.Context, svc *corev1.Service, nodes []*corev1.Node) (loadbalancer.Preview, error) {
	out := loadbalancer.Preview{Service: svc.Namespace + "/" + svc.Name, Actions: []loadbalancer.Action{}}
	var notices []loadbalancer.Notice
	_, err := p.lb.sync(ctx, svc, eligible(nodes), func(ctx context.Context, req loadbalancer.Request) (loadbalancer.Result, error) {
		preview, err := p.lb.reconciler.Preview(ctx, req)
		notices, out = append(notices, preview.Notices...), preview
		return loadbalancer.Result{}, err
	})
	out.Notices = notices
	if errors.As(err, &out.Refusal) {
		return out, nil
	}
	return out, err
}

// Handles tells whether a Service is one for this controller.
func Handles(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeLoadBalancer && svc.Spec.LoadBalancerClass == nil && svc.DeletionTimestamp == nil
}

// eligible are the nodes that the framework would hand to the controller.
func eligible(nodes []*corev1.Node) []*corev1.Node {
	return filterNodes(nodes, func(n *corev1.Node) bool {
		_, excluded := n.Labels[corev1.LabelNodeExcludeBalancers]
		leaving := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taintBeingDeleted })
		return !excluded && !leaving && n.DeletionTimestamp.IsZero()
	})
}

// noEvents drops all Events.
type noEvents struct{}

var _ record.EventRecorder = noEvents{}

func (noEvents) Event(runtime.Object, string, string, string)          {}
func (noEvents) Eventf(runtime.Object, string, string, string, ...any) {}
func (noEvents) AnnotatedEventf(runtime.Object, map[string]string, string, string, string, ...any) {
}
