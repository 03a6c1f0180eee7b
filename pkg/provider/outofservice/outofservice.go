// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package outofservice has Kubernetes detach the volumes of Nodes whose VMs are down. A Pod of a StatefulSet does not
// start elsewhere while its volume is attached to the lost Node; Kubernetes waits six minutes before it detaches one
// without the kubelet's word. The taint node.kubernetes.io/out-of-service says that the Node is down for certain: its
// Pods are deleted and its volumes detached at once (Kubernetes 1.28 and newer). The taint is only set where CloudStack
// says twice, by the VM's id and in a complete list, that the VM is stopped or gone.
package outofservice

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/provider/event"
)

const (
	// period is the time between two looks at the Nodes, which are in memory: a look calls nobody while every Node is Ready.
	period = 5 * time.Second
	// lastRetry is the longest wait before a VM that runs is asked about again.
	lastRetry = 30 * time.Second
	// holdLimit is how long the deletion of a Node waits for its volumes to be detached.
	holdLimit = 2 * time.Minute
)

// oldest is the first minor of Kubernetes in which the taint detaches volumes without a feature gate.
var oldest = version.MustParseGeneric("1.28")

// Controller sets the taint and removes it. All fields but Scope and Percent are required.
type Controller struct {
	Kube kubernetes.Interface
	// Nodes returns the Nodes in the informer's cache; its objects are shared and must not be changed.
	Nodes func() ([]*corev1.Node, error)
	// Down reports whether the Node's VM is proven to be stopped or gone, and its state. Any doubt is false or an error.
	Down func(ctx context.Context, n *corev1.Node) (state string, down bool, err error)
	// Running reports whether the Node's VM runs.
	Running func(ctx context.Context, n *corev1.Node) (bool, error)
	Scope   Scope
	// Percent of the Nodes may be out of service at the same time.
	Percent int
	Events  *event.Nodes
	Metrics *Metrics
	Clock   clock.WithTicker

	waiting map[types.UID]wait

	mu    sync.Mutex
	holds map[types.UID]time.Time // when the deletion of a Node was first held
}

// wait is when a Node is looked at again, and how long the last wait was.
type wait struct {
	until time.Time
	last  time.Duration
}

// Run works until the context ends.
func (c *Controller) Run(ctx context.Context) {
	ticker := c.Clock.NewTicker(period)
	defer ticker.Stop()
	supported := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			if !supported {
				var old bool
				if supported, old = c.supported(); old {
					return
				}
			}
			if supported {
				c.look(ctx)
			}
		}
	}
}

// supported asks the API server for its version; old is set where it does not know the taint.
func (c *Controller) supported() (ok, old bool) {
	info, err := c.Kube.Discovery().ServerVersion()
	if err != nil {
		return false, false
	}
	v, err := version.ParseGeneric(info.GitVersion)
	if err == nil && v.LessThan(oldest) {
		klog.InfoS("Nodes whose VMs are down do not get the taint "+corev1.TaintNodeOutOfService+": Kubernetes is too old", "version", info.GitVersion, "oldest", oldest.String())
		return false, true
	}
	return true, false
}

func (c *Controller) look(ctx context.Context) {
	nodes, err := c.Nodes()
	if err != nil {
		return // the cache is not filled yet
	}
	w := Judge(nodes, c.Scope, c.Percent)
	c.Metrics.outOfService.Set(float64(countOurs(nodes)))
	c.forget(nodes, w.Down)
	for _, n := range w.Back {
		c.back(ctx, n)
	}
	for _, n := range w.Down {
		if ctx.Err() != nil {
			return
		}
		if c.Clock.Now().Before(c.waiting[n.UID].until) {
			continue
		}
		if w.Room == 0 {
			c.Events.WarnOnce(n, event.OutOfServiceRefused, "the node is not Ready, and too many others are out of service already: its VM is not looked at, and its volumes stay attached")
			continue
		}
		if c.down(ctx, n) {
			w.Room--
		} else {
			c.later(n)
		}
	}
}

// down sets the taint on a Node whose VM is proven to be down.
func (c *Controller) down(ctx context.Context, n *corev1.Node) (done bool) {
	state, down, err := c.Down(ctx, n)
	if err != nil {
		klog.V(2).InfoS("It is not known whether a node that is not Ready is down; it is asked again", "node", n.Name, "err", err)
	}
	if err != nil || !down {
		return false
	}
	taint := corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: TaintValue, Effect: corev1.TaintEffectNoExecute}
	annotations := maps.Clone(n.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[AnnotationSince] = c.Clock.Now().UTC().Format(time.RFC3339)
	if !c.patch(ctx, n, append(slices.Clone(n.Spec.Taints), taint), annotations) {
		return false
	}
	c.Metrics.taints.Inc()
	c.Events.Warn(n, event.NodeOutOfService, fmt.Sprintf(
		"the VM is %s, by its id and in the list of VMs, and the node is not Ready: set the taint %s; Kubernetes deletes the node's Pods and detaches their volumes", state, corev1.TaintNodeOutOfService))
	return true
}

// back removes the taint from a Node that is Ready and whose VM runs.
func (c *Controller) back(ctx context.Context, n *corev1.Node) {
	if running, err := c.Running(ctx, n); err != nil || !running {
		return
	}
	annotations := maps.Clone(n.Annotations)
	delete(annotations, AnnotationSince)
	if c.patch(ctx, n, slices.DeleteFunc(slices.Clone(n.Spec.Taints), isTaint), annotations) {
		c.Events.Tell(n, event.NodeInService, "the node is Ready and its VM runs: removed the taint "+corev1.TaintNodeOutOfService)
	}
}

// patch writes taints and annotations, unless the Node has changed meanwhile.
func (c *Controller) patch(ctx context.Context, n *corev1.Node, taints []corev1.Taint, annotations map[string]string) bool {
	patch, err := node.TaintPatch(n, taints, annotations)
	if err == nil {
		_, err = c.Kube.CoreV1().Nodes().Patch(ctx, n.Name, types.JSONPatchType, patch, metav1.PatchOptions{})
	}
	switch {
	case err == nil:
		return true
	case apierrors.IsConflict(err), apierrors.IsInvalid(err), apierrors.IsNotFound(err): // changed since it was read: a failed test is "invalid"
	default:
		klog.ErrorS(err, "Cannot change the taint of a node; it is tried again", "node", n.Name, "taint", corev1.TaintNodeOutOfService)
	}
	return false
}

// Holds reports whether the deletion of a Node whose VM is gone has to wait: with the Node its taint would go, and
// Kubernetes would then wait six minutes before it detaches the volumes. It never waits longer than two minutes.
func (c *Controller) Holds(n *corev1.Node) bool {
	if len(n.Status.VolumesAttached) == 0 || !Ours(n) && !candidate(n, c.Scope) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	first, ok := c.holds[n.UID]
	if !ok {
		first = c.Clock.Now()
		if c.holds == nil {
			c.holds = map[types.UID]time.Time{}
		}
		c.holds[n.UID] = first
	}
	return c.Clock.Since(first) < holdLimit
}

// later lets a Node wait, longer each time.
func (c *Controller) later(n *corev1.Node) {
	if c.waiting == nil {
		c.waiting = map[types.UID]wait{}
	}
	next := min(max(2*c.waiting[n.UID].last, period), lastRetry)
	c.waiting[n.UID] = wait{c.Clock.Now().Add(next), next}
}

// forget drops what is remembered of Nodes that are no candidates any more, or gone.
func (c *Controller) forget(nodes, down []*corev1.Node) {
	maps.DeleteFunc(c.waiting, func(uid types.UID, _ wait) bool { return !contains(down, uid) })
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.holds, func(uid types.UID, _ time.Time) bool { return !contains(nodes, uid) })
}

func contains(nodes []*corev1.Node, uid types.UID) bool {
	return slices.ContainsFunc(nodes, func(n *corev1.Node) bool { return n.UID == uid })
}

func countOurs(nodes []*corev1.Node) (count int) {
	for _, n := range nodes {
		if Ours(n) {
			count++
		}
	}
	return count
}

// Metrics are those of the taint.
type Metrics struct {
	outOfService prometheus.Gauge
	taints       prometheus.Counter
}

// NewMetrics returns metrics that count from zero.
func NewMetrics() *Metrics {
	return &Metrics{
		outOfService: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "cloudstack_nodes_out_of_service",
			Help: "Number of Nodes that have the taint node.kubernetes.io/out-of-service from the controller: their VMs are stopped or gone.",
		}),
		taints: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "cloudstack_node_out_of_service_taints_total",
			Help: "Number of times a Node got the taint node.kubernetes.io/out-of-service.",
		}),
	}
}

// All returns the metrics, to be registered.
func (m *Metrics) All() []prometheus.Collector {
	return []prometheus.Collector{m.outOfService, m.taints}
}
