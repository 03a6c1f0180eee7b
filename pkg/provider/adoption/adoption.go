// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package adoption has Nodes initialised that joined without the taint of external cloud providers. Kubelets that run
// without --cloud-provider=external register such Nodes: those of CloudStack Kubernetes Service, and those that its
// scaling adds later. The controller sets the taint after the same gates as "csccm taint"; Kubernetes' own
// cloud-node-controller does the rest.
package adoption

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/provider/event"
)

const (
	// period is the time between two looks at the Nodes, which are in memory: a look calls nobody while every Node is
	// initialised.
	period = 5 * time.Second
	// AtOnce is the largest number of Nodes that have the taint at the same time.
	AtOnce = 5
	// firstRetry and lastRetry are the waits before a refused Node is judged again. A Node that joins while CloudStack
	// still shows its VM as Starting must not wait long.
	firstRetry = 10 * time.Second
	lastRetry  = 5 * time.Minute
)

// Controller adopts Nodes. All fields are required.
type Controller struct {
	Kube kubernetes.Interface
	// Nodes returns the Nodes in the informer's cache; its objects are shared and must not be changed.
	Nodes func() ([]*corev1.Node, error)
	// VM returns the one VM of a Node in the controller's project and zone. It writes an Event on a Node that has none or
	// several.
	VM func(ctx context.Context, n *corev1.Node) (cloudstack.VirtualMachine, error)
	// Metadata are the settings that Nodes are described with.
	Metadata node.Options
	Events   *event.Nodes
	Clock    clock.WithTicker

	waiting map[types.UID]wait
}

// wait is when a refused Node is judged again, and how long the last wait was.
type wait struct {
	until time.Time
	last  time.Duration
}

// Run adopts Nodes until the context ends.
func (c *Controller) Run(ctx context.Context) {
	ticker := c.Clock.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			c.look(ctx)
		}
	}
}

// look judges the Nodes that nobody initialises, as many as may have the taint.
func (c *Controller) look(ctx context.Context) {
	nodes, err := c.Nodes()
	if err != nil {
		return // the cache is not filled yet
	}
	candidates, free := Candidates(nodes)
	c.forget(candidates)
	for _, n := range candidates {
		if free == 0 || ctx.Err() != nil {
			return
		}
		if c.Clock.Now().Before(c.waiting[n.UID].until) {
			continue
		}
		adopted, err := c.adopt(ctx, n)
		if err != nil {
			klog.V(2).InfoS("A node is not adopted; it is tried again", "node", n.Name, "err", err)
		}
		if adopted {
			free--
		} else {
			c.later(n)
		}
	}
}

// Candidates returns the Nodes that can be adopted, workers first, and how many more may get the taint now: AtOnce, less
// those that have the taint from here. The first of a cluster in which no Node is initialised goes alone.
func Candidates(nodes []*corev1.Node) (candidates []*corev1.Node, free int) {
	limit, underway := 1, 0
	for _, n := range nodes {
		_, kind, err := node.ParseProviderID(n.Spec.ProviderID)
		switch {
		case node.Adoptable(n):
			candidates = append(candidates, n)
		case node.HasTaint(n) && cmp.Or(n.Annotations[node.AnnotationAdoptedAt], n.Annotations[node.AnnotationTaintedAt]) != "":
			underway++
		case !node.HasTaint(n) && err == nil && kind.IsCloudStack():
			limit = AtOnce
		}
	}
	slices.SortFunc(candidates, func(a, b *corev1.Node) int {
		if x, y := node.ControlPlane(a), node.ControlPlane(b); x != y {
			if y {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	return candidates, max(0, limit-underway)
}

// adopt sets the taint on a Node that passes all gates. An Event says why it does not.
func (c *Controller) adopt(ctx context.Context, n *corev1.Node) (adopted bool, err error) {
	vm, err := c.VM(ctx, n)
	if err != nil {
		return false, err
	}
	if refusals := node.AdoptionRefusals(n, &vm, c.Metadata); len(refusals) > 0 {
		var texts []string
		for _, r := range refusals {
			texts = append(texts, r.Text+": "+r.Remedy)
		}
		c.Events.Warn(n, event.NodeNotAdopted, strings.Join(texts, "; "))
		return false, nil
	}
	switch err := c.taint(ctx, n); {
	case apierrors.IsConflict(err), apierrors.IsInvalid(err), apierrors.IsNotFound(err):
		return false, nil // the Node changed since it was read; a failed test of a JSON patch is "invalid"
	case err != nil:
		return false, fmt.Errorf("set the taint %s: %w", node.TaintKey, err)
	}
	c.Events.Tell(n, event.NodeAdopted, fmt.Sprintf(
		"the node joined without the taint %s; it has the taint now and is initialised as VM %s (id %s)", node.TaintKey, vm.Name, vm.ID))
	return true, nil
}

// taint adds the taint.
func (c *Controller) taint(ctx context.Context, n *corev1.Node) error {
	annotations := maps.Clone(n.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	mark := node.AnnotationTaintedAt
	if node.KubeletWritesAddresses(n) {
		mark = node.AnnotationAdoptedAt
	}
	annotations[mark] = c.Clock.Now().UTC().Format(time.RFC3339)
	taints := append(slices.Clone(n.Spec.Taints), corev1.Taint{Key: node.TaintKey, Value: node.TaintValue, Effect: node.TaintEffect})
	patch, err := node.TaintPatch(n, taints, annotations)
	if err != nil {
		return err
	}
	_, err = c.Kube.CoreV1().Nodes().Patch(ctx, n.Name, types.JSONPatchType, patch, metav1.PatchOptions{})
	return err
}

// later lets a Node wait, longer each time.
func (c *Controller) later(n *corev1.Node) {
	if c.waiting == nil {
		c.waiting = map[types.UID]wait{}
	}
	next := min(max(2*c.waiting[n.UID].last, firstRetry), lastRetry)
	c.waiting[n.UID] = wait{c.Clock.Now().Add(next), next}
}

// forget drops the waits of Nodes that are no candidates any more.
func (c *Controller) forget(candidates []*corev1.Node) {
	maps.DeleteFunc(c.waiting, func(uid types.UID, _ wait) bool {
		return !slices.ContainsFunc(candidates, func(n *corev1.Node) bool { return n.UID == uid })
	})
}
