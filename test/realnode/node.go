// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/csccm/csccm/test/internal/child"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/testenv"
)

// NodeOptions configures a node.
type NodeOptions struct {
	Name    string
	Address netip.Addr
	// Number, 1 to 254, determines the node's Pod range and the name of its link.
	Number int
	// NotExternal starts the kubelet without --cloud-provider=external, as CloudStack Kubernetes Service does.
	NotExternal bool
}

func (o NodeOptions) podRange() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(o.Number), 0}), 24) // #nosec G115 -- up to 254
}

// clusterRange holds the Pods of all nodes.
const clusterRange = "10.244.0.0/16"

// Node is a node, running or stopped.
type Node struct {
	NodeOptions
	// Dir holds its files and logs.
	Dir string

	plane   *plane.Plane
	gateway netip.Prefix
	binary  string // the multi-call binary, for kubelet and kube-proxy
	images  []string
	cgroup  string
	machine *nodeMachine
}

const (
	containerdStart = 2 * time.Minute
	stopGrace       = 30 * time.Second
)

// boot starts the node's programs; a node that does not start is powered off.
func (n *Node) boot(ctx context.Context) error {
	err := must.Catch(func() { must.OK(n.startPrograms(ctx)) })
	if err != nil {
		n.PowerOff()
		err = fmt.Errorf("node %s: %w", n.Name, err)
	}
	return err
}

func (n *Node) startPrograms(ctx context.Context) error {
	must.OK(n.power(ctx))
	must.OK(n.writeConfigs())
	must.OK(n.runtime(ctx))
	for _, archive := range n.images {
		must.OK(n.Import(ctx, archive))
	}
	must.OK(n.multi(ctx, "kube-proxy", "--config", n.file("kube-proxy.json")))
	flags := []string{
		"--config=" + n.file("kubelet.json"), "--kubeconfig=" + n.file("kubelet.kubeconfig"), "--root-dir=" + n.file("kubelet"),
		"--cert-dir=" + n.file("pki"), "--hostname-override=" + n.Name, "--node-ip=" + n.Address.String(), "--v=2",
	}
	if !n.NotExternal {
		flags = append(flags, "--cloud-provider=external")
	}
	return n.multi(ctx, "kubelet", flags...)
}

// power creates the node's folder, cgroups, process 1 and link.
func (n *Node) power(ctx context.Context) (err error) {
	defer must.Return(&err)
	for _, sub := range []string{"log", "pki", "cni", "manifests", "kubelet"} {
		must.OK(os.MkdirAll(filepath.Join(n.Dir, sub), 0o700))
	}
	for _, h := range hierarchies() {
		must.OK(h.make(n.cgroup))
	}
	n.machine = must.Get(startMachine(ctx, n.Name, n.Dir))
	return attach(ctx, n.gateway, n.machine, n.NodeOptions)
}

// runtime starts containerd and waits until it answers.
func (n *Node) runtime(ctx context.Context) error {
	must.OK(n.writeContainerdConfig())
	must.OK(n.machine.start(ctx, "containerd", "/usr/bin/containerd", "-c", n.file("containerd.toml")))
	err := testenv.Wait(ctx, containerdStart, "containerd to answer", func(ctx context.Context) error { return n.ctr(ctx, "version") })
	if err != nil {
		return fmt.Errorf("%w; its log ends with:\n%s", err, child.Tail(n.machine.log("containerd"), 10))
	}
	return nil
}

// multi starts a program of the multi-call binary.
func (n *Node) multi(ctx context.Context, name string, args ...string) error {
	return n.machine.start(ctx, name, n.binary, append([]string{name}, args...)...)
}

func (n *Node) ctr(ctx context.Context, args ...string) error {
	return n.machine.run(ctx, "/usr/bin/ctr", append([]string{"-a", n.file("containerd.sock"), "-n", "k8s.io"}, args...)...)
}

// Import imports an image archive.
func (n *Node) Import(ctx context.Context, archive string) error {
	return n.ctr(ctx, "images", "import", archive)
}

// PowerOff kills all processes of the node at once, as a power failure would.
func (n *Node) PowerOff() {
	if n.machine != nil {
		n.machine.kill()
		n.machine = nil
	}
}

// NoConnectionsTo returns nil when the connection tracking of n holds no connection that waits for an answer of a Pod of the
// node gone. Until then, for up to two minutes, a connection from the same port of the load balancer is sent to the
// same Pod.
func (n *Node) NoConnectionsTo(ctx context.Context, gone *Node) error {
	pods := strings.TrimSuffix(gone.podRange().Masked().Addr().String(), "0")
	// Where this file does not exist, connections cannot be listed: grep fails, and NoConnectionsTo returns nil.
	return n.machine.run(ctx, "/bin/sh", "-c", "! grep -q 'SYN_SENT.*src="+pods+"' /proc/net/nf_conntrack")
}

// Logs returns the last lines of the node's logs, for error messages.
func (n *Node) Logs(lines int) string {
	var b strings.Builder
	for _, name := range []string{"kubelet", "containerd", "kube-proxy", "machine"} {
		_, _ = fmt.Fprintf(&b, "--- %s of %s ends with:\n%s\n", name, n.Name, child.Tail(filepath.Join(n.Dir, "log", name+".log"), lines))
	}
	return b.String()
}

func (n *Node) file(name string) string { return filepath.Join(n.Dir, name) }

// Try starts a node without Kubernetes in the sandbox that this process runs in. Its error says what the machine does
// not allow: namespaces, cgroups, links, nftables or containerd.
func Try(ctx context.Context) (err error) {
	defer must.Return(&err)
	n := must.Get(bare(ctx))
	defer n.PowerOff()
	must.OK(n.machine.run(ctx, "/usr/sbin/nft", "add", "table", "inet", "csccm-try"))
	return n.runtime(ctx)
}

// bare starts a node that is attached to a network and runs no programs.
func bare(ctx context.Context) (_ *Node, err error) {
	defer must.Return(&err)
	dir, _ := Inside()
	gateway := netip.MustParsePrefix("10.1.1.1/24")
	must.OK(newNetwork(ctx, gateway, netip.MustParsePrefix("203.0.113.0/24")))
	o := NodeOptions{Name: "n1", Number: 1, Address: netip.MustParseAddr("10.1.1.21")}
	n := &Node{NodeOptions: o, Dir: filepath.Join(dir, o.Name), gateway: gateway, cgroup: filepath.Join(filepath.Base(dir), o.Name)}
	if err := n.power(ctx); err != nil {
		n.PowerOff()
		return nil, err
	}
	return n, nil
}
