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
	"github.com/csccm/csccm/test/lesson/chapters"
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
	victim, err := l.spare(ctx)
	if err != nil {
		return err
	}
	other := l.without.worker(workers)
	begun := time.Now()
	for _, d := range []struct {
		s  *side
		vm string
	}{{l.without, other}, {l.with, victim}} {
		if err := d.s.destroy(ctx, l, d.vm); err != nil {
			return err
		}
	}
	l.Printf("\nVM %s and VM %s are destroyed (destroyVirtualMachine, expunge=true).\n", other, victim)
	// The Event outlives the Node: the other cluster deletes its Node soon afterwards.
	for s, name := range map[*side]string{l.without: other, l.with: victim} {
		if err := s.silent(ctx, name); err != nil {
			return err
		}
	}
	l.saw(chapters.VMNotReady, "after %s", time.Since(begun).Round(time.Second))
	var gone time.Duration
	err = testenv.Wait(ctx, limit, "Node "+victim+" to be deleted", func(ctx context.Context) error {
		_, err := l.with.cluster.Client.CoreV1().Nodes().Get(ctx, victim, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			gone = time.Since(begun)
			return nil
		}
		return errors.Join(err, errors.New("it is still there"))
	})
	if err != nil {
		return err
	}
	l.saw(chapters.VMNodeGoes, "%s after the VM", gone.Round(time.Second))
	if err := l.untouched(ctx, victim); err != nil {
		return err
	}
	n, err := l.without.cluster.Client.CoreV1().Nodes().Get(ctx, other, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if node.Ready(n) {
		return fmt.Errorf("node %s without a VM is ready", other)
	}
	l.saw(chapters.VMNodeStays, "%s after its VM was destroyed", time.Since(begun).Round(time.Second))
	if err := l.both(ctx, "get", "nodes", "-o", nodeColumns); err != nil {
		return err
	}
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
	pods, err := l.with.controllerPods(ctx)
	if err != nil {
		return "", err
	}
	for _, name := range l.with.workerNames() {
		if !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Spec.NodeName == name }) {
			return name, nil
		}
	}
	return "", errors.New("all workers run a Pod of the controller")
}

// controllerPods returns the Pods of the controller.
func (s *side) controllerPods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := s.cluster.Client.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=cloudstack-ccm"})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	}), nil
}

// destroy destroys a VM, with the kubelet that runs on it.
func (s *side) destroy(ctx context.Context, l *lesson, name string) error {
	vms, err := s.api.ListVirtualMachines(ctx, cloudstack.VMQuery{})
	if err != nil {
		return err
	}
	i := slices.IndexFunc(vms, func(vm cloudstack.VirtualMachine) bool { return vm.Name == name })
	if i < 0 {
		return fmt.Errorf("account %q has no VM %s", s.name, name)
	}
	s.joined[name].Stop()
	_, err = l.cloud.Admin(ctx, "destroyVirtualMachine", map[string]string{"id": vms[i].ID, "expunge": "true"})
	return err
}

// untouched checks the other Nodes and the Service after a Node was deleted.
func (l *lesson) untouched(ctx context.Context, victim string) error {
	left := slices.DeleteFunc(l.with.workerNames(), func(n string) bool { return n == victim })
	err := testenv.Wait(ctx, limit, "the other Nodes to be ready", func(ctx context.Context) error {
		nodes, err := l.with.nodes(ctx)
		if err != nil {
			return err
		}
		if len(nodes) != len(left)+1 {
			return fmt.Errorf("cluster %q has %d Nodes", l.with.name, len(nodes))
		}
		for i := range nodes {
			if !node.Ready(&nodes[i]) { // a heartbeat may be late
				return fmt.Errorf("node %s is not ready", nodes[i].Name)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	var ip string
	err = testenv.Wait(ctx, limit, "the rules to have the workers that are left", func(ctx context.Context) error {
		rules, err := l.with.rules(ctx)
		if err != nil {
			return err
		}
		if _, ip, err = l.with.service(ctx, web); err != nil {
			return err
		}
		if len(rules) != 2 {
			return fmt.Errorf("there are %d rules", len(rules))
		}
		for _, r := range rules {
			if r.PublicIP != ip || !slices.Equal(r.Members, left) {
				return fmt.Errorf("rule %s:%d has the members %v, and the Service has the address %s", r.PublicIP, r.PublicPort, r.Members, ip)
			}
		}
		return nil
	})
	l.saw(chapters.VMOthers, "%s with %s", ip, strings.Join(left, " and "))
	return err
}

// drift is chapter 5.
func (l *lesson) drift(ctx context.Context) error {
	begun := time.Now()
	var before testenv.Rule
	for _, s := range []*side{l.without, l.with} {
		rules, err := s.rules(ctx)
		if err != nil {
			return err
		}
		rule, ok := ruleAt(rules, driftPort)
		if !ok {
			return fmt.Errorf("account %q has no rule of port %d", s.name, driftPort)
		}
		if _, err := l.cloud.Admin(ctx, "deleteLoadBalancerRule", map[string]string{"id": rule.ID}); err != nil {
			return err
		}
		before = rule
	}
	l.saw(chapters.DriftRemoved, "")
	if err := l.showCloud(ctx); err != nil {
		return err
	}
	err := testenv.Wait(ctx, limit, "the rule to be repaired", func(ctx context.Context) error {
		rules, err := l.with.rules(ctx)
		if err != nil {
			return err
		}
		now, ok := ruleAt(rules, driftPort)
		if !ok || now.ID == before.ID || now.PublicIP != before.PublicIP || now.PrivatePort != before.PrivatePort || !slices.Equal(now.Members, before.Members) {
			return fmt.Errorf("the rules are %v", rules)
		}
		return nil
	})
	if err != nil {
		return err
	}
	l.saw(chapters.DriftRepaired, "after %s", time.Since(begun).Round(100*time.Millisecond))
	if err := l.told(ctx, begun); err != nil {
		return err
	}
	rules, err := l.without.rules(ctx)
	if err != nil {
		return err
	}
	if _, ok := ruleAt(rules, driftPort); ok || len(rules) != 1 {
		return fmt.Errorf("the rules of account %q are %v", l.without.name, rules)
	}
	l.saw(chapters.DriftStays, "%s later", time.Since(begun).Round(time.Second))
	l.Printf("\n%s later:\n", time.Since(begun).Round(time.Second))
	return l.showCloud(ctx)
}

// told waits for the Event about the repair. An earlier one may be about the VM of chapter 4.
func (l *lesson) told(ctx context.Context, since time.Time) error {
	return testenv.Wait(ctx, limit, "the Event "+string(plan.ReasonDriftRepaired), func(ctx context.Context) error {
		list, err := l.with.cluster.Client.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{FieldSelector: "reason=" + string(plan.ReasonDriftRepaired)})
		if err != nil {
			return err
		}
		i := slices.IndexFunc(list.Items, func(e corev1.Event) bool {
			return !e.LastTimestamp.Time.Before(since.Truncate(time.Second)) && strings.Contains(e.Message, strconv.Itoa(driftPort))
		})
		if i < 0 {
			return fmt.Errorf("none of %d is about port %d", len(list.Items), driftPort)
		}
		l.saw(chapters.DriftTold, "%s", list.Items[i].Message)
		return nil
	})
}

// leader is chapter 6.
func (l *lesson) leader(ctx context.Context) error {
	pods, err := l.with.controllerPods(ctx)
	if err != nil {
		return err
	}
	holder, err := l.with.holder(ctx)
	if err != nil {
		return err
	}
	leading := slices.IndexFunc(pods, func(p corev1.Pod) bool { return strings.HasPrefix(holder, p.Name) })
	if len(pods) != 2 || leading < 0 {
		return fmt.Errorf("the lease is held by %q, and %d Pods of the controller run", holder, len(pods))
	}
	l.saw(chapters.LeaderOne, "%s on node %s", pods[leading].Name, pods[leading].Spec.NodeName)
	rules, err := l.with.rules(ctx)
	if err != nil {
		return err
	}
	killed := time.Now()
	crashed := pods[leading].Spec.NodeName
	l.with.joined[crashed].Stop()
	l.Printf("\nThe machine of Node %s has crashed, and with it Pod %s.\n", crashed, pods[leading].Name)
	unled, err := l.with.rules(ctx)
	if err != nil {
		return err
	}
	if now, err := l.with.holder(ctx); err != nil || now != holder {
		return errors.Join(err, fmt.Errorf("the lease went from %q to %q at once", holder, now))
	}
	if !slices.EqualFunc(rules, unled, func(a, b testenv.Rule) bool { return a.ID == b.ID && slices.Equal(a.Members, b.Members) }) {
		return fmt.Errorf("the rules changed while nobody led: %v, then %v", rules, unled)
	}
	l.saw(chapters.LeaderRules, "%d rules at %s", len(unled), strings.Join(publicIPs(unled), " "))
	for _, s := range []*side{l.without, l.with} {
		if err := s.createService(ctx, shop); err != nil {
			return err
		}
	}
	if err := l.succeeded(ctx, holder, pods[1-leading].Name, killed); err != nil {
		return err
	}
	if err := l.goesOn(ctx, rules, killed); err != nil {
		return err
	}
	if err := l.stays(ctx, crashed); err != nil {
		return err
	}
	return l.both(ctx, "get", "services", web, shop, "-o", serviceColumns)
}

// holder returns the identity that holds the controller's lease.
func (s *side) holder(ctx context.Context) (string, error) {
	l, err := s.cluster.Client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, lease, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if l.Spec.HolderIdentity == nil {
		return "", nil
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
	l.saw(chapters.LeaderOther, "%s, after %s", other, time.Since(killed).Round(100*time.Millisecond))
	return err
}

// goesOn checks that the new leader works, and that nothing works in the other cluster.
func (l *lesson) goesOn(ctx context.Context, before []testenv.Rule, killed time.Time) error {
	_, ip, err := l.with.served(ctx, shop)
	if err != nil {
		return err
	}
	took := time.Since(killed).Round(100 * time.Millisecond)
	_, kept, err := l.with.service(ctx, web)
	if err != nil {
		return err
	}
	if kept != before[0].PublicIP {
		return fmt.Errorf("the address of Service %s changed from %s to %s", web, before[0].PublicIP, kept)
	}
	l.saw(chapters.LeaderWork, "%s, %s after the kill; %s", ip, took, kept)
	if _, err := l.without.holder(ctx); !apierrors.IsNotFound(err) {
		return fmt.Errorf("cluster %q has the lease %s: %w", l.without.name, lease, err)
	}
	for _, name := range []string{web, shop} {
		if err := l.without.pending(ctx, name); err != nil {
			return err
		}
	}
	l.saw(chapters.LeaderNone, "")
	return nil
}

// stays checks that the Node of a crashed machine is there, not ready, and that its VM runs.
func (l *lesson) stays(ctx context.Context, name string) error {
	if err := l.with.silent(ctx, name); err != nil {
		return err
	}
	n, err := l.with.cluster.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	vms, err := l.with.api.ListVirtualMachines(ctx, cloudstack.VMQuery{})
	if err != nil {
		return err
	}
	runs := slices.ContainsFunc(vms, func(vm cloudstack.VirtualMachine) bool { return vm.Name == name && vm.State == cloudstack.VMRunning })
	if node.Ready(n) || !runs {
		return fmt.Errorf("node %s is ready: %t; its VM runs: %t", name, node.Ready(n), runs)
	}
	l.saw(chapters.LeaderNode, "%s", name)
	return nil
}
