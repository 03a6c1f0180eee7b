// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/observe"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// Orphans finds what this cluster has created in a project for Services that no longer exist. It reads whole lists, or
// uses those that others have read since. With unfinished, it also finds addresses whose release failed in an earlier
// process.
func (r *Reconciler) Orphans(
	ctx context.Context, project string, since time.Time, unfinished bool,
) ([]observe.Orphan, error) {
	return r.Observer.Orphans(ctx, project, r.ClusterIDs(), since, unfinished, r.Book)
}

// CloudStack keeps the tags of a load balancer rule after the rule is deleted, or its address released. A sweep deletes
// such tags of this cluster.

const (
	sweepLimit = 30 * time.Second // drift rounds wait for the sweep
	sweepBatch = 50               // number of rules whose tags one call deletes
	sweepMost  = 200              // number of rules that one sweep looks up; the next sweep continues
)

// SweepTags deletes this cluster's tags of load balancer rules that no longer exist in a project. It does nothing if
// the role may not list or delete tags.
func (r *Reconciler) SweepTags(ctx context.Context, project string) error {
	if !r.applies() {
		return nil
	}

	cluster := r.ClusterIDs()[0]
	tags, err := r.API.Client.ListTags(ctx,
		cloudstack.TagQuery{ResourceType: plan.ResourceRule, Key: plan.TagCluster, Value: cluster, ProjectID: project})
	if err != nil {
		return observe.Permitted(fmt.Errorf("list the tags of load balancer rules: %w", err))
	}

	tagged := sets.New[string]()
	for _, t := range tags {
		if t.Key == plan.TagCluster && t.Value == cluster { // the query of the server ignores case
			tagged.Insert(t.ResourceID)
		}
	}

	deleted, err := r.deletedRules(ctx, project, tagged)
	if err != nil {
		return err
	}

	keys := slices.Sorted(maps.Keys(plan.RuleTags(cluster, plan.Service{})))
	ctx, cancel := context.WithTimeout(ctx, sweepLimit)
	defer cancel()
	for batch := range slices.Chunk(deleted, sweepBatch) {
		s, err := r.API.Client.DeleteTags(ctx, plan.ResourceRule, batch, keys)
		if err == nil {
			_, err = r.API.Client.Jobs().Wait(ctx, "deleteTags", s.JobID)
		}
		if err != nil {
			return observe.Permitted(fmt.Errorf("delete the tags of deleted load balancer rules: %w", err))
		}
	}

	return nil
}

// TaggedProjects returns the ids of all projects visible to the API keys in which something has this cluster's tags. It
// returns none if the role may not list tags.
func (r *Reconciler) TaggedProjects(ctx context.Context) ([]string, error) {
	ids := sets.New[string]()
	for _, cluster := range r.ClusterIDs() {
		tags, err := r.API.Client.ListTags(ctx,
			cloudstack.TagQuery{Key: plan.TagCluster, Value: cluster, ProjectID: "-1"})
		if err != nil {
			return nil, observe.Permitted(fmt.Errorf("list the cluster's tags in all projects: %w", err))
		}
		for _, t := range tags {
			if t.Value == cluster && t.ProjectID != "" {
				ids.Insert(t.ProjectID)
			}
		}
	}
	return sets.List(ids), nil
}

// deletedRules returns the tagged rules that no longer exist. The list of rules, which is read after their tags, does
// not contain internal load balancers, and no list contains what an administrator has hidden. So each rule is looked up
// by id.
func (r *Reconciler) deletedRules(
	ctx context.Context, project string, tagged sets.Set[string],
) (deleted []string, err error) {
	if len(tagged) == 0 {
		return nil, nil
	}

	_, rules, err := r.Observer.Lists(ctx, project, r.Clock.Now())
	if err != nil {
		return nil, err
	}

	for i := range rules {
		tagged.Delete(rules[i].ID)
	}

	if len(tagged) == 0 {
		return nil, nil
	}

	internal, err := r.API.ListInternalLoadBalancers(ctx, cloudstack.InternalLoadBalancerQuery{ProjectID: project})
	if observe.Permitted(err) != nil {
		return nil, fmt.Errorf("list internal load balancers: %w", err)
	}

	for i := range internal {
		tagged.Delete(internal[i].ID)
	}

	for _, id := range sets.List(tagged)[:min(len(tagged), sweepMost)] {
		_, err := r.API.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{ID: id, ProjectID: project})
		switch {
		case cloudstack.IsNotFound(err):
			deleted = append(deleted, id)
		case err != nil:
			return nil, fmt.Errorf("look for the load balancer rule %s: %w", id, err)
		}
	}

	return deleted, nil
}
