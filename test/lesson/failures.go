// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
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
func (l *lesson) destroyed(ctx context.Context) error {
	victim := must.Get(l.spare(ctx))
	other := l.without.worker(workers)
	begun := time.Now()
	for _, d := range []struct {
		s  *side
		vm string
	}{{l.without, other}, {l.with, victim}} {
		must.OK(d.s.destroy(ctx, l, d.vm))
	}
	l.Printf("\nVM %s and VM %s are destroyed (destroyVirtualMachine, expunge=true).\n", other, victim)
	// The Event outlives the Node: the other cluster deletes its Node soon afterwards.
	for s, name := range map[*side]string{l.without: other, l.with: victim} {
		must.OK(s.silent(ctx, name))
	}
	l.saw("vm-not-ready", "after %s", time.Since(begun).Round(time.Second))
	var gone time.Duration
	must.OK(testenv.Wait(ctx, limit, "Node "+victim+" to be deleted", func(ctx context.Context) error {
		_, err := l.with.cluster.Client.CoreV1().Nodes().Get(ctx, victim, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			gone = time.Since(begun)
			return nil
		}
		return errors.Join(err, errors.New("it is still there"))
	}))
	l.saw("vm-node-goes", "%s after the VM", gone.Round(time.Second))
	must.OK(l.untouched(ctx, victim))
	n := must.Get(l.without.cluster.Client.CoreV1().Nodes().Get(ctx, other, metav1.GetOptions{}))
	must.Not(node.Ready(n), "node %s without a VM is ready", other)
	l.saw("vm-node-stays", "%s after its VM was destroyed", time.Since(begun).Round(time.Second))
	must.OK(l.both(ctx, "get", "nodes", "-o", nodeColumns))
	return l.showCloud(ctx)
}

// silent waits until Kubernetes has noticed that the kubelet of a Node is silent.
func (s *side) silent(ctx context.Context, name string) error {
	return testenv.Wait(ctx, limit, "the Event that Node "+name+" is not ready", func(ctx context.Context) error {
		list, err := s.cluster.Client.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{
			FieldSelector: "reason=NodeNotReady,involvedObject.kind=Node,involvedObject.name=" + name,
		})
		if err == nil && len(list.Items) == 0 {
			err = errors.New("there is none")
		}
		return err
	})
}

// spare returns a worker on which no Pod runs that a later chapter needs.
func (l *lesson) spare(ctx context.Context) (string, error) {
	pods := must.Get(l.with.controllerPods(ctx))
	for _, name := range l.with.workerNames() {
		if !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Spec.NodeName == name }) {
			return name, nil
		}
	}
	return "", errors.New("all workers run a Pod of the controller")
}

// controllerPods returns the Pods of the controller.
func (s *side) controllerPods(ctx context.Context) ([]corev1.Pod, error) {
	list := must.Get(s.cluster.Client.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=cloudstack-ccm"}))
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	}), nil
}

// destroy destroys a VM, with the kubelet that runs on it.
func (s *side) destroy(ctx context.Context, l *lesson, name string) error {
	vms := must.Get(s.api.ListVirtualMachines(ctx, cloudstack.VMQuery{}))
	i := slices.IndexFunc(vms, func(vm cloudstack.VirtualMachine) bool { return vm.Name == name })
	must.Not(i < 0, "account %q has no VM %s", s.name, name)
	s.joined[name].Stop()
	_, err := l.cloud.Admin(ctx, "destroyVirtualMachine", map[string]string{"id": vms[i].ID, "expunge": "true"})
	return err
}

// untouched checks the other Nodes and the Service after a Node was deleted.
func (l *lesson) untouched(ctx context.Context, victim string) error {
	left := slices.DeleteFunc(l.with.workerNames(), func(n string) bool { return n == victim })
	must.OK(testenv.Wait(ctx, limit, "the other Nodes to be ready", func(ctx context.Context) error {
		nodes := must.Get(l.with.nodes(ctx))
		must.Not(len(nodes) != len(left)+1, "cluster %q has %d Nodes", l.with.name, len(nodes))
		for i := range nodes {
			if !node.Ready(&nodes[i]) { // a heartbeat may be late
				return fmt.Errorf("node %s is not ready", nodes[i].Name)
			}
		}
		return nil
	}))
	var ip string
	must.OK(testenv.Wait(ctx, limit, "the rules to have the workers that are left", func(ctx context.Context) error {
		rules := must.Get(l.with.rules(ctx))
		_, ip = must.Get2(l.with.service(ctx, web))
		must.Not(len(rules) != 2, "there are %d rules", len(rules))
		for _, r := range rules {
			must.Not(r.PublicIP != ip || !slices.Equal(r.Members, left), "rule %s:%d has the members %v, and the Service has the address %s", r.PublicIP, r.PublicPort, r.Members, ip)
		}
		return nil
	}))
	l.saw("vm-others", "%s with %s", ip, strings.Join(left, " and "))
	return nil
}

// drift is chapter 5.
func (l *lesson) drift(ctx context.Context) error {
	begun := time.Now()
	var before testenv.Rule
	for _, s := range []*side{l.without, l.with} {
		rules := must.Get(s.rules(ctx))
		rule, ok := ruleAt(rules, driftPort)
		must.Not(!ok, "account %q has no rule of port %d", s.name, driftPort)
		must.Get(l.cloud.Admin(ctx, "deleteLoadBalancerRule", map[string]string{"id": rule.ID}))
		before = rule
	}
	l.saw("drift-removed", "")
	must.OK(l.showCloud(ctx))
	must.OK(testenv.Wait(ctx, limit, "the rule to be repaired", func(ctx context.Context) error {
		rules := must.Get(l.with.rules(ctx))
		now, ok := ruleAt(rules, driftPort)
		must.Not(!ok || now.ID == before.ID || now.PublicIP != before.PublicIP || now.PrivatePort != before.PrivatePort || !slices.Equal(now.Members, before.Members), "the rules are %v", rules)
		return nil
	}))
	l.saw("drift-repaired", "after %s", time.Since(begun).Round(100*time.Millisecond))
	must.OK(l.told(ctx, begun))
	rules := must.Get(l.without.rules(ctx))
	if _, ok := ruleAt(rules, driftPort); ok || len(rules) != 1 {
		return fmt.Errorf("the rules of account %q are %v", l.without.name, rules)
	}
	l.saw("drift-stays", "%s later", time.Since(begun).Round(time.Second))
	l.Printf("\n%s later:\n", time.Since(begun).Round(time.Second))
	return l.showCloud(ctx)
}

// told waits for the Event about the repair. An earlier one may be about the VM of chapter 4.
func (l *lesson) told(ctx context.Context, since time.Time) error {
	return testenv.Wait(ctx, limit, "the Event "+string(plan.ReasonDriftRepaired), func(ctx context.Context) error {
		list := must.Get(l.with.cluster.Client.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{FieldSelector: "reason=" + string(plan.ReasonDriftRepaired)}))
		i := slices.IndexFunc(list.Items, func(e corev1.Event) bool {
			return !e.LastTimestamp.Time.Before(since.Truncate(time.Second)) && strings.Contains(e.Message, strconv.Itoa(driftPort))
		})
		must.Not(i < 0, "none of %d is about port %d", len(list.Items), driftPort)
		l.saw("drift-told", "%s", list.Items[i].Message)
		return nil
	})
}

// leader is chapter 6.
func (l *lesson) leader(ctx context.Context) error {
	pods := must.Get(l.with.controllerPods(ctx))
	holder := must.Get(l.with.holder(ctx))
	leading := slices.IndexFunc(pods, func(p corev1.Pod) bool { return strings.HasPrefix(holder, p.Name) })
	must.Not(len(pods) != 2 || leading < 0, "the lease is held by %q, and %d Pods of the controller run", holder, len(pods))
	l.saw("leader-one", "%s on node %s", pods[leading].Name, pods[leading].Spec.NodeName)
	rules := must.Get(l.with.rules(ctx))
	killed := time.Now()
	crashed := pods[leading].Spec.NodeName
	l.with.joined[crashed].Stop()
	l.Printf("\nThe machine of Node %s has crashed, and with it Pod %s.\n", crashed, pods[leading].Name)
	unled := must.Get(l.with.rules(ctx))
	if now, err := l.with.holder(ctx); err != nil || now != holder {
		return errors.Join(err, fmt.Errorf("the lease went from %q to %q at once", holder, now))
	}
	must.Not(!slices.EqualFunc(rules, unled, func(a, b testenv.Rule) bool { return a.ID == b.ID && slices.Equal(a.Members, b.Members) }), "the rules changed while nobody led: %v, then %v", rules, unled)
	l.saw("leader-rules", "%d rules at %s", len(unled), strings.Join(publicIPs(unled), " "))
	for _, s := range []*side{l.without, l.with} {
		must.OK(s.createService(ctx, shop))
	}
	must.OK(l.succeeded(ctx, holder, pods[1-leading].Name, killed))
	must.OK(l.goesOn(ctx, rules, killed))
	must.OK(l.stays(ctx, crashed))
	return l.both(ctx, "get", "services", web, shop, "-o", serviceColumns)
}

// holder returns the identity that holds the controller's lease.
func (s *side) holder(ctx context.Context) (string, error) {
	l, err := s.cluster.Client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, lease, metav1.GetOptions{})
	if err != nil || l.Spec.HolderIdentity == nil {
		return "", err
	}
	return *l.Spec.HolderIdentity, nil
}

// succeeded waits until the other Pod holds the lease.
func (l *lesson) succeeded(ctx context.Context, old, other string, killed time.Time) error {
	var now string
	err := testenv.Wait(ctx, limit, "another leader", func(ctx context.Context) (err error) {
		if now, err = l.with.holder(ctx); err == nil && now == old {
			err = fmt.Errorf("the lease is held by %q", now)
		}
		return err
	})
	if err == nil && !strings.HasPrefix(now, other) {
		err = fmt.Errorf("the lease is held by %q, and not by Pod %s", now, other)
	}
	l.saw("leader-other", "%s, after %s", other, time.Since(killed).Round(100*time.Millisecond))
	return err
}

// goesOn checks that the new leader works, and that nothing works in the other cluster.
func (l *lesson) goesOn(ctx context.Context, before []testenv.Rule, killed time.Time) error {
	_, ip := must.Get2(l.with.served(ctx, shop))
	took := time.Since(killed).Round(100 * time.Millisecond)
	_, kept := must.Get2(l.with.service(ctx, web))
	must.Not(kept != before[0].PublicIP, "the address of Service %s changed from %s to %s", web, before[0].PublicIP, kept)
	l.saw("leader-work", "%s, %s after the kill; %s", ip, took, kept)
	if _, err := l.without.holder(ctx); !apierrors.IsNotFound(err) {
		return fmt.Errorf("cluster %q has the lease %s: %w", l.without.name, lease, err)
	}
	for _, name := range []string{web, shop} {
		must.OK(l.without.pending(ctx, name))
	}
	l.saw("leader-none", "")
	return nil
}

// stays checks that the Node of a crashed machine is there, not ready, and that its VM runs.
func (l *lesson) stays(ctx context.Context, name string) error {
	must.OK(l.with.silent(ctx, name))
	n := must.Get(l.with.cluster.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}))
	vms := must.Get(l.with.api.ListVirtualMachines(ctx, cloudstack.VMQuery{}))
	runs := slices.ContainsFunc(vms, func(vm cloudstack.VirtualMachine) bool { return vm.Name == name && vm.State == cloudstack.VMRunning })
	must.Not(node.Ready(n) || !runs, "node %s is ready: %t; its VM runs: %t", name, node.Ready(n), runs)
	l.saw("leader-node", "%s", name)
	return nil
}
