// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"slices"
)

// kubernetesVersion is a Kubernetes version that CloudStack Kubernetes Service can install from an ISO with its
// binaries.
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

// Types of clusters.
const (
	cloudManaged    = "CloudManaged"    // CloudStack creates the VMs
	externalManaged = "ExternalManaged" // a record of VMs that others manage
)

// States that a cluster can have in addition to those of a VM.
const (
	clusterCreated   = "Created"
	clusterScaling   = "Scaling"
	clusterUpgrading = "Upgrading"
	clusterImporting = "Importing"
	clusterRemoving  = "RemovingNodes"
	clusterAlert     = "Alert"
	clusterDestroy   = "Destroying"
)

// Kinds of nodes, in the order in which CloudStack checks their offerings.
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
	stored              string // the state, before it is corrected by the states of the VMs
	owner               *account
	zone                *zone
	version             *kubernetesVersion // nil: external clusters may have none
	offering            *serviceOffering
	offerings           map[string]*serviceOffering // by kind of node
	template            *template
	templates           map[string]*template // by kind of node
	network             *network
	ownNetwork          bool // created and deleted with the cluster
	address             *publicIP
	externalLB          string // address of the owner's load balancer for the API
	control, size, etcd int
	cores, memMB        int
	rootDiskGB          int
	keyPair             string
	endpoint            string
	kubeconfig          string
	autoscaling, csi    bool
	minSize, maxSize    *int
	nodes               []*clusterNode
	forwards            []*pfRule
	firewall            []*fwRule
	balancer            *lbRule
	aclItems            []*aclItem
}

// clusterNode is a VM as a node of a cluster.
type clusterNode struct {
	vm       *vm
	control  bool
	etcd     bool
	external bool // added to a CloudManaged cluster, not created by it
	manual   bool // excluded from upgrades
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

// total returns the desired number of nodes.
func (k *kubernetesCluster) total() int { return k.control + k.size + k.etcd }

// state returns the state that CloudStack's cluster scanner determines for a running or stopped cluster: Running or
// Stopped if no node is missing and all nodes are in that state, or else Alert. Other states are the stored ones.
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

// node returns the cluster's node that is the VM, or nil.
func (k *kubernetesCluster) node(v *vm) *clusterNode {
	for _, n := range k.nodes {
		if n.vm == v {
			return n
		}
	}
	return nil
}

// nodesOf returns the nodes of one kind.
func (k *kubernetesCluster) nodesOf(kind string) []*clusterNode {
	var out []*clusterNode
	for _, n := range k.nodes {
		if n.kind() == kind {
			out = append(out, n)
		}
	}
	return out
}

// offeringOf returns the offering of the nodes of a kind.
func (k *kubernetesCluster) offeringOf(kind string) *serviceOffering {
	if nodes := k.nodesOf(kind); len(nodes) > 0 {
		return nodes[0].vm.offering
	}
	if o := k.offerings[kind]; o != nil {
		return o
	}
	return k.offering
}

// recount sets the node counts of an external cluster to its current number of nodes.
func (k *kubernetesCluster) recount() {
	k.control = len(k.nodesOf(nodeControl))
	k.size = len(k.nodes) - k.control
}

// text formats a cluster like CloudStack's exceptions.
func (k *kubernetesCluster) text() string {
	return fmt.Sprintf(`KubernetesCluster {"id":%d,"name":"%s","uuid":"%s"}`, k.id, k.name, k.uuid)
}

// clusterOf returns the CloudManaged cluster that created the VM, or nil.
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

// checkNodeDestroy refuses to destroy a single node of a CloudManaged cluster.
func (st *state) checkNodeDestroy(v *vm) error {
	k := st.clusterOf(v)
	if k == nil {
		return nil
	}
	return errf(codeInternal, csRuntime, "Instance is a part of a Kubernetes cluster: %s. Use Instance delete option from Kubernetes cluster details "+
		"or scale API for Kubernetes clusters with 'nodeids' to destroy the instance.", k.name)
}
