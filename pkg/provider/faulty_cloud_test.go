// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/simulator"
)

// One call in ten fails and one answer in ten is lost, reads and polls included: eight Services of three ports all have
// their address within two minutes, and nothing is acquired twice.
func TestFaultyCloudServesEightServices(t *testing.T) {
	t.Parallel()
	const services = 8
	measured, err := simulator.Profile("simulator")
	require.NoError(t, err)
	for seed := range uint64(6) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			inBubbleWith(t, simulator.Options{Seed: seed, Latency: measured}, nil, func(b *bubble) {
				stop := []func(){
					b.sim.Inject(simulator.Fault{Kind: simulator.FaultErrorBefore, Caller: "ccm", Probability: 0.1}),
					b.sim.Inject(simulator.Fault{Kind: simulator.FaultLostAnswer, Caller: "ccm", Probability: 0.1}),
				}
				before := b.addresses()
				b.count()
				begun := time.Now()
				for i := range services {
					b.service("default", fmt.Sprintf("web%d", i), func(s *corev1.Service) { s.Spec.Ports = servicePorts(80, 81, 443) })
				}
				served := 0
				for time.Since(begun) < 10*time.Minute && served < services {
					time.Sleep(500 * time.Millisecond)
					served = 0
					for i := range services {
						if b.served("default", fmt.Sprintf("web%d", i)) {
							served++
						}
					}
				}
				took := time.Since(begun)
				calls, _ := b.count()
				t.Logf("%d of %d served after %s, %d calls", served, services, took, len(calls))
				assert.Equal(t, services, served)
				assert.LessOrEqual(t, took, 2*time.Minute)
				for _, remove := range stop {
					remove()
				}
				for i := range services {
					b.remove("default", fmt.Sprintf("web%d", i))
				}
				assert.Equal(t, before, b.addresses(), "nothing is left over")
			})
		})
	}
}

// addresses are the public addresses of the account in every state.
func (b *bubble) addresses() []string {
	b.t.Helper()
	c, err := cloudstack.NewClient(&cloudstack.Config{APIURL: "http://cloudstack.test/client/api", APIKey: "inspect", SecretKey: "inspect"},
		cloudstack.WithTransport(inMemory{b.sim.Handler()}))
	require.NoError(b.t, err)
	var out []string
	all := false
	for _, state := range []string{"Allocated", "Allocating", "Releasing"} {
		ips, err := c.ListPublicIPs(b.t.Context(), cloudstack.PublicIPQuery{State: state, AllocatedOnly: &all})
		require.NoError(b.t, err)
		for i := range ips {
			out = append(out, state+" "+ips[i].Address)
		}
	}
	return out
}

// Tags that cannot be set hold nothing back: the Service has its address, the next drift round tries again, a Warning
// comes when that fails, too, and in the end the tags are there.
func TestServiceIsServedWithoutItsTags(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	stop := b.sim.Inject(simulator.Fault{Command: "createTags", Kind: simulator.FaultJobFails})
	b.service([]int{80, 81})
	b.mustSync("w1", "w2")
	ip := b.ip()
	assert.Contains(t, b.get().Annotations[annotation.Addresses], ip)
	assert.NotContains(t, b.dump(), "address "+ip+" Allocated "+webTags)
	assert.Empty(t, b.event(loadbalancer.ReasonTaggingFailed), "one failure passes")
	b.restart()
	b.mustSync("w1", "w2")
	b.lb.driftRound(t.Context())
	event := b.event(loadbalancer.ReasonTaggingFailed)
	assert.Contains(t, event, "Failed by an injected fault")
	assert.Contains(t, event, "tag address "+ip)

	stop()
	b.lb.driftRound(t.Context())
	assert.Contains(t, b.dump(), "address "+ip+" Allocated "+webTags)
	rules, err := b.inspect.ListLoadBalancerRules(t.Context(), cloudstack.LoadBalancerRuleQuery{})
	require.NoError(t, err)
	for i := range rules {
		if rules[i].PublicIP == ip {
			assert.Equal(t, "test", rules[i].Tags[loadbalancer.TagCluster])
		}
	}
	assert.Empty(t, b.event(loadbalancer.ReasonTaggingFailed))
}
