// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// withNodes adds n VMs named n0, n1 ... to the network, and room for many addresses.
func withNodes(n int) bedOption {
	return func(_ *bed, w *string) {
		var vms strings.Builder
		vms.WriteString("virtualMachines:\n")
		for i := range n {
			fmt.Fprintf(&vms, "  - {name: n%d, account: k8s, nics: [{network: k8s-net, ip: 10.1.%d.%d}]}\n", i, 4+i/200, 10+i%200)
		}
		*w = strings.Replace(*w, "virtualMachines:\n", vms.String(), 1)
		*w = strings.Replace(*w, "cidr: 10.1.1.0/24, sourceNAT: 203.0.113.10", "cidr: 10.1.0.0/16, sourceNAT: 203.0.113.10", 1)
		*w = strings.Replace(*w, "  - name: k8s\n    role: User\n", "  - name: k8s\n    role: User\n    limits: {publicIPs: -1}\n", 1)
		*w = strings.Replace(*w, "publicRanges: [203.0.113.10-203.0.113.99]", "publicRanges: [203.0.113.10-203.0.113.99, 198.18.0.1-198.18.3.250]", 1)
	}
}

func nodesUpTo(n int) []*corev1.Node {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("n%d", i))
	}
	return nodesNamed(names...)
}

// each runs work on all Services, some at a time.
func (b *bed) each(n int, work func(name string) error) {
	b.t.Helper()
	var group sync.WaitGroup
	gate := make(chan struct{}, 10)
	for i := range n {
		gate <- struct{}{}
		group.Go(func() {
			defer func() { <-gate }()
			assert.NoError(b.t, work(fmt.Sprintf("web%d", i)))
		})
	}
	group.Wait()
}

// What many Services and nodes cost: a restart and a round of the drift loop by whole lists, a node event by what
// changes and no more.
func TestBudgetAtScale(t *testing.T) {
	t.Parallel()
	sizes := []struct{ services, ports, nodes int }{{1, 1, 5}, {20, 2, 5}, {20, 5, 100}, {2, 1, 1000}}
	if !testing.Short() {
		sizes = append(sizes, struct{ services, ports, nodes int }{500, 2, 5})
	}
	for _, size := range sizes {
		t.Run(fmt.Sprintf("%d Services of %d ports, %d nodes", size.services, size.ports, size.nodes), func(t *testing.T) {
			t.Parallel()
			b := newBed(t, withNodes(size.nodes+1))
			nodes := nodesUpTo(size.nodes)
			for i := range size.services {
				b.service(someOrTen(size.ports), uid(fmt.Sprintf("%08d-0000-4000-8000-00000000abcd", i)), func(s *corev1.Service) { s.Name = fmt.Sprintf("web%d", i) })
			}
			ensure := func(name string) error {
				status, err := b.lb.EnsureLoadBalancer(t.Context(), "", b.getAs(name), nodes)
				if err != nil {
					return err
				}
				b.changeAs(name, func(s *corev1.Service) { s.Status.LoadBalancer = *status })
				return nil
			}
			update := func(name string) error { return b.lb.UpdateLoadBalancer(t.Context(), "", b.getAs(name), nodes) }
			spend := func(what string, budget int, do func()) {
				t.Helper()
				b.reset()
				do()
				calls := b.calls()
				t.Logf("%-22s %5d calls, budget %5d; upstream %d", what, len(calls), budget, upstreamCalls(what, size.services, size.ports))
				assert.LessOrEqual(t, len(calls), budget, what)
			}
			s, n, v := size.services, size.ports, size.nodes+1+7
			rules := s*n + 2
			pages := func(x int) int { return (x + 499) / 500 }
			lists := pages(rules) + pages(s+2) + pages(v) + 1 // rules, firewall, VMs, network
			members := min(s*n, v*pages(rules))

			spend("create", s*(6+2*n)+pages(v)+1, func() { b.each(s, ensure) })
			b.restart()
			spend("restart", lists+members, func() { b.each(s, ensure) })
			spend("re-sync", 0, func() { b.each(s, ensure) })
			b.clock.SetTime(b.clock.Now().Add(5 * time.Minute))
			// The search for orphans adds the list of addresses.
			spend("drift round", lists+members+pages(s+6), func() { b.lb.driftRound(t.Context()) })
			spend("update, same nodes", 0, func() { b.each(s, update) })
			nodes = nodesUpTo(size.nodes + 1)
			spend("a node joins", s*n+pages(v), func() { b.each(s, update) })
			nodes = nodesUpTo(size.nodes)
			spend("a node leaves", s*n+pages(v), func() { b.each(s, update) })
			require.NotContains(t, b.event("DriftRepaired"), "repairing")
		})
	}
}

// upstreamCalls are upstream v1.2's, by the formulas of its measured runs.
func upstreamCalls(what string, services, ports int) int {
	switch what {
	case "create":
		return services * (5 + ports*8)
	case "restart", "re-sync":
		return services * (2 + 2*ports)
	case "update, same nodes":
		return services * (2 + ports)
	case "a node joins", "a node leaves":
		return services * (2 + 3*ports)
	}
	return 0 // it has no such thing
}
