// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The resources that a cluster creates: its network, its VMs and their address. One function here creates each kind
// of object.

func networkDenied(n *network) error {
	return errf(codeAccount, csPermission, "Unable to use network with id= %s, permission denied", n.uuid)
}

// checkNetworkUse refuses callers who may not create objects in the network. The network's owner, the members of its
// project and, for a domain's network, the accounts of the domain may.
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

// createClusterNetwork creates the network of a cluster for which the caller specified none.
func (c *call) createClusterNetwork(k *kubernetesCluster, create clusterNetworkCreator) (*network, error) {
	n, err := create(c, k.owner, k.zone, c.st.clusterNetworkOffering(), k.name+"-network", k.owner.name+"-network")
	if err != nil {
		return nil, invalid("Unable to create network for the Kubernetes cluster: %s", k.name)
	}
	return n, nil
}

// clusterAddress implements the network and sets the public address of the cluster's API. On a Shared network, where
// VMs are reached directly, it sets none.
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

// maxNodePrefix limits the prefix of a node's name, in bytes, so that the suffix fits.
const maxNodePrefix = 43

var notLabel = regexp.MustCompile(`[^a-z0-9-]`)

// nodePrefix returns the prefix of the cluster's node names.
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

// nodeName returns a name for a new node that ends in the time in milliseconds, increased until no node of the
// cluster has it.
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

// systemTemplate is the template of nodes for which the caller names none: the zone's system VM template, which list
// commands hide from users.
var systemTemplate = &template{
	entity: entity{uuid: stableID("template", "systemvm")}, name: "SystemVM Template (simulator)", display: "SystemVM Template (simulator)",
	osName: "Debian GNU/Linux 12 (64-bit)", format: "VHD", typ: "SYSTEM", guestOSID: stableID("guestos", "Debian GNU/Linux 12 (64-bit)"), forCKS: true,
}

// deployNode creates and starts one VM of the cluster.
func (c *call) deployNode(k *kubernetesCluster, kind string, now time.Time) error {
	o := k.offerings[kind]
	if o == nil {
		o = k.offering
	}
	need := vmDemand(o)
	need.volumes, need.diskGiB = 1, int64(k.rootDiskGB)
	if err := c.checkDemand(k.owner, need); err != nil {
		return err
	}
	t := k.templates[kind]
	if t == nil {
		t = systemTemplate
	}
	name := c.nodeName(k, kind, now)
	v := &vm{
		entity: entity{created: now}, name: name, display: name, owner: k.owner, user: c.clusterUser(k), zone: k.zone, offering: o, template: t, hypervisor: "Simulator",
		state: vmStopped, bootKnown: true,
		details: map[string]string{"rootdisksize": strconv.Itoa(k.rootDiskGB), "controlNodeLoginUser": "cloud"},
	}
	if _, ok := c.st.enter(v, []nicRequest{{network: k.network}}, now); !ok {
		return invalid("Insufficient address capacity")
	}
	if !c.st.boot(v, now) {
		return noHost(v)
	}
	k.nodes = append(k.nodes, &clusterNode{vm: v, control: kind == nodeControl, etcd: kind == nodeEtcd, version: k.version.semantic})
	return nil
}

// clusterUser returns the user that the cluster's VMs show: the caller, or the first user of the owner.
func (c *call) clusterUser(k *kubernetesCluster) *user {
	if k.owner != c.caller.account {
		if users := k.owner.accountUsers(); len(users) > 0 {
			return users[0]
		}
	}
	return c.caller.user
}

// removeNode expunges a node's VM.
func (st *state) removeNode(k *kubernetesCluster, n *clusterNode) {
	st.dropForwards(k, func(r *pfRule) bool { return r.vm == n.vm })
	k.nodes = slices.DeleteFunc(k.nodes, func(o *clusterNode) bool { return o == n })
	if !n.vm.removed {
		st.expunge(n.vm)
	}
}
