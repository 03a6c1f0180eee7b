// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/catalogue"
	"github.com/csccm/csccm/pkg/simulator/internal/settings"
)

// Ports of a cluster.
const (
	APIPort     = 6443
	NodeSSHPort = 2222 // the first of the public ports that are forwarded to port 22 of the nodes
	SSHPort     = 22
)

// EtcdSSHPort returns the first of the public ports that are forwarded to port 22 of the etcd nodes.
func (st *State) EtcdSSHPort() int {
	return settings.Atoi(st.Setting("cloud.kubernetes.etcd.node.start.port"))
}

// Kubeadmin is part of the names that CloudStack gives the users whose API keys clusters use.
const Kubeadmin = "kubeadmin"

// ServiceAccountName returns the name of the service account for a project's clusters.
func ServiceAccountName(p *Project) string {
	first, _, _ := strings.Cut(p.UUID, "-")
	return Kubeadmin + "-" + first
}

// deleteServiceAccount removes a project's service account when the project has no clusters left.
func (st *State) deleteServiceAccount(owner *Account) {
	p := owner.Project
	if p == nil {
		return
	}

	if _, more := st.KubernetesClusters.Find(func(k *KubernetesCluster) bool { return k.Owner == owner }); more {
		return
	}

	a, ok := st.AccountIn(p.Domain, ServiceAccountName(p))
	if !ok || p.Find(a, nil) == nil {
		return
	}

	for i, m := range p.Members {
		if m.Account == a {
			p.Members = append(p.Members[:i:i], p.Members[i+1:]...)
			break
		}
	}

	for _, u := range a.Users {
		delete(st.APIKeys, u.APIKey)
		u.Removed = true
	}

	a.Removed = true
}

// RemoveNode expunges a node's VM.
func (st *State) RemoveNode(k *KubernetesCluster, n *ClusterNode) {
	st.detach(k, n)
	if !n.VM.Removed {
		st.Expunge(n.VM)
	}
}

// detach removes a VM from the nodes of the cluster.
func (st *State) detach(k *KubernetesCluster, n *ClusterNode) {
	st.DeleteForwards(k, func(r *PFRule) bool { return r.VM == n.VM })
	k.Nodes = slices.DeleteFunc(k.Nodes, func(o *ClusterNode) bool { return o == n })
}

// ReleaseNode removes a worker from the cluster. Its VM is kept.
func (st *State) ReleaseNode(k *KubernetesCluster, n *ClusterNode) {
	st.detach(k, n)
	k.Size--
}

// DeleteForwards removes the cluster's port forwarding rules for which selected returns true. Rules that the owner has
// already deleted are forgotten.
func (st *State) DeleteForwards(k *KubernetesCluster, selected func(*PFRule) bool) {
	for _, r := range k.Forwards {
		if selected(r) {
			st.RemovePFRule(r)
		}
	}
	k.Forwards = slices.DeleteFunc(k.Forwards, func(r *PFRule) bool { return r.Removed })
}

// closeCluster removes the cluster's rules from a network that remains. It also releases the address that the cluster
// acquired on a VPC tier.
func (st *State) closeCluster(k *KubernetesCluster) {
	took := k.Address != nil && k.Address.VPC != nil && k.Address.Network == k.Network
	for _, r := range k.Firewall {
		if r.StartPort != nil && *r.StartPort < st.EtcdSSHPort() {
			st.DeleteFWRule(r)
		}
	}

	if k.Balancer != nil {
		st.RemoveLBRule(k.Balancer)
	}

	for _, it := range k.ACLItems {
		if !it.Removed {
			st.ACLItems.Delete(it)
		}
	}

	st.DeleteForwards(k, func(*PFRule) bool { return true })
	k.Firewall, k.Balancer, k.ACLItems = nil, nil, nil
	if took {
		st.Release(k.Address)
	}
}

// ClusterClass is the package of the Java classes of cluster commands.
const ClusterClass = "user.kubernetes.cluster."

// Registered reports whether the command exists. The commands of a disabled plugin do not exist.
func (st *State) Registered(a *catalogue.API) bool {
	return st.BoolSetting("cloud.kubernetes.service.enabled") ||
		!strings.Contains(a.Name, "Kubernetes") && !strings.Contains(a.Name, "CniConfiguration")
}

// Measure sets the cluster's CPUs and memory to the sum over its nodes, or over the planned nodes if it has none yet.
func (k *KubernetesCluster) Measure() {
	k.Cores, k.MemMB = 0, 0
	add := func(o *ServiceOffering, n int) {
		if o != nil {
			k.Cores, k.MemMB = k.Cores+o.CPUNumber*n, k.MemMB+o.MemMB*n
		}
	}
	if len(k.Nodes) > 0 {
		for _, n := range k.Nodes {
			add(n.VM.Offering, 1)
		}
		return
	}
	for kind, n := range map[string]int{NodeWorker: k.Size, NodeControl: k.Control, NodeEtcd: k.Etcd} {
		add(k.OfferingOf(kind), n)
	}
}

// DestroyCluster removes a cluster and its resources. The VMs of an ExternalManaged cluster remain, unless destroy or
// expunge is set.
func (st *State) DestroyCluster(k *KubernetesCluster, destroy, expunge bool, now time.Time) {
	if k.Kind == ExternalManaged {
		for _, n := range k.Nodes {
			if v := n.VM; !v.Removed && destroy {
				st.Destroy(v, now)
				if expunge {
					st.Expunge(v)
				}
			}
		}
		k.Nodes = nil
	} else {
		for len(k.Nodes) > 0 {
			st.RemoveNode(k, k.Nodes[0])
		}
		if k.OwnNetwork && !k.Network.Removed {
			st.DestroyNetwork(k.Network)
		} else {
			st.closeCluster(k)
		}
	}

	k.Removed = true
	st.deleteServiceAccount(k.Owner)
}

// KubernetesVersion is a Kubernetes version that CloudStack Kubernetes Service can install from an ISO with its
// binaries.
type KubernetesVersion struct {
	Entity
	Name, Semantic   string
	Zone             *Zone // nil: every zone
	IsoID, IsoName   string
	Arch             string
	Disabled         bool
	DirectDownload   bool
	MinCPU, MinMemMB int
	ISOState         string    // ISOMissing, or "" for an ISO that is or becomes Ready
	Downloaded       time.Time // when the ISO becomes Ready, if ISOState is ""
}

// States of a version's ISO, as answers show them.
const (
	ISOReady    = "Ready"
	ISOCreating = "Creating" // while it is downloaded; not recorded
	ISOMissing  = "Missing"  // the simulator's own state: the version has no ISO
)

// ISO returns the state of the version's ISO, or "" if it has none.
func (v *KubernetesVersion) ISO(now time.Time) string {
	switch {
	case v.ISOState == ISOMissing:
		return ""
	case v.ISOState != "":
		return v.ISOState
	case now.Before(v.Downloaded):
		return ISOCreating
	}
	return ISOReady
}

// State returns the state that answers show.
func (v *KubernetesVersion) State() string {
	if v.Disabled {
		return "Disabled"
	}
	return "Enabled"
}

// CNIConfig is user data that installs a network plugin in a new cluster.
type CNIConfig struct {
	Entity
	Name   string
	Owner  *Account
	Data   string // in base64, as registered
	Params string // names of variables, separated by commas
}

// Types of clusters.
const (
	CloudManaged    = "CloudManaged"    // CloudStack creates the VMs
	ExternalManaged = "ExternalManaged" // a record of VMs that others manage
)

// States that a cluster can have in addition to those of a VM.
const (
	ClusterCreated   = "Created"
	ClusterScaling   = "Scaling"
	ClusterUpgrading = "Upgrading"
	ClusterAlert     = "Alert"
	ClusterDestroy   = "Destroying"
	ClusterImporting = "Importing"     // while nodes are added
	ClusterRemoving  = "RemovingNodes" // while nodes are removed
)

// Kinds of nodes, in the order in which CloudStack checks their offerings.
const (
	NodeWorker  = "WORKER"
	NodeControl = "CONTROL"
	NodeEtcd    = "ETCD"
	NodeDefault = "DEFAULT"
)

// NodeKinds are the kinds of nodes that a cluster can have.
var NodeKinds = []string{NodeWorker, NodeControl, NodeEtcd}

// KubernetesCluster is a cluster of CloudStack Kubernetes Service.
type KubernetesCluster struct {
	Entity
	Name, Description   string
	Kind                string
	Stored              string // the state, before State corrects it by the states of the VMs
	Broken              bool   // Kubernetes does not work inside the VMs, although they run
	Owner               *Account
	Zone                *Zone
	Version             *KubernetesVersion // nil: external clusters may have none
	Offering            *ServiceOffering
	Offerings           map[string]*ServiceOffering // by kind of node
	Template            *Template
	Templates           map[string]*Template // by kind of node
	CNI                 *CNIConfig
	Network             *Network
	OwnNetwork          bool // created and deleted with the cluster
	Address             *PublicIP
	Control, Size, Etcd int
	Cores, MemMB        int
	RootDiskGB          int
	Endpoint            string
	Kubeconfig          string
	Autoscaling, Csi    bool
	MinSize, MaxSize    *int
	Nodes               []*ClusterNode
	Forwards            []*PFRule
	Firewall            []*FWRule
	Balancer            *LBRule
	ACLItems            []*ACLItem
}

// ClusterNode is a VM that is a node of a cluster.
type ClusterNode struct {
	VM      *VM
	Control bool
	Etcd    bool
	Version string
	// External is set if the VM existed before and was added to the cluster.
	External bool
	// Manual is set if upgrades skip the node.
	Manual bool
}

func (n *ClusterNode) kind() string {
	switch {
	case n.Control:
		return NodeControl
	case n.Etcd:
		return NodeEtcd
	}
	return NodeWorker
}

// Total returns the desired number of nodes.
func (k *KubernetesCluster) Total() int { return k.Control + k.Size + k.Etcd }

// State returns the state that CloudStack's cluster scanner, which runs every 30 s, determines for a cluster that no
// job changes: Running or Stopped if no node is missing and all nodes are in that state, otherwise Alert. Other states
// are returned as stored.
func (k *KubernetesCluster) State() string {
	if k.Kind != CloudManaged || k.Stored != VMRunning && k.Stored != VMStopped && k.Stored != ClusterAlert {
		return k.Stored
	}
	for _, want := range []string{VMRunning, VMStopped} {
		if want == VMRunning && k.Broken {
			continue
		}
		if len(k.Nodes) >= k.Total() &&
			!slices.ContainsFunc(k.Nodes, func(n *ClusterNode) bool { return n.VM.State != want }) {
			return want
		}
	}
	return ClusterAlert
}

// Node returns the cluster's node that is the VM, or nil.
func (k *KubernetesCluster) Node(v *VM) *ClusterNode {
	for _, n := range k.Nodes {
		if n.VM == v {
			return n
		}
	}
	return nil
}

// NodesOf returns the nodes of one kind.
func (k *KubernetesCluster) NodesOf(kind string) []*ClusterNode {
	var out []*ClusterNode
	for _, n := range k.Nodes {
		if n.kind() == kind {
			out = append(out, n)
		}
	}
	return out
}

// OfferingOf returns the offering of the nodes of a kind.
func (k *KubernetesCluster) OfferingOf(kind string) *ServiceOffering {
	if nodes := k.NodesOf(kind); len(nodes) > 0 {
		return nodes[0].VM.Offering
	}
	if o := k.Offerings[kind]; o != nil {
		return o
	}
	return k.Offering
}

// Recount sets the node counts of an external cluster to its current number of nodes.
func (k *KubernetesCluster) Recount() {
	k.Control = len(k.NodesOf(NodeControl))
	k.Size = len(k.Nodes) - k.Control
}

// Text formats a cluster like CloudStack's exceptions.
func (k *KubernetesCluster) Text() string {
	return fmt.Sprintf(`KubernetesCluster {"id":%d,"name":"%s","uuid":"%s"}`, k.ID, k.Name, k.UUID)
}

// ClusterOf returns the CloudManaged cluster that created the VM, or nil.
func (st *State) ClusterOf(v *VM) *KubernetesCluster {
	for _, k := range st.KubernetesClusters.Rows {
		if k.Removed || k.Kind != CloudManaged {
			continue
		}
		if n := k.Node(v); n != nil {
			return k
		}
	}
	return nil
}
