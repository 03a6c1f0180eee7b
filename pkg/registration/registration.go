// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package registration shows a cluster that CloudStack did not make in CloudStack's UI: as an ExternalManaged cluster
// of CloudStack Kubernetes Service, with the VMs of its nodes. CloudStack only displays such an entry; adding and
// removing VMs never changes a VM.
package registration

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/node"
)

// Commands are the commands of the CloudStack API that an entry needs; the last one deletes it.
var Commands = []string{
	"listKubernetesClusters", "createKubernetesCluster", "addVirtualMachinesToKubernetesCluster",
	"removeVirtualMachinesFromKubernetesCluster",
	"deleteKubernetesCluster",
}

const (
	// period is the time between two checks of the Nodes, which are in memory.
	period = 10 * time.Second
	// refresh is the time between two reads of the entry while the Nodes do not change, and the pause after an error.
	refresh = 10 * time.Minute
)

// mark begins the description of an entry and precedes the cluster's ID. It proves which cluster the entry belongs to:
// names are not unique in CloudStack.
const mark = "Registered by csccm, cluster "

// errManaged means that CloudStack made the cluster, so it already has an entry.
var errManaged = errors.New("CloudStack Kubernetes Service created this cluster; it is registered already")

// Entry is the entry that a cluster should have.
type Entry struct {
	Name      string // in CloudStack
	ClusterID string // the UID of the namespace kube-system
	Project   string // the ID of the VMs' project; empty for the account of the keys
	ZoneID    string
	// NetworkID is the network whose source NAT address the entry shows; empty if the VMs are in several networks.
	NetworkID        string
	Control, Workers sets.Set[string] // the ids of the nodes' VMs
}

// readNodes sets the VMs from the provider IDs of the Nodes.
func (e *Entry) readNodes(nodes []*corev1.Node) {
	e.Control, e.Workers = sets.New[string](), sets.New[string]()
	for _, n := range nodes {
		id, _ := node.ParseProviderID(n.Spec.ProviderID) // an invalid one contains no ID
		switch {
		case id == "":
		case node.ControlPlane(n):
			e.Control.Insert(id)
		default:
			e.Workers.Insert(id)
		}
	}
}

// readVMs sets the zone and the network from the VMs, and removes VMs that CloudStack does not show.
func (e *Entry) readVMs(vms *inventory.VMSnapshot) {
	there, networks := sets.New[string](), sets.New[string]()
	for id := range e.Control.Union(e.Workers) {
		if vm, ok := vms.ByID(id); ok && !node.IsGone(vm.State) {
			there.Insert(id)
			e.ZoneID = vm.ZoneID
			if len(vm.NICs) > 0 {
				networks.Insert(vm.NICs[0].NetworkID) // the default NIC is the first
			}
		}
	}
	e.Control, e.Workers = e.Control.Intersection(there), e.Workers.Intersection(there)
	if len(networks) == 1 {
		e.NetworkID = networks.UnsortedList()[0]
	}
}

// Sync changes the entry in CloudStack to match e, and reports whether it changed anything. It adds new VMs before it
// removes old ones, so that the entry is never empty in between.
func Sync(ctx context.Context, api *cloudstack.Client, e *Entry) (changed bool, err error) {
	entries, err := api.ListKubernetesClusters(ctx, e.Project)
	if err != nil {
		return false, fmt.Errorf("list the Kubernetes clusters in CloudStack: %w", err)
	}

	own, err := e.find(entries)
	if err != nil {
		return false, err
	}

	if own == nil {
		changed, own = true, &cloudstack.KubernetesCluster{}
		own.ID, err = api.CreateExternalCluster(ctx, cloudstack.ExternalClusterRequest{
			Name:        e.Name,
			Description: mark + e.ClusterID,
			ZoneID:      e.ZoneID,
			NetworkID:   e.NetworkID,
			ProjectID:   e.Project,
		})
		if err != nil {
			return true, fmt.Errorf("create the entry %s in CloudStack: %w", e.Name, err)
		}
	}

	change := func(vms sets.Set[string], call func(vms []string) error) {
		if err == nil && len(vms) > 0 {
			changed, err = true, call(sets.List(vms))
		}
	}

	has := sets.New(own.VMs...)
	change(e.Control.Difference(has), func(vms []string) error { return api.AddClusterVMs(ctx, own.ID, vms, true) })
	change(e.Workers.Difference(has), func(vms []string) error { return api.AddClusterVMs(ctx, own.ID, vms, false) })
	change(has.Difference(e.Control).Difference(e.Workers),
		func(vms []string) error { return api.RemoveClusterVMs(ctx, own.ID, vms) })
	if err != nil {
		return true, fmt.Errorf("change the VMs of the entry %s in CloudStack: %w", e.Name, err)
	}

	return changed, nil
}

// find returns the cluster's entry among those of an account or project, or nil if there is none yet.
func (e *Entry) find(entries []cloudstack.KubernetesCluster) (own *cloudstack.KubernetesCluster, err error) {
	own = Own(entries, e.ClusterID)
	for _, k := range entries {
		ours := e.Control.HasAny(k.VMs...) || e.Workers.HasAny(k.VMs...)
		switch {
		case k.Type != cloudstack.ExternalManaged && ours:
			return nil, errManaged
		case own == nil && k.Name == e.Name:
			return nil,
				fmt.Errorf("CloudStack has a Kubernetes cluster named %s that is not this cluster (id %s, "+
					"description %q); choose another name, or delete that entry", k.Name, k.ID, k.Description)
		case own == nil && ours: // Cluster API's provider for CloudStack makes one with syncWithACS
			return nil,
				fmt.Errorf("the Kubernetes cluster %s in CloudStack (id %s), which csccm did not create, shows VMs "+
					"of this cluster already; leave it as it is, or delete that entry", k.Name, k.ID)
		}
	}
	return own, nil
}

// Own returns the entry that csccm created for a cluster, or nil.
func Own(entries []cloudstack.KubernetesCluster, clusterID string) *cloudstack.KubernetesCluster {
	for i := range entries {
		if k := &entries[i]; k.Type == cloudstack.ExternalManaged && k.Description == mark+clusterID {
			return k
		}
	}
	return nil
}

// Controller keeps the entry of its cluster up to date. All fields are required.
type Controller struct {
	API       *cloudstack.Client
	Inventory *inventory.Inventory
	// Name and ClusterID are those of the Entry.
	Name, ClusterID string
	// Nodes returns the Nodes in the informer's cache.
	Nodes func() ([]*corev1.Node, error)

	seen Entry     // the entry at the last sync
	next time.Time // time of the next sync, unless the Nodes change before
}

// Run keeps the entry up to date until the context ends, or until it finds that CloudStack made the cluster.
func (c *Controller) Run(ctx context.Context) {
	_ = wait.PollUntilContextCancel(ctx, period, true, func(ctx context.Context) (bool, error) {
		return errors.Is(c.look(ctx), errManaged), nil
	})
}

// look syncs the entry if the Nodes have changed, or if the last sync is older than refresh.
func (c *Controller) look(ctx context.Context) error {
	nodes, _ := c.Nodes() // none while the cache is not filled
	e := Entry{Name: c.Name, ClusterID: c.ClusterID}
	e.readNodes(nodes)
	now := time.Now()
	if same := e.Control.Equal(c.seen.Control) && e.Workers.Equal(c.seen.Workers); len(e.Control)+len(e.Workers) == 0 ||
		same && now.Before(c.next) {
		return nil
	}

	c.seen, c.next = e, now.Add(refresh)
	changed, err := c.sync(ctx, e)
	switch {
	case err != nil:
		klog.ErrorS(err, "The cluster is not registered in CloudStack; Services and Nodes are not affected")
	case changed:
		klog.InfoS("The cluster's entry in CloudStack follows its nodes", "name", c.Name, "control", len(e.Control),
			"workers", len(e.Workers))
	}

	return err
}

func (c *Controller) sync(ctx context.Context, e Entry) (changed bool, err error) {
	vms, err := c.Inventory.VMs(ctx, node.MissAge)
	if err != nil {
		return false, err
	}
	e.readVMs(vms)
	if e.ZoneID == "" {
		return false, errors.New("CloudStack shows none of the nodes' VMs")
	}
	if e.Project, err = c.Inventory.ProjectID(ctx); err != nil {
		return false, err
	}
	return Sync(ctx, c.API, &e)
}
