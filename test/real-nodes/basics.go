// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/csccm/csccm/test/internal/must"
)

// install runs csccm install with flags, as an admin of CloudStack would.
func install(ctx context.Context, e *env) string {
	return installWith(ctx, e, "--account", account)
}

func installWith(ctx context.Context, e *env, args ...string) string {
	must.Get(e.run(ctx, adminWord+"\n", e.programs.Binaries.CLI, append([]string{
		"install", "--yes", "--api-url", e.cloud.URL, "--allow-http", "--admin-user", adminLogin, "--admin-password-stdin"}, args...)...))
	return e.installed(ctx)
}

// names returns the names of the nodes that the cluster started with.
func (e *env) names() []string {
	var names []string
	for _, n := range e.place.nodes {
		names = append(names, n.Name)
	}
	return names
}

// installed waits until the nodes are initialised and two Pods of the controller are ready on two nodes.
func (e *env) installed(ctx context.Context) string {
	names := e.names()
	e.initialized(ctx, names...)
	on := map[string]bool{}
	e.until(ctx, "both Pods of the controller to be ready", func(ctx context.Context) {
		list := must.Get(e.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: controllerLabel}))
		clear(on)
		for i := range list.Items {
			for _, c := range list.Items[i].Status.Conditions {
				if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
					on[list.Items[i].Spec.NodeName] = true
				}
			}
		}
		must.Be(len(on) == 2, "ready Pods on %d nodes, want 2", len(on))
	})
	return fmt.Sprintf("%d nodes initialised, controller on %d of them", len(names), len(on))
}

func tcp(ctx context.Context, e *env) string {
	to, _ := e.served(ctx, "tcp", nil)
	pods := map[string]bool{}
	for range 30 {
		a := must.Get(ask(ctx, client1, to))
		pods[a.Pod] = true
	}
	must.Be(len(pods) == replicas, "30 requests reached %d of %d Pods", len(pods), replicas)
	e.deleteService(ctx, "tcp")
	if _, err := ask(ctx, client1, to); err == nil {
		must.Fail("the address still answers after its Service was deleted")
	}
	return fmt.Sprintf("%s:%d, all %d Pods answer", to.Addr(), to.Port(), len(pods))
}

// proxyProtocol checks that the Pod sees the client's address in the PROXY protocol header.
func proxyProtocol(ctx context.Context, e *env) string {
	to, a := e.served(ctx, "proxied", func(s *corev1.Service) {
		s.Annotations[prefix+"proxy-protocol"] = "true"
		s.Spec.Ports[0].TargetPort = intstr.FromInt32(8081)
	})
	must.Be(a.Client == client1.String(), "the Pod sees %s, the client is %s", a.Client, client1)
	if a = must.Get(ask(ctx, client2, to)); a.Client != client2.String() {
		must.Fail("the Pod sees %s, the client is %s", a.Client, client2)
	}
	return "the Pod sees " + a.Client
}

// sourceRanges allows one client and refuses another, then the reverse.
func sourceRanges(ctx context.Context, e *env) string {
	to, _ := e.served(ctx, "ranges", allow(client1))
	e.ranges(ctx, "ranges", client1, client2, to, ask)
	return "allowed answered, others refused, also after a change"
}

// allow makes an address the only source range of a Service.
func allow(only netip.Addr) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{only.String() + "/32"} }
}

// ranges checks that a Service that allows one client refuses another, then the reverse.
func (e *env) ranges(ctx context.Context, name string, one, two netip.Addr, to netip.AddrPort,
	ask func(context.Context, netip.Addr, netip.AddrPort) (answer, error),
) {
	refuses := func(ctx context.Context, client netip.Addr) {
		a, err := ask(ctx, client, to)
		must.Be(err != nil, "client %s is not in the source ranges, but Pod %s answered", client, a.Pod)
	}
	refuses(ctx, two)
	services := e.Client.CoreV1().Services(metav1.NamespaceDefault)
	s := must.Get(services.Get(ctx, name, metav1.GetOptions{}))
	allow(two)(s)
	must.Get(services.Update(ctx, s, metav1.UpdateOptions{}))
	e.until(ctx, fmt.Sprintf("an answer to %s", two), func(ctx context.Context) { must.Get(ask(ctx, two, to)) })
	e.until(ctx, "the first client to be refused", func(ctx context.Context) { refuses(ctx, one) })
}

// affinity checks that all requests of a client reach the same Pod.
func affinity(ctx context.Context, e *env) string {
	to, _ := e.served(ctx, "affine", func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP })
	for i := range 12 {
		from := clients.Addr()
		for range i + 1 {
			from = from.Next()
		}
		first := must.Get(ask(ctx, from, to))
		for range 5 {
			a := must.Get(ask(ctx, from, to))
			must.Be(a.Pod == first.Pod, "client %s was sent to %s, then to %s", from, first.Pod, a.Pod)
		}
	}
	return "12 clients, each with one Pod"
}

// restart replaces all Pods of echo.
func restart(ctx context.Context, e *env) {
	e.kubectl(ctx, "", "rollout", "restart", "deployment/"+echoName)
	e.workloadReady(ctx, replicas)
}

// doctor checks that csccm doctor finds no error.
func doctor(ctx context.Context, e *env) string {
	out := e.csccm(ctx, "doctor", "-o", "short")
	return firstLine(strings.TrimSpace(out))
}
