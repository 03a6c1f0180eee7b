// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"slices"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// This file creates the rules that open a cluster's API and the SSH ports of its nodes to the internet: firewall, port
// forwarding and load balancer rules of an isolated network, or ACL items instead of firewall rules on a VPC tier.

// openCluster creates the rules of a new cluster.
func openCluster(c *wire.Call, k *store.KubernetesCluster, now time.Time) error {
	n := k.Network
	if k.Address == nil {
		return nil
	}

	failed := wire.Invalid("Failed to setup Kubernetes cluster : %s, unable to setup network rules", k.Name)
	if n.VPC != nil {
		if n.ACL != nil && n.ACL.Name != "default_allow" {
			if n.ACL.VPC == nil {
				return failed // the default lists are read-only
			}
			for _, port := range []int{store.APIPort, store.SSHPort} {
				allowAtTop(c.St, k, port)
			}
		}
	} else {
		openSSH(c, k, now)
		openPorts(c, k, store.APIPort, store.APIPort, now)
	}

	forwardSSH(c, k, now)
	control := k.NodesOf(store.NodeControl)
	if n.VPC != nil && !n.Offering.Spec.Conserve {
		forward(c.St, k, control[0].VM, store.APIPort, store.APIPort, now)
	} else {
		balanceAPI(c, k, control, now)
	}

	for i, node := range k.NodesOf(store.NodeEtcd) {
		port := c.St.EtcdSSHPort() + i
		if n.VPC == nil {
			openPorts(c, k, port, port, now)
		}
		forward(c.St, k, node.VM, port, store.SSHPort, now)
	}

	return nil
}

// forward creates a port forwarding rule from a port of the cluster's address to a port of a node.
func forward(st *store.State, k *store.KubernetesCluster, v *store.VM, public, private int, now time.Time) {
	card := v.NICIn(k.Network)
	if card == nil {
		return
	}
	k.Address.Bind(k.Network)
	r := &store.PFRule{
		Entity:       store.Entity{Created: now},
		IP:           k.Address,
		Network:      k.Network,
		Protocol:     "tcp",
		PublicStart:  public,
		PublicEnd:    public,
		PrivateStart: private,
		PrivateEnd:   private,
		VM:           v,
		GuestIP:      card.IP,
		State:        store.RuleActive,
		Account:      k.Owner,
	}
	st.AddPFRule(r)
	k.Forwards = append(k.Forwards, r)
}

// openPorts creates a firewall rule that allows every source address.
func openPorts(c *wire.Call, k *store.KubernetesCluster, first, last int, now time.Time) {
	r := &store.FWRule{
		Entity:    store.Entity{Created: now},
		IP:        k.Address,
		Network:   k.Network,
		Protocol:  "tcp",
		StartPort: wire.Ptr(first),
		EndPort:   wire.Ptr(last),
		CIDRs:     []string{"0.0.0.0/0"},
		State:     store.RuleActive,
		Account:   k.Owner,
	}
	c.St.AddFWRule(r)
	k.Firewall = append(k.Firewall, r)
}

// sshNodes returns the nodes whose SSH ports share one firewall rule.
func sshNodes(k *store.KubernetesCluster) []*store.ClusterNode {
	return slices.DeleteFunc(slices.Clone(k.Nodes), func(n *store.ClusterNode) bool { return n.Etcd })
}

// openSSH creates the firewall rule of the nodes' SSH ports.
func openSSH(c *wire.Call, k *store.KubernetesCluster, now time.Time) {
	openPorts(c, k, store.NodeSSHPort, store.NodeSSHPort+len(sshNodes(k))-1, now)
}

// forwardSSH forwards one port per node to its SSH port.
func forwardSSH(c *wire.Call, k *store.KubernetesCluster, now time.Time) {
	for i, n := range sshNodes(k) {
		forward(c.St, k, n.VM, store.NodeSSHPort+i, store.SSHPort, now)
	}
}

// reopenSSH deletes and recreates the SSH rules after the set of nodes changed.
func reopenSSH(c *wire.Call, k *store.KubernetesCluster, now time.Time) {
	if k.Address == nil {
		return
	}
	c.St.DeleteForwards(k, func(r *store.PFRule) bool {
		n := k.Node(r.VM)
		return r.PrivateStart == store.SSHPort && (n == nil || !n.Etcd)
	})
	for _, r := range k.Firewall {
		if p := *r.StartPort; p >= store.NodeSSHPort && p < store.APIPort {
			c.St.DeleteFWRule(r)
		}
	}
	k.Firewall = slices.DeleteFunc(k.Firewall, func(r *store.FWRule) bool { return r.Removed })
	if k.Network.VPC == nil {
		openSSH(c, k, now)
	}
	forwardSSH(c, k, now)
}

// balanceAPI creates the load balancer rule of the API.
func balanceAPI(c *wire.Call, k *store.KubernetesCluster, control []*store.ClusterNode, now time.Time) {
	r := &store.LBRule{
		Entity:      store.Entity{Created: now},
		Name:        "api-lb",
		Description: "LB rule for API access",
		Algorithm:   "roundrobin",
		Protocol:    "tcp",
		HasProtocol: true,
		IP:          k.Address,
		Network:     k.Network,
		PublicPort:  store.APIPort,
		PrivatePort: store.APIPort,
		State:       store.RuleActive,
		Account:     k.Owner,
	}

	for _, n := range control {
		r.Members = append(r.Members, &store.LBMember{VM: n.VM, IP: n.VM.NICs[0].IP})
	}

	c.St.AddLBRule(r)
	k.Balancer = r
}

// allowAtTop inserts an item for a TCP port at the top of the tier's ACL list. Items move down as far as necessary.
func allowAtTop(st *store.State, k *store.KubernetesCluster, port int) {
	list := k.Network.ACL
	item := &store.ACLItem{
		List:      list,
		Number:    1,
		Protocol:  "TCP",
		Traffic:   "Ingress",
		Action:    "Allow",
		StartPort: wire.Ptr(port),
		EndPort:   wire.Ptr(port),
		CIDRs:     []string{"0.0.0.0/0"},
		State:     store.RuleActive,
	}

	taken := map[int]*store.ACLItem{}
	for _, it := range st.ACLItems.Rows {
		if it.List == list {
			taken[it.Number] = it
		}
	}

	last := 1
	for taken[last] != nil {
		last++
	}

	for n := last; n > 1; n-- {
		taken[n-1].Number = n
	}

	k.ACLItems = append(k.ACLItems, st.ACLItems.Add(item))
}
