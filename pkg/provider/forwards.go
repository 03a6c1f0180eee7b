// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/provider/failover"
)

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
func (lb *loadBalancer) countMoves(result loadbalancer.Result, err error, b *backends) {
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
		for i := range b.members {
			if m := &b.members[i]; m.VMID == vm {
				cause = cmp.Or(b.unfit[m.Node].Cause, failover.Spread)
			}
		}
		for i := range b.reach {
			if m := &b.reach[i]; m.VMID == vm && cause == failover.Left {
				cause = cmp.Or(b.unfit[m.Node].Cause, failover.Left)
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
