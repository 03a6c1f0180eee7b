// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/provider/backoff"
)

// current returns the Nodes as the framework's cache has them now. The framework hands out Nodes when something
// changes that it knows of; labels that a node selector names are not among that. A Node that is gone stays as it was:
// the framework reports it soon.
func (lb *loadBalancer) current(nodes []*corev1.Node) []*corev1.Node {
	if lb.deps.Nodes == nil || len(nodes) == 0 {
		return nodes
	}
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

// labelsChanged syncs the Services whose node selector matches only one of the two sets of labels of a Node.
func (lb *loadBalancer) labelsChanged(was, is map[string]string) {
	if maps.Equal(was, is) {
		return
	}
	lb.mu.Lock()
	candidates := map[types.UID]*corev1.Service{}
	for uid, s := range lb.seen {
		if s.service.Annotations[annotation.NodeSelector] != "" {
			candidates[uid] = s.service
		}
	}
	lb.mu.Unlock()
	for uid, svc := range candidates {
		spec := lb.specOf(svc)
		if spec == nil || spec.NodeSelector == nil || spec.NodeSelector.Matches(labels.Set(was)) == spec.NodeSelector.Matches(labels.Set(is)) {
			continue
		}
		// One whose last sync failed because of its nodes waits no longer; after other failures the next attempt has
		// the new labels.
		if wait, ok := lb.backoff.Wake(uid, func(err error) bool { return backoff.TriggerOf(err) == backoff.ByNodes }); ok {
			lb.retries.AddAfter(uid, wait)
		} else {
			lb.queue.AddAfter(uid, endpointPause)
		}
	}
}
