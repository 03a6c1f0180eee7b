// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"slices"

	"github.com/csccm/csccm/pkg/cloudstack"
)

const (
	isolated = "Isolated"
	shared   = "Shared"
	// notImplemented is the state of a network that has no router yet.
	notImplemented = "Allocated"
)

// createNetwork checks the network that a new cluster is to use. needs is what the cluster uses of the network's kind.
func (c *check) createNetwork(r cloudstack.CreateClusterRequest) (needs demand) {
	if r.NetworkID == "" {
		if r.ExternalLBAddress != "" {
			c.fail("external-address", "address "+r.ExternalLBAddress, "name a shared network, or leave the address out", "an external load balancer is for clusters in a shared network only")
		}
		return demand{PublicIPs: 1, Networks: 1} // the source NAT address
	}
	if !c.read("network", SubjectNetworks) {
		return needs
	}
	n := c.network(r.NetworkID)
	if n == nil {
		c.fail("network-unknown", "network "+r.NetworkID, "name a network of the account or project", "CloudStack does not know it, or does not show it to these keys")
		return needs
	}
	object := "network " + n.Name
	if n.ZoneID != "" && n.ZoneID != r.ZoneID {
		c.fail("network-zone", object, "name a network of the cluster's zone", "it is in another zone")
	}
	if n.Type != shared && r.ExternalLBAddress != "" {
		c.fail("external-address", "address "+r.ExternalLBAddress, "leave the address out", "an external load balancer is for clusters in a shared network only, and %s is %s", n.Name, n.Type)
	}
	switch n.Type {
	case shared:
		if r.ControlNodes > 1 && r.ExternalLBAddress == "" {
			c.fail("external-address-missing", object, "name the address of a load balancer before the control nodes, or take one control node",
				"a cluster with more than one control node in a shared network needs the address of an external load balancer")
		}
		return needs
	case isolated:
	default:
		c.fail("network-type", object, "name an isolated or shared network", "it is of type %s, which clusters cannot use", n.Type)
		return needs
	}
	c.networkServices(n)
	if c.read("network-in-use", SubjectClusters) {
		if i := slices.IndexFunc(c.Clusters, func(k cloudstack.KubernetesCluster) bool { return k.NetworkID == n.ID }); i >= 0 {
			c.fail("network-in-use", object, "name another network, or none", "cluster %s uses it; CloudStack puts one cluster into an isolated network", c.Clusters[i].Name)
		}
	}
	if n.VPCID != "" {
		if n.ACLName == "default_deny" {
			c.fail("network-acl", object, "give the tier another ACL list", "its ACL list is default_deny, which cannot be changed and lets nobody reach the nodes")
		}
		return demand{PublicIPs: 1}
	}
	if n.EgressDenied || !n.HasService("SourceNat") {
		c.fail("network-egress", object, "name a network whose offering has SourceNat and allows egress, or none", "its nodes could not reach the internet: CloudStack refuses it")
	}
	if n.State != notImplemented {
		c.freePorts(n, r.ControlNodes+r.Size)
	}
	return needs
}

func (c *check) networkServices(n *cloudstack.Network) {
	for _, service := range []string{"UserData", "Dhcp", "Firewall", "PortForwarding"} {
		if !n.HasService(service) && (service != "Firewall" || n.VPCID == "") {
			c.fail("network-service", "network "+n.Name, "name a network whose offering has UserData, Dhcp, Firewall and PortForwarding, or none", "its offering lacks the service %s", service)
		}
	}
}

// freePorts checks that nobody uses the ports of the network's source NAT address that the cluster needs.
func (c *check) freePorts(n *cloudstack.Network, nodes int) {
	if !c.read("network-ports", SubjectAddresses, SubjectFirewall, SubjectForwards) {
		return
	}
	i := slices.IndexFunc(c.Addresses, func(a cloudstack.PublicIP) bool { return a.SourceNAT && a.AssociatedNetworkID == n.ID })
	if i < 0 {
		c.fail("network-source-nat", "network "+n.Name, "name a network whose offering has SourceNat, or none", "it has no source NAT address")
		return
	}
	address := c.Addresses[i]
	taken := func(noun, id string, first, last int) {
		ssh := first <= sshPort+nodes-1 && last >= sshPort
		if ssh || first <= apiPort && apiPort <= last {
			c.fail("network-ports", noun+" "+id, "delete the rule, or name another network",
				"it uses a port of %d to %d or %d on address %s, which the cluster needs", sshPort, sshPort+nodes-1, apiPort, address.Address)
		}
	}
	for _, r := range c.Firewall {
		if r.PublicIPID != address.ID {
			continue
		}
		if r.StartPort == 0 { // creation reads a rule without ports as one for all of them
			if r.Protocol == "tcp" {
				taken("firewall rule", r.ID, 1, 65535)
			}
			continue
		}
		if r.Protocol == "tcp" {
			taken("firewall rule", r.ID, r.StartPort, r.EndPort)
		}
	}
	for _, r := range c.Forwards {
		if r.PublicIPID == address.ID {
			taken("port forwarding rule", r.ID, r.StartPort, r.EndPort)
		}
	}
}
