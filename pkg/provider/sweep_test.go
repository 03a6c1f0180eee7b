// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/simulator"
)

// ruleTags are the keys of the tags of load balancer rules, there or gone, by the rule's id.
func (b *bed) ruleTags() map[string][]string {
	b.t.Helper()
	tags, err := b.inspect.ListTags(b.t.Context(), cloudstack.TagQuery{ResourceType: plan.ResourceRule})
	require.NoError(b.t, err)
	out := map[string][]string{}
	for i := range tags {
		out[tags[i].ResourceID] = append(out[tags[i].ResourceID], tags[i].Key)
	}
	for id := range out {
		slices.Sort(out[id])
	}
	return out
}

// ruleOn is the id of the rule of a public port.
func (b *bed) ruleOn(ip string, port int) string {
	b.t.Helper()
	rules, err := b.inspect.ListLoadBalancerRules(b.t.Context(), cloudstack.LoadBalancerRuleQuery{})
	require.NoError(b.t, err)
	for i := range rules {
		if rules[i].PublicIP == ip && rules[i].PublicPort == port {
			return rules[i].ID
		}
	}
	b.t.Fatalf("no rule of port %d on %s", port, ip)
	return ""
}

// did waits for a job that the test has submitted itself.
func (b *bed) did(s cloudstack.Submitted, err error) string {
	b.t.Helper()
	require.NoError(b.t, err)
	_, err = b.inspect.Jobs().Wait(b.t.Context(), "test", s.JobID)
	require.NoError(b.t, err)
	return s.ID
}

func (b *bed) tagRule(id string, tags map[string]string) {
	b.t.Helper()
	b.did(b.inspect.CreateTags(b.t.Context(), plan.ResourceRule, []string{id}, tags))
}

// CloudStack keeps the tags of deleted rules: a sweep deletes this cluster's own, and no others.
func TestTagsOfDeletedRulesAreSwept(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b := newBed(t, withVPC)
	b.service([]int{80, 81})
	b.service([]int{82, 83}, uid(mailUID), func(s *corev1.Service) { s.Name = "mail" })
	b.service([]int{84}, uid("internal-uid"), annotate(annotation.Internal, "true"), func(s *corev1.Service) { s.Name = "inner" })
	b.mustSync("w1", "w2")
	require.NoError(t, b.syncAs("mail", "w1"))
	require.NoError(t, b.syncAs("inner", "i1"))
	ip := b.ip()
	stays, port81 := b.ruleOn(ip, 80), b.ruleOn(ip, 81)

	ours := map[string]string{plan.TagCluster: "test", "team": "web"}
	inner, err := b.inspect.ListInternalLoadBalancers(ctx, cloudstack.InternalLoadBalancerQuery{})
	require.NoError(t, err)
	require.Len(t, inner, 1)
	b.tagRule(inner[0].ID, ours)
	hidden := b.did(b.inspect.CreateInternalLoadBalancer(ctx, cloudstack.CreateInternalLoadBalancerRequest{
		Name: "hidden", NetworkID: inner[0].NetworkID, Port: 99, InstancePort: 99, Algorithm: "roundrobin",
	}))
	b.tagRule(hidden, ours)
	b.operator("updateLoadBalancer", "id", hidden, "fordisplay", "false")
	standing := []string{stays, inner[0].ID, hidden}

	ips, err := b.inspect.ListPublicIPs(ctx, cloudstack.PublicIPQuery{Address: foreignIP})
	require.NoError(t, err)
	require.Len(t, ips, 1)

	// Rules of others on an address of theirs: of another cluster, of one whose name differs by its case, and of nobody.
	var foreign []string
	for i, tags := range []map[string]string{{plan.TagCluster: "other"}, {plan.TagCluster: "TEST"}, {"csccm-clusters": "test"}} {
		s, err := b.inspect.CreateLoadBalancerRule(ctx, cloudstack.CreateLoadBalancerRuleRequest{
			Name: "foreign", Algorithm: "roundrobin", Protocol: "tcp", PublicIPID: ips[0].ID, PublicPort: 9000 + i, PrivatePort: 9000,
		})
		id := b.did(s, err)
		b.tagRule(id, tags)
		b.did(b.inspect.DeleteLoadBalancerRule(ctx, id))
		foreign = append(foreign, id)
	}
	b.tagRule(port81, map[string]string{"team": "web"})

	b.change(func(s *corev1.Service) { s.Spec.Ports = servicePorts(80) })
	b.mustSync("w1", "w2")
	require.NoError(t, b.removeAs("mail"))
	require.NoError(t, b.kube.CoreV1().Services("default").Delete(ctx, "mail", metav1.DeleteOptions{}))
	before := b.ruleTags()
	require.Len(t, before, len(standing)+len(foreign)+3, "three rules are gone, their tags are not")

	b.reset()
	b.lb.driftRound(ctx)
	assert.Equal(t, 1, count(b.calls(), "deleteTags"))
	after := b.ruleTags()
	for _, id := range append(standing, foreign...) {
		assert.Equal(t, before[id], after[id])
		delete(after, id)
	}
	assert.Equal(t, map[string][]string{port81: {"team"}}, after, "what others have tagged stays")

	// The next sweep comes in an hour.
	round := func(after time.Duration) []string {
		b.clock.SetTime(b.clock.Now().Add(after))
		b.reset()
		b.lb.driftRound(ctx)
		return b.calls()
	}
	quiet := round(5 * time.Minute)
	assert.Zero(t, count(quiet, "listTags"))
	swept := round(time.Hour)
	assert.Equal(t, 1, count(swept, "listTags"))
	assert.Zero(t, count(swept, "deleteTags"))
}

// At rest a sweep costs one listTags; nothing is asked for twice.
func TestSweepBudget(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.service([]int{80})
	b.mustSync("w1")
	b.lb.driftRound(t.Context())
	var rounds [][]string
	for _, after := range []time.Duration{5 * time.Minute, time.Hour} {
		b.clock.SetTime(b.clock.Now().Add(after))
		b.reset()
		b.lb.driftRound(t.Context())
		rounds = append(rounds, without(b.calls(), snapshots...))
	}
	assert.ElementsMatch(t, append(rounds[0], "listTags"), rounds[1])
}

// A role that may not list or delete tags makes no difference.
func TestSweepWithoutTheRight(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"listTags", "deleteTags"} {
		b := newBed(t)
		b.service([]int{80, 81})
		b.mustSync("w1")
		b.change(func(s *corev1.Service) { s.Spec.Ports = servicePorts(80) })
		b.mustSync("w1")
		before := b.ruleTags()
		b.sim.Inject(simulator.Fault{Command: command, Caller: "ccm", Kind: simulator.FaultErrorBefore, HTTPStatus: 432, Text: "The API [" + command + "] does not exist or is not available"})
		b.events()
		b.lb.driftRound(t.Context())
		assert.Equal(t, before, b.ruleTags())
		assert.Empty(t, b.events())
	}
}
