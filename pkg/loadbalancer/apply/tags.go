// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// markKept tags an address before the Service's own tags go, so that it is never without an owner.
func (r *run) markKept(ctx context.Context, a *plan.Address) error {
	if slices.Contains(a.OwnTags, plan.TagKeptBy) {
		return nil
	}
	tags := map[string]string{plan.TagCluster: r.Clusters[0], plan.TagManagedBy: plan.ManagedBy, plan.TagKeptBy: r.Service.Key()}
	for _, key := range a.OwnTags {
		delete(tags, key)
	}
	err := r.setTags(ctx, a.ID, tags)
	if alreadyTagged(err) || cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		return nil
	}
	return err
}

// untag deletes tags; a role that may not tag leaves them.
func (r *run) untag(ctx context.Context, resource string, ids, keys []string) error {
	err := r.wait(ctx, r.Work, "deleteTags", ids, func() (cloudstack.Submitted, error) {
		return r.API.Client.DeleteTags(ctx, resource, ids, keys)
	})
	if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		return nil
	}
	return err
}

// tagAddress submits the tags that an address lacks.
func (r *run) tagAddress(ctx context.Context, s plan.Step) error {
	a, tags := r.on(s), plan.Tags(r.Clusters[0], r.Service)
	if !a.Allocated {
		delete(tags, plan.TagAllocatedBy)
	}
	id, acquired := a.ID, slices.Contains(r.made[plan.ResourcePublicIP], a.ID)
	ended := func(err error) error {
		switch {
		case alreadyTagged(err) && acquired:
			err = r.replaceTags(ctx, id, tags)
		case alreadyTagged(err) && len(r.on(s).OwnTags) > 0:
			r.Again = true // another Service that uses the address was first to take it over
			return nil
		}
		return r.tagged(ctx, s, err)
	}
	// A tag cannot be changed. Without that of a former cluster the address is ours by the Service's UID; that of a
	// Service without its UID was left by one that is gone.
	stale := func(key string) bool {
		return key == plan.TagCluster && a.FormerCluster || key == plan.TagService && a.TaggedUID == "" && a.TaggedService != r.Service.Key()
	}
	if keys := slices.DeleteFunc(slices.Clone(a.OwnTags), func(k string) bool { return !stale(k) }); len(keys) > 0 {
		if err := r.untag(ctx, plan.ResourcePublicIP, []string{id}, keys); err != nil {
			return ended(err)
		}
		a.OwnTags = slices.DeleteFunc(slices.Clone(a.OwnTags), stale)
	}
	missing := maps.Clone(tags)
	for _, key := range a.OwnTags {
		delete(missing, key)
	}
	return r.tag(ctx, s, plan.ResourcePublicIP, []string{id}, missing, ended)
}

// tagItems submits the tags that own items lack, those that were created in this run included. An item without any gets all
// tags, one that carries a former id of the cluster its id: a tag cannot be changed, and without it an item is the Service's
// by the UID.
func (r *run) tagItems(ctx context.Context, s plan.Step) error {
	ids := slices.Sorted(slices.Values(r.made[s.Resource()]))
	var former []string
	for _, item := range r.Actual.Own(s.On, s.Resource()) {
		switch {
		case item.Former:
			former = append(former, item.ID)
		case !item.Tagged && !slices.Contains(ids, item.ID):
			ids = append(ids, item.ID)
		}
	}
	ended := func(err error) error { return r.tagged(ctx, s, err) }
	if len(former) > 0 {
		if err := r.untag(ctx, s.Resource(), former, []string{plan.TagCluster}); err != nil {
			return ended(err)
		}
		if err := r.tag(ctx, s, s.Resource(), former, map[string]string{plan.TagCluster: r.Clusters[0]}, ended); err != nil {
			return err
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return r.tag(ctx, s, s.Resource(), ids, plan.RuleTags(r.Clusters[0], r.Service), ended)
}

// replaceTags sets the tags of an address that was acquired a moment ago and carries some of an earlier account or cluster:
// CloudStack keeps the tags of addresses when their account is removed. A tag cannot be changed.
func (r *run) replaceTags(ctx context.Context, id string, tags map[string]string) error {
	ips, err := r.API.ListPublicIPs(ctx, cloudstack.PublicIPQuery{ID: id, ProjectID: r.Project})
	if err != nil || len(ips) == 0 {
		return err
	}
	if stale := plan.PresentTagKeys(ips[0].Tags); len(stale) > 0 {
		if err := r.untag(ctx, plan.ResourcePublicIP, []string{id}, stale); err != nil {
			return err
		}
	}
	return r.setTags(ctx, id, tags)
}

// setTags tags an address and waits for it.
func (r *run) setTags(ctx context.Context, id string, tags map[string]string) error {
	return r.wait(ctx, r.Work, cmdCreateTags, []string{id}, func() (cloudstack.Submitted, error) {
		return r.API.Client.CreateTags(ctx, plan.ResourcePublicIP, []string{id}, tags)
	})
}

// tag submits tags.
func (r *run) tag(ctx context.Context, s plan.Step, kind string, ids []string, tags map[string]string, ended func(error) error) error {
	if r.Lacks(cmdCreateTags) { // since the plan was made
		return nil
	}
	submitted, err := r.API.Client.CreateTags(ctx, kind, ids, tags)
	if err != nil {
		return ended(err)
	}
	r.note(s, cmdCreateTags, submitted).ended = ended
	return nil
}

// tagged ends tagging. A Service is served without its tags: those that the role refuses are done without, and
// those that failed are set by the next sync, at the latest by that of the next drift round.
func (r *run) tagged(ctx context.Context, s plan.Step, err error) error {
	refused, news := r.Role.Learn(r.Project, cmdCreateTags, err)
	switch {
	case err == nil, alreadyTagged(err):
		r.effect(s, plan.Outcome{})
	case refused && news:
		r.Notify(plan.Notice{Warning: true, Reason: plan.ReasonTaggingForbidden, Message: "the role may not tag (createTags); names and the Services' annotations alone prove what is ours. Each drift round tries again"})
	case refused:
	case ctx.Err() != nil:
		return err
	case r.TagErr == nil:
		r.TagErr = fmt.Errorf("%s: %w", s.Label(), err)
	}
	return nil
}

// alreadyTagged reports whether a createTags failed because it was done before.
func alreadyTagged(err error) bool {
	e, ok := errors.AsType[*cloudstack.Error](err)
	return ok && e.Kind == cloudstack.KindJobFailed && strings.Contains(e.Text, "already on")
}
