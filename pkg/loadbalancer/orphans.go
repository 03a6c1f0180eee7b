// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/observe"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// Orphans finds what this cluster made in a project for Services that are gone; the empty project is the configured one.
// It reads whole lists, those that others read since.
func (p *Planner) Orphans(ctx context.Context, project string, since time.Time) ([]observe.Orphan, error) {
	id, err := p.options.Project(ctx, project)
	if err != nil {
		return nil, err
	}
	return p.observer.Orphans(ctx, id, p.options.ClusterIDs(), since, p.limits().LeaveACLs, p.options.Book)
}

// Lists returns the public addresses and the load balancer rules of the project. They are whole lists that were begun
// since, the same that Orphans and previews of that time read.
func (p *Planner) Lists(ctx context.Context, since time.Time) ([]cloudstack.PublicIP, []cloudstack.LoadBalancerRule, error) {
	project, err := p.options.Project(ctx, "")
	if err != nil {
		return nil, nil, err
	}
	addresses, err := p.observer.Addresses(ctx, project, since)
	if err != nil {
		return nil, nil, err
	}
	rules, err := p.observer.Rules(ctx, project, since)
	return addresses, rules, err
}

// noRecords is the record store of a Service that is gone.
type noRecords struct{}

func (noRecords) Load(context.Context) (annotation.Records, error) { return annotation.Records{}, nil }
func (noRecords) Save(context.Context, annotation.Records) error   { return nil }

// RemovalOf returns the request that removes everything of a Service that is gone, with the same proofs as its deletion
// would have asked for. found is what was found of it.
func RemovalOf(found []observe.Orphan) Request {
	first := found[0]
	namespace, name, _ := strings.Cut(first.Service, "/")
	req := Request{
		Service: plan.Service{UID: first.UID, Namespace: namespace, Name: name, LB: plan.LBName(first.UID)},
		Absent:  true, Records: noRecords{}, Project: first.Project, AllACLs: true,
	}
	if first.UID == "" {
		req.Service.UID = "unused " + first.ID // an address that the Services which used it have left
	}
	records := map[string]*annotation.AddressRecord{}
	for _, o := range found {
		if o.AddressID == "" {
			continue
		}
		r := records[o.AddressID]
		if r == nil {
			r = &annotation.AddressRecord{ID: o.AddressID, ProjectID: first.Project}
			r.NetworkID, r.Internal = plan.ParseInternalID(o.AddressID)
			records[o.AddressID] = r
		}
		r.IP = cmp.Or(r.IP, o.IP)
		if o.Kind == "forward" { // what no record names is not looked for
			r.Forwards = strings.TrimSpace(r.Forwards + " " + o.ID)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(records)) {
		req.Spec.Records.Addresses = append(req.Spec.Records.Addresses, *records[id])
	}
	return req
}

// CloudStack keeps the tags of a load balancer rule when the rule is deleted, and when its address is released. A sweep
// deletes those that this cluster made.

const (
	sweepBatch = 50  // rules whose tags one call deletes
	sweepMost  = 200 // rules that one sweep asks for; the next one goes on
)

// TaggedRules are ids of load balancer rules, there or gone, with this cluster's tags.
type TaggedRules struct {
	project string
	ids     []string
}

// TaggedRules lists the rules of a project that carry this cluster's tag, with one call. The result is empty when the
// role may not list tags.
func (r *Reconciler) TaggedRules(ctx context.Context, project string) (TaggedRules, error) {
	if r.limits().NoTags || !r.applies() {
		return TaggedRules{}, nil
	}
	id, err := r.options.Project(ctx, project)
	if err != nil {
		return TaggedRules{}, err
	}
	cluster := r.options.ClusterIDs()[0]
	tags, err := r.api.ListTags(ctx, cloudstack.TagQuery{ResourceType: plan.ResourceRule, Key: plan.TagCluster, Value: cluster, ProjectID: id})
	if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		return TaggedRules{}, nil
	}
	if err != nil {
		return TaggedRules{}, fmt.Errorf("list the tags of load balancer rules: %w", err)
	}
	out := TaggedRules{project: id}
	for i := range tags {
		if tags[i].Key == plan.TagCluster && tags[i].Value == cluster { // the server compares without regard to case
			out.ids = append(out.ids, tags[i].ResourceID)
		}
	}
	return out, nil
}

// SweepTags deletes this cluster's tags of rules that are gone and returns of how many. since is when the tags had been
// listed, or later: a rule that is not in a list begun after that, and that the server does not know by its id, is gone.
func (r *Reconciler) SweepTags(ctx context.Context, tagged TaggedRules, since time.Time) (int, error) {
	if len(tagged.ids) == 0 {
		return 0, nil
	}
	rules, err := r.observer.Rules(ctx, tagged.project, since)
	if err != nil {
		return 0, err
	}
	gone, err := r.goneRules(ctx, tagged, rules)
	if err != nil {
		return 0, err
	}
	done := 0
	for batch := range slices.Chunk(gone, sweepBatch) {
		s, err := r.api.DeleteTags(ctx, plan.ResourceRule, batch, plan.RuleTagKeys)
		if err == nil {
			_, err = r.api.Wait(ctx, "deleteTags", s.JobID)
		}
		if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
			return done, nil
		}
		if err != nil {
			return done, fmt.Errorf("delete the tags of deleted load balancer rules: %w", err)
		}
		done += len(batch)
	}
	return done, nil
}

// goneRules are those of the tagged rules that do not exist. The list of rules has no internal load balancers, and no
// list has what an administrator has hidden: that the server does not know the id is the proof.
func (r *Reconciler) goneRules(ctx context.Context, tagged TaggedRules, rules []cloudstack.LoadBalancerRule) ([]string, error) {
	there := make(map[string]bool, len(rules))
	for i := range rules {
		there[rules[i].ID] = true
	}
	exists := func(id string) bool { return there[id] }
	if !slices.ContainsFunc(tagged.ids, func(id string) bool { return !exists(id) }) {
		return nil, nil
	}
	internal, err := r.api.ListInternalLoadBalancers(ctx, cloudstack.InternalLoadBalancerQuery{ProjectID: tagged.project})
	if err != nil && !cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		return nil, fmt.Errorf("list internal load balancers: %w", err)
	}
	for i := range internal {
		there[internal[i].ID] = true
	}
	missing := slices.DeleteFunc(slices.Clone(tagged.ids), exists)
	var gone []string
	for _, id := range missing[:min(len(missing), sweepMost)] {
		_, err := r.api.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{ID: id, ProjectID: tagged.project})
		switch {
		case cloudstack.IsNotFound(err):
			gone = append(gone, id)
		case err != nil:
			return gone, fmt.Errorf("look for the load balancer rule %s: %w", id, err)
		}
	}
	return gone, nil
}
