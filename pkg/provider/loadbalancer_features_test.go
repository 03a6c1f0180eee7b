// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/service"
)

// policies are the stickiness of the Service's rules by port.
func (env *serviceEnv) policies() map[int]string {
	env.t.Helper()
	rules, err := env.inspect.ListLoadBalancerRules(env.t.Context(), cloudstack.LoadBalancerRuleQuery{ProjectID: env.project, Keyword: webLB})
	require.NoError(env.t, err)
	out := map[int]string{}
	for i := range rules {
		list, err := env.inspect.ListStickinessPolicies(env.t.Context(), rules[i].ID)
		require.NoError(env.t, err)
		for _, p := range list {
			out[rules[i].PublicPort] += p.Method + " " + p.Params["cookie-name"] + p.Params["expire"]
		}
	}
	return out
}

func TestStickiness(t *testing.T) {
	t.Parallel()
	env := served(t, []int{80, 81}, as(annotate(annotation.StickinessMethod, "lb-cookie", annotation.StickinessOptions, "cookie-name=SRV")))
	assert.Equal(t, map[int]string{80: "LbCookie SRV", 81: "LbCookie SRV"}, env.policies())
	env.restart()
	env.reset()
	env.mustSync("web")
	assert.Empty(t, grep(env.calls(), "create"), "nothing to do")

	env.changed(annotate(annotation.StickinessMethod, "source", annotation.StickinessOptions, "expire=30m"))
	assert.Equal(t, map[int]string{80: "SourceBased 30m", 81: "SourceBased 30m"}, env.policies())

	// Removed while the controller was away.
	env.restart()
	env.changed(func(s *corev1.Service) { delete(s.Annotations, annotation.StickinessMethod) })
	assert.Empty(t, env.policies())
	env.restart()
	env.reset()
	env.mustSync("web")
	env.restart()
	env.reset()
	env.mustSync("web")
	assert.Zero(t, count(env.calls(), "listLBStickinessPolicies"), "and not looked for any more")
	env.removed("web")
}

func TestPROXYProtocolOnNamedPorts(t *testing.T) {
	t.Parallel()
	env := served(t, []int{80, 81}, by("w1"), as(annotate(annotation.ProxyProtocol, "p81")))
	dump := strings.Join(of(env.dump(), env.ip("web")), "\n")
	assert.Contains(t, dump, webLB+"-tcp-80 80->30080 tcp ")
	assert.Contains(t, dump, webLB+"-tcp-proxy-81 81->30081 tcp-proxy ")
	assert.Equal(t, corev1.LoadBalancerIPModeProxy, *env.get("web").Status.LoadBalancer.Ingress[0].IPMode)
}

var (
	readyEndpoint  = discoveryv1.EndpointConditions{Ready: ptr.To(true)}
	endingEndpoint = discoveryv1.EndpointConditions{Ready: ptr.To(false), Serving: ptr.To(true), Terminating: ptr.To(true)}
)

// endpoints sets the endpoints of a Service, by node.
func (a *apiServer) endpoints(key string, nodes endpoints) {
	a.t.Helper()
	namespace, name := a.split(key)
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: namespace, Name: name + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	for node, conditions := range nodes {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{NodeName: &node, Conditions: conditions})
	}
	slices := a.kube.DiscoveryV1().EndpointSlices(namespace)
	_, err := slices.Create(a.t.Context(), s, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = slices.Update(a.t.Context(), s, metav1.UpdateOptions{})
	}
	require.NoError(a.t, err)
}

type endpoints = map[string]discoveryv1.EndpointConditions

// With externalTrafficPolicy Local the members are the nodes with endpoints, and follow these. The address stays when all
// Pods are on a node of another network.
func TestExternalTrafficPolicyLocal(t *testing.T) {
	t.Parallel()
	setup := setupOf(lbWorld)
	setup.nodes = []string{"w1", "w2", "w3", "s1"}
	withController(t, setup, func(env *frameworkEnv) {
		env.endpoints("web", endpoints{"w1": readyEndpoint, "w2": endingEndpoint})
		ip := env.serves("web", []int{80}, local)
		assert.Equal(t, []string{"w1"}, env.members("web"))
		for _, step := range []struct {
			nodes endpoints
			want  []string
		}{
			{endpoints{"w2": readyEndpoint, "w3": readyEndpoint}, []string{"w2", "w3"}},
			{endpoints{"w2": endingEndpoint}, []string{"w2"}}, // what still serves is better than nobody
			{endpoints{"s1": readyEndpoint}, []string{}},
			{endpoints{"w2": readyEndpoint}, []string{"w2"}},
			{nil, []string{}},
		} {
			env.endpoints("web", step.nodes)
			time.Sleep(10 * time.Second)
			assert.Equal(t, step.want, env.members("web"))
			assert.Equal(t, ip, env.ip("web"))
		}
		assert.NotEmpty(t, grep(env.said(), "no node has a ready endpoint"))
		assert.Zero(t, env.sent("disassociateIpAddress"))
	})
}

// Nodes with NICs in several networks are reached through the network that all share, at the address in their status.
func TestNodesInSeveralNetworks(t *testing.T) {
	t.Parallel()
	world := withWorld(func(w string) string {
		return strings.Replace(w, "virtualMachines:\n", `virtualMachines:
  - {name: m1, account: k8s, nics: [{network: second-net, ip: 10.1.3.31}, {network: k8s-net, ip: 10.1.1.31, secondary: [10.1.1.131]}]}
  - {name: m2, account: k8s, nics: [{network: k8s-net, ip: 10.1.1.32}]}
`, 1)
	})
	env := newEnv(t, world)
	env.create("web", []int{80})
	nodes := nodesNamed("m1", "m2")
	nodes[0].Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.1.1.131"}}
	sync := func() {
		t.Helper()
		env.setNodes(nodes)
		env.noticed()
		require.NoError(t, env.attempt("web"))
	}
	backends := func() map[string][]string {
		t.Helper()
		rules, err := env.inspect.ListLoadBalancerRules(t.Context(), cloudstack.LoadBalancerRuleQuery{Keyword: webLB})
		require.NoError(t, err)
		list := env.membersOf(rules[0].ID)
		out := map[string][]string{}
		for i := range list {
			out[list[i].Name] = list[i].Addresses
		}
		return out
	}
	sync()
	assert.Equal(t, map[string][]string{"m1": {"10.1.1.131"}, "m2": {"10.1.1.32"}}, backends())
	env.restart()
	env.reset()
	sync()
	assert.Zero(t, env.Ledger().Count("assignToLoadBalancerRule", "removeFromLoadBalancerRule"))

	// The node takes its other address, and back.
	nodes[0].Status.Addresses[0].Address = "10.1.1.31"
	sync()
	assert.Equal(t, map[string][]string{"m1": {"10.1.1.31"}, "m2": {"10.1.1.32"}}, backends())
	nodes[0].Status.Addresses[0].Address = "10.1.1.131"
	sync()
	assert.Equal(t, map[string][]string{"m1": {"10.1.1.131"}, "m2": {"10.1.1.32"}}, backends())

	// A network by name: who is not in it does not serve, and a new address is taken there.
	old := env.ip("web")
	env.edit("web", annotate(annotation.Network, "second-net"))
	env.events()
	sync()
	assert.Contains(t, env.event(plan.ReasonNodeOutside), "m2")
	assert.NotEqual(t, old, env.ip("web"))
	assert.Empty(t, of(env.dump(), old))
	assert.Equal(t, map[string][]string{"m1": {"10.1.3.31"}}, backends())
	env.edit("web", annotate(annotation.Network, "no-net"))
	require.ErrorContains(t, env.sync("web", "m1"), "k8s-net")
}

func TestZoneOfAService(t *testing.T) {
	t.Parallel()
	env := served(t, []int{80}, by("w1"), as(annotate(annotation.Zone, "ZONE-1")))
	env.edit("web", annotate(annotation.Zone, "zone-9"))
	require.ErrorContains(t, env.sync("web", "w1"), `zone "zone-9"`)
}

func TestConditions(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	env.create("web", []int{80, 443})
	condition := func(kind string) *metav1.Condition {
		return apimeta.FindStatusCondition(env.get("web").Status.Conditions, kind)
	}
	env.mustSync("web", "w1")
	require.NotNil(t, condition(service.ConditionReady))
	assert.Equal(t, metav1.ConditionTrue, condition(service.ConditionReady).Status)
	assert.Nil(t, condition(corev1.LoadBalancerPortsError))

	env.edit("web", func(s *corev1.Service) { s.Spec.Ports[1].Protocol = corev1.ProtocolUDP }, annotate(annotation.Mode, annotation.Proxy))
	require.Error(t, env.sync("web", "w1"))
	assert.Equal(t, metav1.ConditionFalse, condition(service.ConditionReady).Status)
	assert.Equal(t, string(plan.ReasonUnsupportedProto), condition(service.ConditionReady).Reason)
	assert.Equal(t, metav1.ConditionTrue, condition(corev1.LoadBalancerPortsError).Status)
	require.NotNil(t, env.get("web").Status.LoadBalancer.Ingress[0].Ports[1].Error)
	assert.Equal(t, string(plan.ReasonUnsupportedProto), *env.get("web").Status.LoadBalancer.Ingress[0].Ports[1].Error)

	env.changed(func(s *corev1.Service) { s.Spec.Ports[1].Protocol = corev1.ProtocolTCP }, "w1")
	assert.Equal(t, metav1.ConditionTrue, condition(service.ConditionReady).Status)
	assert.Equal(t, metav1.ConditionFalse, condition(corev1.LoadBalancerPortsError).Status)
	assert.Nil(t, env.get("web").Status.LoadBalancer.Ingress[0].Ports[1].Error)

	require.NoError(t, env.remove("web"))
	assert.Nil(t, condition(service.ConditionReady), "a Service that is no load balancer any more")
}
