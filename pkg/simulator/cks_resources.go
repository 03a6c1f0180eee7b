// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What a cluster makes besides itself: its network, its VMs, their address.
// Each kind of object is made in one function here.

// clusterOwner is the account that account and domainid, or projectid, name.
func (c *call) clusterOwner() (*account, error) {
	if name := c.str("account"); name != "" {
		if !c.given("domainid") {
			return nil, invalid("Account must be specified with domainId parameter")
		}
		d := arg[*domain](c, "domainid")
		if d == nil || d.removed {
			return nil, invalid("Unable to find domain by id")
		}
		a, ok := c.st.accountIn(d, name)
		if !ok {
			return nil, invalid("Unable to find account by name %s in domain with specified id", name)
		}
		if a.state != stateEnabled {
			return nil, errf(codeAccount, csPermission, "Can't add resources to the account id=%d in state=%s as it's no longer active", a.id, a.state)
		}
		return a, nil
	}
	if !c.given("projectid") {
		return c.caller.account, nil
	}
	p := arg[*project](c, "projectid")
	switch {
	case p == nil || p.removed:
		return nil, invalid("Unable to find project by id")
	case p.state != projectActive:
		return nil, errf(codeAccount, csPermission, "Can't add resources to the project with specified projectId in state=%s as it's no longer active", p.state)
	}
	return p.account, nil
}

func networkDenied(n *network) error {
	return errf(codeAccount, csPermission, "Unable to use network with id= %s, permission denied", n.uuid)
}

// checkNetworkUse tells whether the caller may put something into the network:
// its owner, the members of its project and, for a domain's network, the domain.
func (c *call) checkNetworkUse(n *network) error {
	me := c.caller.account
	switch {
	case me.rootAdmin():
		return nil
	case n.owner == nil:
		if n.domain != nil && me.domain != n.domain && (!n.subdomains || !me.domain.within(n.domain)) {
			return errf(codeAccount, csPermission, "Shared network id=%s is not available in domain id=%s", n.uuid, me.domain.uuid)
		}
		return nil
	case n.owner == me, n.owner.project != nil && n.owner.project.admits(c.caller):
		return nil
	}
	return networkDenied(n)
}

// createClusterNetwork makes the network of a cluster that was given none.
func (c *call) createClusterNetwork(k *kubernetesCluster) (*network, error) {
	cidr, err := netip.ParsePrefix(k.zone.guestCIDR)
	if err != nil || c.checkLimit(k.owner, "networks", 1) != nil {
		return nil, invalid("Unable to create network for the Kubernetes cluster: %s", k.name)
	}
	n := &network{
		entity: entity{created: c.now}, name: k.name + "-network", display: k.owner.name + "-network", zone: k.zone, offering: c.st.clusterNetworkOffering(),
		owner: k.owner, domain: k.owner.domain, typ: typeIsolated, state: netAllocated, cidr: cidr.Masked(), vlan: 100 + len(c.st.networks.rows),
		domainName: "cs" + fingerprintDomain(k.owner) + k.zone.networkDomain,
	}
	n.gateway = n.cidr.Addr().Next().String()
	return c.st.networks.add(n), nil
}

// clusterAddress starts the network and returns the address of the cluster's
// API; nil with an empty text where VMs are reached directly.
func (c *call) clusterAddress(k *kubernetesCluster, now time.Time) error {
	c.st.implement(k.network, now)
	none := invalid("Failed to start Kubernetes cluster : %s as no public IP found for the cluster", k.name)
	switch n := k.network; {
	case n.typ == typeShared:
		return nil
	case n.vpc != nil:
		ip := c.st.freeIP(k.zone)
		if ip == nil || c.checkLimit(k.owner, "publicIPs", 1) != nil {
			return invalid("Failed to start Kubernetes cluster : %s as failed to acquire public IP", k.name)
		}
		c.st.takeIP(ip, k.owner, now)
		ip.state, ip.vpc, ip.network = ipAllocated, n.vpc, n
		k.address = ip
	default:
		if k.address = c.st.sourceNATOf(n); k.address == nil {
			return none
		}
	}
	return nil
}

// maxNodePrefix leaves room for the rest of a node's name.
const maxNodePrefix = 43

var notLabel = regexp.MustCompile(`[^a-z0-9-]`)

// nodePrefix begins the names of the cluster's nodes.
func (k *kubernetesCluster) nodePrefix() string {
	p := strings.ToLower(k.name)
	if !labelName.MatchString(p) {
		p = notLabel.ReplaceAllString(p, "")
		if p == "" {
			p = k.uuid
		}
		p = "k8s-" + p
	}
	return p[:min(len(p), maxNodePrefix)]
}

// nodeName names a new node by the time in milliseconds, which no other VM of the owner has.
func (c *call) nodeName(k *kubernetesCluster, kind string, now time.Time) string {
	for ms := now.UnixMilli(); ; ms++ {
		suffix := strconv.FormatInt(ms, 16)
		if slices.ContainsFunc(k.nodes, func(n *clusterNode) bool { return strings.HasSuffix(n.vm.name, suffix) }) {
			continue
		}
		switch kind {
		case nodeEtcd:
			p := k.name + "-etcd"
			return fmt.Sprintf("%s-%d-%s", p[:min(len(p), 40)], len(k.nodesOf(nodeEtcd))+1, suffix)
		case nodeControl:
			return k.nodePrefix() + "-control-" + suffix
		}
		return k.nodePrefix() + "-node-" + suffix
	}
}

// systemTemplate is what nodes run from unless the caller names a template:
// the zone's system VM template, which no list shows to users.
var systemTemplate = &template{
	entity: entity{uuid: stableID("template", "systemvm")}, name: "SystemVM Template (simulator)", display: "SystemVM Template (simulator)",
	osName: "Debian GNU/Linux 12 (64-bit)", format: "VHD", typ: "SYSTEM", guestOSID: stableID("guestos", "Debian GNU/Linux 12 (64-bit)"), forCKS: true,
}

// deployNode makes and starts one VM of the cluster.
func (c *call) deployNode(k *kubernetesCluster, kind string, now time.Time) error {
	o := k.offerings[kind]
	if o == nil {
		o = k.offering
	}
	for resource, n := range map[string]int{"virtualMachines": 1, "volumes": 1, "cpus": o.cpuNumber, "memoryMiB": o.memMB} {
		if err := c.checkLimit(k.owner, resource, int64(n)); err != nil {
			return err
		}
	}
	t := k.templates[kind]
	if t == nil {
		t = systemTemplate
	}
	name := c.nodeName(k, kind, now)
	v := &vm{
		entity: entity{created: now}, name: name, display: name, owner: k.owner, user: c.clusterUser(k), zone: k.zone, offering: o, template: t, hypervisor: "Simulator",
		state: vmRunning, updated: now, bootKnown: true, dynScalable: false,
		details: map[string]string{"rootdisksize": strconv.Itoa(k.rootDiskGB), "controlNodeLoginUser": "cloud"},
	}
	if _, ok := c.st.connect(v, nicRequest{network: k.network}, now); !ok {
		return invalid("Insufficient address capacity")
	}
	c.st.vms.add(v)
	c.st.addRootVolume(v, entity{created: now})
	v.host = c.st.hostFor(k.zone, int(v.id))
	k.nodes = append(k.nodes, &clusterNode{vm: v, control: kind == nodeControl, etcd: kind == nodeEtcd, version: k.version.semantic})
	return nil
}

// clusterUser is the user that the cluster's VMs show: the caller, or the owner's first.
func (c *call) clusterUser(k *kubernetesCluster) *user {
	if k.owner != c.caller.account {
		if users := k.owner.accountUsers(); len(users) > 0 {
			return users[0]
		}
	}
	return c.caller.user
}

// removeNode destroys a node's VM for good.
func (c *call) removeNode(k *kubernetesCluster, n *clusterNode) {
	k.dropForwards(func(f *clusterForward) bool { return f.vm == n.vm })
	k.nodes = slices.DeleteFunc(k.nodes, func(o *clusterNode) bool { return o == n })
	if !n.vm.removed {
		c.st.expunge(n.vm)
	}
}

// removeClusterNetwork removes the network that was made with the cluster, with all its addresses and their rules.
func (c *call) removeClusterNetwork(k *kubernetesCluster) {
	for _, ip := range c.st.ips.rows {
		if ip.network == k.network {
			c.st.release(ip)
		}
	}
	k.network.removed = true
}
