// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package registration shows a cluster that CloudStack did not make in CloudStack's UI: as an ExternalManaged cluster of
// CloudStack Kubernetes Service, with the VMs of its nodes. CloudStack only displays such an entry; adding and removing
// VMs never changes a VM.
package registration

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/node"
)

// Wanted is the entry that a cluster should have.
type Wanted struct {
	// Name is the entry's name in CloudStack.
	Name string
	// ClusterID identifies the Kubernetes cluster: the UID of its namespace kube-system.
	ClusterID string
	ZoneID    string
	NetworkID string // may be empty
	// Control and Workers are the ids of the nodes' VMs.
	Control, Workers []string
}

// Description is what the entry says about its owner. It proves which cluster the entry belongs to: names are not unique
// in CloudStack.
func (w *Wanted) Description() string { return mark + w.ClusterID }

const mark = "Registered by csccm, cluster "

// Commands are the commands of the CloudStack API that an entry needs; deleting it also needs UnregisterCommand. They are
// not among those that the controller needs for Nodes and Services.
var Commands = []string{
	"listKubernetesClusters", "createKubernetesCluster", "addVirtualMachinesToKubernetesCluster", "removeVirtualMachinesFromKubernetesCluster",
}

// UnregisterCommand deletes an entry.
const UnregisterCommand = "deleteKubernetesCluster"

// Plan is what makes the entry true.
type Plan struct {
	// Create is set when there is no entry yet. EntryID is the entry's id, once there is one.
	Create  bool   `json:"create"`
	EntryID string `json:"entryID,omitempty"`
	// AddControl, AddWorkers and Remove are ids of VMs.
	AddControl []string `json:"addControl,omitempty"`
	AddWorkers []string `json:"addWorkers,omitempty"`
	Remove     []string `json:"remove,omitempty"`
}

// Changes reports whether there is anything to do.
func (p *Plan) Changes() bool {
	return p.Create || len(p.AddControl)+len(p.AddWorkers)+len(p.Remove) > 0
}

// ErrManaged is the error of a cluster that CloudStack made: it has an entry already.
var ErrManaged = errors.New("CloudStack Kubernetes Service made this cluster; it is registered already")

// TakenError is a name that the entry of another cluster has.
type TakenError struct {
	Name, EntryID, Description string
}

func (e *TakenError) Error() string {
	about := ""
	if e.Description != "" {
		about = fmt.Sprintf(", description %q", e.Description)
	}
	return fmt.Sprintf("CloudStack has a Kubernetes cluster named %s that is not this cluster (id %s%s); choose another name, or delete that entry", e.Name, e.EntryID, about)
}

// WantedOf returns the entry for Nodes. It holds the VMs that the Nodes' provider IDs name and that vms has; without any of
// them ZoneID is empty.
func WantedOf(name, clusterID string, nodes []*corev1.Node, vms node.Lookup) *Wanted {
	w := &Wanted{Name: name, ClusterID: clusterID}
	w.Control, w.Workers = vmsOf(nodes)
	w.place(vms)
	return w
}

// ShownError is an entry of somebody else with VMs of this cluster: Cluster API's provider for CloudStack makes one with
// syncWithACS.
type ShownError struct {
	Name, EntryID string
}

func (e *ShownError) Error() string {
	return fmt.Sprintf("the Kubernetes cluster %s in CloudStack (id %s), which csccm did not create, shows VMs of this cluster already; leave it as it is, or delete that entry", e.Name, e.EntryID)
}

// MakePlan compares the entries of an account or project with the wanted one. It is pure. Errors are ErrManaged,
// *TakenError and *ShownError; nothing is changed then.
func MakePlan(entries []cloudstack.KubernetesCluster, w *Wanted) (*Plan, error) {
	nodes := slices.Concat(w.Control, w.Workers)
	own := Own(entries, w.ClusterID)
	for i := range entries {
		e := &entries[i]
		ours := slices.ContainsFunc(e.VMs, func(id string) bool { return slices.Contains(nodes, id) })
		switch {
		case e.Type != cloudstack.ExternalManaged && ours:
			return nil, ErrManaged
		case own == nil && e.Name == w.Name:
			return nil, &TakenError{e.Name, e.ID, e.Description}
		case own == nil && ours:
			return nil, &ShownError{e.Name, e.ID}
		}
	}
	p := &Plan{Create: own == nil}
	var present []string
	if own != nil {
		p.EntryID, present = own.ID, own.VMs
	}
	missing := func(ids []string) []string {
		return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(present, id) })
	}
	p.AddControl, p.AddWorkers = missing(w.Control), missing(w.Workers)
	p.Remove = slices.DeleteFunc(slices.Clone(present), func(id string) bool { return slices.Contains(nodes, id) })
	return p, nil
}

// Own returns the entry that csccm made for a cluster; nil without one.
func Own(entries []cloudstack.KubernetesCluster, clusterID string) *cloudstack.KubernetesCluster {
	for i := range entries {
		e := &entries[i]
		if id, ok := strings.CutPrefix(e.Description, mark); ok && id == clusterID && e.Type == cloudstack.ExternalManaged {
			return e
		}
	}
	return nil
}
