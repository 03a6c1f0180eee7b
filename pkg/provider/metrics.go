// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import "github.com/prometheus/client_golang/prometheus"

// nodeMetrics tell what the node half does and sees.
type nodeMetrics struct {
	deletionsRefused prometheus.Counter
	deletionsBlocked prometheus.GaugeFunc
	withoutVM        prometheus.GaugeFunc
}

func newNodeMetrics(p *Provider) *nodeMetrics {
	return &nodeMetrics{
		deletionsRefused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "cloudstack_node_deletions_refused_total",
			Help: "Number of times a Node was not deleted because too many Nodes had lost their VMs at once.",
		}),
		deletionsBlocked: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "cloudstack_node_deletions_blocked",
			Help: "1 while Nodes are not deleted because too many have lost their VMs at once: look at the credentials and the project.",
		}, func() float64 {
			if p.instances.guard.blocked() {
				return 1
			}
			return 0
		}),
		withoutVM: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "cloudstack_nodes_without_vm",
			Help: "Number of Nodes with a CloudStack provider ID whose VM is not in the last complete list of VMs.",
		}, p.nodesWithoutVM),
	}
}

// nodesWithoutVM counts from what is known already: a scrape makes no call.
func (p *Provider) nodesWithoutVM() float64 {
	s := p.inventory.LastVMs()
	nodes, err := p.instances.nodes()
	if s == nil || err != nil {
		return 0
	}
	missing, _ := withoutVM(s, nodes)
	return float64(len(missing))
}

func (m *nodeMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.deletionsRefused, m.deletionsBlocked, m.withoutVM}
}

func (m *nodeMetrics) refused() { m.deletionsRefused.Inc() }
