// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package outofservice

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/node"
)

// Scope says which Nodes may get the taint.
type Scope string

// Scopes. Pods of the control plane are static or have a place of their own: nothing is won by evicting them.
const (
	Off     Scope = "off"
	Workers Scope = "workers"
	All     Scope = "all"
)

// ParseScope reads a Scope; the empty text is Workers.
func ParseScope(text string) (Scope, error) {
	s := cmp.Or(Scope(text), Workers)
	if !slices.Contains([]Scope{Off, Workers, All}, s) {
		return "", fmt.Errorf("%q is not known: want workers, all or off", text)
	}
	return s, nil
}

// AnnotationSince is the time when the controller set the taint: only a taint with this annotation is ours to remove.
const AnnotationSince = "csccm.io/out-of-service-since"

// TaintValue is what Kubernetes' documentation calls a node that is shut down.
const TaintValue = "nodeshutdown"

// Work is what to look at: Nodes whose VMs may be down, and Nodes of ours that may be back.
type Work struct {
	Down, Back []*corev1.Node
	// Room is how many more Nodes may get the taint.
	Room int
}

// few Nodes may be out of service whatever their share is; the guard against deletions lets as many go.
const few = 2

// Judge sorts the Nodes. percent is the share of the Nodes that may be out of service at the same time; two may in any
// case, but never all.
func Judge(nodes []*corev1.Node, scope Scope, percent int) Work {
	var w Work
	tainted := 0
	for _, n := range nodes {
		switch {
		case Ours(n):
			tainted++
			if node.Ready(n) {
				w.Back = append(w.Back, n)
			}
		case hasTaint(n): // somebody else's decision
			tainted++
		case candidate(n, scope):
			w.Down = append(w.Down, n)
		}
	}
	limit := max(few, percent*len(nodes)/100)
	w.Room = max(0, min(limit, len(nodes)-1)-tainted)
	return w
}

// candidate reports whether a Node that is not Ready could have the taint: an initialised one of CloudStack, in scope.
func candidate(n *corev1.Node, scope Scope) bool {
	_, kind, err := node.ParseProviderID(n.Spec.ProviderID)
	switch {
	case scope == Off, node.Ready(n), err != nil, !kind.IsCloudStack(), node.HasTaint(n):
		return false
	}
	return scope == All || !node.ControlPlane(n)
}

// Ours reports whether the Node has the taint from here.
func Ours(n *corev1.Node) bool { return hasTaint(n) && n.Annotations[AnnotationSince] != "" }

func hasTaint(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, isTaint)
}

func isTaint(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService }
