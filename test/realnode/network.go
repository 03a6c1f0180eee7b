// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"

	"github.com/csccm/csccm/test/internal/must"
)

const (
	ipProgram = "/sbin/ip"
	bridge    = "csccm0"
)

// newNetwork creates the nodes' guest network: a bridge in the sandbox with the router's address. public are ranges of
// load balancers and clients, whose addresses become local addresses of the sandbox.
func newNetwork(ctx context.Context, gateway netip.Prefix, public ...netip.Prefix) {
	steps := []string{
		"link set lo up",
		"link add " + bridge + " type bridge",
		"address add " + gateway.String() + " dev " + bridge,
		"link set " + bridge + " up",
	}
	for _, p := range public {
		steps = append(steps, "route replace local "+p.Masked().String()+" dev lo")
	}
	ip(ctx, steps...)
	must.OK(os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o600))
}

// attach gives a node its link and its address.
func (n *Node) attach(ctx context.Context) {
	link, gateway := fmt.Sprintf("csccm-n%d", n.Number), n.cluster.o.Gateway
	if _, err := net.InterfaceByName(link); err == nil {
		// The kernel removes a dead node's namespace and link asynchronously: the link may already be gone.
		_ = must.Catch(func() { ip(ctx, "link delete "+link) })
	}
	ip(ctx,
		fmt.Sprintf("link add %s type veth peer name eth0 netns %d", link, n.process.PID()),
		"link set "+link+" master "+bridge,
		"link set "+link+" up",
		// Pod addresses are routed, as with a CNI plugin that uses routes: a node reaches the Pods of other nodes
		// through the router.
		fmt.Sprintf("route replace %s via %s", n.podRange(), n.Address))
	// Every node forwards packets, as kubeadm requires. The CNI plugin would set this, but may not have run yet.
	must.OK(n.run(ctx, "/bin/sh", "-ec", fmt.Sprintf("ip link set lo up; ip address add %s/%d dev eth0; ip link set "+
		"eth0 up; ip route add default via %s; echo 1 > /proc/sys/net/ipv4/ip_forward", n.Address, gateway.Bits(),
		gateway.Addr())))
}

// ip runs commands of ip(8).
func ip(ctx context.Context, commands ...string) {
	cmd := exec.CommandContext(ctx, ipProgram, "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	out, err := cmd.CombinedOutput()
	must.Be(err == nil, "ip %s: %v: %s", strings.Join(commands, "; "), err, out)
}
