// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/network"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// This file creates the resources of a cluster: its network, its VMs and their address, with one function for each
// kind.

func networkDenied(n *store.Network) error {
	return wire.Errf(wire.CodeAccount, wire.CSPermission, "Unable to use network with id= %s, permission denied",
		n.UUID)
}

// checkNetworkUse refuses callers who may not create objects in the network. The network's owner, the members of its
// project and, for a domain's network, the accounts of the domain may.
func checkNetworkUse(c *wire.Call, n *store.Network) error {
	me := c.Caller.Account
	switch {
	case me.RootAdmin():
		return nil
	case n.Owner == nil:
		if n.Domain != nil && me.Domain != n.Domain && (!n.Subdomains || !me.Domain.Within(n.Domain)) {
			return wire.Errf(wire.CodeAccount, wire.CSPermission,
				"Shared network id=%s is not available in domain id=%s", n.UUID, me.Domain.UUID)
		}
		return nil
	case n.Owner == me, n.Owner.Project != nil && n.Owner.Project.Admits(c.Caller):
		return nil
	}
	return networkDenied(n)
}

// createClusterNetwork creates the network of a cluster for which the caller specified none.
func createClusterNetwork(c *wire.Call, k *store.KubernetesCluster) (*store.Network, error) {
	n, err := network.CreateIsolated(c, k.Owner, k.Zone, networkOfferingForClusters(c.St), k.Name+"-network",
		k.Owner.Name+"-network")
	if err != nil {
		return nil, wire.Invalid("Unable to create network for the Kubernetes cluster: %s", k.Name)
	}
	return n, nil
}

// clusterAddress implements the network and sets the public address of the cluster's API. On a Shared network, where
// VMs are reached directly, it sets none.
func clusterAddress(c *wire.Call, k *store.KubernetesCluster, now time.Time) error {
	c.St.Implement(k.Network, now)
	none := wire.Invalid("Failed to start Kubernetes cluster : %s as no public IP found for the cluster", k.Name)
	switch n := k.Network; {
	case n.Typ == store.TypeShared:
		return nil
	case n.VPC != nil:
		ip := c.St.FreeIP(k.Zone)
		if ip == nil || c.CheckLimit(k.Owner, "publicIPs", 1) != nil {
			return wire.Invalid("Failed to start Kubernetes cluster : %s as failed to acquire public IP", k.Name)
		}
		c.St.TakeIP(ip, k.Owner, now)
		ip.State, ip.VPC, ip.Network = store.IPAllocated, n.VPC, n
		k.Address = ip
	default:
		if k.Address = sourceNATOf(c.St, n); k.Address == nil {
			return none
		}
	}

	return nil
}

// maxNodePrefix limits the prefix of a node's name, in bytes, so that the suffix fits.
const maxNodePrefix = 43

var notLabel = regexp.MustCompile(`[^a-z0-9-]`)

// nodePrefix returns the prefix of the cluster's node names.
func nodePrefix(k *store.KubernetesCluster) string {
	p := strings.ToLower(k.Name)
	if !labelName.MatchString(p) {
		p = notLabel.ReplaceAllString(p, "")
		if p == "" {
			p = k.UUID
		}
		p = "k8s-" + p
	}
	return p[:min(len(p), maxNodePrefix)]
}

// nodeName returns a name for a new node. It ends in the time in milliseconds, increased until no node of the cluster
// has that suffix.
func nodeName(c *wire.Call, k *store.KubernetesCluster, kind string, now time.Time) string {
	for ms := now.UnixMilli(); ; ms++ {
		suffix := strconv.FormatInt(ms, 16)
		if slices.ContainsFunc(k.Nodes, func(n *store.ClusterNode) bool {
			return strings.HasSuffix(n.VM.Name, suffix)
		}) {
			continue
		}
		switch kind {
		case store.NodeEtcd:
			p := k.Name + "-etcd"
			return fmt.Sprintf("%s-%d-%s", p[:min(len(p), 40)], len(k.NodesOf(store.NodeEtcd))+1, suffix)
		case store.NodeControl:
			return nodePrefix(k) + "-control-" + suffix
		}
		return nodePrefix(k) + "-node-" + suffix
	}
}

// systemTemplate is the template of nodes for which the caller names none: the zone's system VM template, which list
// commands hide from users.
var systemTemplate = &store.Template{
	Entity: store.Entity{UUID: store.StableID("template", "systemvm")}, Name: "SystemVM Template (simulator)",
	OSName: "Debian GNU/Linux 12 (64-bit)", Format: "VHD", Typ: "SYSTEM",
	GuestOSID: store.StableID("guestos", "Debian GNU/Linux 12 (64-bit)"),
}

// enterNode creates one VM of the cluster and sets its state to Starting.
func enterNode(c *wire.Call, k *store.KubernetesCluster, kind string, now time.Time) (*store.VM, error) {
	o := k.Offerings[kind]
	if o == nil {
		o = k.Offering
	}

	need := wire.VMDemand(o)
	need.Volumes, need.DiskGiB = 1, int64(k.RootDiskGB)
	if err := c.CheckDemand(k.Owner, need); err != nil {
		return nil, err
	}

	name := nodeName(c, k, kind, now)
	v := &store.VM{
		Entity:     store.Entity{Created: now},
		Name:       name,
		Display:    name,
		Owner:      k.Owner,
		User:       clusterUser(c, k),
		Zone:       k.Zone,
		Offering:   o,
		Template:   cmp.Or(k.Templates[kind], systemTemplate),
		Hypervisor: "Simulator",
		State:      store.VMStopped,
		BootKnown:  true,
		Details:    map[string]string{"rootdisksize": strconv.Itoa(k.RootDiskGB), "controlNodeLoginUser": "cloud"},
	}

	if _, ok := c.St.Enter(v, []store.NICRequest{{Network: k.Network}}, now); !ok {
		return nil, wire.Invalid("Insufficient address capacity")
	}

	k.Nodes = append(k.Nodes, &store.ClusterNode{
		VM: v, Control: kind == store.NodeControl, Etcd: kind == store.NodeEtcd, Version: k.Version.Semantic,
	})
	host, ok := c.St.PlaceVM(v)
	if !ok {
		return nil, wire.NoHost(v)
	}

	v.State, v.Host = store.VMStarting, host
	return v, nil
}

// clusterUser returns the user that the cluster's VMs show: the caller, or the first user of the owner.
func clusterUser(c *wire.Call, k *store.KubernetesCluster) *store.User {
	if k.Owner != c.Caller.Account {
		if users := k.Owner.AccountUsers(); len(users) > 0 {
			return users[0]
		}
	}
	return c.Caller.User
}
