// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/pkg/simulator/datapath"
	"github.com/csccm/csccm/test/conformance"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/realnode"
	"github.com/csccm/csccm/test/testenv"
	"github.com/csccm/csccm/test/traffic"
)

// Names in the simulated CloudStack and in the cluster.
const (
	account       = "k8s"
	owner         = "k8s-owner"
	projectName   = "k8s-project"
	secretName    = "cloudstack-secret" // #nosec G101 -- a name
	namespace     = metav1.NamespaceSystem
	controller    = "cloudstack-ccm"
	imageVersion  = "v0.1.0" // the image tag of this checkout's chart
	leasewebImage = "ghcr.io/leaseweb/cloudstack-kubernetes-provider:1.8.1"
	taintKey      = "node.cloudprovider.kubernetes.io/uninitialized"
	shutdownKey   = "node.cloudprovider.kubernetes.io/shutdown"
	prefix        = "service.beta.kubernetes.io/cloudstack-load-balancer-"
)

// Addresses other than those of the nodes. The clients outside1 and outside2 are beyond the router, which forwards
// their packets.
var (
	balancers = netip.MustParsePrefix("203.0.113.0/24")
	clients   = netip.MustParsePrefix("198.51.100.0/24")
	client1   = netip.MustParseAddr("198.51.100.11")
	client2   = netip.MustParseAddr("198.51.100.22")
	outside1  = netip.MustParseAddr("192.0.2.11")
	outside2  = netip.MustParseAddr("192.0.2.22")
)

// place describes a simulated CloudStack with the VMs of a cluster.
type place struct {
	world   *simulator.World
	latency simulator.LatencyProfile
	gateway netip.Prefix
	nodes   []realnode.NodeOptions
}

// newPlace returns a CloudStack with five VMs in a network. The first three are nodes; the others may join later.
// change adapts the network of the example world.
func newPlace(gateway, network string, vm simulator.VirtualMachine, change func(*simulator.World)) *place {
	p := &place{world: simulator.ExampleWorld(), gateway: netip.MustParsePrefix(gateway)}
	p.world.PublicIPs, p.world.VirtualMachines = nil, nil
	change(p.world)
	for i := 1; i <= 5; i++ {
		o := p.node(i)
		vm.Name, vm.NICs = o.Name, []simulator.NIC{{Network: network, IP: o.Address.String()}}
		p.world.VirtualMachines = append(p.world.VirtualMachines, vm)
		if i <= 3 {
			p.nodes = append(p.nodes, o)
		}
	}
	return p
}

// node returns the node for the VM with this number.
func (p *place) node(number int) realnode.NodeOptions {
	address := p.gateway.Addr().As4()
	address[3] = byte(20 + number) // #nosec G115 -- up to 5
	return realnode.NodeOptions{
		Name:    fmt.Sprintf("worker-%d", number),
		Address: netip.AddrFrom4(address),
		Number:  number,
	}
}

// isolated returns an isolated network with three workers.
func isolated() *place {
	return newPlace("10.1.1.1/24", "k8s-net", simulator.VirtualMachine{Account: account}, func(*simulator.World) {})
}

// notExternal returns an isolated network whose nodes' kubelets run without --cloud-provider=external.
func notExternal() *place {
	p := isolated()
	for i := range p.nodes {
		p.nodes[i].NotExternal = true
	}
	return p
}

// tier returns a tier of a VPC with three workers. Its own ACL denies all ingress traffic, so forwarded traffic needs
// an item of the controller.
func tier() *place {
	return newPlace("10.2.1.1/24", "k8s-tier", simulator.VirtualMachine{Account: account}, func(w *simulator.World) {
		w.VPCs = []simulator.VPC{{
			Name:    "k8s-vpc",
			CIDR:    "10.2.0.0/16",
			Account: account,
			ACLLists: []simulator.ACLList{{
				Name:  "k8s-acl",
				Items: []simulator.ACLItem{{Number: 1, Action: "Allow", Protocol: "all", TrafficType: "Egress"}}}},
		}}
		w.Networks = []simulator.Network{
			{Name: "k8s-tier", VPC: "k8s-vpc", Account: account, CIDR: "10.2.1.0/24", ACL: "k8s-acl"},
		}
	})
}

// project returns an isolated network of a project with three workers.
func project() *place {
	return newPlace("10.1.1.1/24", "k8s-net", simulator.VirtualMachine{Project: projectName}, func(w *simulator.World) {
		w.Projects = []simulator.Project{{Name: projectName, Owner: account}}
		w.Networks = []simulator.Network{{Name: "k8s-net", Project: projectName, CIDR: "10.1.1.0/24"}}
	})
}

// env is the test environment of a chapter: a cluster of real nodes and its simulated CloudStack. It ends with the
// sandbox.
type env struct {
	*realnode.Cluster
	place    *place
	programs *programs
	cloud    *testenv.CloudStack
	path     *datapath.Path
	outside  *realnode.Outside
	home     string
	// clients are the clients that the running scenario has started.
	clients []*traffic.Client
	// tests are the outcomes of Kubernetes' tests in the running scenario.
	tests []conformance.Outcome
}

func newEnv(ctx context.Context, p *programs, at *place) *env {
	dir, _ := realnode.Inside()
	e := &env{place: at, programs: p, home: must.Get(os.MkdirTemp(dir, "home-"))}
	e.Cluster = realnode.StartCluster(ctx, realnode.ClusterOptions{
		Programs:     p.Plane,
		NodePrograms: p.Node,
		Images:       p.Images,
		Gateway:      at.gateway,
		Public:       []netip.Prefix{balancers, clients},
	})

	address := netip.AddrPortFrom(at.gateway.Addr(), 0).String()
	e.cloud = must.Get(testenv.StartCloudStackAt(ctx, address, simulator.Options{World: at.world, Latency: at.latency}))
	e.path = must.Get(datapath.Start(ctx, e.cloud.Simulator, datapath.Options{
		Mode: datapath.Direct, Forwarding: datapath.NFTables, HAProxy: datapath.FindHAProxy()}))
	e.outside = realnode.NewOutside(ctx)
	must.Each(len(at.nodes), func(i int) { e.Join(ctx, at.nodes[i]) })
	e.kubectl(ctx, "create", "-f", filepath.Join(p.Root, "test/real-nodes/echo.yaml"))
	e.rolledOut(ctx)
	return e
}

// names returns the names of the nodes that the cluster started with, and of more.
func (e *env) names(more ...string) []string {
	var names []string
	for _, n := range e.place.nodes {
		names = append(names, n.Name)
	}
	return append(names, more...)
}

// run runs a program with the cluster's kubeconfig and returns its output.
func (e *env) run(ctx context.Context, stdin, path string, args ...string) string {
	cmd := exec.CommandContext(ctx, path, args...) // #nosec G204 -- ours
	cmd.Env = []string{"KUBECONFIG=" + e.Kubeconfig, "HOME=" + e.home,
		"PATH=" + filepath.Dir(e.Kubectl) + ":" + os.Getenv("PATH")}
	cmd.Dir, cmd.Stdin = e.home, strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	must.Be(err == nil, "%s %s: %v\n%s", filepath.Base(path), strings.Join(args, " "), err, out)
	return string(out)
}

func (e *env) csccm(ctx context.Context, args ...string) string {
	return e.run(ctx, "", e.programs.Binaries.CLI, args...)
}

func (e *env) kubectl(ctx context.Context, args ...string) string {
	return e.run(ctx, "", e.Kubectl, args...)
}

// until retries try until it succeeds or five minutes have passed.
func (e *env) until(ctx context.Context, what string, try func(context.Context)) {
	testenv.Await(ctx, 5*time.Minute, what, try)
}

// explain prints the state of the cluster after a failed scenario.
func (e *env) explain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	for _, args := range []string{"get nodes,services,pods -A -o wide", "get events -A --sort-by=.lastTimestamp",
		"logs -n " + namespace + " -l " + controllerLabel + " --tail=30 --prefix"} {
		var out string
		err := must.Catch(func() { out = e.kubectl(ctx, strings.Fields(args)...) })
		_, _ = fmt.Fprintf(os.Stderr, "--- kubectl %s\n%s%v\n", args, out[max(0, len(out)-6000):], err)
	}
	_, _ = fmt.Fprintf(os.Stderr, "--- router %+v\n", e.path.Status())
}

// node returns a Node object from the API server.
func (e *env) node(ctx context.Context, name string) *corev1.Node {
	return must.Get(e.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}))
}

// initialized waits until nodes have no uninitialized taint and have a provider ID and a zone label.
func (e *env) initialized(ctx context.Context, names ...string) {
	for _, name := range names {
		e.until(ctx, "node "+name+" to be initialised", func(ctx context.Context) {
			n := e.node(ctx, name)
			must.Be(!hasTaint(n, taintKey) && n.Spec.ProviderID != "" && n.Labels[corev1.LabelTopologyZone] != "",
				"taints %v, provider ID %q, labels %v", n.Spec.Taints, n.Spec.ProviderID, n.Labels)
		})
	}
}
