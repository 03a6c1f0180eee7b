// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
)

// ClusterInside simulates what happens inside the VMs of CloudManaged Kubernetes clusters, which the simulator does
// not run: cloud-init, kubeadm, and what CloudStack does over SSH. The job of the command waits for the method, at
// most for CloudStack's time-out of the command, on the simulator's clock. Each method runs in its own goroutine
// without the simulator's lock: it may block and may call the API. Its context ends with Simulator.Close.
//
// An error fails the job as in CloudStack, with CloudStack's text; the text of the error itself is not shown.
type ClusterInside interface {
	// Start is called when all VMs, addresses and rules of a new cluster exist, and when all VMs of a stopped cluster
	// run again. It returns the kubeconfig once the API answers and all nodes are ready. getKubernetesClusterConfig
	// returns this kubeconfig. For a restarted cluster, "" keeps the current one.
	Start(ctx context.Context, c *InsideCluster) (kubeconfig string, err error)
	// Join is called when scaling has created VMs, which c.Nodes already contains. It returns once they are ready.
	Join(ctx context.Context, c *InsideCluster, nodes []InsideNode) error
	// Leave is called before scaling removes the VM of a node: CloudStack drains and deletes the node.
	Leave(ctx context.Context, c *InsideCluster, node InsideNode) error
	// Upgrade is called for each node in turn, control nodes first, with the version to install.
	Upgrade(ctx context.Context, c *InsideCluster, node InsideNode, version string) error
	// Delete is called after the VMs of a deleted cluster are removed, even if Start never was. Errors are ignored.
	Delete(ctx context.Context, c *InsideCluster) error
}

// ErrNodesNotReady is returned by ClusterInside.Start (possibly wrapped) if the API answers but nodes are missing. The
// job then fails with CloudStack's text for this case.
var ErrNodesNotReady = errors.New("not all nodes are ready")

// InsideCluster is a cluster as ClusterInside sees it: a copy that does not change.
type InsideCluster struct {
	ID, Name string
	Version  string // of Kubernetes, such as 1.33.1
	Endpoint string // URL of the API as clients reach it
	// Provider is the cloud-config that CloudStack stores in the secret kube-system/cloudstack-secret.
	Provider string
	Nodes    []InsideNode
}

// InsideNode is a VM of a cluster.
type InsideNode struct {
	ID, Name string // Name is the VM's host name, which is the name of the Kubernetes node
	Address  string
	Control  bool
	Etcd     bool   // a VM with etcd only, which is not a Kubernetes node
	Version  string // of Kubernetes
}
