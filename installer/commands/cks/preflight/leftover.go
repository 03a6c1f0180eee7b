// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/commands/migrate"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// Leftover is an address that a cluster's controller uses, and what is on it.
type Leftover struct {
	Address cloudstack.PublicIP
	// Service is namespace/name; empty where nothing says which it is or was.
	Service string
	// Living says that the Service is in the cluster.
	Living bool
	// Allocated says that a controller acquired the address: it goes with the Service.
	Allocated bool
	Balancers []cloudstack.LoadBalancerRule
	Firewall  []cloudstack.FirewallRule
	Forwards  []cloudstack.PortForwarding
}

// Leftovers returns the addresses of the cluster's network that have rules of Services of type LoadBalancer, or were acquired for
// one. deleteKubernetesCluster leaves them where it leaves the network. CKS's own rules are not among them.
func Leftovers(f *Facts) []Leftover {
	var out []Leftover
	for _, a := range f.Addresses {
		l := Leftover{Address: a, Allocated: a.Tags[plan.TagAllocatedBy] == plan.ManagedBy}
		for _, r := range f.Balancers {
			if r.PublicIPID == a.ID && (migrate.ParseName(r.Name).Family != migrate.FamilyForeign || r.Tags[plan.TagManagedBy] == plan.ManagedBy) {
				l.Balancers = append(l.Balancers, r)
			}
		}
		f.attribute(&l)
		if l.Service == "" && len(l.Balancers) == 0 && !l.Allocated {
			continue // somebody else's
		}
		for _, r := range f.Firewall {
			if r.PublicIPID == a.ID && !f.ownPort(&a, r.StartPort) {
				l.Firewall = append(l.Firewall, r)
			}
		}
		for _, r := range f.Forwards {
			if r.PublicIPID == a.ID && !f.ownPort(&a, r.StartPort) {
				l.Forwards = append(l.Forwards, r)
			}
		}
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b Leftover) int { return cmp.Compare(a.Address.Address, b.Address.Address) })
	return out
}

// ownPort reports whether CKS opens a port on an address for the nodes' SSH and the API.
func (f *Facts) ownPort(a *cloudstack.PublicIP, port int) bool {
	if f.Cluster == nil || a.ID != f.Cluster.IPAddressID {
		return false
	}
	return port == apiPort || sshPort <= port && port < sshPort+max(len(f.Cluster.VMs), 1) || etcdStart <= port && port < etcdStart+f.Cluster.EtcdNodes
}

// attribute finds the Service of an address: by its tags, by the names of its rules, or by the Service's own status.
func (f *Facts) attribute(l *Leftover) {
	tags := []map[string]string{l.Address.Tags}
	var balancers []string
	for _, r := range l.Balancers {
		tags = append(tags, r.Tags)
		name := migrate.ParseName(r.Name)
		if name.LB != "" {
			balancers = append(balancers, name.LB)
		} else if name.Service != "" && l.Service == "" {
			l.Service = name.Namespace + "/" + name.Service
		}
	}
	for _, t := range tags {
		l.Service = or(l.Service, t[plan.TagService])
	}
	for _, s := range f.Services {
		key := s.Namespace + "/" + s.Name
		if slices.Contains(s.Addresses, l.Address.Address) || slices.Contains(balancers, plan.LBName(s.UID)) || l.Service == key {
			l.Service, l.Living = key, true
			return
		}
	}
}

// what lists the rules, by their ids.
func (l *Leftover) what() string {
	var parts []string
	list := func(noun string, ids []string) {
		if len(ids) > 0 {
			parts = append(parts, noun+" "+strings.Join(ids, ", "))
		}
	}
	list("load balancer rules", collect(l.Balancers, func(r *cloudstack.LoadBalancerRule) string { return r.Name + " (" + r.ID + ")" }))
	list("firewall rules", collect(l.Firewall, func(r *cloudstack.FirewallRule) string { return r.ID }))
	list("port forwarding rules", collect(l.Forwards, func(r *cloudstack.PortForwarding) string { return r.ID }))
	if len(parts) == 0 {
		return "without rules"
	}
	return "with " + strings.Join(parts, "; ")
}

func collect[T any](items []T, name func(*T) string) []string {
	var out []string
	for i := range items {
		out = append(out, name(&items[i]))
	}
	return out
}

// ownNetworkOffering is the offering of networks that CKS creates, unless an administrator sets another.
const ownNetworkOffering = "DefaultNetworkOfferingforKubernetesService"

// OwnNetwork reports whether CKS created the cluster's network, and thus deletes it with the cluster. The API does not say so; the
// network's offering and name do.
func OwnNetwork(k *cloudstack.KubernetesCluster, n *cloudstack.Network) bool {
	return n != nil && n.OfferingName == ownNetworkOffering && n.Name == k.Name+"-network"
}

func (c *check) delete(r DeleteRequest) {
	k := c.Cluster
	if !c.managed("delete", running, stopped, "Alert", "Error", "Destroying") || k.NetworkID == "" {
		return
	}
	own := c.read("leftover", SubjectNetworks) && OwnNetwork(k, c.network(k.NetworkID))
	if own {
		c.guests()
	} else if k.IPAddressID != "" && c.read("firewall-without-ports", SubjectFirewall) {
		for _, rule := range c.Firewall {
			if rule.PublicIPID == k.IPAddressID && rule.StartPort == 0 {
				c.portless(rule)
			}
		}
	}
	if !c.read("leftover", SubjectAddresses, SubjectBalancers) {
		return
	}
	c.read("leftover", SubjectFirewall, SubjectForwards)
	left := Leftovers(c.Facts)
	if len(left) > 0 {
		c.read("leftover", SubjectServices)
	}
	for i := range left {
		c.leftover(&left[i], own, r.RemoveServices)
	}
}

func (c *check) leftover(l *Leftover, own, removeServices bool) {
	object := fmt.Sprintf("address %s (%s)", l.Address.Address, l.Address.ID)
	if l.Service != "" {
		object += " of Service " + l.Service
	}
	namespace, name, _ := strings.Cut(l.Service, "/")
	removal := fmt.Sprintf("csccm cks delete %s --remove-services, or kubectl delete service -n %s %s first", c.Cluster.Name, namespace, name)
	switch {
	case l.Living && removeServices:
	case own:
		c.warn("address-lost", object, "to keep the address, move it to another network before", "CloudStack made the network, and releases the address with it")
	case l.Living:
		c.warn("leftover", object, removal, "it stays in network %s, %s: CloudStack deletes only what it made", c.Cluster.NetworkName, l.what())
	default:
		remedy := "delete the rules and release the address in CloudStack, when nobody needs them"
		if l.Address.SourceNAT {
			remedy = "delete the rules in CloudStack; the address belongs to the network"
		}
		c.warn("leftover", object, remedy, "it stays in network %s, %s; no Service of the cluster is known to use it", c.Cluster.NetworkName, l.what())
	}
}

// guests checks that nobody else uses the network that goes with the cluster.
func (c *check) guests() {
	if !c.read("network-guests", SubjectNetworkVMs) {
		return
	}
	var others []string
	for _, vm := range c.NetworkVMs {
		if !slices.Contains(c.Cluster.VMs, vm.ID) {
			others = append(others, vm.Name)
		}
	}
	slices.Sort(others)
	if len(others) > 0 {
		c.fail("network-guests", "network "+c.Cluster.NetworkName, "delete these VMs, or remove them from the network", "CloudStack made it and deletes it with the cluster, but other VMs use it: %s", strings.Join(others, ", "))
	}
	for _, vm := range c.Cluster.Nodes {
		if vm.External {
			c.fail("node-external", "VM "+vm.Name, "remove it from the cluster first", "it was added to the cluster by hand; CloudStack refuses to delete a cluster with such nodes")
		}
	}
}
