// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package ckscheck

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/service"
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
}

// Leftovers returns the addresses of the cluster's network that have rules of Services of type LoadBalancer, or were acquired for
// one. deleteKubernetesCluster leaves them where it leaves the network. CKS's own rules are not among them.
func Leftovers(f *Facts) []Leftover {
	var out []Leftover
	for _, a := range f.Addresses {
		l := Leftover{Address: a, Allocated: a.Tags[plan.TagAllocatedBy] == plan.ManagedBy}
		for _, r := range f.Balancers {
			if r.PublicIPID == a.ID && (rules.ParseName(r.Name).Family != rules.FamilyForeign || r.Tags[plan.TagManagedBy] == plan.ManagedBy) {
				l.Balancers = append(l.Balancers, r)
			}
		}
		f.attribute(&l)
		if l.Service != "" || len(l.Balancers) > 0 || l.Allocated { // else somebody else's
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b Leftover) int { return cmp.Compare(a.Address.Address, b.Address.Address) })
	return out
}

// attribute finds the Service of an address: by its tags, by the names of its rules, or by the Service's own status.
func (f *Facts) attribute(l *Leftover) {
	l.Service = l.Address.Tags[plan.TagService]
	var balancers []string
	for _, r := range l.Balancers {
		name := rules.ParseName(r.Name)
		balancers = append(balancers, name.LB)
		if name.Service != "" {
			l.Service = cmp.Or(l.Service, name.Namespace+"/"+name.Service)
		}
		l.Service = cmp.Or(l.Service, r.Tags[plan.TagService])
	}
	for i := range f.Services {
		s := &f.Services[i]
		has := slices.ContainsFunc(s.Status.LoadBalancer.Ingress, func(in corev1.LoadBalancerIngress) bool { return in.IP == l.Address.Address })
		key := s.Namespace + "/" + s.Name
		if service.Handles(s) && (has || slices.Contains(balancers, plan.LBName(string(s.UID))) || l.Service == key) {
			l.Service, l.Living = key, true
			return
		}
	}
}

// OwnNetwork reports whether CKS created the cluster's network, and thus deletes it with the cluster. The API does not say so; the
// network's name and offering do, unless an administrator has set another offering.
func (f *Facts) OwnNetwork() bool {
	n := f.Network
	return n != nil && n.OfferingName == "DefaultNetworkOfferingforKubernetesService" && n.Name == f.Cluster.Name+"-network"
}

// Delete decides whether f.Cluster can be deleted, and names what would stay behind. removeServices says that the Services of
// type LoadBalancer are deleted first, and with them their addresses and rules.
func Delete(f *Facts, removeServices bool) []Finding {
	return f.check(func(c *check) {
		if c.Cluster.NetworkID == "" {
			return
		}
		if c.OwnNetwork() {
			c.guests()
		} else {
			c.portless()
		}
		if !c.read(SubjectAddresses) || !c.read(SubjectBalancers) {
			return
		}
		for _, l := range Leftovers(c.Facts) {
			if !l.Living || !removeServices {
				c.leftover(&l)
			}
		}
	})
}

func (c *check) leftover(l *Leftover) {
	object := fmt.Sprintf("address %s (%s)", l.Address.Address, l.Address.ID)
	if l.Service != "" {
		object += " of Service " + l.Service
	}
	named := func(r *cloudstack.LoadBalancerRule) string {
		return fmt.Sprintf("load balancer rule %s (%s)", r.Name, r.ID)
	}
	what := fmt.Sprintf("it stays in network %s, with %s", c.Cluster.NetworkName,
		strings.Join(append(cloudapi.Names(l.Balancers, named), "its firewall and port forwarding rules"), ", "))
	switch {
	case c.OwnNetwork():
		c.add(Warning, "address-lost", object, "to keep the address, move it to another network before", "CloudStack made the network, and releases the address with it")
	case l.Living:
		c.add(Warning, "leftover", object, "csccm cks delete "+c.Cluster.Name+" --remove-services, or delete the Service first", "%s: CloudStack deletes only what it made", what)
	default:
		c.add(Warning, "leftover", object, "when nobody needs them, delete the rules in CloudStack, and release the address unless it is of source NAT",
			"%s; no Service of the cluster is known to use it", what)
	}
}

// guests checks that nobody else uses the network that goes with the cluster.
func (c *check) guests() {
	var others []string
	for _, vm := range c.NetworkVMs {
		if !slices.Contains(c.Cluster.VMs, vm.ID) {
			others = append(others, vm.Name)
		}
	}
	slices.Sort(others)
	if len(others) > 0 {
		c.add(Error, "network-guests", "network "+c.Cluster.NetworkName, "delete these VMs, or remove them from the network",
			"CloudStack made it and deletes it with the cluster, but other VMs use it: %s", strings.Join(others, ", "))
	}
	for _, vm := range c.Cluster.Nodes {
		if vm.External {
			c.add(Error, "node-external", "VM "+vm.Name, "remove it from the cluster first", "it was added to the cluster by hand; CloudStack refuses to delete a cluster with such nodes")
		}
	}
}
