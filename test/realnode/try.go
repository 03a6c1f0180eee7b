// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"context"
	"net/netip"
	"path/filepath"

	"github.com/csccm/csccm/test/internal/must"
)

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
