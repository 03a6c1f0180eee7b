// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import "github.com/prometheus/client_golang/prometheus"

// initMetrics creates the metrics.
func (c *Controller) initMetrics() {
	c.orphanCount = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "cloudstack_orphans",
		Help: "Addresses, rules and network ACL items in CloudStack that were created for Services that no longer " +
			"exist.",
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
		c.orphanCount, c.rounds,
		count("served", func(s *state) bool { return s.served && !s.unhealthy }),
		count("failed", func(s *state) bool { return !s.served }),
		count("unhealthy", func(s *state) bool { return s.served && s.unhealthy }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "cloudstack_suspected_nodes",
			Help: "Nodes that are suspected to be lost: no port is forwarded to them.",
		}, func() float64 { return float64(len(c.heartbeats.Suspected())) }),
	)
}
