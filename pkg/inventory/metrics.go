// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics counts fetches. Collect reads the other metrics directly from the inventory.
type metrics struct {
	mu      sync.Mutex
	fetches map[fetchKey]float64
}

type fetchKey struct{ what, result string }

func (m *metrics) fetched(what string, err error) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fetches == nil {
		m.fetches = map[fetchKey]float64{}
	}
	// Create both series together: rate() does not count the first error of a series that starts with it.
	for _, r := range []string{"ok", "error"} {
		if _, ok := m.fetches[fetchKey{what, r}]; !ok {
			m.fetches[fetchKey{what, r}] = 0
		}
	}
	m.fetches[fetchKey{what, result}]++
}

var (
	ageDesc = prometheus.NewDesc("cloudstack_inventory_snapshot_age_seconds",
		"Age of the last complete list of VMs. Absent before the first.", nil, nil)
	sizeDesc = prometheus.NewDesc("cloudstack_inventory_snapshot_vms",
		"Number of VMs in the last complete list of VMs. Absent before the first.", nil, nil)
	fetchDesc = prometheus.NewDesc("cloudstack_inventory_fetches_total",
		"Number of times something was read from CloudStack, by what it was and how it went.", []string{"what", "result"}, nil)
)

// Describe implements prometheus.Collector.
func (i *Inventory) Describe(ch chan<- *prometheus.Desc) {
	ch <- ageDesc
	ch <- sizeDesc
	ch <- fetchDesc
}

// Collect implements prometheus.Collector.
func (i *Inventory) Collect(ch chan<- prometheus.Metric) {
	if last := i.vms.peek(); last != nil {
		ch <- prometheus.MustNewConstMetric(ageDesc, prometheus.GaugeValue, i.clock.Since(last.value.Taken).Seconds())
		ch <- prometheus.MustNewConstMetric(sizeDesc, prometheus.GaugeValue, float64(last.value.Len()))
	}
	i.metrics.mu.Lock()
	defer i.metrics.mu.Unlock()
	for k, n := range i.metrics.fetches {
		ch <- prometheus.MustNewConstMetric(fetchDesc, prometheus.CounterValue, n, k.what, k.result)
	}
}
