// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/csccm/csccm/test/internal/child"
	"github.com/csccm/csccm/test/internal/must"
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

// Node is a running or stopped node: a process 1 with its own PID, mount, network, UTS and IPC namespaces, and the
// processes in them. When process 1 is killed, the kernel ends all of them, like a power failure.
type Node struct {
	NodeOptions
	cluster     *Cluster
	process     *child.Process
	dir, cgroup string // dir holds its files and logs
}

const (
	startLimit = 2 * time.Minute
	nsenter    = "/usr/bin/nsenter"
)

// start starts the node's programs.
func (n *Node) start(ctx context.Context) {
	n.power(ctx)
	n.writeConfigs()
	n.writeKeys()
	n.runtime(ctx)
	for _, archive := range n.cluster.o.Images {
		must.OK(n.ctr(ctx, "images", "import", archive))
	}

	n.background(ctx, "kube-proxy", filepath.Join(n.cluster.o.NodePrograms, "kube-proxy"), "--config",
		n.file("kube-proxy.yaml"))
	kubelet := []string{
		"--config=" + n.file("kubelet.yaml"), "--kubeconfig=" + n.file("kubelet.kubeconfig"),
		"--root-dir=" + n.file("kubelet"), "--cert-dir=" + n.file("pki"), "--hostname-override=" + n.Name,
		"--node-ip=" + n.Address.String(), "--v=2",
	}

	if !n.NotExternal {
		kubelet = append(kubelet, "--cloud-provider=external")
	}

	n.background(ctx, "kubelet", filepath.Join(n.cluster.o.NodePrograms, "kubelet"), kubelet...)
}

// power creates the node's folder, cgroups, process 1 and link.
func (n *Node) power(ctx context.Context) {
	must.OK(os.MkdirAll(n.file("manifests"), 0o700))
	for _, h := range hierarchies() {
		h.make(n.cgroup)
	}
	n.process = must.Get(child.Start(ctx, child.Command{
		Name:  n.Name,
		Path:  must.Get(os.Executable()),
		Argv0: nodeStage,
		Args:  []string{n.dir, n.Name},
		Log:   n.log("machine"),
		Attr:  &syscall.SysProcAttr{Cloneflags: namespaces},
	}))
	must.OK(n.process.Ready(ctx, startLimit, func(context.Context) error {
		_, err := os.Stat(n.file(upFile))
		return err
	}))
	n.attach(ctx)
}

// runtime starts containerd and waits until it answers.
func (n *Node) runtime(ctx context.Context) {
	containerd := n.background(ctx, "containerd", "/usr/bin/containerd", "-c", n.file("containerd.toml"))
	must.OK(containerd.Ready(ctx, startLimit, func(ctx context.Context) error { return n.ctr(ctx, "version") }))
}

func (n *Node) ctr(ctx context.Context, args ...string) error {
	return n.run(ctx, "/usr/bin/ctr", append([]string{"-a", n.file("containerd.sock"), "-n", "k8s.io"}, args...)...)
}

// PowerOff kills all processes of the node at once, like a power failure.
func (n *Node) PowerOff() { n.process.Stop(0) }

// NoConnectionsTo fails while the connection tracking of n has a connection that waits for an answer of a Pod on a dead
// node. While it has one (up to two minutes), a connection from the same port of the load balancer is sent to the same
// Pod.
func (n *Node) NoConnectionsTo(ctx context.Context, gone *Node) {
	pods := strings.TrimSuffix(gone.podRange().Masked().Addr().String(), "0")
	// If this file does not exist, connections cannot be listed: grep fails, which counts as success.
	must.OK(n.run(ctx, "/bin/sh", "-c", "! grep -q 'SYN_SENT.*src="+pods+"' /proc/net/nf_conntrack"))
}

// logs returns the last lines of the node's logs, for error messages.
func (n *Node) logs() string {
	var b strings.Builder
	for _, name := range []string{"kubelet", "containerd", "kube-proxy", "machine"} {
		_, _ = fmt.Fprintf(&b, "--- %s of %s ends with:\n%s\n", name, n.Name, child.Tail(n.log(name), 15))
	}
	return b.String()
}

func (n *Node) file(name string) string { return filepath.Join(n.dir, name) }

func (n *Node) log(name string) string { return n.file("log/" + name + ".log") }

// inside returns a command that runs a program in the namespaces of the node.
func (n *Node) inside(name, path string, args []string) child.Command {
	to := []string{"-m", "-u", "-i", "-n", "-p", "-t", fmt.Sprint(n.process.PID()), path}
	return child.Command{
		Name: name, Path: nsenter, Args: append(to, args...), Log: n.log(name),
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + n.dir,
			"TMPDIR=" + n.dir},
	}
}

// background starts a program and does not wait for its end.
func (n *Node) background(ctx context.Context, name, path string, args ...string) *child.Process {
	return must.Get(child.Start(ctx, n.inside(name, path, args)))
}

// run runs a program and waits for its end. If it fails, the error contains its output.
func (n *Node) run(ctx context.Context, path string, args ...string) error {
	c := n.inside("", path, args)
	cmd := exec.CommandContext(ctx, c.Path, c.Args...) // #nosec G204 -- ours
	cmd.Env = c.Env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", filepath.Base(path), strings.Join(args, " "), err, out)
	}
	return nil
}

// Try starts a node without Kubernetes in the sandbox of this process. Its error names what the machine does not
// allow: namespaces, cgroups, links, nftables or containerd.
func Try(ctx context.Context) {
	n := bare(ctx)
	n.writeConfigs()
	must.OK(n.run(ctx, "/usr/sbin/nft", "add", "table", "inet", "csccm-try"))
	n.runtime(ctx)
}

// bare starts a node that is attached to a network and runs no programs.
func bare(ctx context.Context) *Node {
	c := &Cluster{o: ClusterOptions{Gateway: netip.MustParsePrefix("10.1.1.1/24")}}
	newNetwork(ctx, c.o.Gateway, netip.MustParsePrefix("203.0.113.0/24"))
	n := c.node(NodeOptions{Name: "n1", Number: 1, Address: netip.MustParseAddr("10.1.1.21")})
	n.power(ctx)
	return n
}
