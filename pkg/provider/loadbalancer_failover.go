// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/provider/backoff"
	"github.com/csccm/csccm/pkg/provider/failover"
)

// watchHeartbeats prepares the watch of the kubelets' leases.
func (lb *loadBalancer) watchHeartbeats() *failover.Watch {
	probe := lb.deps.Probe
	if probe == nil {
		probe = failover.Answers
	}
	return &failover.Watch{
		Kube: lb.deps.Kube, Nodes: lb.deps.Nodes, After: lb.deps.SuspectAfter, Probe: probe, Changed: lb.fitnessChanged, Clock: lb.deps.Clock,
	}
}

// mayForward reports whether ports of the Service may be port forwardings: whether they are depends on the network, too.
func (lb *loadBalancer) mayForward(svc *corev1.Service) bool {
	spec, err := annotation.Parse(svc)
	spec.Mode = cmp.Or(spec.Mode, lb.deps.Mode)
	return err == nil && plan.Facts{Service: loadbalancer.ServiceOf(svc), Spec: spec}.Forwards()
}

// unfit returns which of the nodes must not serve direct traffic of the Service now; none when it has no such traffic.
func (lb *loadBalancer) unfit(svc *corev1.Service, nodes []*corev1.Node) map[string]failover.Unfitness {
	if !lb.mayForward(svc) {
		return nil
	}
	all, err := lb.deps.Nodes()
	if err != nil { // the cache is not filled yet
		return failover.Unfit(nodes, nil)
	}
	there := make(map[types.UID]bool, len(all))
	for _, n := range all {
		there[n.UID] = true
	}
	out := failover.Unfit(lb.current(nodes), lb.heartbeats.Suspected())
	for _, n := range all { // they are not among the nodes that serve, and may be the ones that ports lead to
		if failover.Leaving(n) {
			out[n.Name] = failover.Fitness(n)
		}
	}
	for _, n := range nodes {
		if !there[n.UID] {
			out[n.Name] = failover.Unfitness{Cause: failover.Deleted, Text: "deleted"}
		}
	}
	return out
}

// backends identifies the nodes that serve a Service, and those of them that must not serve its direct traffic.
func (lb *loadBalancer) backends(svc *corev1.Service, nodes []*corev1.Node) string {
	return lb.backendsKey(nodes, lb.unfit(svc, nodes))
}

func (lb *loadBalancer) backendsKey(nodes []*corev1.Node, unfit map[string]failover.Unfitness) string {
	key := lb.nodes.key(nodes)
	if len(unfit) > 0 {
		key += "\nunfit " + strings.Join(slices.Sorted(maps.Keys(unfit)), " ")
	}
	return key
}

func (lb *loadBalancer) attempt(svc *corev1.Service, nodes []*corev1.Node) backoff.Attempt {
	return backoff.AttemptOf(svc, lb.backends(svc, nodes))
}

// texts are the reasons for which nodes must not serve, for Events.
func texts(unfit map[string]failover.Unfitness) map[string]string {
	out := make(map[string]string, len(unfit))
	for name, why := range unfit {
		out[name] = why.Text
	}
	return out
}

// fitnessChanged syncs the Services with direct ports, as other nodes than before may serve these. Those that nothing
// changes for cost no call.
func (lb *loadBalancer) fitnessChanged() {
	lb.heartbeats.NodesChanged()
	lb.mu.Lock()
	defer lb.mu.Unlock()
	for uid, s := range lb.known {
		if s.forwards {
			lb.wakeups.Add(uid)
		}
	}
}

func newMoves() *prometheus.CounterVec {
	out := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "cloudstack_forward_moves_total",
		Help: "Port forwardings that were moved to another node, by reason.",
	}, []string{"reason"})
	for _, c := range failover.Causes {
		out.WithLabelValues(string(c)) // served from the start
	}
	return out
}

// countMoves counts the port forwardings that a sync moved.
func (lb *loadBalancer) countMoves(result loadbalancer.Result, err error, req loadbalancer.Request, unfit map[string]failover.Unfitness) {
	if err != nil || lb.deps.Policy == plan.PolicyDryRun {
		return
	}
	for _, s := range result.Plan {
		act, ok := s.Action.(plan.UpdateForward)
		if !ok || act.From == "" || act.Member == "" {
			continue
		}
		vm, _ := plan.SplitMember(act.From)
		cause := failover.Left
		for i := range req.Members {
			if m := &req.Members[i]; m.VMID == vm {
				cause = cmp.Or(unfit[m.Node].Cause, failover.Spread)
			}
		}
		for i := range req.Reach {
			if m := &req.Reach[i]; m.VMID == vm && cause == failover.Left {
				cause = cmp.Or(unfit[m.Node].Cause, failover.Left)
			}
		}
		lb.moves.WithLabelValues(string(cause)).Inc()
	}
}

// forwardCollectors are the metrics of forwarded ports.
func (lb *loadBalancer) forwardCollectors() []prometheus.Collector {
	state := func(name string, is func(*serviceState) bool) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "cloudstack_forwarded_services",
			Help:        "Services that may have forwarded ports, by state: served, failed (the last sync failed), unfit (no node can serve them).",
			ConstLabels: prometheus.Labels{"state": name},
		}, func() (n float64) {
			lb.mu.Lock()
			defer lb.mu.Unlock()
			for _, s := range lb.known {
				if s.forwards && is(s) {
					n++
				}
			}
			return n
		})
	}
	return []prometheus.Collector{
		lb.moves,
		state("served", func(s *serviceState) bool { return s.settled && !s.unfit }),
		state("failed", func(s *serviceState) bool { return !s.settled }),
		state("unfit", func(s *serviceState) bool { return s.settled && s.unfit }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "cloudstack_suspected_nodes",
			Help: "Nodes that are suspected to be lost: no port is forwarded to them.",
		}, func() float64 { return float64(len(lb.heartbeats.Suspected())) }),
	}
}
