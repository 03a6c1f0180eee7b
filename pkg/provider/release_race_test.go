// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/simulator"
)

const textLBIsNull = `Cannot invoke "com.cloud.network.dao.LoadBalancerVO.getNetworkId()" because "lb" is null`

// slowDeletion is a server on which the deletion of a rule takes longer than the controller waits before it releases
// the address, and the release takes longer still.
var slowDeletion = simulator.LatencyProfile{
	Call: 20 * time.Millisecond, Job: 100 * time.Millisecond,
	Jobs: map[string]time.Duration{"deleteLoadBalancerRule": 4 * time.Second, "disassociateIpAddress": 6 * time.Second},
}

// failures counts the failed jobs of a command.
func (b *bubble) failures(command string) int {
	n := 0
	for _, c := range b.sim.Ledger().Find(command, "ccm") {
		if c.JobStatus == 2 {
			n++
		}
	}
	return n
}

// An address is released only when deletions of its rules have ended, also those whose answer was lost and those that
// the process before began: the server's release breaks on them.
func TestReleaseWaitsForDeletions(t *testing.T) {
	t.Parallel()
	for name, restart := range map[string]bool{"the answer was lost": false, "the process was restarted": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubbleWith(t, simulator.Options{Latency: slowDeletion}, nil, func(b *bubble) {
				before := b.addresses()
				b.service("default", "web", func(s *corev1.Service) { s.Spec.Ports = servicePorts(80, 81) })
				time.Sleep(10 * time.Second)
				require.True(t, b.served("default", "web"))
				b.sim.Inject(simulator.Fault{Command: "deleteLoadBalancerRule", Nth: 1, Kind: simulator.FaultLostAnswer})
				b.edit("default", "web", func(s *corev1.Service) { s.Spec.Ports = servicePorts(80) })
				for range 100 {
					if time.Sleep(20 * time.Millisecond); len(b.sim.Ledger().Find("deleteLoadBalancerRule", "ccm")) > 0 {
						break
					}
				}
				require.Len(t, b.sim.Ledger().Find("deleteLoadBalancerRule", "ccm"), 1)
				if restart {
					b.stop()
					b.start()
				}
				b.remove("default", "web")
				assert.Equal(t, before, b.addresses())
				assert.Zero(t, b.failures("disassociateIpAddress"))
				assert.Len(t, b.sim.Ledger().Find("disassociateIpAddress", "ccm"), 1)
			})
		})
	}
}

// A release whose job broke on a deletion of somebody else is sent again at once.
func TestReleaseThatBrokeOnADeletionIsRepeated(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		count int
		sent  int
	}{{"once", 1, 2}, {"five times", 5, 6}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, nil, func(b *bubble) {
				before := b.addresses()
				b.service("default", "web")
				time.Sleep(time.Second)
				require.True(t, b.served("default", "web"))
				b.sim.Inject(simulator.Fault{Command: "disassociateIpAddress", Kind: simulator.FaultJobFails, Count: c.count, Text: textLBIsNull})
				begun := time.Now()
				b.remove("default", "web")
				assert.Less(t, time.Since(begun), 30*time.Second)
				assert.Equal(t, before, b.addresses())
				assert.Len(t, b.sim.Ledger().Find("disassociateIpAddress", "ccm"), c.sent)
			})
		})
	}
}

// A rule that a restart of the server left in state Deleting does not keep its address for ever.
func TestReleaseDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(b *bubble) {
		before := b.addresses()
		b.service("default", "web", func(s *corev1.Service) { s.Spec.Ports = servicePorts(80, 81) })
		time.Sleep(time.Second)
		require.True(t, b.served("default", "web"))
		b.sim.Inject(simulator.Fault{Command: "deleteLoadBalancerRule", Kind: simulator.FaultJobNeverEnds})
		b.edit("default", "web", func(s *corev1.Service) { s.Spec.Ports = servicePorts(80) })
		time.Sleep(200 * time.Millisecond)
		b.stop()
		b.start()
		b.remove("default", "web")
		assert.Equal(t, before, b.addresses())
	})
}
