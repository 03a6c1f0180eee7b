// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/inventory"
)

// Deps are the dependencies and settings of Nodes.
type Deps struct {
	VMs *inventory.Inventory
	// List returns the Nodes in the informer's cache; its objects are shared and must not be changed.
	List func() ([]*corev1.Node, error)
	// Metadata are the options of Metadata for every Node; its field Node is not used.
	Metadata     Options
	Limit        DeletionLimit
	OutOfService OutOfService
	// Adopt enables the initialisation of Nodes that joined without the taint TaintKey.
	Adopt bool
	Clock clock.WithTicker
}

// Nodes implements cloudprovider.InstancesV2, and runs the controllers of Nodes that the framework does not have.
type Nodes struct {
	Deps
	kube         kubernetes.Interface // nil before Start
	guard        *guard
	events       *events
	outOfService *outOfService
	// refused counts refused deletions.
	refused prometheus.Counter
}

var _ cloudprovider.InstancesV2 = (*Nodes)(nil)

// New returns Nodes that write no Events before Start.
func New(d Deps) *Nodes {
	n := &Nodes{Deps: d, events: newEvents(d.Clock)}
	n.guard = &guard{Deps: &n.Deps, deleted: map[string]time.Time{}}
	n.outOfService = newOutOfService(n)
	n.refused = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "cloudstack_node_deletions_refused_total",
		Help: "Number of times a Node was not deleted because too many Nodes had lost their VMs at once.",
	})
	return n
}

// Start runs the controllers until the context ends. It is called before the framework's controllers start.
func (m *Nodes) Start(ctx context.Context, kube kubernetes.Interface, recorder record.EventRecorder) {
	m.events.recorder, m.kube = recorder, kube
	if m.OutOfService != OutOfServiceOff {
		go every(ctx, m.Clock, m.outOfService.look)
	}
	if m.Adopt {
		go every(ctx, m.Clock, newAdoption(m).look)
	}
}

// Metrics returns the metrics of Nodes, to be registered. A scrape makes no call.
func (m *Nodes) Metrics() []prometheus.Collector {
	gauge := func(name, help string, value func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return float64(value()) })
	}
	return []prometheus.Collector{
		m.refused, m.outOfService.taints,
		gauge("cloudstack_node_deletions_blocked",
			"1 while Nodes are not deleted because too many have lost their VMs at once: look at the credentials and "+
				"the project.", m.guard.blocked),
		gauge("cloudstack_nodes_without_vm",
			"Number of Nodes with a CloudStack provider ID whose VM is not in the last complete list of VMs.",
			m.withoutVM),
		gauge("cloudstack_nodes_out_of_service",
			"Number of Nodes that have the taint node.kubernetes.io/out-of-service from the controller: their VMs "+
				"are stopped or gone.", m.countOutOfService),
	}
}

func (m *Nodes) withoutVM() int {
	s := m.VMs.LastVMs()
	nodes, err := m.List()
	if s == nil || err != nil {
		return 0
	}
	missing, _ := withoutVM(s, nodes)
	return len(missing)
}

func (m *Nodes) countOutOfService() (count int) {
	nodes, _ := m.List() // none while the cache is not filled
	for _, n := range nodes {
		if isOutOfService(n) {
			count++
		}
	}
	return count
}

// The maximum age of a list of VMs. All callers share a list until it is too old, so the number of calls does not grow
// with the number of Nodes.
const (
	// VMAge is for a VM that is found in the list.
	VMAge = 30 * time.Second
	// MissAge is for a VM that is not found: it may be newer than the list. It is also the shortest time between two
	// lists that unknown Nodes can cause.
	MissAge = 3 * time.Second
)

// lookPeriod is the time between two checks of the Nodes. They are read from the informer's cache; no API is called
// while every Node is healthy.
const lookPeriod = 5 * time.Second

// every calls look with a pause of lookPeriod until the context ends.
func every(ctx context.Context, c clock.WithTicker, look func(context.Context)) {
	ticker := c.NewTicker(lookPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			look(ctx)
		}
	}
}

// newBackoff returns a backoff for Nodes that were checked without success.
func newBackoff(c clock.WithTicker, first, last time.Duration) *flowcontrol.Backoff {
	b := flowcontrol.NewBackOff(first, last)
	b.Clock = c
	return b
}

// due returns the candidates that are not backed off. It resets the backoff of all other Nodes.
func due(b *flowcontrol.Backoff, nodes, candidates []*corev1.Node) (out []*corev1.Node) {
	b.GC()
	for _, n := range nodes {
		if !slices.Contains(candidates, n) {
			b.DeleteEntry(string(n.UID))
		}
	}
	return slices.DeleteFunc(candidates,
		func(n *corev1.Node) bool { return b.IsInBackOffSinceUpdate(string(n.UID), b.Clock.Now()) })
}

// setTaints replaces the taints of a Node. The annotation gets the current time if set is true, and is removed
// otherwise. It returns false if nothing was written: the Node has changed since it was read, or the API server
// refuses, which is logged.
func (m *Nodes) setTaints(
	ctx context.Context, n *corev1.Node, taints []corev1.Taint, annotation string, set bool,
) bool {
	var at any // null removes the annotation
	if set {
		at = m.Clock.Now().UTC().Format(time.RFC3339)
	}

	// spec.taints is one atomic list, so this patch would also remove taints that others have added meanwhile. With the
	// resource version in it, the API server refuses the patch if the Node has changed.
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": n.ResourceVersion, "annotations": map[string]any{annotation: at}},
		"spec":     map[string]any{"taints": taints},
	})
	if err == nil {
		_, err = m.kube.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	}

	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		klog.ErrorS(err, "Cannot change the taints of a node; trying again", "node", n.Name)
	}
	return err == nil
}
