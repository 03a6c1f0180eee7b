// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"context"
	"errors"
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

// newNetwork creates the guest network of the nodes: a bridge in the sandbox, which has the router's address; attach adds a veth
// pair to a node. public are ranges that become local addresses of the sandbox: those of load balancers and of clients.
func newNetwork(ctx context.Context, gateway netip.Prefix, public ...netip.Prefix) error {
	steps := []string{
		"link set lo up",
		"link add " + bridge + " type bridge",
		"address add " + gateway.String() + " dev " + bridge,
		"link set " + bridge + " up",
	}
	for _, p := range public {
		steps = append(steps, "route replace local "+p.Masked().String()+" dev lo")
	}
	return errors.Join(os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o600), ip(ctx, "", steps...))
}

// attach gives a node its link and its address.
func attach(ctx context.Context, gateway netip.Prefix, m *nodeMachine, o NodeOptions) (err error) {
	defer must.Return(&err)
	link := fmt.Sprintf("csccm-n%d", o.Number)
	if _, err := net.InterfaceByName(link); err == nil {
		// The kernel removes a dead node's namespace and link asynchronously: the link may already be gone.
		_ = ip(ctx, "", "link delete "+link)
	}
	must.OK(ip(ctx, "",
		fmt.Sprintf("link add %s type veth peer name eth0 netns %d", link, m.process.PID()),
		"link set "+link+" master "+bridge,
		"link set "+link+" up",
		// Pod addresses are routed in the network, as with a CNI plugin that uses routes.
		fmt.Sprintf("route replace %s via %s", o.podRange(), o.Address)))
	for _, step := range [][]string{
		{"link", "set", "lo", "up"},
		{"address", "add", netip.PrefixFrom(o.Address, gateway.Bits()).String(), "dev", "eth0"},
		{"link", "set", "eth0", "up"},
		// Pods of other nodes are reached through the router, which has a route to each Pod range.
		{"route", "add", "default", "via", gateway.Addr().String()},
	} {
		must.OK(m.run(ctx, ipProgram, step...))
	}
	// Every node forwards, as kubeadm requires, also one on which the CNI plugin, which sets it, has not run yet.
	return m.run(ctx, "/bin/sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
}

// ip runs commands of ip(8), in the network namespace of a name if it is not empty.
func ip(ctx context.Context, namespace string, commands ...string) error {
	args := []string{"-batch", "-"}
	if namespace != "" {
		args = append([]string{"-n", namespace}, args...)
	}
	cmd := exec.CommandContext(ctx, ipProgram, args...) // #nosec G204 -- ours
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(commands, "; "), err, out)
	}
	return nil
}
