// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package failover decides which nodes must not serve direct traffic. A port forwarding has no health check, so the
// controller checks the nodes itself. ProblemOf and Suspicion are pure; Watch observes the leases of the kubelets while
// a Service has direct ports.
package failover

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	cpapi "k8s.io/cloud-provider/api"

	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// TaintBeingDeleted is the cluster autoscaler's mark on a node that it is about to delete. Kubernetes' service
// controller leaves such nodes out, but does not sync Services when a node gets the taint.
const TaintBeingDeleted = "ToBeDeletedByClusterAutoscaler"

// Leaving reports whether a node is about to be deleted.
func Leaving(n *corev1.Node) bool { return n.DeletionTimestamp != nil || Tainted(n, TaintBeingDeleted) }

// ExcludedByLabel reports whether a node has the label that excludes it from load balancers.
func ExcludedByLabel(n *corev1.Node) bool {
	value, labelled := n.Labels[corev1.LabelNodeExcludeBalancers]
	excluded, err := strconv.ParseBool(value)
	return labelled && (err != nil || excluded)
}

// ProblemOf returns why a node must not serve direct traffic according to its Node object. The zero value means that it
// may. A cordoned node keeps serving, as it does behind Kubernetes' own load balancers: its Pods run, and kube-proxy
// forwards traffic.
func ProblemOf(n *corev1.Node) plan.Problem {
	switch {
	case Leaving(n):
		return plan.Problem{Cause: plan.Deleted, Text: "about to be deleted"}
	case ExcludedByLabel(n):
		return plan.Problem{Cause: plan.Excluded, Text: "label " + corev1.LabelNodeExcludeBalancers}
	case Tainted(n, cpapi.TaintNodeShutdown):
		return plan.Problem{Cause: plan.Stopped, Text: "its VM is stopped"}
	case Tainted(n, corev1.TaintNodeOutOfService):
		return plan.Problem{Cause: plan.OutOfOrder, Text: "taint " + corev1.TaintNodeOutOfService}
	}

	for _, c := range n.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		switch {
		case c.Status == corev1.ConditionTrue:
			return plan.Problem{}
		case c.Reason == "":
			return plan.Problem{Cause: plan.NotReady, Text: "not Ready"}
		}
		return plan.Problem{Cause: plan.NotReady, Text: fmt.Sprintf("not Ready (%s)", c.Reason)}
	}

	return plan.Problem{Cause: plan.NotReady, Text: "not Ready yet"}
}

// Tainted reports whether a node has a taint with a key.
func Tainted(n *corev1.Node, key string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}

// Problems returns the nodes that must not serve direct traffic now, by name. suspected holds the nodes whose kubelets
// are silent, with the reason.
func Problems(nodes []*corev1.Node, suspected map[string]string) map[string]plan.Problem {
	out := map[string]plan.Problem{}
	for _, n := range nodes {
		if why := ProblemOf(n); why.Cause != "" {
			out[n.Name] = why
		} else if text, silent := suspected[n.Name]; silent {
			out[n.Name] = plan.Problem{Cause: plan.Suspected, Text: text}
		}
	}
	return out
}

const (
	// ShortestAfter is the shortest useful value of Watch.After: kubelets renew their leases every 10 s.
	ShortestAfter = 11 * time.Second
	// ProbeTimeout is how long a kubelet's port may take to answer. It allows for one lost packet: TCP retransmits the
	// first one after a second.
	ProbeTimeout = 2 * time.Second
	// probePause is the time between two probes of a node whose lease is old.
	probePause = 2 * time.Second
	// firstProbePause is the same for a node that never answered.
	firstProbePause = time.Minute
	// share limits how many nodes may be suspected at the same time: one in five, but at least one.
	share = 5
)

// Suspicion finds nodes that are probably lost before Kubernetes knows, which takes it 40 to 50 seconds: nodes whose
// lease is not renewed and whose kubelet's port does not answer. It has no clock: callers pass the time.
//
// The age of a lease counts from when the controller saw it change, so differences between clocks do not matter. A node
// is suspected only if its port has answered before: a port that never answers may be blocked by a firewall.
type Suspicion struct {
	after time.Duration
	nodes map[string]*seenNode
}

// seenNode is what a Suspicion knows about one node.
type seenNode struct {
	renewed  string    // identifies the last renewal of the lease; "" before one was seen
	since    time.Time // when that renewal was seen
	ready    bool
	answered bool // the port has answered at least once
	silent   bool // the last probe got no answer while the lease was old
	probing  bool
	probed   time.Time
}

// NewSuspicion returns a Suspicion of nodes whose leases are older than after.
func NewSuspicion(after time.Duration) *Suspicion {
	return &Suspicion{after: after, nodes: map[string]*seenNode{}}
}

// Nodes sets which nodes exist; the value is true for nodes that are Ready. Other nodes are never suspected, because
// they serve no direct traffic anyway.
func (s *Suspicion) Nodes(ready map[string]bool) {
	maps.DeleteFunc(s.nodes, func(name string, _ *seenNode) bool { _, there := ready[name]; return !there })
	for name, is := range ready {
		n := s.nodes[name]
		if n == nil {
			n = &seenNode{}
			s.nodes[name] = n
		}
		n.ready = is
	}
}

// Renewed records a renewal that was seen in a node's lease; recording it again has no effect. It reports whether the
// results of Due or Suspected may have changed. Most renewals change neither.
func (s *Suspicion) Renewed(name, renewal string, now time.Time) bool {
	n := s.nodes[name]
	if n == nil || renewal == "" || n.renewed == renewal {
		return false
	}
	news := n.renewed == "" || s.old(n, now)
	n.renewed, n.since, n.silent = renewal, now, false
	return news
}

// Probed records the result of a probe that Due requested.
func (s *Suspicion) Probed(name string, answered bool, now time.Time) {
	n := s.nodes[name]
	if n == nil {
		return
	}
	n.probing, n.probed = false, now
	n.answered = n.answered || answered
	n.silent = !answered && s.old(n, now)
}

func (s *Suspicion) old(n *seenNode, now time.Time) bool {
	return n.ready && n.renewed != "" && now.Sub(n.since) >= s.after
}

// Due returns the nodes to probe now, at most limit, and the latest time for the next call of Due. The caller probes
// the nodes and calls Probed for each.
func (s *Suspicion) Due(now time.Time, limit int) (probe []string, next time.Time) {
	soonest := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}

	old := 0
	for _, n := range s.nodes {
		if s.old(n, now) {
			old++
		}
	}

	// If most leases are old at once, the API server or the connection to it has failed, not the nodes.
	believed := 2*old <= len(s.nodes)+1
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		n := s.nodes[name]
		if n.probing || !n.ready || n.renewed == "" {
			continue // until a probe ends, or a lease or the Node changes
		}

		pause := time.Duration(-1)
		switch {
		case !n.answered:
			pause = firstProbePause
		case !s.old(n, now):
			soonest(n.since.Add(s.after))
		case believed:
			pause = probePause
		default:
			soonest(now.Add(probePause))
		}

		if pause < 0 {
			continue
		}

		switch at := n.probed.Add(pause); {
		case !n.probed.IsZero() && now.Before(at):
			soonest(at)
		case len(probe) == limit:
			soonest(now.Add(ProbeTimeout))
		default:
			n.probing = true
			probe = append(probe, name)
		}
	}

	return probe, next
}

// Suspected returns the suspected nodes with the reason. If they are all nodes, or several nodes that are more than a
// fifth of all, it suspects none and returns their names as undecided: then the controller's own connection has more
// likely failed than so many nodes.
func (s *Suspicion) Suspected(now time.Time) (suspected map[string]string, undecided []string) {
	suspected = map[string]string{}
	for name, n := range s.nodes {
		if n.silent && n.answered && s.old(n, now) {
			suspected[name] = fmt.Sprintf("suspected: its lease is older than %s and its kubelet does not answer",
				s.after)
		}
	}
	if n := len(suspected); n > max(1, len(s.nodes)/share) || n == len(s.nodes) {
		return map[string]string{}, slices.Sorted(maps.Keys(suspected))
	}
	return suspected, nil
}
