// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"slices"
)

// kubernetesVersion is a version of Kubernetes that CloudStack Kubernetes
// Service can install from the binaries of an ISO.
type kubernetesVersion struct {
	entity
	name, semantic   string
	zone             *zone // nil: every zone
	isoID, isoName   string
	arch             string
	disabled         bool
	directDownload   bool
	minCPU, minMemMB int
}

func (v *kubernetesVersion) state() string {
	if v.disabled {
		return "Disabled"
	}
	return "Enabled"
}

// Kinds of clusters.
const (
	cloudManaged    = "CloudManaged"    // CloudStack makes the VMs
	externalManaged = "ExternalManaged" // a label around VMs that somebody else runs
)

// States of a cluster that are not those of a VM.
const (
	clusterCreated   = "Created"
	clusterScaling   = "Scaling"
	clusterUpgrading = "Upgrading"
	clusterImporting = "Importing"
	clusterRemoving  = "RemovingNodes"
	clusterAlert     = "Alert"
	clusterDestroy   = "Destroying"
)

// Kinds of nodes, in the order in which the server checks their offerings.
const (
	nodeWorker  = "WORKER"
	nodeControl = "CONTROL"
	nodeEtcd    = "ETCD"
	nodeDefault = "DEFAULT"
)

var nodeKinds = []string{nodeWorker, nodeControl, nodeEtcd}

// kubernetesCluster is a cluster of CloudStack Kubernetes Service.
type kubernetesCluster struct {
	entity
	name, description   string
	kind                string
	stored              string // the state without what its VMs say
	owner               *account
	zone                *zone
	version             *kubernetesVersion // nil: external clusters may have none
	offering            *serviceOffering
	offerings           map[string]*serviceOffering // by kind of node
	template            *template
	templates           map[string]*template // by kind of node
	network             *network
	ownNetwork          bool // made with the cluster and removed with it
	address             *publicIP
	externalLB          string // address that the owner balances the API on
	control, size, etcd int
	cores, memMB        int
	rootDiskGB          int
	keyPair             string
	endpoint            string
	kubeconfig          string
	autoscaling, csi    bool
	minSize, maxSize    *int
	nodes               []*clusterNode
	forwards            []*clusterForward
	firewall            []*fwRule
	balancer            *lbRule
	aclItems            []*aclItem
}

// clusterNode ties a VM to a cluster.
type clusterNode struct {
	vm       *vm
	control  bool
	etcd     bool
	external bool // added to a CloudManaged cluster, not made by it
	manual   bool // left out of upgrades
	version  string
}

func (n *clusterNode) kind() string {
	switch {
	case n.control:
		return nodeControl
	case n.etcd:
		return nodeEtcd
	}
	return nodeWorker
}

// clusterForward is a port of the cluster's public address that leads to a node.
type clusterForward struct {
	vm                      *vm
	publicPort, privatePort int
}

// total is how many nodes the cluster should have.
func (k *kubernetesCluster) total() int { return k.control + k.size + k.etcd }

// state is what the server's scanner makes of the cluster: it goes to Alert
// when nodes are missing or in another state, and comes back by itself.
func (k *kubernetesCluster) state() string {
	if k.kind != cloudManaged || k.stored != vmRunning && k.stored != vmStopped {
		return k.stored
	}
	for _, want := range []string{vmRunning, vmStopped} {
		if len(k.nodes) >= k.total() && !slices.ContainsFunc(k.nodes, func(n *clusterNode) bool { return n.vm.state != want }) {
			return want
		}
	}
	return clusterAlert
}

// node finds the cluster's node that runs on the VM.
func (k *kubernetesCluster) node(v *vm) *clusterNode {
	for _, n := range k.nodes {
		if n.vm == v {
			return n
		}
	}
	return nil
}

// nodesOf are the nodes of one kind.
func (k *kubernetesCluster) nodesOf(kind string) []*clusterNode {
	var out []*clusterNode
	for _, n := range k.nodes {
		if n.kind() == kind {
			out = append(out, n)
		}
	}
	return out
}

// offeringOf is the offering of the nodes of a kind.
func (k *kubernetesCluster) offeringOf(kind string) *serviceOffering {
	if nodes := k.nodesOf(kind); len(nodes) > 0 {
		return nodes[0].vm.offering
	}
	if o := k.offerings[kind]; o != nil {
		return o
	}
	return k.offering
}

// recount sets the number of nodes to what an external cluster has.
func (k *kubernetesCluster) recount() {
	k.control = len(k.nodesOf(nodeControl))
	k.size = len(k.nodes) - k.control
}

// text is how exceptions print a cluster.
func (k *kubernetesCluster) text() string {
	return fmt.Sprintf(`KubernetesCluster {"id":%d,"name":"%s","uuid":"%s"}`, k.id, k.name, k.uuid)
}

// clusterOf is the CloudManaged cluster that made the VM, if any.
func (st *state) clusterOf(v *vm) *kubernetesCluster {
	for _, k := range st.kubernetesClusters.rows {
		if k.removed || k.kind != cloudManaged {
			continue
		}
		if n := k.node(v); n != nil && !n.external {
			return k
		}
	}
	return nil
}

// checkNodeDestroy refuses to destroy a node of a CloudManaged cluster on its own.
func (st *state) checkNodeDestroy(v *vm) error {
	k := st.clusterOf(v)
	if k == nil {
		return nil
	}
	return errf(codeInternal, csRuntime, "Instance is a part of a Kubernetes cluster: %s. Use Instance delete option from Kubernetes cluster details "+
		"or scale API for Kubernetes clusters with 'nodeids' to destroy the instance.", k.name)
}
