// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"slices"
	"time"
)

// The rules that open a cluster's API and the SSH ports of its nodes to the internet: firewall, port forwarding and
// load balancer rules of an isolated network, or ACL items instead of firewall rules on a VPC tier.

// openCluster creates the rules of a new cluster.
func (c *call) openCluster(k *kubernetesCluster, now time.Time) error {
	n := k.network
	if k.address == nil {
		return nil
	}
	failed := invalid("Failed to setup Kubernetes cluster : %s, unable to setup network rules", k.name)
	if n.vpc != nil {
		if n.acl != nil && n.acl.name != "default_allow" {
			if n.acl.vpc == nil {
				return failed // the default lists are read-only
			}
			for _, port := range []int{apiPort, sshPort} {
				c.st.allowAtTop(k, port)
			}
		}
	} else {
		c.openSSH(k, now)
		c.openPorts(k, apiPort, apiPort, now)
	}
	c.forwardSSH(k, now)
	control := k.nodesOf(nodeControl)
	if n.vpc != nil && !n.offering.spec.Conserve {
		c.st.forward(k, control[0].vm, apiPort, apiPort, now)
	} else {
		c.balanceAPI(k, control, now)
	}
	for i, node := range k.nodesOf(nodeEtcd) {
		if n.vpc == nil {
			c.openPorts(k, etcdSSHPort+i, etcdSSHPort+i, now)
		}
		c.st.forward(k, node.vm, etcdSSHPort+i, sshPort, now)
	}
	return nil
}

// forward creates a port forwarding rule from a port of the cluster's address to a port of a node.
func (st *state) forward(k *kubernetesCluster, v *vm, public, private int, now time.Time) {
	card := v.nicIn(k.network)
	if card == nil {
		return
	}
	k.address.bind(k.network)
	r := &pfRule{
		entity: entity{created: now}, ip: k.address, network: k.network, protocol: "tcp", publicStart: public, publicEnd: public,
		privateStart: private, privateEnd: private, vm: v, guestIP: card.ip, state: ruleActive, account: k.owner,
	}
	st.addPFRule(r)
	k.forwards = append(k.forwards, r)
}

// dropForwards removes the cluster's port forwarding rules for which gone returns true. The owner may have deleted
// others.
func (st *state) dropForwards(k *kubernetesCluster, gone func(*pfRule) bool) {
	for _, r := range k.forwards {
		if gone(r) {
			st.removePFRule(r)
		}
	}
	k.forwards = slices.DeleteFunc(k.forwards, func(r *pfRule) bool { return r.removed })
}

// openPorts creates a firewall rule that allows every source address.
func (c *call) openPorts(k *kubernetesCluster, first, last int, now time.Time) {
	r := &fwRule{
		entity: entity{created: now}, ip: k.address, network: k.network, protocol: "tcp", startPort: ptr(first), endPort: ptr(last),
		cidrs: []string{"0.0.0.0/0"}, state: ruleActive, account: k.owner,
	}
	c.st.addFWRule(r)
	k.firewall = append(k.firewall, r)
}

// sshNodes returns the nodes whose SSH ports share one firewall rule, and the nodes added later.
func (k *kubernetesCluster) sshNodes() (made, added []*clusterNode) {
	for _, n := range k.nodes {
		switch {
		case n.etcd:
		case n.external:
			added = append(added, n)
		default:
			made = append(made, n)
		}
	}
	return made, added
}

// openSSH creates the firewall rules of the nodes' SSH ports.
func (c *call) openSSH(k *kubernetesCluster, now time.Time) {
	made, added := k.sshNodes()
	c.openPorts(k, nodeSSHPort, nodeSSHPort+len(made)-1, now)
	for i := range added {
		c.openPorts(k, nodeSSHPort+len(made)+i, nodeSSHPort+len(made)+i, now)
	}
}

// forwardSSH forwards one port per node to its SSH port.
func (c *call) forwardSSH(k *kubernetesCluster, now time.Time) {
	made, added := k.sshNodes()
	for i, n := range slices.Concat(made, added) {
		c.st.forward(k, n.vm, nodeSSHPort+i, sshPort, now)
	}
}

// reopenSSH deletes and recreates the SSH rules after the set of nodes changed.
func (c *call) reopenSSH(k *kubernetesCluster, now time.Time) {
	if k.address == nil {
		return
	}
	c.st.dropForwards(k, func(r *pfRule) bool { return r.privateStart == sshPort && r.publicStart < etcdSSHPort })
	for _, r := range k.firewall {
		if p := *r.startPort; p >= nodeSSHPort && p < apiPort {
			c.st.dropFWRule(r)
		}
	}
	k.firewall = slices.DeleteFunc(k.firewall, func(r *fwRule) bool { return r.removed })
	if k.network.vpc == nil {
		c.openSSH(k, now)
	}
	c.forwardSSH(k, now)
}

// balanceAPI creates the load balancer rule of the API.
func (c *call) balanceAPI(k *kubernetesCluster, control []*clusterNode, now time.Time) {
	r := &lbRule{
		entity: entity{created: now}, name: "api-lb", description: "LB rule for API access", algorithm: "roundrobin", protocol: "tcp", hasProtocol: true,
		ip: k.address, network: k.network, publicPort: apiPort, privatePort: apiPort, state: ruleActive, account: k.owner,
	}
	for _, n := range control {
		r.members = append(r.members, &lbMember{vm: n.vm, ip: n.vm.nics[0].ip})
	}
	c.st.addLBRule(r)
	k.balancer = r
}

// allowAtTop inserts an item for a TCP port at the top of the tier's ACL list; items whose number it needs move down.
func (st *state) allowAtTop(k *kubernetesCluster, port int) {
	list := k.network.acl
	item := &aclItem{
		list: list, number: 1, protocol: "TCP", traffic: "Ingress", action: "Allow", startPort: ptr(port), endPort: ptr(port), cidrs: []string{"0.0.0.0/0"}, state: ruleActive,
	}
	taken := map[int]*aclItem{}
	for _, it := range st.aclItems.rows {
		if it.list == list {
			taken[it.number] = it
		}
	}
	last := 1
	for taken[last] != nil {
		last++
	}
	for n := last; n > 1; n-- {
		taken[n-1].number = n
	}
	k.aclItems = append(k.aclItems, st.aclItems.add(item))
}

// closeCluster removes the cluster's rules from a network that remains, and releases the address that it acquired on
// a VPC tier.
func (st *state) closeCluster(k *kubernetesCluster) {
	took := k.address != nil && k.address.vpc != nil && k.address.network == k.network
	for _, r := range k.firewall {
		if r.startPort != nil && *r.startPort < etcdSSHPort {
			st.dropFWRule(r)
		}
	}
	if k.balancer != nil {
		st.removeLBRule(k.balancer)
	}
	for _, it := range k.aclItems {
		if !it.removed {
			st.aclItems.drop(it)
		}
	}
	st.dropForwards(k, func(*pfRule) bool { return true })
	k.firewall, k.balancer, k.aclItems = nil, nil, nil
	if took {
		st.release(k.address)
	}
}
