// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"slices"
	"time"
)

// The rules that let the world reach a cluster's API and the SSH ports of its
// nodes: firewall, port forwarding and load balancer rules of an isolated
// network, ACL items in place of firewall rules on a tier of a VPC.

// openCluster makes the rules of a new cluster.
func (c *call) openCluster(k *kubernetesCluster, now time.Time) error {
	n := k.network
	if k.address == nil {
		return nil
	}
	failed := invalid("Failed to setup Kubernetes cluster : %s, unable to setup network rules", k.name)
	if n.vpc != nil {
		if n.acl != nil && n.acl.name != "default_allow" {
			if n.acl.vpc == nil {
				return failed // the default lists cannot be changed
			}
			for _, port := range []int{apiPort, sshPort} {
				c.st.allowAtTop(k, port)
			}
		}
	} else {
		c.openSSH(k, now)
		c.openPorts(k, apiPort, apiPort, now)
	}
	c.forwardSSH(k)
	control := k.nodesOf(nodeControl)
	if n.vpc != nil && !n.offering.spec.Conserve {
		k.forward(control[0].vm, apiPort, apiPort)
	} else {
		c.balanceAPI(k, control, now)
	}
	for i, node := range k.nodesOf(nodeEtcd) {
		if n.vpc == nil {
			c.openPorts(k, etcdSSHPort+i, etcdSSHPort+i, now)
		}
		k.forward(node.vm, etcdSSHPort+i, sshPort)
	}
	return nil
}

// forward makes a port forwarding rule.
func (k *kubernetesCluster) forward(v *vm, public, private int) {
	k.forwards = append(k.forwards, &clusterForward{vm: v, publicPort: public, privatePort: private})
}

// dropForwards removes the port forwarding rules that satisfy gone.
func (k *kubernetesCluster) dropForwards(gone func(*clusterForward) bool) {
	k.forwards = slices.DeleteFunc(k.forwards, gone)
}

// openPorts makes a firewall rule for everybody.
func (c *call) openPorts(k *kubernetesCluster, first, last int, now time.Time) {
	r := &fwRule{
		entity: entity{created: now}, ip: k.address, network: k.network, protocol: "tcp", startPort: ptr(first), endPort: ptr(last),
		cidrs: []string{"0.0.0.0/0"}, state: ruleActive, account: k.owner,
	}
	c.st.addFWRule(r)
	k.firewall = append(k.firewall, r)
}

// sshNodes are the nodes whose SSH ports share one firewall rule, then those added later.
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

// openSSH makes the firewall rules of the nodes' SSH ports.
func (c *call) openSSH(k *kubernetesCluster, now time.Time) {
	made, added := k.sshNodes()
	c.openPorts(k, nodeSSHPort, nodeSSHPort+len(made)-1, now)
	for i := range added {
		c.openPorts(k, nodeSSHPort+len(made)+i, nodeSSHPort+len(made)+i, now)
	}
}

// forwardSSH forwards one port per node to its SSH port.
func (c *call) forwardSSH(k *kubernetesCluster) {
	made, added := k.sshNodes()
	for i, n := range slices.Concat(made, added) {
		k.forward(n.vm, nodeSSHPort+i, sshPort)
	}
}

// reopenSSH follows a change of the nodes: the SSH rules are removed and made anew.
func (c *call) reopenSSH(k *kubernetesCluster, now time.Time) {
	if k.address == nil {
		return
	}
	k.dropForwards(func(f *clusterForward) bool { return f.privatePort == sshPort && f.publicPort < etcdSSHPort })
	for _, r := range k.firewall {
		if p := *r.startPort; p >= nodeSSHPort && p < apiPort {
			c.st.dropFWRule(r)
		}
	}
	k.firewall = slices.DeleteFunc(k.firewall, func(r *fwRule) bool { return r.removed })
	if k.network.vpc == nil {
		c.openSSH(k, now)
	}
	c.forwardSSH(k)
}

// balanceAPI makes the load balancer rule of the API.
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

// allowAtTop puts an item for a TCP port at the top of the tier's ACL list; those that are in its way move down.
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

// closeCluster removes the cluster's rules from a network that stays, and the
// address that it took on a tier of a VPC.
func (c *call) closeCluster(k *kubernetesCluster) {
	for _, r := range k.firewall {
		if r.startPort != nil && *r.startPort < etcdSSHPort {
			c.st.dropFWRule(r)
		}
	}
	if k.balancer != nil {
		c.st.removeLBRule(k.balancer)
	}
	for _, it := range k.aclItems {
		if !it.removed {
			c.st.aclItems.drop(it)
		}
	}
	k.dropForwards(func(*clusterForward) bool { return true })
	k.firewall, k.balancer, k.aclItems = nil, nil, nil
	if k.network != nil && k.network.vpc != nil && k.address != nil && k.address.network == k.network {
		c.st.release(k.address)
	}
}
