// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/testenv"
)

// chapters returns all chapters; in each, the first scenario installs the controller for the others. Those that take
// longest come first, so that the others run beside them.
func chapters() []chapter {
	return []chapter{
		{name: "installed by csccm", world: isolated, scenarios: []scenario{
			{"csccm install on uninitialised nodes", install},
			{"TCP Service: from the balancer's address to every Pod", tcp},
			{"PROXY protocol: the Pod sees the client", proxyProtocol},
			{"source ranges: allowed and refused clients", sourceRanges},
			{"sessionAffinity ClientIP", affinity},
			{"externalTrafficPolicy Local, Pods scaled down and up", localPolicy},
			{"ipMode: Pods ask the balancer's address", ipMode},
			{"address shared and kept", addresses},
			{"direct: UDP echo and DNS, the Pod sees the client", udpAndDNS},
			{"direct: HTTP/3 and HTTP/2 on port 443", webProtocols},
			{"direct: source ranges of a UDP port", udpRanges},
			{"direct: idle TCP connection kept", idleTCP},
			{"direct: node drained, no request lost", directDrained},
			{"direct: power of a node fails", directLost},
			{"csccm doctor", doctor},
			{"Traefik's example, PROXY protocol and hostPort", ingresses[0].run},
			{"ingress-nginx' example, PROXY protocol", ingresses[1].run},
			{"Gateway API: its objects in all examples", gatewayObjects},
			{gateways[0].name, gateways[0].run},
			{gateways[1].name, gateways[1].run},
			{"Pods rolled, no request lost", podsRolled},
			{"leader killed, no request lost", undisturbed(leaderKilled)},
			{"chart upgraded and rolled back, no request lost", undisturbed(upgradeAndBack)},
			{"migrate-rules, no request lost", undisturbed(migrated)},
		}},
		{name: "CloudStack and nodes that fail", world: isolated, scenarios: []scenario{
			{"csccm install, before the failures", install},
			{"CloudStack unavailable for a minute, no request lost", undisturbed(cloudDown)},
			{"node added, drained, stopped, destroyed", nodeLife},
			{"node loses power and its VM is destroyed", nodeLost},
		}},
		{name: "taken over from Apache's provider", world: isolated, scenarios: []scenario{
			{"a cluster with the old controller", oldController},
			{"takeover, no request lost", takenOver},
		}},
		{name: "taken over from Leaseweb's provider", world: isolated, scenarios: []scenario{
			{"a cluster with Leaseweb's controller", leasewebController},
			{"takeover from Leaseweb's by one command, no request lost", leasewebTakenOver},
		}},
		{name: "installed by the chart alone", world: isolated, scenarios: []scenario{
			{"helm install on uninitialised nodes", chartAlone},
			{"TCP Service, chart alone", tcp},
		}},
		{name: "kubelets without --cloud-provider=external", world: notExternal, scenarios: []scenario{
			{"csccm install with adoptNodes, nodes without a taint", adoptAll},
			{"TCP Service, adopted nodes", tcp},
			{"node joins without the flag, adopted, destroyed", adoptLater},
		}},
		{name: "tier of a VPC", world: tier, scenarios: []scenario{
			{"csccm install, nodes in a VPC", install},
			{"TCP Service, nodes in a VPC", tcp},
			{"source ranges, nodes in a VPC", sourceRanges},
			{"direct: 64 clients spread over the nodes of a VPC", spread},
			{"direct: source ranges of a UDP port in a VPC", udpRanges},
		}},
		{name: "project", world: project, scenarios: []scenario{
			{"csccm install, nodes in a project", installProject},
			{"TCP Service, nodes in a project", tcp},
		}},
	}
}

// tier returns a tier of a VPC with three workers.
func tier() *place {
	return newPlace("10.2.1.1/24", "k8s-tier", simulator.VirtualMachine{Account: account}, func(w *simulator.World) {
		// The tier's own ACL lets nothing in: what is forwarded to a node needs an item of the controller.
		w.VPCs = []simulator.VPC{{Name: "k8s-vpc", CIDR: "10.2.0.0/16", Account: account, ACLLists: []simulator.ACLList{{
			Name: "k8s-acl", Items: []simulator.ACLItem{{Number: 1, Action: "Allow", Protocol: "all", TrafficType: "Egress"}}}}}}
		w.Networks = []simulator.Network{{Name: "k8s-tier", VPC: "k8s-vpc", Account: account, CIDR: "10.2.1.0/24", ACL: "k8s-acl"}}
	})
}

// notExternal returns an isolated network whose nodes' kubelets run without --cloud-provider=external.
func notExternal() *place {
	p := isolated()
	for i := range p.nodes {
		p.nodes[i].NotExternal = true
	}
	return p
}

const projectName = "k8s-project"

// project returns an isolated network of a project with three workers.
func project() *place {
	return newPlace("10.1.1.1/24", "k8s-net", simulator.VirtualMachine{Project: projectName}, func(w *simulator.World) {
		w.Projects = []simulator.Project{{Name: projectName, Owner: account}}
		w.Networks = []simulator.Network{{Name: "k8s-net", Project: projectName, CIDR: "10.1.1.0/24"}}
	})
}

func installProject(ctx context.Context, e *env) string {
	return installWith(ctx, e, "--project", projectName)
}

const (
	secretName = "cloudstack-secret" // #nosec G101 -- a name
	secretKey  = "cloud-config"      // #nosec G101 -- the name of a key
)

// secret creates the Secret that the chart requires.
func (e *env) secret(ctx context.Context) {
	config := must.Get(e.cloud.Config(owner))
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secretName}, StringData: map[string]string{secretKey: string(config.Render())}}
	must.Get(e.Client.CoreV1().Secrets(namespace).Create(ctx, s, metav1.CreateOptions{}))
}

// chartAlone creates the Secret and installs the chart with Helm's library, as helm install does.
func chartAlone(ctx context.Context, e *env) string {
	e.secret(ctx)
	flags := cluster.NewFlags()
	cache := e.home + "/cache"
	flags.KubeConfig, flags.CacheDir = &e.Kubeconfig, &cache
	client := helm.New(flags, namespace, func(string, ...any) {})
	chart := must.Get(helm.Embedded())
	values := map[string]any{"controlPlaneOnly": false} // no Node has the label of control plane nodes
	must.Get(client.Apply(ctx, helm.ApplyRequest{Name: controller, Chart: chart, Values: values}))
	return e.installed(ctx)
}

// oldController starts Apache's provider, which initialises the nodes.
func oldController(ctx context.Context, e *env) string {
	e.secret(ctx)
	return e.predecessor(ctx, testenv.Predecessor{Image: testenv.ControllerImage + ":" + imageVersion})
}

const leasewebImage = "ghcr.io/leaseweb/cloudstack-kubernetes-provider:1.8.1"

// leasewebController starts Leaseweb's provider as its chart does: with its image, provider name and provider IDs.
func leasewebController(ctx context.Context, e *env) string {
	e.secret(ctx)
	return e.predecessor(ctx, testenv.Predecessor{Image: leasewebImage, Provider: "cloudstack",
		Flags: []string{"--provider-id-format=cloudstack", "--instance-type-format=keep-separators"}})
}

// predecessor starts another provider and waits until it has initialised the nodes.
func (e *env) predecessor(ctx context.Context, old testenv.Predecessor) string {
	old.Secret, old.HostNetwork, old.Port = secretName, true, "10268"
	must.OK(old.Create(ctx, e.Client))
	names := e.names()
	e.initialized(ctx, names...)
	return fmt.Sprintf("%d nodes initialised; the program is csccm's own under the old names", len(names))
}
