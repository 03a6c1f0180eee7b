// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/provider/event"
)

const (
	waitLong = 5 * time.Minute // what comes costs nothing; 32 clusters at once on a starved machine took more than one
	waitStep = 20 * time.Millisecond
)

// byHand waits for what an operator does in CloudStack.
func (b *bed) byHand(s cloudstack.Submitted, err error) {
	b.t.Helper()
	require.NoError(b.t, err)
	_, err = b.inspect.Jobs().Wait(b.t.Context(), "by hand", s.JobID)
	require.NoError(b.t, err)
}

// many makes Services web0, web1 ... and syncs them.
func (b *bed) many(n int, ports []int, nodes ...string) {
	b.t.Helper()
	for i := range n {
		name := fmt.Sprintf("web%d", i)
		b.service(ports, uid(fmt.Sprintf("%08d-0000-4000-8000-00000000abcd", i)), func(s *corev1.Service) { s.Name = name })
		require.NoError(b.t, b.syncAs(name, nodes...))
	}
}

// What others remove or change comes back in the loop's next round, without anything happening in Kubernetes.
func TestDriftLoopRepairs(t *testing.T) {
	t.Parallel()
	for _, services := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d Services", services), func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			b.many(services, []int{80, 81}, "w1", "w2")
			want := b.dump()
			ctx := t.Context()
			ip := b.getAs("web0").Status.LoadBalancer.Ingress[0].IP
			ips, err := b.inspect.ListPublicIPs(ctx, cloudstack.PublicIPQuery{Address: ip})
			require.NoError(t, err)
			firewall, err := b.inspect.ListFirewallRules(ctx, cloudstack.FirewallRuleQuery{PublicIPID: ips[0].ID})
			require.NoError(t, err)
			rules, err := b.inspect.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{PublicIPID: ips[0].ID})
			require.NoError(t, err)
			members, err := b.inspect.ListLoadBalancerMembers(ctx, rules[1].ID)
			require.NoError(t, err)
			b.byHand(b.inspect.DeleteFirewallRule(ctx, firewall[0].ID))
			b.byHand(b.inspect.DeleteLoadBalancerRule(ctx, rules[0].ID))
			b.byHand(b.inspect.RemoveFromLoadBalancerRule(ctx, rules[1].ID, cloudstack.VMs(members[0].VMID)))
			b.clock.SetTime(b.clock.Now().Add(5 * time.Minute))
			b.lb.driftRound(ctx)
			assert.Equal(t, want, b.dump())
			assert.NotEmpty(t, b.event(loadbalancer.ReasonDriftRepaired))

			// The address itself: another one serves, and the status says so.
			b.byHand(b.inspect.DisassociateIP(ctx, ips[0].ID))
			b.clock.SetTime(b.clock.Now().Add(5 * time.Minute))
			b.lb.driftRound(ctx)
			now := b.getAs("web0").Status.LoadBalancer.Ingress[0].IP
			assert.Len(t, of(b.dump(), now), 4)
		})
	}
}

// A Service that the framework deletes or changes while the loop runs is not brought back.
func TestDriftLoopKeepsToWhatWasAskedLast(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	empty := b.dump()
	b.many(2, []int{80}, "w1")
	require.NoError(t, b.removeAs("web0"))
	b.changeAs("web1", func(s *corev1.Service) { s.Spec.Ports = servicePorts(81) })
	require.NoError(t, b.syncAs("web1", "w1", "w2"))
	want := b.dump()
	b.clock.SetTime(b.clock.Now().Add(5 * time.Minute))
	b.lb.driftRound(t.Context())
	assert.Equal(t, want, b.dump())
	require.NoError(t, b.removeAs("web1"))
	b.lb.driftRound(t.Context())
	assert.Equal(t, empty, b.dump())
}

// Clusters that were given no name all have the same: what one made must not look like an orphan to be removed.
func TestNamesOfClusters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		options Options
		config  string
		wrong   bool
	}{
		{name: "none: the cluster's own", options: Options{}},
		{name: "the framework's default", options: Options{ClusterName: "kubernetes"}},
		{name: "the framework's default, as a flag", options: Options{ClusterID: "kubernetes"}, wrong: true},
		{name: "the framework's default, in the cloud-config", config: "kubernetes", wrong: true},
		{name: "a flag", options: Options{ClusterID: "prod", ClusterName: "kubernetes"}},
		{name: "the cloud-config", options: Options{ClusterName: "kubernetes"}, config: "prod"},
		{name: "the framework's", options: Options{ClusterName: "prod"}},
	} {
		o := DefaultOptions()
		o.ClusterID, o.ClusterName = c.options.ClusterID, c.options.ClusterName
		cfg := &cloudstack.Config{APIURL: "http://127.0.0.1/client/api", APIKey: "key", SecretKey: "secret", ClusterID: c.config}
		_, err := New(cfg, o)
		require.NoError(t, err, c.name)
		o.CleanOrphans = true
		_, err = New(cfg, o)
		if c.wrong {
			require.ErrorContains(t, err, "--cluster-id", c.name)
			continue
		}
		require.NoError(t, err, c.name)
	}

	for _, id := range []string{strings.Repeat("a", 129), " prod", "prod\n", "prod \U0001F680", "\xff"} {
		o := DefaultOptions()
		o.ClusterID = id
		_, err := New(&cloudstack.Config{APIURL: "http://127.0.0.1/client/api", APIKey: "key", SecretKey: "secret"}, o)
		require.ErrorContains(t, err, "cluster-id", id)
	}

	b := newBed(t, func(b *bed, _ *string) {
		b.options = func(d *loadBalancerDeps) { d.ClusterID = func() string { return "kubernetes" } }
	})
	b.service([]int{80})
	b.mustSync("w1")
	require.NoError(t, b.kube.CoreV1().Services("default").Delete(t.Context(), "web", metav1.DeleteOptions{})) // as if it were another cluster's
	b.restart()
	b.events()
	b.lb.driftRound(t.Context())
	b.clock.SetTime(b.clock.Now().Add(5 * time.Minute))
	b.lb.driftRound(t.Context())
	assert.Contains(t, b.event(event.Orphan), `another cluster called "kubernetes"`)
}

func TestOrphans(t *testing.T) {
	t.Parallel()
	for _, clean := range []bool{false, true} {
		t.Run(fmt.Sprintf("clean %v", clean), func(t *testing.T) {
			t.Parallel()
			b := newBed(t, withVPC, func(b *bed, _ *string) {
				b.options = func(d *loadBalancerDeps) {
					d.CleanOrphans = clean
					d.ClusterID = func() string { return "The Cluster (" + strings.Repeat("x", maxClusterID-14) + ")" } // as long and odd as it may be
				}
			})
			empty := b.dump()
			b.service([]int{80}, uid(mailUID), func(s *corev1.Service) { s.Name = "mail" })
			require.NoError(t, b.syncAs("mail", "v1"))
			b.service([]int{80})
			b.mustSync("w1")
			want := b.dump()
			// Deleted with the finalizer taken off by hand.
			require.NoError(t, b.kube.CoreV1().Services("default").Delete(t.Context(), "web", metav1.DeleteOptions{}))
			require.NoError(t, b.kube.CoreV1().Services("default").Delete(t.Context(), "mail", metav1.DeleteOptions{}))
			b.restart()
			b.events()
			b.lb.driftRound(t.Context())
			assert.Empty(t, b.event(event.Orphan), "one look is no proof")
			assert.Equal(t, want, b.dump())
			b.clock.SetTime(b.clock.Now().Add(5 * time.Minute))
			b.lb.driftRound(t.Context())
			assert.NotEmpty(t, b.event(event.Orphan))
			if clean {
				want = empty
			}
			assert.Equal(t, want, b.dump())
		})
	}
}

// A drift round changes a Service's status while its endpoints are followed; the race detector looks on.
func TestEndpointsAreFollowedDuringADriftRound(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.service([]int{80})
	b.mustSync("w1")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var group sync.WaitGroup
	group.Go(func() {
		for ctx.Err() == nil {
			b.lb.moved(ctx, webUID)
		}
	})
	for i := range 100 {
		ip := fmt.Sprintf("203.0.113.%d", 50+i%2)
		assert.True(t, b.lb.again(ctx, webUID, func(context.Context, loadbalancer.Request) (loadbalancer.Result, error) {
			return loadbalancer.Result{IP: ip}, nil
		}))
	}
	cancel()
	group.Wait()
}
