// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/echo"
	"github.com/csccm/csccm/pkg/ui/terminal"
	"github.com/csccm/csccm/test/internal/console"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/testenv"
)

// hello is the Pod of the first chapter.
const hello = "hello"

// driftPeriod is the shortest that the controller takes.
const driftPeriod = 10 * time.Second

// nodes is chapter 1.
func (l *lesson) nodes(ctx context.Context) {
	for _, s := range []*side{l.without, l.with} {
		s.createPod(ctx)
		s.uninitialised(ctx)
	}
	l.saw("nodes-tainted", "%d Nodes each", workers+1)
	columns := "custom-columns=NAME:.metadata.name,TAINTS:.spec.taints[*].key"
	l.both(ctx, "get", "nodes", "-o", columns)
	l.Printf("\n")
	l.Say("Now the controller is installed in cluster \"with\", by csccm install with an administrator's login. (hostNetwork and " +
		"bindAddress are for this machine, where all nodes share one network; driftPeriod is for chapter 5.)")
	l.install(ctx)
	l.initialised(ctx)
	l.without.uninitialised(ctx)
	l.saw("nodes-wait", "%s after the start", time.Since(l.built).Round(time.Second))
	l.scheduled(ctx)
	l.both(ctx, "get", "nodes", "-o", columns)
	without := l.without.describe(ctx)
	with := l.with.describe(ctx)
	l.compare(without, with)
	l.both(ctx, "get", "pod", hello, "-o", "custom-columns=NAME:.metadata.name,STATUS:.status.phase,NODE:.spec.nodeName")
}

// createPod creates a Pod without tolerations. Its program is the controller's, which serves HTTP here and does nothing else.
func (s *side) createPod(ctx context.Context) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: hello},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: hello, Image: testenv.ControllerImage, Command: []string{"/cloudstack-ccm"},
			Args: []string{"--" + echo.ServeFlag + "=127.0.0.1:0", "--" + echo.TokenFlag + "=" + hello},
		}}},
	}
	testenv.Await(ctx, limit, "the Pod "+hello+" to be created", func(ctx context.Context) { // needs the service account "default"
		must.Get(s.cluster.Client.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, pod, metav1.CreateOptions{}))
	})
}

// uninitialised returns an error unless no cloud controller manager has touched the Nodes.
func (s *side) uninitialised(ctx context.Context) {
	nodes := s.nodes(ctx)
	must.Not(len(nodes) != workers+1, "cluster %q has %d Nodes", s.name, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		must.Be(tainted(n) && n.Spec.ProviderID == "" && n.Labels[corev1.LabelInstanceTypeStable] == "" && n.Labels[corev1.LabelTopologyZone] == "",
			"node %s of cluster %q is initialised, or partly: provider ID %q, taints %v, labels %v", n.Name, s.name, n.Spec.ProviderID, n.Spec.Taints, n.Labels)
	}
}

// install runs csccm install and prints its steps.
func (l *lesson) install(ctx context.Context) {
	install := console.Command{
		Name: "csccm", Path: l.binaries.CLI, Kubeconfig: l.with.cluster.Kubeconfig, Stdin: adminPassword + "\n", From: "admin-password",
		Args: []string{
			"install", "--yes", "--api-url", l.cloud.URL, "--admin-user", adminUser, "--admin-password-stdin", "--account", l.with.name,
			"--set", "hostNetwork=false", "--set", "bindAddress=$(POD_IP)", "--set", "driftPeriod=" + driftPeriod.String(),
		},
	}
	l.Echo(install.Line())
	var out bytes.Buffer
	if err := l.Console.Run(ctx, install, &out); err != nil {
		must.Fail("%w\n%s", err, out.String())
	}
	for _, line := range lines(out.String()) {
		if !strings.HasPrefix(line, " ") { // without the details of the steps
			l.Printf("%s\n", terminal.Cut(line, l.Style.Width))
		}
	}
}

// initialised compares the Nodes of the cluster with the controller with their VMs.
func (l *lesson) initialised(ctx context.Context) {
	nodes := l.with.nodes(ctx)
	list := must.Get(l.with.api.ListVirtualMachines(ctx, cloudstack.VMQuery{WithOffering: true}))
	vms := map[string]*cloudstack.VirtualMachine{}
	for i := range list {
		vms[list[i].Name] = &list[i]
	}
	for i := range nodes {
		n := &nodes[i]
		vm := vms[n.Name]
		must.Be(vm != nil && len(vm.NICs) > 0, "CloudStack has no VM %s with a network", n.Name)
		must.Not(tainted(n) || !strings.HasSuffix(n.Spec.ProviderID, "://"+vm.ID), "node %s of VM %s: provider ID %q, taints %v", n.Name, vm.ID, n.Spec.ProviderID, n.Spec.Taints)
		must.Be(internalIP(n) == vm.NICs[0].IPv4, "node %s of a VM with address %s has the addresses %v", n.Name, vm.NICs[0].IPv4, n.Status.Addresses)
		offering := strings.ReplaceAll(vm.ServiceOfferingName, " ", "_")
		must.Be(n.Labels[corev1.LabelInstanceTypeStable] == offering && n.Labels[corev1.LabelTopologyZone] == vm.ZoneName,
			"node %s of a VM %s in %s has the labels %v", n.Name, vm.ServiceOfferingName, vm.ZoneName, n.Labels)
	}
	l.saw("nodes-initialised", "%d Nodes", len(nodes))
	l.saw("nodes-from-vm", "%s, %s, %s", internalIP(&nodes[0]), nodes[0].Labels[corev1.LabelInstanceTypeStable], zone)
}

// scheduled waits until the Pod runs in the one cluster and is refused in the other.
func (l *lesson) scheduled(ctx context.Context) {
	var node, reason string
	testenv.Await(ctx, limit, "the Pod "+hello+" to run in cluster \"with\" and to wait in the other", func(ctx context.Context) {
		with := must.Get(l.with.cluster.Client.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, hello, metav1.GetOptions{}))
		without := must.Get(l.without.cluster.Client.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, hello, metav1.GetOptions{}))
		must.Be(without.Spec.NodeName == "", "it was scheduled to %s in the other", without.Spec.NodeName)
		i := slices.IndexFunc(without.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
		must.Not(i < 0 || with.Status.Phase != corev1.PodRunning, "not yet")
		node, reason = with.Spec.NodeName, without.Status.Conditions[i].Message
	})
	must.Be(strings.Contains(reason, "untolerated taint"), "the scheduler's reason is %q", reason)
	l.saw("pod-scheduled", "on node %s", node)
}

// describe returns lines about the first worker.
func (s *side) describe(ctx context.Context) []string {
	n := must.Get(s.cluster.Client.CoreV1().Nodes().Get(ctx, s.worker(1), metav1.GetOptions{}))
	taints := make([]string, 0, len(n.Spec.Taints))
	for _, t := range n.Spec.Taints {
		taints = append(taints, t.Key)
	}
	return append([]string{n.Name}, facts("ID", n.Spec.ProviderID, "address", internalIP(n), "type", n.Labels[corev1.LabelInstanceTypeStable],
		"zone", n.Labels[corev1.LabelTopologyZone], "taints", strings.Join(taints, ", "))...)
}

func tainted(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taint })
}

func internalIP(n *corev1.Node) string {
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}
