// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// requirement is a program that nodes need and the Debian package that has it.
type requirement struct{ path, pkg string }

var requirements = []requirement{
	{"/usr/bin/containerd", "containerd"},
	{"/usr/bin/ctr", "containerd"},
	{"/usr/sbin/runc", "runc"},
	{"/usr/lib/cni/bridge", "containernetworking-plugins"},
	{"/usr/lib/cni/portmap", "containernetworking-plugins"},
	{"/usr/sbin/nft", "nftables"},
	{"/usr/sbin/conntrack", "conntrack"},
	{"/usr/sbin/iptables", "iptables"}, // of the plugin portmap
	{ipProgram, "iproute2"},
}

// Check says why real nodes cannot run here; nil when they can. With install it
// installs what is missing by apt.
func Check(ctx context.Context, install bool) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("real nodes need root: they are made of namespaces, mounts and cgroups (make demo needs none of that)")
	}
	if lack := lacking(hierarchies()); len(lack) > 0 {
		return fmt.Errorf("no cgroup controller %s is mounted here: real nodes need a machine or a container with its own cgroups (cgroup v1 or v2)", strings.Join(lack, ", "))
	}
	missing := missingPackages()
	if len(missing) > 0 && install {
		if err := aptInstall(ctx, missing); err != nil {
			return err
		}
		missing = missingPackages()
	}
	if len(missing) > 0 {
		return fmt.Errorf("missing: apt-get install --no-install-recommends %s (E2E_INSTALL=1 does that)", strings.Join(missing, " "))
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

func aptInstall(ctx context.Context, pkgs []string) error {
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("missing %s, and no apt-get to install them: install what your system calls these", strings.Join(pkgs, ", "))
	}
	for _, args := range [][]string{{"update"}, append([]string{"install", "-y", "--no-install-recommends"}, pkgs...)} {
		cmd := exec.CommandContext(ctx, "apt-get", args...) // #nosec G204 -- names from the table above
		// A service that starts containerd on the machine is not wanted.
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w\n%s", args[0], err, out)
		}
	}
	return nil
}
