// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/provider/backoff"
	"github.com/csccm/csccm/pkg/simulator"
)

// A Service that cannot be served costs CloudStack and the API server next to nothing, however long it stays.
func TestTenantFailingServiceIsQuiet(t *testing.T) {
	t.Parallel()
	fault := func(command string, status int) *simulator.Fault {
		return &simulator.Fault{Command: command, Kind: simulator.FaultErrorBefore, HTTPStatus: status, Text: "no"}
	}
	for _, c := range []struct {
		name   string
		fault  *simulator.Fault
		change func(*corev1.Service)
	}{
		{name: "account limit", fault: &simulator.Fault{Command: "associateIpAddress", Kind: simulator.FaultQuota}},
		{name: "address unavailable", change: annotate(annotation.Address, "203.0.113.11")},
		{name: "no capacity", fault: &simulator.Fault{Command: "associateIpAddress", Kind: simulator.FaultCapacity}},
		{name: "not permitted", fault: fault("associateIpAddress", 432)},
		{name: "conflict", change: annotate(annotation.Address, foreignIP)},
		{name: "conflict 537", fault: fault("createLoadBalancerRule", 537), change: annotate(annotation.Address, "203.0.113.31")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, nil, func(b *bubble) {
				if c.fault != nil {
					b.sim.Inject(*c.fault)
				}
				change := c.change
				if change == nil {
					change = func(*corev1.Service) {}
				}
				b.count()
				b.service("default", "web", change)
				for period := range 3 {
					time.Sleep(10 * time.Minute)
					calls, events := b.count()
					text := fmt.Sprintf("period %d: %d calls, %d Events\n%s\n%s", period, len(calls), len(events), tally(calls), tally(events))
					t.Log(text)
					assert.LessOrEqual(t, len(calls), 12, text)
					assert.LessOrEqual(t, len(events), 12, text)
				}
				assert.False(t, b.served("default", "web"))
			})
		})
	}
}

// Twenty Services want addresses and the account may have 17: when one goes, another gets its address soon.
func TestTenantFreedAddressIsUsedSoon(t *testing.T) {
	t.Parallel()
	limited := func(world string) string {
		// lbWorld's account has five addresses of its own.
		return strings.Replace(world, "  - name: k8s\n    role: User\n", "  - name: k8s\n    role: User\n    limits: {publicIPs: 22}\n", 1)
	}
	inBubble(t, limited, func(b *bubble) {
		const n = 20
		for i := range n {
			b.service(fmt.Sprintf("ns%d", i%3), fmt.Sprintf("web%d", i))
		}
		time.Sleep(20 * time.Minute)
		served := func() (with, without []int) {
			for i := range n {
				if b.served(fmt.Sprintf("ns%d", i%3), fmt.Sprintf("web%d", i)) {
					with = append(with, i)
				} else {
					without = append(without, i)
				}
			}
			return with, without
		}
		with, _ := served()
		if !assert.Len(t, with, 17) {
			return
		}
		b.count()
		gone := with[0]
		b.remove(fmt.Sprintf("ns%d", gone%3), fmt.Sprintf("web%d", gone))
		b.service(fmt.Sprintf("ns%d", gone%3), fmt.Sprintf("web%d", gone), func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
		time.Sleep(15 * time.Second)
		with, without := served()
		assert.Len(t, with, 17, "the address of the deleted Service is used")
		assert.Contains(t, without, gone)
		calls, _ := b.count()
		t.Log(tally(calls))
	})
}

// A Service that waits is tried again as soon as its owner corrects it, not when something else about it changes; and
// what its owner gets stays recorded on it.
func TestTenantCorrectedServiceIsServedSoon(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		wrong, change func(*corev1.Service)
	}{
		{"annotation", annotate(annotation.Address, "203.0.113.11"), func(s *corev1.Service) { delete(s.Annotations, annotation.Address) }},
		{"spec", func(s *corev1.Service) { s.Spec.LoadBalancerIP = "203.0.113.11" }, func(s *corev1.Service) { s.Spec.LoadBalancerIP = "" }},
		{"record", annotate(annotation.Addresses, "not JSON"), func(s *corev1.Service) { delete(s.Annotations, annotation.Addresses) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, nil, func(b *bubble) {
				b.service("default", "web", c.wrong)
				time.Sleep(5 * time.Minute)
				b.count()
				b.edit("default", "web", annotate("example.org/note", "nothing that concerns us"))
				time.Sleep(time.Minute)
				calls, _ := b.count()
				assert.Empty(t, calls)
				assert.False(t, b.served("default", "web"))
				b.edit("default", "web", c.change)
				time.Sleep(10 * time.Second)
				assert.True(t, b.served("default", "web"))
				svc := b.get("default", "web")
				assert.Contains(t, svc.Annotations[annotation.Addresses], svc.Status.LoadBalancer.Ingress[0].IP, "the framework's patches leave the record")
				assert.NotEmpty(t, svc.Finalizers)
				b.count()
				b.edit("default", "web", func(s *corev1.Service) { s.Spec.Ports = servicePorts(80, 81) })
				time.Sleep(10 * time.Second)
				calls, _ = b.count()
				assert.NotContains(t, calls, "associateIpAddress")
				assert.Contains(t, calls, "createLoadBalancerRule")
				b.remove("default", "web")
				time.Sleep(time.Second)
				assert.Empty(t, b.remembered())
			})
		})
	}
}

// A Service that waits and is deleted leaves nothing behind, and gets no address after that.
func TestTenantWaitingServiceGoes(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(b *bubble) {
		b.sim.Inject(simulator.Fault{Command: "associateIpAddress", Kind: simulator.FaultQuota})
		b.service("default", "web")
		b.service("default", "plain")
		time.Sleep(time.Minute)
		b.remove("default", "web")
		b.edit("default", "plain", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
		time.Sleep(10 * time.Second)
		b.count()
		b.p.lb.freed(backoff.ByAddress)
		time.Sleep(30 * time.Minute)
		calls, _ := b.count()
		assert.NotContains(t, calls, "associateIpAddress")
		assert.LessOrEqual(t, len(calls), 2, "the framework asks once more whether anything is left of the one that stays")
		for _, what := range b.remembered() {
			assert.NotRegexp(t, "^(seen|shown|waits)", what)
		}
	})
}

// A call that fails in passing is repeated soon.
func TestTenantTransientFailureIsRetriedSoon(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(b *bubble) {
		b.sim.Inject(simulator.Fault{Command: "createLoadBalancerRule", Kind: simulator.FaultErrorBefore, Count: 3})
		b.service("default", "web")
		time.Sleep(time.Minute)
		assert.True(t, b.served("default", "web"))
	})
}
