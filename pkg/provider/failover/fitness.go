// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package failover decides which nodes must not serve direct traffic. A port forwarding has no health check: the controller
// is it. Fitness and Suspicion are pure; Watch observes the leases of the kubelets while a Service has direct ports.
package failover

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	cpapi "k8s.io/cloud-provider/api"
)

// Cause is why a node must not serve, as the label of a metric.
type Cause string

// Causes.
const (
	Deleted    Cause = "deleted"
	Excluded   Cause = "excluded"
	Stopped    Cause = "stopped"
	OutOfOrder Cause = "out-of-service"
	NotReady   Cause = "not-ready"
	Suspected  Cause = "suspected"
	// Left and Spread are causes of moves only: the node is none of those that serve the Service any more, or another one
	// has joined, which gets its share.
	Left   Cause = "left"
	Spread Cause = "spread"
)

// Causes are all of them.
var Causes = []Cause{Deleted, Excluded, Stopped, OutOfOrder, NotReady, Suspected, Left, Spread}

// Unfitness is why a node must not serve direct traffic now.
type Unfitness struct {
	Cause Cause
	Text  string // for Events
}

// TaintBeingDeleted is the cluster autoscaler's mark on a node that it is about to delete. Kubernetes' service controller
// leaves such nodes out, but does not sync Services when a node gets the taint.
const TaintBeingDeleted = "ToBeDeletedByClusterAutoscaler"

// Leaving reports whether a node is about to be deleted.
func Leaving(n *corev1.Node) bool { return n.DeletionTimestamp != nil || tainted(n, TaintBeingDeleted) }

// ExcludedByLabel reports whether a node has the label that excludes it from load balancers.
func ExcludedByLabel(n *corev1.Node) bool {
	v, labelled := n.Labels[corev1.LabelNodeExcludeBalancers]
	if !labelled {
		return false
	}
	excluded, err := strconv.ParseBool(v)
	return err != nil || excluded
}

// Fitness says why a node must not serve direct traffic, by what the API server knows of it; the zero value means that it
// may. A cordoned node serves on, as behind Kubernetes' own load balancers: its Pods run, and kube-proxy forwards.
func Fitness(n *corev1.Node) Unfitness {
	switch {
	case Leaving(n):
		return Unfitness{Deleted, "about to be deleted"}
	case ExcludedByLabel(n):
		return Unfitness{Excluded, "label " + corev1.LabelNodeExcludeBalancers}
	case tainted(n, cpapi.TaintNodeShutdown):
		return Unfitness{Stopped, "its VM is stopped"}
	case tainted(n, corev1.TaintNodeOutOfService):
		return Unfitness{OutOfOrder, "taint " + corev1.TaintNodeOutOfService}
	}
	for _, c := range n.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		if c.Status == corev1.ConditionTrue {
			return Unfitness{}
		}
		if c.Reason == "" {
			return Unfitness{NotReady, "not Ready"}
		}
		return Unfitness{NotReady, fmt.Sprintf("not Ready (%s)", c.Reason)}
	}
	return Unfitness{NotReady, "not Ready yet"}
}

func tainted(n *corev1.Node, key string) bool {
	for i := range n.Spec.Taints {
		if n.Spec.Taints[i].Key == key {
			return true
		}
	}
	return false
}

// Unfit returns the nodes that must not serve direct traffic now, by name. suspected are names of nodes whose kubelets are
// silent.
func Unfit(nodes []*corev1.Node, suspected map[string]string) map[string]Unfitness {
	out := map[string]Unfitness{}
	for _, n := range nodes {
		if why := Fitness(n); why.Cause != "" {
			out[n.Name] = why
		} else if text, silent := suspected[n.Name]; silent {
			out[n.Name] = Unfitness{Suspected, text}
		}
	}
	return out
}
