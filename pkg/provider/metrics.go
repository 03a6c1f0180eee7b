// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import "github.com/prometheus/client_golang/prometheus"

// nodeMetrics counts what the node half does.
type nodeMetrics struct {
	deletionsRefused prometheus.Counter
}

func newNodeMetrics() *nodeMetrics {
	return &nodeMetrics{deletionsRefused: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "cloudstack_node_deletions_refused_total",
		Help: "Number of times a Node was not deleted because too many Nodes had lost their VMs at once.",
	})}
}

func (m *nodeMetrics) refused() { m.deletionsRefused.Inc() }
