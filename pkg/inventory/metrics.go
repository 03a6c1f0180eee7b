// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import "github.com/prometheus/client_golang/prometheus"

var (
	ageDesc = prometheus.NewDesc("cloudstack_inventory_snapshot_age_seconds",
		"Age of the last complete list of VMs. Absent before the first.", nil, nil)
	sizeDesc = prometheus.NewDesc("cloudstack_inventory_snapshot_vms",
		"Number of VMs in the last complete list of VMs. Absent before the first.", nil, nil)
)

func newFetches() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "cloudstack_inventory_fetches_total",
		Help: "Number of times something was read from CloudStack, by what it was and how it went.",
	}, []string{"what", "result"})
}

func (i *Inventory) fetched(what string, err error) {
	// Create both series together: rate() does not count the first error of a series that starts with it.
	ok, failed := i.fetches.WithLabelValues(what, "ok"), i.fetches.WithLabelValues(what, "error")
	if err != nil {
		failed.Inc()
	} else {
		ok.Inc()
	}
}

// Describe implements prometheus.Collector.
func (i *Inventory) Describe(ch chan<- *prometheus.Desc) {
	ch <- ageDesc
	ch <- sizeDesc
	i.fetches.Describe(ch)
}

// Collect implements prometheus.Collector.
func (i *Inventory) Collect(ch chan<- prometheus.Metric) {
	if last := i.vms.peek(); last != nil {
		ch <- prometheus.MustNewConstMetric(ageDesc, prometheus.GaugeValue, i.clock.Since(last.value.Taken).Seconds())
		ch <- prometheus.MustNewConstMetric(sizeDesc, prometheus.GaugeValue, float64(last.value.Len()))
	}
	i.fetches.Collect(ch)
}
