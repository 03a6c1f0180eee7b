// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/provider/backoff"
	"github.com/csccm/csccm/pkg/provider/failover"
)

// endpointSyncTimeout is how long the first Service with externalTrafficPolicy Local waits for the list of endpoints.
const endpointSyncTimeout = time.Minute

var errNoEndpoints = errors.New("the EndpointSlices are not read yet")

// choose narrows the nodes down to those that serve: those that are not about to be deleted, by the node selector, and for externalTrafficPolicy
// Local to those with endpoints, as the router has no health check that could tell.
func (lb *loadBalancer) choose(ctx context.Context, svc *corev1.Service, spec annotation.Spec, nodes []*corev1.Node) ([]*corev1.Node, error) {
	out := filterNodes(selected(spec, nodes), func(n *corev1.Node) bool { return !failover.Leaving(n) })
	if svc.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		return out, nil
	}
	with, err := lb.endpoints.nodesOf(ctx, lb.deps.Kube, svc)
	if err != nil {
		return nil, fmt.Errorf("find the nodes with endpoints: %w", err)
	}
	return filterNodes(out, func(n *corev1.Node) bool { return with[n.Name] }), nil
}

// selected are the nodes that the Service's own selector leaves.
func selected(spec annotation.Spec, nodes []*corev1.Node) []*corev1.Node {
	if spec.NodeSelector == nil {
		return nodes
	}
	return filterNodes(nodes, func(n *corev1.Node) bool { return spec.NodeSelector.Matches(labels.Set(n.Labels)) })
}

func filterNodes(nodes []*corev1.Node, want func(*corev1.Node) bool) []*corev1.Node {
	out := make([]*corev1.Node, 0, len(nodes))
	for _, n := range nodes {
		if want(n) {
			out = append(out, n)
		}
	}
	return out
}

// whyNone says why no node is chosen; empty when one is.
func (lb *loadBalancer) whyNone(svc *corev1.Service, spec annotation.Spec, nodes, chosen []*corev1.Node) string {
	switch {
	case len(chosen) > 0:
		return ""
	case len(Eligible(nodes)) == 0:
		return lb.noneEligible()
	case len(selected(spec, nodes)) == 0:
		return "no node matches " + annotation.NodeSelector
	case svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal:
		return "externalTrafficPolicy is Local and no node has a ready endpoint"
	default:
		return "no node is chosen"
	}
}

// noneEligible says why Kubernetes gives us no node at all.
func (lb *loadBalancer) noneEligible() string {
	const none = "no node is eligible"
	nodes, err := lb.deps.Nodes()
	switch {
	case err != nil:
		return none
	case len(nodes) == 0:
		return "the cluster has no nodes yet"
	}
	excluded, going := 0, 0
	for _, n := range nodes {
		switch {
		case failover.Leaving(n):
			going++
		case len(Eligible([]*corev1.Node{n})) == 0:
			excluded++
		}
	}
	var why []string
	if excluded > 0 {
		why = append(why, fmt.Sprintf("%d with the label %s", excluded, corev1.LabelNodeExcludeBalancers))
	}
	if going > 0 {
		why = append(why, fmt.Sprintf("%d about to be deleted", going))
	}
	if excluded+going < len(nodes) { // the list of the sync was older
		return none
	}
	return fmt.Sprintf("%s: of %d in the cluster, %s", none, len(nodes), strings.Join(why, ", "))
}

// endpointCache watches EndpointSlices from the first Service on that needs them: most clusters never do.
type endpointCache struct {
	changed func(namespace, service string)
	stop    chan struct{} // closed when the controller ends

	begin  sync.Once
	lister discoverylisters.EndpointSliceLister
	synced cache.InformerSynced
}

func (c *endpointCache) start(kube kubernetes.Interface) {
	factory := informers.NewSharedInformerFactory(kube, 0)
	endpointSlices := factory.Discovery().V1().EndpointSlices()
	handle := func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if s, ok := obj.(*discoveryv1.EndpointSlice); ok {
			c.changed(s.Namespace, s.Labels[discoveryv1.LabelServiceName])
		}
	}
	// The only errors are those of an informer that was started, and this one is new.
	_ = endpointSlices.Informer().SetTransform(cachedSlice)
	_, _ = endpointSlices.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: handle, UpdateFunc: func(_, now any) { handle(now) }, DeleteFunc: handle,
	})
	c.lister, c.synced = endpointSlices.Lister(), endpointSlices.Informer().HasSynced
	factory.Start(c.stop)
}

// nodesOf are the names of the nodes with endpoints of a Service that take traffic: ready ones, or, when there
// is none, those that still serve while they end, as kube-proxy has it.
func (c *endpointCache) nodesOf(ctx context.Context, kube kubernetes.Interface, svc *corev1.Service) (map[string]bool, error) {
	c.begin.Do(func() { c.start(kube) })
	ctx, cancel := context.WithTimeout(ctx, endpointSyncTimeout)
	defer cancel()
	if !cache.WaitForCacheSync(ctx.Done(), c.synced) {
		return nil, errNoEndpoints
	}
	list, err := c.lister.EndpointSlices(svc.Namespace).List(labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: svc.Name}))
	if err != nil {
		return nil, err
	}
	ready, ending := map[string]bool{}, map[string]bool{}
	for _, s := range list {
		if s.AddressType != discoveryv1.AddressTypeIPv4 {
			continue
		}
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			if e.NodeName == nil {
				continue
			}
			switch {
			case ptr.Deref(e.Conditions.Ready, true):
				ready[*e.NodeName] = true
			case ptr.Deref(e.Conditions.Serving, false) && ptr.Deref(e.Conditions.Terminating, false):
				ending[*e.NodeName] = true
			}
		}
	}
	if len(ready) == 0 {
		return ending, nil
	}
	return ready, nil
}

// current returns the Nodes as the framework's cache has them now. The framework hands out Nodes when something
// changes that it knows of; labels that a node selector names are not among that. A Node that is gone stays as it was:
// the framework reports it soon.
func (lb *loadBalancer) current(nodes []*corev1.Node) []*corev1.Node {
	all, err := lb.deps.Nodes()
	if err != nil {
		return nodes // the cache is not filled yet
	}
	byUID := make(map[types.UID]*corev1.Node, len(all))
	for _, n := range all {
		byUID[n.UID] = n
	}
	out := make([]*corev1.Node, 0, len(nodes))
	for _, n := range nodes {
		if now, ok := byUID[n.UID]; ok && now.Name == n.Name {
			n = now
		}
		out = append(out, n)
	}
	return out
}

// leavingChanged syncs all Services when a Node is about to be deleted, or not any more: the framework waits until it is
// gone, and until then the load balancer would send clients to a VM that the cluster autoscaler has deleted.
func (lb *loadBalancer) leavingChanged(was, is *corev1.Node) {
	if failover.Leaving(was) == failover.Leaving(is) {
		return
	}
	back := len(Eligible([]*corev1.Node{is})) > 0
	lb.mu.Lock()
	defer lb.mu.Unlock()
	for uid, s := range lb.known {
		// The framework leaves the Node out of a sync for another reason meanwhile, and does not notice that it stays.
		if back && !slices.ContainsFunc(s.nodes, func(n *corev1.Node) bool { return n.UID == is.UID }) {
			s.nodes = append(slices.Clip(s.nodes), is)
		}
		lb.wakeForNodes(uid, s)
	}
}

// wakeForNodes syncs a Service soon since its nodes have changed. One whose last sync failed because of its nodes is
// synced now; after other failures the next attempt has the new ones.
func (lb *loadBalancer) wakeForNodes(uid types.UID, s *serviceState) {
	if wait, ok := lb.backoff.Wake(uid, func(err error) bool { return backoff.TriggerOf(err) == backoff.ByNodes }); ok {
		lb.wakeups.AddAfter(uid, wait)
	} else if s.settled {
		lb.wakeups.AddAfter(uid, endpointPause)
	}
}

// labelsChanged syncs the Services whose node selector matches only one of the two sets of labels of a Node.
func (lb *loadBalancer) labelsChanged(was, is map[string]string) {
	if maps.Equal(was, is) {
		return
	}
	lb.mu.Lock()
	defer lb.mu.Unlock()
	for uid, s := range lb.known {
		if s.service.Annotations[annotation.NodeSelector] == "" {
			continue
		}
		spec, err := annotation.Parse(s.service)
		if err != nil || spec.NodeSelector == nil || spec.NodeSelector.Matches(labels.Set(was)) == spec.NodeSelector.Matches(labels.Set(is)) {
			continue
		}
		lb.wakeForNodes(uid, s)
	}
}
