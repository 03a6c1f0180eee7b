// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/node/failover"
)

// countMoves counts the port forwardings that a sync moved.
func (c *Controller) countMoves(w *work, err error) {
	if err != nil || c.Policy == plan.PolicyDryRun {
		return
	}
	causes := map[string]failover.Cause{} // by VM
	for _, m := range slices.Concat(w.request.Reach, w.request.Leaving) {
		causes[m.VMID] = w.unhealthy[m.Node].Cause
	}
	for _, m := range w.request.Members {
		causes[m.VMID] = cmp.Or(w.unhealthy[m.Node].Cause, failover.Spread)
	}
	for _, s := range w.Plan {
		if s.From != "" && s.Member != "" {
			vm, _ := plan.SplitMember(s.From)
			c.moves.WithLabelValues(string(cmp.Or(causes[vm], failover.Ineligible))).Inc()
		}
	}
}

// initMetrics creates the metrics.
func (c *Controller) initMetrics() {
	c.moves = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "cloudstack_forward_moves_total",
		Help: "Port forwardings that were moved to another node, by reason.",
	}, []string{"reason"})
	for _, cause := range failover.Causes {
		c.moves.WithLabelValues(string(cause)) // present from the start
	}

	c.orphanCount = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "cloudstack_orphans",
		Help: "Addresses, rules and network ACL items in CloudStack that were made for Services which are gone.",
	})

	c.rounds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "cloudstack_drift_round_duration_seconds",
		Help:    "Time to compare all load balancers with CloudStack.",
		Buckets: []float64{0.1, 0.5, 1, 5, 15, 60, 300},
	})
}

// Metrics returns the load balancer metrics, to be registered.
func (c *Controller) Metrics() []prometheus.Collector {
	count := func(name string, is func(*state) bool) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "cloudstack_forwarded_services",
			Help: "Services that may have forwarded ports, by state: served, failed (the last sync failed), " +
				"unhealthy (no healthy node can serve them).",
			ConstLabels: prometheus.Labels{"state": name},
		}, func() (n float64) {
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, s := range c.states {
				if s.forwarding() && is(s) {
					n++
				}
			}
			return n
		})
	}

	return append(c.reconciler.Metrics(),
		c.orphanCount, c.rounds, c.moves,
		count("served", func(s *state) bool { return s.served && !s.unhealthy }),
		count("failed", func(s *state) bool { return !s.served }),
		count("unhealthy", func(s *state) bool { return s.served && s.unhealthy }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "cloudstack_suspected_nodes",
			Help: "Nodes that are suspected to be lost: no port is forwarded to them.",
		}, func() float64 { return float64(len(c.heartbeats.Suspected())) }),
	)
}
