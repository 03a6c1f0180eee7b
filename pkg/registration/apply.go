// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"context"
	"fmt"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/plural"
)

// API is what Sync and Unregister call. A *cloudstack.Client implements it.
type API interface {
	ListKubernetesClusters(ctx context.Context, projectID string) ([]cloudstack.KubernetesCluster, error)
	CreateExternalCluster(ctx context.Context, r cloudstack.ExternalClusterRequest) (id string, err error)
	AddClusterVMs(ctx context.Context, clusterID string, vms []string, control bool) error
	RemoveClusterVMs(ctx context.Context, clusterID string, vms []string) error
	DeleteExternalCluster(ctx context.Context, clusterID string) error
}

// Sync makes the entry true and returns what it did. A second Sync of the same nodes changes nothing.
func Sync(ctx context.Context, api API, project string, w *Wanted) (*Plan, error) {
	entries, err := api.ListKubernetesClusters(ctx, project)
	if err != nil {
		return nil, fmt.Errorf("list the Kubernetes clusters in CloudStack: %w", err)
	}
	p, err := MakePlan(entries, w)
	if err != nil {
		return nil, err
	}
	return p, Apply(ctx, api, project, w, p)
}

// Apply carries a plan out.
func Apply(ctx context.Context, api API, project string, w *Wanted, p *Plan) error {
	for _, c := range p.Calls(project, w) {
		if err := c.Do(ctx, api); err != nil {
			return err
		}
	}
	return nil
}

// Call is one change of an entry.
type Call struct {
	Text string // such as "add 2 workers"
	Do   func(ctx context.Context, api API) error
}

// Calls returns the calls that carry the plan out, in their order: new VMs are added before old ones are removed, so that
// the entry never is empty meanwhile. The first call records the id of a new entry in the plan.
func (p *Plan) Calls(project string, w *Wanted) []Call {
	var out []Call
	if p.Create {
		out = append(out, Call{"create entry " + w.Name, func(ctx context.Context, api API) (err error) {
			if p.EntryID, err = api.CreateExternalCluster(ctx, cloudstack.ExternalClusterRequest{
				Name: w.Name, Description: w.Description(), ZoneID: w.ZoneID, NetworkID: w.NetworkID, ProjectID: project,
			}); err != nil {
				err = fmt.Errorf("create the entry %s in CloudStack: %w", w.Name, err)
			}
			return err
		}})
	}
	for _, add := range []struct {
		vms     []string
		control bool
		noun    string
	}{{p.AddControl, true, "control plane node"}, {p.AddWorkers, false, "worker"}} {
		if len(add.vms) == 0 {
			continue
		}
		out = append(out, Call{"add " + plural.Count(len(add.vms), add.noun), func(ctx context.Context, api API) error {
			if err := api.AddClusterVMs(ctx, p.EntryID, add.vms, add.control); err != nil {
				return fmt.Errorf("add VMs to the entry %s in CloudStack: %w", w.Name, err)
			}
			return nil
		}})
	}
	if len(p.Remove) > 0 {
		out = append(out, Call{"remove " + plural.Count(len(p.Remove), "VM") + " of no node", func(ctx context.Context, api API) error {
			if err := api.RemoveClusterVMs(ctx, p.EntryID, p.Remove); err != nil {
				return fmt.Errorf("remove VMs from the entry %s in CloudStack: %w", w.Name, err)
			}
			return nil
		}})
	}
	return out
}

// Unregister deletes the entry that csccm made for a cluster, and no VM. It returns nil without one.
func Unregister(ctx context.Context, api API, project, clusterID string) (*cloudstack.KubernetesCluster, error) {
	entries, err := api.ListKubernetesClusters(ctx, project)
	if err != nil {
		return nil, fmt.Errorf("list the Kubernetes clusters in CloudStack: %w", err)
	}
	own := Own(entries, clusterID)
	if own == nil {
		return nil, nil
	}
	if err := api.DeleteExternalCluster(ctx, own.ID); err != nil {
		return nil, fmt.Errorf("delete the entry %s in CloudStack: %w", own.Name, err)
	}
	return own, nil
}
