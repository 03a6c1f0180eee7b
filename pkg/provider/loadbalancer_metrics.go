// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// loadBalancerMetrics are those of the work beside the framework's.
type loadBalancerMetrics struct {
	orphans prometheus.Gauge
	rounds  prometheus.Histogram
}

func newLoadBalancerMetrics() *loadBalancerMetrics {
	return &loadBalancerMetrics{
		orphans: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "cloudstack_orphans",
			Help: "Addresses, rules and network ACL items in CloudStack that were made for Services which are gone.",
		}),
		rounds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "cloudstack_drift_round_duration_seconds",
			Help:    "Time to compare all load balancers with CloudStack.",
			Buckets: []float64{0.1, 0.5, 1, 5, 15, 60, 300},
		}),
	}
}

func (m *loadBalancerMetrics) round(d time.Duration) { m.rounds.Observe(d.Seconds()) }

func (m *loadBalancerMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.orphans, m.rounds}
}
