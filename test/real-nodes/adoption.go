// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/test/internal/must"
)

// adoptAll installs csccm where no node has the taint, and checks what the controller changed on the nodes.
func adoptAll(ctx context.Context, e *env) string {
	for _, name := range e.names() {
		n := must.Get(e.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}))
		must.Not(n.Spec.ProviderID != "" || hasTaint(n), "node %s is not one of a kubelet without the flag: provider ID %q, taints %v", name, n.Spec.ProviderID, n.Spec.Taints)
	}
	seen := installWith(ctx, e, "--account", account, "--skip-taint", "--set", "adoptNodes=true")
	for _, name := range e.names() {
		e.adopted(ctx, name)
	}
	e.csccm(ctx, "doctor", "--only", "NODE-006,NODE-007")
	return seen + ", all adopted"
}

// adoptLater adds a node whose kubelet lacks the flag, sends traffic through it and destroys its VM.
func adoptLater(ctx context.Context, e *env) string {
	to, _ := e.served(ctx, "later", nil)
	const name = "worker-4"
	o := e.place.node(4)
	o.NotExternal = true
	n := e.join(ctx, o)
	ready := time.Now()
	e.initialized(ctx, name)
	took := time.Since(ready)
	e.adopted(ctx, name)
	e.members(ctx, to, append(e.names(), name)...)
	must.Get(ask(ctx, client1, to))
	n.PowerOff()
	e.destroyed(ctx, name)
	e.members(ctx, to, e.names()...)
	return fmt.Sprintf("initialised %s after it was ready; gone with its VM", took.Round(time.Second))
}

// adopted checks an adopted node: Event NodeAdopted, and the addresses that its kubelet reports.
func (e *env) adopted(ctx context.Context, name string) {
	n := must.Get(e.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}))
	node := e.Node(name)
	want := []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: node.Address.String()}, {Type: corev1.NodeHostName, Address: name}}
	must.Be(slices.Equal(n.Status.Addresses, want), "node %s has the addresses %v, its kubelet reports %v", name, n.Status.Addresses, want)
	e.until(ctx, "an Event NodeAdopted on "+name, func(ctx context.Context) {
		selector := metav1.ListOptions{FieldSelector: "reason=NodeAdopted,involvedObject.name=" + name}
		must.Not(len(must.Get(e.Client.CoreV1().Events(metav1.NamespaceDefault).List(ctx, selector)).Items) == 0, "there is none")
	})
}

func hasTaint(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taintKey })
}
