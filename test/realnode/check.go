// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// requirements are the programs that nodes need and the Debian packages that contain them. The CNI plugin portmap runs
// iptables; Kubernetes' tests run a shell and clients in Pods.
var requirements = []struct{ path, pkg string }{
	{"/usr/bin/containerd", "containerd"}, {"/usr/bin/ctr", "containerd"}, {"/usr/sbin/runc", "runc"},
	{"/usr/lib/cni/bridge", "containernetworking-plugins"}, {"/usr/lib/cni/portmap", "containernetworking-plugins"},
	{"/usr/sbin/haproxy", "haproxy"}, {"/usr/sbin/nft", "nftables"}, {"/usr/sbin/conntrack", "conntrack"},
	{"/usr/sbin/iptables", "iptables"}, {"/bin/dash", "dash"}, {"/usr/bin/curl", "curl"}, {"/usr/bin/wget", "wget"},
	{"/bin/nc.openbsd", "netcat-openbsd"}, {ipProgram, "iproute2"}, {nsenter, "util-linux"},
}

// Check returns why real nodes cannot run on this machine, nil if they can. With install, it installs missing packages
// with apt-get.
func Check(ctx context.Context, install bool) error {
	if os.Geteuid() != 0 {
		return errors.New("real nodes need root: they use namespaces, mounts and cgroups (make demo needs none of " +
			"them)")
	}

	if lack := lacking(hierarchies()); len(lack) > 0 {
		return fmt.Errorf("the cgroup controllers %s are not mounted: real nodes need a machine or a container with "+
			"its own cgroups (cgroup v1 or v2)", strings.Join(lack, ", "))
	}

	missing := missingPackages()
	if len(missing) > 0 && install {
		for _, args := range [][]string{{"update"},
			append([]string{"install", "-y", "--no-install-recommends"}, missing...)} {
			cmd := exec.CommandContext(ctx, "apt-get", args...) // #nosec G204 -- names from the table above
			// RUNLEVEL=1 keeps the package from starting containerd as a service of the machine.
			cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1")
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("apt-get %s: %w\n%s", args[0], err, out)
			}
		}
		missing = missingPackages()
	}

	if len(missing) > 0 {
		return fmt.Errorf("programs of nodes are missing: run apt-get install --no-install-recommends %s, or set "+
			"INSTALL_PACKAGES=1",
			strings.Join(missing, " "))
	}

	return nil
}

func missingPackages() []string {
	var pkgs []string
	for _, r := range requirements {
		if _, err := os.Stat(r.path); err != nil {
			pkgs = append(pkgs, r.pkg)
		}
	}
	slices.Sort(pkgs)
	return slices.Compact(pkgs)
}
