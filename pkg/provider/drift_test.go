// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/internal/testenv"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// Clusters without a name share the default one: objects of another such cluster must not be removed as orphans.
// Without an id of its own a cluster is known by the UID of namespace kube-system.
func TestNamesOfClusters(t *testing.T) {
	t.Parallel()
	kube := testenv.Kube(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "uid-1"}})
	for _, c := range []struct {
		name    string
		options Options
		config  string
		id      string
		wrong   bool
	}{
		{name: "none: the cluster's own", id: "uid-1"},
		{name: "the framework's default", options: Options{ClusterName: "kubernetes"}, id: "uid-1"},
		{name: "the framework's default, as a flag", options: Options{ClusterID: "kubernetes"}, id: "kubernetes", wrong: true},
		{name: "the framework's default, in the cloud-config", config: "kubernetes", id: "kubernetes", wrong: true},
		{name: "a flag", options: Options{ClusterID: "prod", ClusterName: "name"}, config: "file", id: "prod"},
		{name: "the cloud-config", options: Options{ClusterName: "name"}, config: "prod", id: "prod"},
		{name: "the framework's", options: Options{ClusterName: "prod"}, id: "prod"},
	} {
		o := DefaultOptions()
		o.ClusterID, o.ClusterName = c.options.ClusterID, c.options.ClusterName
		cfg := &cloudstack.Config{APIURL: "http://127.0.0.1/client/api", APIKey: "key", SecretKey: "secret", ClusterID: c.config}
		p, err := New(cfg, o)
		require.NoError(t, err, c.name)
		require.NoError(t, p.readClusterUID(t.Context(), kube), c.name)
		assert.Equal(t, c.id, p.clusterID(), c.name)
		p.options.RegisterCluster = "entry" // whose owner is named by the UID in any case
		require.NoError(t, p.readClusterUID(t.Context(), kube), c.name)
		assert.Equal(t, "uid-1", p.registration().ClusterID, c.name)
		assert.Equal(t, c.id, p.clusterID(), c.name)
		o.CleanOrphans = true
		_, err = New(cfg, o)
		if c.wrong {
			require.ErrorContains(t, err, "--cluster-id", c.name)
			continue
		}
		require.NoError(t, err, c.name)
	}

	assert.Empty(t, ClusterID("", "", "kubernetes", ""), "no UID was read yet")
	for _, id := range []string{strings.Repeat("a", 129), " prod", "prod\n", "prod \U0001F680", "\xff"} {
		o := DefaultOptions()
		o.ClusterID = id
		_, err := New(&cloudstack.Config{APIURL: "http://127.0.0.1/client/api", APIKey: "key", SecretKey: "secret"}, o)
		require.ErrorContains(t, err, "cluster-id", id)
	}
}

// A drift round with one Service reads each list once, and the members in the cheaper of two ways.
func TestDriftBudgetOfOneService(t *testing.T) {
	t.Parallel()
	twoVMs := withWorld(func(w string) string {
		return regexp.MustCompile(`(?m)^  - .name: w[345],.*\n`).ReplaceAllString(w, "")
	})
	for _, c := range []struct {
		ports   []int
		members string // how they are read
		reads   int
	}{
		{[]int{80}, "listLoadBalancerRuleInstances", 1},
		{[]int{80, 81, 443}, "listLoadBalancerRules", 2},
		{someOrTen(10), "listLoadBalancerRules", 2},
	} {
		parallel(t, fmt.Sprintf("%d ports", len(c.ports)), func(t *testing.T) {
			env := served(t, c.ports, twoVMs)
			env.round(0) // with the sweep of tags
			env.advance(5 * time.Minute)
			env.reset()
			env.round(0)
			want := []string{"listLoadBalancerRules", "listFirewallRules", "listPublicIpAddresses"}
			for range c.reads {
				want = append(want, c.members)
			}
			assert.ElementsMatch(t, want, without(env.calls(), snapshots...))
			env.advance(time.Hour) // at rest a sweep costs one call
			env.reset()
			env.round(0)
			assert.ElementsMatch(t, append(want, "listTags"), without(env.calls(), snapshots...))
		})
	}
}

// ruleTags are the keys of the tags of load balancer rules, there or gone, by the rule's id.
func (env *serviceEnv) ruleTags() map[string][]string {
	env.t.Helper()
	tags, err := env.inspect.ListTags(env.t.Context(), cloudstack.TagQuery{ResourceType: plan.ResourceRule})
	require.NoError(env.t, err)
	out := map[string][]string{}
	for i := range tags {
		out[tags[i].ResourceID] = append(out[tags[i].ResourceID], tags[i].Key)
	}
	for id := range out {
		slices.Sort(out[id])
	}
	return out
}

// CloudStack keeps the tags of deleted rules: a sweep deletes this cluster's own, and no others.
func TestTagsOfDeletedRulesAreSwept(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	env := newEnv(t, withVPC)
	env.create("web", []int{80, 81})
	env.create("mail", []int{82, 83})
	env.create("inner", []int{84}, annotate(annotation.Internal, "true"))
	env.mustSync("web")
	env.mustSync("mail", "w1")
	env.mustSync("inner", "i1")
	ip := env.ip("web")
	rules := env.rulesAt(ip)
	slices.SortFunc(rules, func(a, b cloudstack.LoadBalancerRule) int { return a.PublicPort - b.PublicPort })
	stays, port81 := rules[0].ID, rules[1].ID
	tag := func(id string, tags map[string]string) {
		env.did(env.inspect.CreateTags(ctx, plan.ResourceRule, []string{id}, tags))
	}

	ours := map[string]string{plan.TagCluster: "test", "team": "web"} // the controller tags its own itself
	inner, err := env.inspect.ListInternalLoadBalancers(ctx, cloudstack.InternalLoadBalancerQuery{})
	require.NoError(t, err)
	require.Len(t, inner, 1)
	require.Equal(t, "test", inner[0].Tags[plan.TagCluster])
	hidden := env.did(env.inspect.CreateInternalLoadBalancer(ctx, cloudstack.CreateInternalLoadBalancerRequest{
		Name: "hidden", NetworkID: inner[0].NetworkID, Port: 99, InstancePort: 99, Algorithm: "roundrobin",
	}))
	tag(hidden, ours)
	env.Admin("updateLoadBalancer", "id", hidden, "fordisplay", "false")
	standing := []string{stays, inner[0].ID, hidden}

	address := env.address(foreignIP)

	// Rules of others on an address of theirs: of another cluster, of one whose name differs by its case, and of nobody.
	var foreign []string
	for i, tags := range []map[string]string{{plan.TagCluster: "other"}, {plan.TagCluster: "TEST"}, {"csccm-clusters": "test"}} {
		id := env.did(env.inspect.CreateLoadBalancerRule(ctx, cloudstack.CreateLoadBalancerRuleRequest{
			Name: "foreign", Algorithm: "roundrobin", Protocol: "tcp", PublicIPID: address.ID, PublicPort: 9000 + i, PrivatePort: 9000,
		}))
		tag(id, tags)
		env.did(env.inspect.DeleteLoadBalancerRule(ctx, id))
		foreign = append(foreign, id)
	}
	tag(port81, map[string]string{"team": "web"})

	env.changed(func(s *corev1.Service) { s.Spec.Ports = servicePorts(80) })
	require.NoError(t, env.remove("mail"))
	env.forget("mail")
	before := env.ruleTags()
	require.Len(t, before, len(standing)+len(foreign)+3, "three rules are gone, their tags are not")

	env.reset()
	env.round(0)
	assert.Equal(t, 1, count(env.calls(), "deleteTags"))
	after := env.ruleTags()
	for _, id := range append(standing, foreign...) {
		assert.Equal(t, before[id], after[id])
		delete(after, id)
	}
	assert.Equal(t, map[string][]string{port81: {"team"}}, after, "what others have tagged stays")

	// The next sweep comes in an hour.
	round := func(after time.Duration) []string {
		env.advance(after)
		env.reset()
		env.round(0)
		return env.calls()
	}
	quiet := round(5 * time.Minute)
	assert.Zero(t, count(quiet, "listTags"))
	swept := round(time.Hour)
	assert.Equal(t, 1, count(swept, "listTags"))
	assert.Zero(t, count(swept, "deleteTags"))
}
