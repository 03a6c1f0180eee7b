// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// Metrics are a Reconciler's metrics; they are a prometheus.Collector.
type Metrics struct {
	actions *prometheus.HistogramVec
	kinds   *prometheus.CounterVec
	drifted prometheus.Counter

	mu        sync.Mutex
	addresses map[string]int // by Service UID
}

func newMetrics() *Metrics {
	return &Metrics{
		actions: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "cloudstack_load_balancer_plan_actions",
			Help:    "Number of actions in the plans of Services; a Service with nothing to do has 0.",
			Buckets: []float64{0, 1, 2, 5, 10, 20, 50, 100, 200},
		}, nil),
		kinds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cloudstack_load_balancer_planned_actions_total",
			Help: "Actions planned, by kind.",
		}, []string{"kind"}),
		drifted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "cloudstack_drift_repaired_total",
			Help: "Actions that undid changes which others made in CloudStack.",
		}),
		addresses: map[string]int{},
	}
}

var addressesDesc = prometheus.NewDesc("cloudstack_load_balancer_addresses", "Public addresses that Services use.", nil, nil)

func (m *Metrics) planned(steps []plan.Step) {
	m.actions.WithLabelValues().Observe(float64(len(steps)))
	for _, s := range steps {
		m.kinds.WithLabelValues(s.Kind()).Inc()
	}
}

func (m *Metrics) drift(n int) { m.drifted.Add(float64(n)) }

func (m *Metrics) held(uid string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n == 0 {
		delete(m.addresses, uid)
		return
	}
	m.addresses[uid] = n
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	m.actions.Describe(ch)
	m.kinds.Describe(ch)
	m.drifted.Describe(ch)
	ch <- addressesDesc
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.actions.Collect(ch)
	m.kinds.Collect(ch)
	m.drifted.Collect(ch)
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, held := range m.addresses {
		n += held
	}
	ch <- prometheus.MustNewConstMetric(addressesDesc, prometheus.GaugeValue, float64(n))
}
