// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

const mailUID = "9d3e1b52-0000-4000-8000-00000000abcd"

// sharing makes a second Service, mail, that uses the address of web.
func sharing(b *bed) (ip string) {
	b.t.Helper()
	b.service([]int{80})
	b.mustSync("w1", "w2")
	ip = b.ip()
	b.service([]int{25}, uid(mailUID), func(s *corev1.Service) { s.Name = "mail"; s.Spec.LoadBalancerIP = ip })
	require.NoError(b.t, b.syncAs("mail", "w1", "w2"))
	return ip
}

// The address is released with the last Service that uses it, whichever acquired it.
func TestSharedAddress(t *testing.T) {
	t.Parallel()
	for name, order := range map[string][]string{"the first one goes first": {"web", "mail"}, "the first one goes last": {"mail", "web"}} {
		for _, restarted := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				b := newBed(t)
				before := b.dump()
				ip := sharing(b)
				assert.Len(t, of(b.dump(), ip), 5)
				if restarted {
					b.restart()
				}
				require.NoError(t, b.removeAs(order[0]))
				assert.Len(t, of(b.dump(), ip), 3, "the other one's rule, firewall and address stay")
				if restarted {
					b.restart()
				}
				require.NoError(t, b.syncAs(order[1], "w1", "w2"))
				require.NoError(t, b.removeAs(order[1]))
				assert.Equal(t, before, b.dump())
			})
		}
	}
	t.Run("handed over and never synced again", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		before := b.dump()
		sharing(b)
		require.NoError(t, b.removeAs("web"))
		b.restart()
		require.NoError(t, b.removeAs("mail"))
		assert.Equal(t, before, b.dump())
	})
	t.Run("a port that the other one has", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		ip := sharing(b)
		b.changeAs("mail", func(s *corev1.Service) { s.Spec.Ports = servicePorts(25, 80) })
		require.ErrorContains(t, b.syncAs("mail", "w1"), "port 80")
		assert.NotEmpty(t, b.event(plan.ReasonPortTaken))
		assert.Len(t, of(b.dump(), ip), 5)
	})
	t.Run("both go at once", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		before := b.dump()
		sharing(b)
		var group sync.WaitGroup
		for _, name := range []string{"web", "mail"} {
			svc := b.getAs(name)
			group.Go(func() { assert.NoError(t, b.lb.EnsureLoadBalancerDeleted(t.Context(), "", svc)) })
		}
		group.Wait()
		assert.Equal(t, before, b.dump())
	})
}
