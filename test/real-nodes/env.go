// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/pkg/simulator/datapath"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/realnode"
	"github.com/csccm/csccm/test/testenv"
	"github.com/csccm/csccm/test/traffic"
)

// place describes a simulated CloudStack with the VMs of a cluster.
type place struct {
	world   *simulator.World
	gateway netip.Prefix
	nodes   []realnode.NodeOptions
}

// Names in the simulated CloudStack and in the cluster.
const (
	account    = "k8s"
	owner      = "k8s-owner"
	adminLogin = "admin"
	adminWord  = "password" // #nosec G101 -- of the simulated world
	namespace  = metav1.NamespaceSystem
	controller = "cloudstack-ccm"
	taintKey   = "node.cloudprovider.kubernetes.io/uninitialized"
	prefix     = "service.beta.kubernetes.io/cloudstack-load-balancer-"
)

// Addresses beside those of the nodes.
var (
	balancers = netip.MustParsePrefix("203.0.113.0/24")
	clients   = netip.MustParsePrefix("198.51.100.0/24")
	client1   = netip.MustParseAddr("198.51.100.11")
	client2   = netip.MustParseAddr("198.51.100.22")
)

// newPlace returns a CloudStack with five VMs in a network. The first three are nodes; the others may join later. change
// describes the network where it is not that of the example.
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

// node returns the node of the VM of a number.
func (p *place) node(number int) realnode.NodeOptions {
	address := p.gateway.Addr().As4()
	address[3] = byte(20 + number) // #nosec G115 -- up to 5
	return realnode.NodeOptions{Name: fmt.Sprintf("worker-%d", number), Address: netip.AddrFrom4(address), Number: number}
}

// isolated returns an isolated network with three workers.
func isolated() *place {
	return newPlace("10.1.1.1/24", "k8s-net", simulator.VirtualMachine{Account: account}, func(*simulator.World) {})
}

// env is the test environment of a chapter: a cluster of real nodes and its simulated CloudStack.
type env struct {
	*realnode.Cluster
	place    *place
	programs *programs
	cloud    *testenv.CloudStack
	path     *datapath.Path
	outside  *realnode.Outside
	home     string
	log      io.Writer
	undo     []func()
	// clients are those that the running scenario has started.
	clients []*traffic.Client
}

func newEnv(ctx context.Context, p *programs, minor plane.Minor, at *place, log io.Writer) (_ *env, err error) {
	dir, _ := realnode.Inside()
	e := &env{place: at, programs: p, log: log}
	if e.home, err = os.MkdirTemp(dir, "home-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			e.stop()
		}
	}()
	defer must.Return(&err)
	e.Cluster = must.Get(realnode.StartCluster(ctx, realnode.ClusterOptions{
		Binary: p.Planes[minor], Images: p.Images, Gateway: at.gateway, Public: []netip.Prefix{balancers, clients},
	}))
	e.undo = append(e.undo, e.Stop)
	e.cloud = must.Get(testenv.StartCloudStackAt(ctx, netip.AddrPortFrom(at.gateway.Addr(), 0).String(), simulator.Options{World: at.world}))
	e.undo = append(e.undo, e.cloud.Stop)
	e.path = must.Get(datapath.Start(ctx, e.cloud.Simulator, datapath.Options{Mode: datapath.Direct, Forwarding: datapath.NFTables, HAProxy: datapath.FindHAProxy()}))
	e.undo = append(e.undo, e.path.Close)
	e.outside = must.Get(realnode.NewOutside(ctx, balancers))
	e.undo = append(e.undo, e.outside.Close)
	must.Each(len(at.nodes), func(i int) { must.Get(e.Join(ctx, at.nodes[i])) })
	must.OK(e.WaitReady(ctx, e.names()...))
	e.workload(ctx)
	return e, nil
}

func (e *env) stop() {
	for _, undo := range slices.Backward(e.undo) {
		undo()
	}
}

// run runs a program with the cluster's kubeconfig and returns its output.
func (e *env) run(ctx context.Context, stdin, path string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, path, args...) // #nosec G204 -- ours
	cmd.Env = []string{"KUBECONFIG=" + e.Kubeconfig, "HOME=" + e.home, "PATH=" + filepath.Dir(e.Kubectl) + ":" + os.Getenv("PATH")}
	cmd.Dir, cmd.Stdin = e.home, strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w\n%s", filepath.Base(path), strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

func (e *env) csccm(ctx context.Context, args ...string) string {
	return must.Get(e.run(ctx, "", e.programs.Binaries.CLI, args...))
}

func (e *env) kubectl(ctx context.Context, stdin string, args ...string) string {
	return must.Get(e.run(ctx, stdin, e.Kubectl, args...))
}

// until polls until try succeeds.
func (e *env) until(ctx context.Context, what string, try func(context.Context)) {
	testenv.Await(ctx, 5*time.Minute, what, try)
}

// client returns a CloudStack client of the VMs' owner.
func (e *env) client() (*cloudstack.Client, error) { return e.cloud.Client(owner) }

// explain prints the state of the cluster after a failed scenario.
func (e *env) explain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	for _, args := range [][]string{
		{"get", "nodes,services,pods", "-A", "-o", "wide"},
		{"get", "events", "-A", "--sort-by=.lastTimestamp"},
		{"logs", "-n", namespace, "-l", "app.kubernetes.io/name=" + controller, "--tail=30", "--prefix"},
	} {
		out, err := e.run(ctx, "", e.Kubectl, args...)
		if err != nil {
			out = err.Error()
		}
		_, _ = fmt.Fprintf(e.log, "--- kubectl %s\n%s\n", strings.Join(args, " "), tail(out, 40))
	}
	status := e.path.Status()
	for _, r := range status.Rules {
		_, _ = fmt.Fprintf(e.log, "--- rule %+v\n", r)
	}
	for _, f := range status.Forwards {
		_, _ = fmt.Fprintf(e.log, "--- forward %+v\n", f)
	}
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// initialized waits until nodes are without the uninitialized taint and have a provider ID and a zone label.
func (e *env) initialized(ctx context.Context, names ...string) {
	for _, name := range names {
		e.until(ctx, "node "+name+" to be initialised", func(ctx context.Context) {
			n := must.Get(e.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}))
			must.Not(hasTaint(n), "it has the taint %s", taintKey)
			must.Not(n.Spec.ProviderID == "" || n.Labels[corev1.LabelTopologyZone] == "", "provider ID %q, labels %v", n.Spec.ProviderID, n.Labels)
		})
	}
}
