// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/csccm/csccm/pkg/simulator/datapath"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/realnode"
)

// rule returns the router's rule for an address and port, nil when there is none.
func (e *env) rule(to netip.AddrPort) *datapath.RuleStatus {
	rules := e.path.Status().Rules
	if i := slices.IndexFunc(rules, func(r datapath.RuleStatus) bool { return r.Public == to.String() }); i >= 0 {
		return &rules[i]
	}
	return nil
}

// members waits until the members of a rule are exactly these VMs.
func (e *env) members(ctx context.Context, to netip.AddrPort, want ...string) {
	slices.Sort(want)
	e.until(ctx, fmt.Sprintf("the members of %s to be %v", to, want), func(context.Context) {
		r := e.rule(to)
		must.Be(r != nil, "there is no rule")
		var got []string
		for _, m := range r.Members {
			got = append(got, m.VM)
		}
		slices.Sort(got)
		must.Be(slices.Equal(got, want), "the members are %v", got)
	})
}

// up waits until every member of an address has passed a health check: the router treats a new member as up before its
// first check.
func (e *env) up(ctx context.Context, ip netip.Addr) {
	e.until(ctx, fmt.Sprintf("the members of %s to be up", ip), func(context.Context) {
		var all, down []string
		for _, r := range e.path.Status().Rules {
			if at, err := netip.ParseAddrPort(r.Public); err != nil || at.Addr() != ip {
				continue
			}
			for _, m := range r.Members {
				all = append(all, m.Address)
				if !m.Up || m.Check != "ok" {
					down = append(down, m.VM+" "+m.Address)
				}
			}
		}
		must.Not(len(all) == 0 || len(down) > 0, "%d of %d members are down: %v", len(down), len(all), down)
	})
}

func (e *env) scale(ctx context.Context, n int32) {
	e.kubectl(ctx, "", "scale", "deployment/"+echoName, fmt.Sprintf("--replicas=%d", n))
	e.workloadReady(ctx, n)
}

// pods returns the Pods of echo; the terminating ones are those that a Deployment's status does not count.
func (e *env) pods(ctx context.Context) (running, terminating []corev1.Pod) {
	list := must.Get(e.Client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: "app=" + echoName}))
	for i := range list.Items {
		p := list.Items[i]
		if p.DeletionTimestamp != nil {
			terminating = append(terminating, p)
		} else if p.Status.Phase == corev1.PodRunning && p.Status.PodIP != "" {
			running = append(running, p)
		}
	}
	return running, terminating
}

// ended waits until terminating Pods have ended.
func (e *env) ended(ctx context.Context) {
	e.until(ctx, "the old Pods of echo to end", func(ctx context.Context) {
		_, old := e.pods(ctx)
		must.Be(len(old) == 0, "%d Pods are still terminating", len(old))
	})
}

// podNodes returns the nodes with running Pods of echo.
func (e *env) podNodes(ctx context.Context) []string {
	running, _ := e.pods(ctx)
	var nodes []string
	for i := range running {
		nodes = append(nodes, running[i].Spec.NodeName)
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// localPolicy checks that only nodes with Pods are members, and that a node forwards to its own Pods.
func localPolicy(ctx context.Context, e *env) string {
	to, _ := e.served(ctx, "local", func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal })
	nodes := e.podNodes(ctx)
	e.members(ctx, to, nodes...)
	r := e.steady(ctx, "scaled down", false, to)
	defer r.Stop()
	e.scale(ctx, 1)
	nodes = e.podNodes(ctx)
	e.members(ctx, to, nodes...)
	e.ended(ctx)
	down := r.Next("scaled up")
	for range 10 {
		a := must.Get(ask(ctx, client1, to))
		must.Not(a.Node != nodes[0] || a.Client != e.place.gateway.Addr().String(), "a Pod on %s answered and saw the client address %s, want node %s and the router's address %s", a.Node, a.Client, nodes[0], e.place.gateway.Addr())
	}
	e.scale(ctx, replicas)
	nodes = e.podNodes(ctx)
	e.members(ctx, to, nodes...)
	up := r.Stop()
	must.OK(errors.Join(down.Err(), up.Err()))
	return fmt.Sprintf("members follow the Pods; scaled down with %s, up with %s", brief(down), brief(up))
}

// ipMode checks how a Pod's request to the load balancer's address is routed: with
// ipMode VIP kube-proxy forwards it directly, with ipMode Proxy, which the PROXY
// protocol needs, it goes through the load balancer.
func ipMode(ctx context.Context, e *env) string {
	var seen []string
	for _, c := range []struct {
		name  string
		proxy bool
		mode  corev1.LoadBalancerIPMode
	}{{"direct", false, corev1.LoadBalancerIPModeVIP}, {"through", true, corev1.LoadBalancerIPModeProxy}} {
		to, _ := e.served(ctx, c.name, func(s *corev1.Service) {
			if c.proxy {
				s.Annotations[prefix+"proxy-protocol"] = "true"
				s.Spec.Ports[0].TargetPort = intstr.FromInt32(8081)
			}
		})
		s := must.Get(e.Client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, c.name, metav1.GetOptions{}))
		if got := s.Status.LoadBalancer.Ingress[0].IPMode; got == nil || *got != c.mode {
			must.Fail("ipMode of %s is %v, want %s", c.name, got, c.mode)
		}
		running, _ := e.pods(ctx)
		must.Be(len(running) != 0, "no Pod of echo is running")
		pod := running[0].Status.PodIP
		var a answer
		var through int64
		want := map[bool]int64{true: 1}[c.proxy]
		// kube-proxy sees the address some time after it is in the Service's status.
		e.until(ctx, fmt.Sprintf("a Pod's request to go %d times through the balancer (%s)", want, c.mode), func(ctx context.Context) {
			before := e.rule(to).Connections
			a = must.Get(get(ctx, e.place.gateway.Addr(), fmt.Sprintf("http://%s:8080/fetch?url=%s", pod, url.QueryEscape("http://"+to.String()+"/")), ""))
			if through = e.rule(to).Connections - before; through != want {
				must.Fail("it went through %d times", through)
			}
		})
		must.Not(c.proxy && a.Client != pod, "for a request of Pod %s the answering Pod sees the client address %s", pod, a.Client)
		seen = append(seen, fmt.Sprintf("%s: %d through the balancer", c.mode, through))
		e.deleteService(ctx, c.name)
	}
	return strings.Join(seen, "; ")
}

// partPowerFailure is the part of nodeLife in which requests in flight through the node are lost.
const partPowerFailure = "power lost, VM stopped and destroyed"

// nodeLife adds a node, drains it, stops its VM and destroys it, under traffic.
func nodeLife(ctx context.Context, e *env) string {
	to, _ := e.served(ctx, "nodes", nil)
	r := e.steady(ctx, "joined and drained", false, to)
	defer r.Stop()
	const name = "worker-4"
	n := e.join(ctx, e.place.node(4))
	e.initialized(ctx, name)
	all := []string{"worker-1", "worker-2", "worker-3"}
	e.members(ctx, to, append(all, name)...)
	e.kubectl(ctx, "", "drain", name, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s")
	joined := r.Next(partPowerFailure)
	must.OK(joined.Err())
	n.PowerOff()
	must.Get(e.cloud.Admin(ctx, "stopVirtualMachine", map[string]string{"id": e.vmID(ctx, name), "forced": "true"}))
	// A node that is not ready stays a member, as in Kubernetes' service controller; the load balancer's health check
	// keeps requests away from it.
	e.until(ctx, "the node to have the shutdown taint", func(ctx context.Context) {
		has := must.Get(e.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})).Spec.Taints
		must.Be(slices.ContainsFunc(has, func(t corev1.Taint) bool { return t.Key == shutdownKey }), "its taints are %v", has)
	})
	e.destroyed(ctx, name)
	e.members(ctx, to, all...)
	return fmt.Sprintf("joined and drained: %s; power lost, VM stopped and destroyed: %s", brief(joined), brief(r.Stop()))
}

// join starts a node and waits until it is ready.
func (e *env) join(ctx context.Context, o realnode.NodeOptions) *realnode.Node {
	n := must.Get(e.Join(ctx, o))
	must.OK(e.WaitReady(ctx, o.Name))
	return n
}

// destroyed destroys a VM and waits until its Node object is deleted.
func (e *env) destroyed(ctx context.Context, name string) {
	must.Get(e.cloud.Admin(ctx, "destroyVirtualMachine", map[string]string{"id": e.vmID(ctx, name), "expunge": "true"}))
	e.until(ctx, "the Node "+name+" to be deleted", func(ctx context.Context) {
		_, err := e.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		must.Be(apierrors.IsNotFound(err), "it still exists: %v", err)
	})
}

const shutdownKey = "node.cloudprovider.kubernetes.io/shutdown"

func (e *env) vmID(ctx context.Context, name string) string {
	list := must.Get(e.cloud.Admin(ctx, "listVirtualMachines", map[string]string{"name": name, "listall": "true", "projectid": "-1"}))
	vms, _ := list["virtualmachine"].([]any)
	for _, vm := range vms {
		if fields, ok := vm.(map[string]any); ok && fields["name"] == name {
			id, _ := fields["id"].(string)
			return id
		}
	}
	must.Fail("no VM %s", name)
	return ""
}

// podsRolled replaces every Pod under traffic.
func podsRolled(ctx context.Context, e *env) string {
	to, _ := e.served(ctx, "rolled", nil)
	r := e.steady(ctx, "", false, to)
	defer r.Stop()
	restart(ctx, e)
	e.ended(ctx)
	sum := r.Stop()
	seen := brief(sum)
	must.OK(sum.Err())
	return seen
}

// addresses checks that two Services can share an address, and that keep-ip keeps the address after the Service is
// deleted.
func addresses(ctx context.Context, e *env) string {
	to, _ := e.served(ctx, "first", func(s *corev1.Service) { s.Annotations[prefix+"keep-ip"] = "true" })
	ip := to.Addr().String()
	e.service(ctx, "second", func(s *corev1.Service) {
		s.Annotations[prefix+"address"] = ip
		s.Spec.Ports = s.Spec.Ports[:1] // the first Service uses the other port on this address
		s.Spec.Ports[0].Port = 8080
	})
	e.answers(ctx, client1, netip.AddrPortFrom(to.Addr(), 8080))
	e.deleteService(ctx, "first")
	if _, err := ask(ctx, client1, netip.AddrPortFrom(to.Addr(), 8080)); err != nil {
		must.Fail("the second Service on the address does not answer after the first was deleted: %w", err)
	}
	e.deleteService(ctx, "second")
	again, _ := e.served(ctx, "third", func(s *corev1.Service) { s.Annotations[prefix+"address"] = ip })
	must.Be(again == to, "the third Service asked for the kept address %s and got %s", to, again)
	return ip + " shared by two Services, kept, used again"
}
