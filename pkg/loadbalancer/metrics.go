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
	held    prometheus.GaugeFunc

	mu        sync.Mutex
	addresses map[string]int // by Service UID
}

func newMetrics() *Metrics {
	m := &Metrics{
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
	m.held = prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "cloudstack_load_balancer_addresses", Help: "Public addresses that Services use."}, m.sum)
	return m
}

func (m *Metrics) planned(steps []plan.Step) {
	m.actions.WithLabelValues().Observe(float64(len(steps)))
	for _, s := range steps {
		m.kinds.WithLabelValues(s.Kind()).Inc()
	}
}

// hold notes how many addresses a Service has.
func (m *Metrics) hold(uid string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.addresses[uid] = n
	if n == 0 {
		delete(m.addresses, uid)
	}
}

func (m *Metrics) sum() (n float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, held := range m.addresses {
		n += float64(held)
	}
	return n
}

func (m *Metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.actions, m.kinds, m.drifted, m.held}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.all() {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.all() {
		c.Collect(ch)
	}
}
