// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/node/failover"
)

// OutOfService selects the Nodes that may get the taint node.kubernetes.io/out-of-service.
type OutOfService string

// Values of OutOfService. OutOfServiceWorkers excludes the control plane: its Pods are static or bound to their Node,
// so evicting them gains nothing.
const (
	OutOfServiceOff     OutOfService = "off"
	OutOfServiceWorkers OutOfService = "workers"
	OutOfServiceAll     OutOfService = "all"
)

// ParseOutOfService parses the value of --out-of-service-taint; the empty text is OutOfServiceWorkers.
func ParseOutOfService(text string) (OutOfService, error) {
	return oneOf("node set", text, OutOfServiceWorkers, OutOfServiceAll, OutOfServiceOff)
}

// AnnotationOutOfServiceSince is the time when the controller set the taint. The controller removes the taint only from
// Nodes with this annotation.
const AnnotationOutOfServiceSince = "csccm.io/out-of-service-since"

const (
	// holdLimit is the longest time for which a Node is kept until its volumes are detached.
	holdLimit = 2 * time.Minute
	// fewOutOfService is the number of Nodes that may be out of service whatever the percentage. The guard allows as
	// many to be deleted.
	fewOutOfService = 2
)

// outOfService makes Kubernetes detach the volumes of Nodes whose VMs are down. A Pod of a StatefulSet does not start
// elsewhere while its volume is attached to the lost Node, and Kubernetes waits six minutes before it detaches a volume
// without the kubelet. With the taint node.kubernetes.io/out-of-service it deletes the Pods and detaches the volumes at
// once. The taint is set only if CloudStack shows the VM as stopped or gone twice: by its ID and in a complete list.
type outOfService struct {
	*Nodes
	backoff *flowcontrol.Backoff
	taints  prometheus.Counter
	delays  *utilcache.Expiring // time of the first delayed deletion, by UID of the Node
}

func newOutOfService(m *Nodes) *outOfService {
	return &outOfService{
		Nodes:   m,
		backoff: newBackoff(m.Clock, lookPeriod, 30*time.Second),
		delays:  utilcache.NewExpiringWithClock(m.Clock),
		taints: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "cloudstack_node_out_of_service_taints_total",
			Help: "Number of times a Node got the taint node.kubernetes.io/out-of-service.",
		}),
	}
}

func (o *outOfService) look(ctx context.Context) {
	nodes, err := o.List()
	if err != nil {
		return // the cache is not filled yet
	}

	down, back, room := judgeOutOfService(nodes, o.OutOfService, o.Limit.Percent)
	for _, n := range back {
		o.remove(ctx, n)
	}

	for _, n := range due(o.backoff, nodes, down) {
		switch {
		case ctx.Err() != nil:
			return
		case room == 0:
			o.events.warnOnce(n, ReasonOutOfServiceRefused,
				"the node is not Ready, and too many others are out of service already: its VM is not checked, and "+
					"its volumes stay attached")
		case o.add(ctx, n):
			room--
		default:
			o.backoff.Next(string(n.UID), o.Clock.Now())
		}
	}
}

// judgeOutOfService returns the Nodes whose VMs may be down, the Nodes with our taint that may be up again, and how
// many more may get the taint: percent of the Nodes may have it, two in any case, but never all.
func judgeOutOfService(nodes []*corev1.Node, scope OutOfService, percent int) (down, back []*corev1.Node, room int) {
	tainted := 0
	for _, n := range nodes {
		if failover.Tainted(n, corev1.TaintNodeOutOfService) {
			tainted++
			if isOutOfService(n) && Ready(n) {
				back = append(back, n)
			}
		} else if maybeOutOfService(n, scope) {
			down = append(down, n)
		}
	}
	limit := max(fewOutOfService, percent*len(nodes)/100)
	return down, back, max(0, min(limit, len(nodes)-1)-tainted)
}

// maybeOutOfService reports whether a Node could get the taint: it is in scope, initialised, a VM of CloudStack, and
// not Ready.
func maybeOutOfService(n *corev1.Node, scope OutOfService) bool {
	return scope != OutOfServiceOff && !Ready(n) && HasVMID(n) && !HasTaint(n) &&
		(scope == OutOfServiceAll || !ControlPlane(n))
}

// isOutOfService reports whether a Node has the taint from csccm.
func isOutOfService(n *corev1.Node) bool {
	return failover.Tainted(n, corev1.TaintNodeOutOfService) && n.Annotations[AnnotationOutOfServiceSince] != ""
}

// add sets the taint on a Node whose VM is proven to be down.
func (o *outOfService) add(ctx context.Context, n *corev1.Node) bool {
	state, err := o.down(ctx, n)
	if err != nil {
		klog.V(2).InfoS("Cannot find out whether a node that is not Ready is down; trying again", "node", n.Name,
			"err", err)
	}

	if err != nil || state == "" {
		return false
	}

	// The value and the effect are those of Kubernetes' documentation.
	taint := corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}
	if !o.setTaints(ctx, n, append(slices.Clone(n.Spec.Taints), taint), AnnotationOutOfServiceSince, true) {
		return false
	}

	o.taints.Inc()
	o.events.warn(n, ReasonOutOfService, fmt.Sprintf(
		"the VM is %s, by its id and in the list of VMs, and the node is not Ready: set the taint %s; Kubernetes "+
			"deletes the node's Pods and detaches their volumes", state, corev1.TaintNodeOutOfService))
	return true
}

// remove removes the taint from a Node that is Ready if its VM runs.
func (o *outOfService) remove(ctx context.Context, n *corev1.Node) {
	if vm, err := o.find(ctx, n); err != nil || vm.State != cloudstack.VMRunning {
		return
	}
	taints := slices.DeleteFunc(slices.Clone(n.Spec.Taints),
		func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
	if o.setTaints(ctx, n, taints, AnnotationOutOfServiceSince, false) {
		o.events.normal(n, ReasonInService,
			"the node is Ready and its VM runs: removed the taint "+corev1.TaintNodeOutOfService)
	}
}

// hold reports whether the deletion of a Node whose VM is gone has to wait until its volumes are detached, for
// holdLimit at most. Once the Node and its taint are deleted, Kubernetes waits six minutes before it detaches them.
func (o *outOfService) hold(n *corev1.Node) bool {
	if o.OutOfService == OutOfServiceOff ||
		len(n.Status.VolumesAttached) == 0 ||
		!isOutOfService(n) && !maybeOutOfService(n, o.OutOfService) {
		return false
	}
	now := o.Clock.Now()
	delayed, _ := o.delays.Get(n.UID)
	first, ok := delayed.(time.Time)
	if !ok {
		first = now
		o.delays.Set(n.UID, now, time.Hour)
	}
	return now.Sub(first) < holdLimit
}
