// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/observe"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// tagKeepIP tags an address as kept before the Service's own tags are removed, so that the address is never without an
// owner.
func (w *Work) tagKeepIP(ctx context.Context, a *plan.Address) error {
	if slices.Contains(a.OwnTags, plan.TagKeptBy) {
		return nil
	}
	tags := map[string]string{
		plan.TagCluster:   w.Clusters[0],
		plan.TagManagedBy: plan.ManagedBy,
		plan.TagKeptBy:    w.Service.Key(),
	}

	for _, key := range a.OwnTags {
		delete(tags, key)
	}

	err := w.setTags(ctx, a.ID, tags)
	refused, news := w.Role.Learn(w.Project, cmdCreateTags, err)
	// The role was allowed to tag until now, so try once more.
	if alreadyTagged(err) || refused && !news {
		return nil
	}
	return err
}

// untag deletes tags. If the role may not do so, they stay.
func (w *Work) untag(ctx context.Context, resource string, ids, keys []string) error {
	return observe.Permitted(w.wait(ctx, "deleteTags", ids, func() (cloudstack.Submitted, error) {
		return w.API.Client.DeleteTags(ctx, resource, ids, keys)
	}))
}

// tagAddress submits the tags that an address lacks.
func (w *Work) tagAddress(ctx context.Context, s plan.Step) error {
	a := w.on(s)
	tags := w.addressTags(s, a)

	// A tag cannot be changed, only deleted and created. Without the tag of a former cluster, the address is ours by
	// the Service's UID. A tag with a Service but no UID was left by a Service that was deleted.
	stale := func(key string) bool {
		return key == plan.TagCluster && a.FormerCluster ||
			key == plan.TagService && a.TaggedUID == "" && a.TaggedService != w.Service.Key() ||
			key == plan.TagKeepIP && !s.Keep
	}

	if keys := slices.DeleteFunc(slices.Clone(a.OwnTags), func(k string) bool { return !stale(k) }); len(keys) > 0 {
		if err := w.untag(ctx, plan.ResourcePublicIP, []string{a.ID}, keys); err != nil {
			return w.tagged(ctx, s, err)
		}
		a.OwnTags = slices.DeleteFunc(slices.Clone(a.OwnTags), stale)
	}

	for _, key := range a.OwnTags {
		delete(tags, key)
	}

	if len(tags) == 0 {
		w.effect(s, plan.Outcome{})
		return nil
	}

	return w.tag(ctx, s, plan.ResourcePublicIP, []string{a.ID}, tags)
}

// addressTags returns the tags that an address should have.
func (w *Work) addressTags(s plan.Step, a *plan.Address) map[string]string {
	tags := plan.Tags(w.Clusters[0], w.Service)
	if !a.Allocated {
		delete(tags, plan.TagAllocatedBy)
	}
	if s.Keep {
		tags[plan.TagKeepIP] = "true"
	}
	return tags
}

// tagItems submits the tags that own items lack, including those created by this sync. An item without tags gets all of
// them. An item with a former id of the cluster gets the current one: the old tag has to be deleted first, and until
// the new one exists, the UID shows that the item is the Service's.
func (w *Work) tagItems(ctx context.Context, s plan.Step) error {
	ids := slices.Sorted(slices.Values(w.created[s.Resource()]))
	var former []string
	for _, item := range w.Actual.Own(s.On, s.Resource()) {
		switch {
		case item.Former:
			former = append(former, item.ID)
		case !item.Tagged && !slices.Contains(ids, item.ID):
			ids = append(ids, item.ID)
		}
	}

	if len(former) > 0 {
		if err := w.untag(ctx, s.Resource(), former, []string{plan.TagCluster}); err != nil {
			return w.tagged(ctx, s, err)
		}
		if err := w.tag(ctx, s, s.Resource(), former, map[string]string{plan.TagCluster: w.Clusters[0]}); err != nil {
			return err
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return w.tag(ctx, s, s.Resource(), ids, plan.RuleTags(w.Clusters[0], w.Service))
}

// replaceTags sets the tags of an address that was just acquired and has tags of an earlier account or cluster:
// CloudStack keeps the tags of addresses when their account is removed. A tag cannot be changed, so the old ones are
// deleted first.
func (w *Work) replaceTags(ctx context.Context, id string, tags map[string]string) error {
	ips, err := w.API.ListPublicIPs(ctx, cloudstack.PublicIPQuery{ID: id, ProjectID: w.Project})
	if err != nil || len(ips) == 0 {
		return err
	}
	if stale := plan.PresentTagKeys(ips[0].Tags); len(stale) > 0 {
		if err := w.untag(ctx, plan.ResourcePublicIP, []string{id}, stale); err != nil {
			return err
		}
	}
	return w.setTags(ctx, id, tags)
}

// setTags tags an address and waits for the job.
func (w *Work) setTags(ctx context.Context, id string, tags map[string]string) error {
	return w.wait(ctx, cmdCreateTags, []string{id}, func() (cloudstack.Submitted, error) {
		return w.API.Client.CreateTags(ctx, plan.ResourcePublicIP, []string{id}, tags)
	})
}

// tag submits tags for items.
func (w *Work) tag(ctx context.Context, s plan.Step, kind string, ids []string, tags map[string]string) error {
	if w.Denied(cmdCreateTags) { // the role may no longer tag, which the plan did not know
		return nil
	}
	submitted, err := w.API.Client.CreateTags(ctx, kind, ids, tags)
	if err != nil {
		return w.tagged(ctx, s, err)
	}
	w.note(s, submitted)
	return nil
}

// tagged completes a tagging action. A Service is served even without its tags. If the role may not tag, they are left
// out. Tags that failed are set by the next sync, at the latest in the next drift round.
func (w *Work) tagged(ctx context.Context, s plan.Step, err error) error {
	if a := w.on(s); s.Kind == plan.TagAddress && a != nil && alreadyTagged(err) {
		switch {
		case a.ID == w.acquired:
			err = w.replaceTags(ctx, a.ID, w.addressTags(s, a))
		case len(a.OwnTags) > 0: // another Service on the address has taken it over first
			w.Again = true
			return nil
		}
	}

	refused, news := w.Role.Learn(w.Project, cmdCreateTags, err)
	switch {
	case err == nil, alreadyTagged(err):
		w.effect(s, plan.Outcome{})

	case refused:
		if news {
			w.Notify(*plan.Warning(plan.ReasonTaggingForbidden,
				"the role may not tag (createTags); only names and the Services' annotations prove what is ours. Each "+
					"drift round tries again"))
		}

	case ctx.Err() != nil:
		return err
	case w.TagErr == nil:
		w.TagErr = fmt.Errorf("%s: %w", s.Label(), err)
	}
	return nil
}

// alreadyTagged reports whether createTags failed because the tags exist already.
func alreadyTagged(err error) bool {
	return cloudstack.IsKind(err, cloudstack.KindJobFailed) && strings.Contains(err.Error(), "already on")
}
