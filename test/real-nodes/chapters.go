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

	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/testenv"
)

// chapters returns all chapters. The first scenario of each installs the controller for the others. The longest
// chapters come first, so that the others run beside them.
func chapters() []chapter {
	install := installed("--account", account)
	return []chapter{
		{"installed by csccm", isolated, []scenario{
			{"csccm install on uninitialised nodes", install},
			{"TCP Service: from the balancer's address to every Pod", tcp},
			{"PROXY protocol: the Pod sees the client", proxyProtocol},
			{"source ranges: allowed and refused clients", sourceRanges},
			{"sessionAffinity ClientIP", affinity},
			{"externalTrafficPolicy Local, Pods scaled down and up", localPolicy},
			{"ipMode: Pods ask the balancer's address", ipMode},
			{"address shared and kept", addresses},
			{"direct: two UDP ports, the Pod sees the client", twoPorts},
			{"direct: HTTP/3 and HTTP/2 on port 443", webProtocols},
			{"direct: source ranges of a UDP port", udpRanges},
			{"direct: idle TCP connection kept", idleTCP},
			{"direct: node drained, no request lost", directDrained},
			{"direct: power of a node fails", directLost},
			{"csccm doctor", doctor},
			{"Traefik's example, PROXY protocol and hostPort", examples[0].run},
			{"ingress-nginx' example, PROXY protocol", examples[1].run},
			{"Gateway API: Traefik's example, PROXY protocol", examples[2].run},
			{"Gateway API: Traefik's example, direct, HTTP/3 and HTTP/2", examples[3].run},
			{"Pods rolled, no request lost", podsRolled},
			{"leader killed, no request lost", undisturbed(leaderKilled)},
			{"chart upgraded and rolled back, no request lost", undisturbed(upgradeAndBack)},
			{"migrate-rules, no request lost", undisturbed(migrated)},
		}},
		{"CloudStack and nodes that fail", isolated, []scenario{
			{"csccm install, before the failures", install},
			{"CloudStack unavailable for a minute, no request lost", undisturbed(cloudDown)},
			{"node added, drained, stopped, destroyed", nodeLife},
			{"node loses power and its VM is destroyed", nodeLost},
		}},
		{"taken over from Apache's provider", isolated, []scenario{
			{"a cluster with the old controller",
				predecessor(testenv.Predecessor{Image: testenv.ControllerImage + ":" + imageVersion})},
			{"takeover, no request lost", apacheTakenOver},
		}},
		{"taken over from Leaseweb's provider", isolated, []scenario{
			// Like its chart: with its image, provider name and provider IDs.
			{"a cluster with Leaseweb's controller",
				predecessor(testenv.Predecessor{Image: leasewebImage, Provider: "cloudstack",
					Flags: []string{"--provider-id-format=cloudstack", "--instance-type-format=keep-separators"}})},
			{"takeover from Leaseweb's by one command, no request lost", leasewebTakenOver},
		}},
		{"installed by the chart alone", isolated, []scenario{
			{"helm install on uninitialised nodes", chartAlone},
			{"TCP Service, chart alone", tcp},
		}},
		{"kubelets without --cloud-provider=external", notExternal, []scenario{
			{"csccm install with adoptNodes, nodes without a taint", adoptAll},
			{"TCP Service, adopted nodes", tcp},
			{"node joins without the flag, adopted, destroyed", adoptLater},
		}},
		{"tier of a VPC", tier, []scenario{
			{"csccm install, nodes in a VPC", install},
			{"TCP Service, nodes in a VPC", tcp},
			{"source ranges, nodes in a VPC", sourceRanges},
			{"direct: 64 clients spread over the nodes of a VPC", spread},
			{"direct: source ranges of a UDP port in a VPC", udpRanges},
		}},
		{"project", project, []scenario{
			{"csccm install, nodes in a project", installed("--project", projectName)},
			{"TCP Service, nodes in a project", tcp},
		}},
	}
}

// installed returns a scenario that runs csccm install with flags, as an admin of CloudStack would.
func installed(flags ...string) func(context.Context, *env) string {
	return func(ctx context.Context, e *env) string {
		e.run(ctx, "password\n", e.programs.Binaries.CLI, append([]string{ // the password of the simulated world
			"install", "--yes", "--api-url", e.cloud.URL, "--allow-http", "--admin-user", "admin",
			"--admin-password-stdin"}, flags...)...)
		return e.ready(ctx)
	}
}

// ready waits until the nodes are initialised and two Pods of the controller are ready on two nodes.
func (e *env) ready(ctx context.Context) string {
	e.initialized(ctx, e.names()...)
	e.until(ctx, "both Pods of the controller to be ready on two nodes", func(ctx context.Context) {
		on := map[string]bool{}
		pods := must.Get(e.Client.CoreV1().Pods(namespace).List(ctx,
			metav1.ListOptions{LabelSelector: controllerLabel}))
		for _, p := range pods.Items {
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
					on[p.Spec.NodeName] = true
				}
			}
		}
		must.Be(len(on) == 2, "they are ready on %v", on)
	})
	return "3 nodes initialised, controller on 2 of them"
}

// secret creates the Secret that the chart requires.
func (e *env) secret(ctx context.Context) {
	config := must.Get(e.cloud.Config(owner))
	must.Get(e.Client.CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: secretName},
		StringData: map[string]string{"cloud-config": string(config.Render())},
	}, metav1.CreateOptions{}))
}

// chartAlone creates the Secret and installs the chart with Helm's library, as helm install does.
func chartAlone(ctx context.Context, e *env) string {
	e.secret(ctx)
	flags := cluster.NewFlags()
	cache := e.home + "/cache"
	flags.KubeConfig, flags.CacheDir = &e.Kubeconfig, &cache
	client := helm.New(flags, namespace, func(string, ...any) {})
	values := map[string]any{"controlPlaneOnly": false} // no Node has the label of control plane nodes
	must.Get(client.Apply(ctx, helm.ApplyRequest{Name: controller, Chart: must.Get(helm.Embedded()), Values: values}))
	return e.ready(ctx)
}

// predecessor returns a scenario that starts another provider and waits until it has initialised the nodes.
func predecessor(old testenv.Predecessor) func(context.Context, *env) string {
	return func(ctx context.Context, e *env) string {
		e.secret(ctx)
		old.Secret, old.HostNetwork, old.Port = secretName, true, "10268"
		must.OK(old.Create(ctx, e.Client))
		e.initialized(ctx, e.names()...)
		return "3 nodes initialised; the program is csccm's own under the old names"
	}
}

// adoptAll installs csccm where no node has the taint, and checks what the controller changed on the nodes.
func adoptAll(ctx context.Context, e *env) string {
	for _, name := range e.names() {
		n := e.node(ctx, name)
		must.Be(n.Spec.ProviderID == "" && !hasTaint(n, taintKey), "the kubelet of node %s has the flag: %+v", name,
			n.Spec)
	}
	seen := installed("--account", account, "--skip-taint", "--set", "adoptNodes=true")(ctx, e)
	for _, name := range e.names() {
		e.adopted(ctx, name)
	}
	e.csccm(ctx, "doctor", "--only", "NODE-006,NODE-007")
	return seen + ", all adopted"
}

// adoptLater adds a node whose kubelet lacks the flag, sends traffic through it and destroys its VM.
func adoptLater(ctx context.Context, e *env) string {
	to := e.served(ctx, "later")
	o := e.place.node(4)
	o.NotExternal = true
	n := e.Join(ctx, o)
	ready := time.Now()
	e.initialized(ctx, o.Name)
	took := time.Since(ready)
	e.adopted(ctx, o.Name)
	e.members(ctx, to, e.names(o.Name)...)
	ask(ctx, client1, to)
	n.PowerOff()
	e.destroyed(ctx, o.Name)
	e.members(ctx, to, e.names()...)
	return fmt.Sprintf("initialised %s after it was ready; gone with its VM", took.Round(time.Second))
}

// adopted checks an adopted node: Event NodeAdopted, and the addresses that its kubelet reports.
func (e *env) adopted(ctx context.Context, name string) {
	got, want := e.node(ctx, name).Status.Addresses, []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: e.Node(name).Address.String()},
		{Type: corev1.NodeHostName, Address: name}}
	must.Be(slices.Equal(got, want), "node %s has the addresses %v, its kubelet reports %v", name, got, want)
	e.until(ctx, "an Event NodeAdopted on "+name, func(ctx context.Context) {
		seen := e.kubectl(ctx, "get", "events", "-o", "name",
			"--field-selector=reason=NodeAdopted,involvedObject.name="+name)
		must.Be(seen != "", "there is none")
	})
}
