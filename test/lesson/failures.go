// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/testenv"
)

// driftPort is the port whose rule somebody deletes in chapter 5.
const driftPort = 443

// shop is the Service of chapter 6.
const shop = "shop"

// lease is the lease of the controller.
const lease = "cloud-controller-manager"

const nodeColumns = "custom-columns=NAME:.metadata.name,READY:.status.conditions[?(@.type==\"Ready\")].status,ADDRESS:.status.addresses[?(@.type==\"InternalIP\")].address"

// destroyed is chapter 4.
func (l *lesson) destroyed(ctx context.Context) {
	victim := l.spare(ctx)
	other := l.without.worker(workers)
	begun := time.Now()
	for _, d := range []struct {
		s  *side
		vm string
	}{{l.without, other}, {l.with, victim}} {
		d.s.destroy(ctx, l, d.vm)
	}
	l.Printf("\nVM %s and VM %s are destroyed (destroyVirtualMachine, expunge=true).\n", other, victim)
	// The Event outlives the Node: the other cluster deletes its Node soon afterwards.
	for s, name := range map[*side]string{l.without: other, l.with: victim} {
		s.silent(ctx, name)
	}
	l.saw("vm-not-ready", "after %s", time.Since(begun).Round(time.Second))
	var gone time.Duration
	testenv.Await(ctx, limit, "Node "+victim+" to be deleted", func(ctx context.Context) {
		_, err := l.with.cluster.Client.CoreV1().Nodes().Get(ctx, victim, metav1.GetOptions{})
		must.Be(apierrors.IsNotFound(err), "it is still there: %v", err)
		gone = time.Since(begun)
	})
	l.saw("vm-node-goes", "%s after the VM", gone.Round(time.Second))
	l.untouched(ctx, victim)
	n := must.Get(l.without.cluster.Client.CoreV1().Nodes().Get(ctx, other, metav1.GetOptions{}))
	must.Not(node.Ready(n), "node %s without a VM is ready", other)
	l.saw("vm-node-stays", "%s after its VM was destroyed", time.Since(begun).Round(time.Second))
	l.both(ctx, "get", "nodes", "-o", nodeColumns)
	l.showCloud(ctx)
}

// silent waits until Kubernetes has noticed that the kubelet of a Node is silent.
func (s *side) silent(ctx context.Context, name string) {
	testenv.Await(ctx, limit, "the Event that Node "+name+" is not ready", func(ctx context.Context) {
		selector := metav1.ListOptions{FieldSelector: "reason=NodeNotReady,involvedObject.kind=Node,involvedObject.name=" + name}
		must.Not(len(must.Get(s.cluster.Client.CoreV1().Events(metav1.NamespaceDefault).List(ctx, selector)).Items) == 0, "there is none")
	})
}

// spare returns a worker on which no Pod runs that a later chapter needs.
func (l *lesson) spare(ctx context.Context) string {
	pods := l.with.controllerPods(ctx)
	for _, name := range l.with.workerNames() {
		if !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Spec.NodeName == name }) {
			return name
		}
	}
	must.Fail("all workers run a Pod of the controller")
	return ""
}

// controllerPods returns the Pods of the controller.
func (s *side) controllerPods(ctx context.Context) []corev1.Pod {
	list := must.Get(s.cluster.Client.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=cloudstack-ccm"}))
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	})
}

// destroy destroys a VM, with the kubelet that runs on it.
func (s *side) destroy(ctx context.Context, l *lesson, name string) {
	vms := must.Get(s.api.ListVirtualMachines(ctx, cloudstack.VMQuery{}))
	i := slices.IndexFunc(vms, func(vm cloudstack.VirtualMachine) bool { return vm.Name == name })
	must.Be(i >= 0, "account %q has no VM %s", s.name, name)
	s.joined[name].Stop()
	must.Get(l.cloud.Admin(ctx, "destroyVirtualMachine", map[string]string{"id": vms[i].ID, "expunge": "true"}))
}

// untouched checks the other Nodes and the Service after a Node was deleted.
func (l *lesson) untouched(ctx context.Context, victim string) {
	left := slices.DeleteFunc(l.with.workerNames(), func(n string) bool { return n == victim })
	testenv.Await(ctx, limit, "the other Nodes to be ready", func(ctx context.Context) {
		nodes := l.with.nodes(ctx)
		must.Not(len(nodes) != len(left)+1, "cluster %q has %d Nodes", l.with.name, len(nodes))
		for i := range nodes {
			must.Be(node.Ready(&nodes[i]), "node %s is not ready", nodes[i].Name) // a heartbeat may be late
		}
	})
	var ip string
	testenv.Await(ctx, limit, "the rules to have the workers that are left", func(ctx context.Context) {
		rules := l.with.rules(ctx)
		_, ip = l.with.service(ctx, web)
		must.Be(len(rules) == 2, "there are %d rules", len(rules))
		for _, r := range rules {
			must.Not(r.PublicIP != ip || !slices.Equal(r.Members, left), "rule %s:%d has the members %v, and the Service has the address %s", r.PublicIP, r.PublicPort, r.Members, ip)
		}
	})
	l.saw("vm-others", "%s with %s", ip, strings.Join(left, " and "))
}

// drift is chapter 5.
func (l *lesson) drift(ctx context.Context) {
	begun := time.Now()
	var before testenv.Rule
	for _, s := range []*side{l.without, l.with} {
		rules := s.rules(ctx)
		rule, ok := ruleAt(rules, driftPort)
		must.Be(ok, "account %q has no rule of port %d", s.name, driftPort)
		must.Get(l.cloud.Admin(ctx, "deleteLoadBalancerRule", map[string]string{"id": rule.ID}))
		before = rule
	}
	l.saw("drift-removed", "")
	l.showCloud(ctx)
	testenv.Await(ctx, limit, "the rule to be repaired", func(ctx context.Context) {
		rules := l.with.rules(ctx)
		now, ok := ruleAt(rules, driftPort)
		must.Not(!ok || now.ID == before.ID || now.PublicIP != before.PublicIP || now.PrivatePort != before.PrivatePort || !slices.Equal(now.Members, before.Members), "the rules are %v", rules)
	})
	l.saw("drift-repaired", "after %s", time.Since(begun).Round(100*time.Millisecond))
	l.told(ctx, begun)
	rules := l.without.rules(ctx)
	_, ok := ruleAt(rules, driftPort)
	must.Not(ok || len(rules) != 1, "the rules of account %q are %v", l.without.name, rules)
	l.saw("drift-stays", "%s later", time.Since(begun).Round(time.Second))
	l.Printf("\n%s later:\n", time.Since(begun).Round(time.Second))
	l.showCloud(ctx)
}

// told waits for the Event about the repair. An earlier one may be about the VM of chapter 4.
func (l *lesson) told(ctx context.Context, since time.Time) {
	testenv.Await(ctx, limit, "the Event "+string(plan.ReasonDriftRepaired), func(ctx context.Context) {
		list := must.Get(l.with.cluster.Client.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{FieldSelector: "reason=" + string(plan.ReasonDriftRepaired)}))
		i := slices.IndexFunc(list.Items, func(e corev1.Event) bool {
			return !e.LastTimestamp.Time.Before(since.Truncate(time.Second)) && strings.Contains(e.Message, strconv.Itoa(driftPort))
		})
		must.Be(i >= 0, "none of %d is about port %d", len(list.Items), driftPort)
		l.saw("drift-told", "%s", list.Items[i].Message)
	})
}

// leader is chapter 6.
func (l *lesson) leader(ctx context.Context) {
	pods := l.with.controllerPods(ctx)
	holder := l.with.holder(ctx)
	leading := slices.IndexFunc(pods, func(p corev1.Pod) bool { return strings.HasPrefix(holder, p.Name) })
	must.Not(len(pods) != 2 || leading < 0, "the lease is held by %q, and %d Pods of the controller run", holder, len(pods))
	l.saw("leader-one", "%s on node %s", pods[leading].Name, pods[leading].Spec.NodeName)
	rules := l.with.rules(ctx)
	killed := time.Now()
	crashed := pods[leading].Spec.NodeName
	l.with.joined[crashed].Stop()
	l.Printf("\nThe machine of Node %s has crashed, and with it Pod %s.\n", crashed, pods[leading].Name)
	unled := l.with.rules(ctx)
	now := l.with.holder(ctx)
	must.Be(now == holder, "the lease went from %q to %q at once", holder, now)
	must.Not(!slices.EqualFunc(rules, unled, func(a, b testenv.Rule) bool { return a.ID == b.ID && slices.Equal(a.Members, b.Members) }), "the rules changed while nobody led: %v, then %v", rules, unled)
	l.saw("leader-rules", "%d rules at %s", len(unled), strings.Join(publicIPs(unled), " "))
	for _, s := range []*side{l.without, l.with} {
		s.createService(ctx, shop)
	}
	l.succeeded(ctx, holder, pods[1-leading].Name, killed)
	l.goesOn(ctx, rules, killed)
	l.stays(ctx, crashed)
	l.both(ctx, "get", "services", web, shop, "-o", serviceColumns)
}

// holder returns the identity that holds the controller's lease.
func (s *side) holder(ctx context.Context) string {
	l := must.Get(s.cluster.Client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, lease, metav1.GetOptions{}))
	must.Be(l.Spec.HolderIdentity != nil, "nobody holds the lease")
	return *l.Spec.HolderIdentity
}

// succeeded waits until the other Pod holds the lease.
func (l *lesson) succeeded(ctx context.Context, old, other string, killed time.Time) {
	var now string
	testenv.Await(ctx, limit, "another leader", func(ctx context.Context) {
		now = l.with.holder(ctx)
		must.Be(now != old, "the lease is held by %q", now)
	})
	must.Be(strings.HasPrefix(now, other), "the lease is held by %q, and not by Pod %s", now, other)
	l.saw("leader-other", "%s, after %s", other, time.Since(killed).Round(100*time.Millisecond))
}

// goesOn checks that the new leader works, and that nothing works in the other cluster.
func (l *lesson) goesOn(ctx context.Context, before []testenv.Rule, killed time.Time) {
	_, ip := l.with.served(ctx, shop)
	took := time.Since(killed).Round(100 * time.Millisecond)
	_, kept := l.with.service(ctx, web)
	must.Be(kept == before[0].PublicIP, "the address of Service %s changed from %s to %s", web, before[0].PublicIP, kept)
	l.saw("leader-work", "%s, %s after the kill; %s", ip, took, kept)
	_, err := l.without.cluster.Client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, lease, metav1.GetOptions{})
	must.Be(apierrors.IsNotFound(err), "cluster %q has the lease %s: %v", l.without.name, lease, err)
	for _, name := range []string{web, shop} {
		l.without.pending(ctx, name)
	}
	l.saw("leader-none", "")
}

// stays checks that the Node of a crashed machine is there, not ready, and that its VM runs.
func (l *lesson) stays(ctx context.Context, name string) {
	l.with.silent(ctx, name)
	n := must.Get(l.with.cluster.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}))
	vms := must.Get(l.with.api.ListVirtualMachines(ctx, cloudstack.VMQuery{}))
	runs := slices.ContainsFunc(vms, func(vm cloudstack.VirtualMachine) bool { return vm.Name == name && vm.State == cloudstack.VMRunning })
	must.Not(node.Ready(n) || !runs, "node %s is ready: %t; its VM runs: %t", name, node.Ready(n), runs)
	l.saw("leader-node", "%s", name)
}
