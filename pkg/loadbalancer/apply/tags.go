// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"fmt"
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
	s, err := r.API.CreateTags(ctx, plan.ResourcePublicIP, []string{a.ID}, tags)
	if err == nil {
		_, err = r.API.Wait(ctx, cmdCreateTags, s.JobID)
	}
	if err != nil && !alreadyTagged(err) && !cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		return err
	}
	return nil
}

// untag deletes tags of an address; a role that may not tag leaves them.
func (r *run) untag(ctx context.Context, id string, keys []string) error {
	s, err := r.API.DeleteTags(ctx, plan.ResourcePublicIP, []string{id}, keys)
	if err == nil {
		_, err = r.API.Wait(ctx, "deleteTags", s.JobID)
	}
	if err != nil && !cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		return err
	}
	return nil
}

// tagAddress submits the tags that an address lacks.
func (r *run) tagAddress(ctx context.Context, s plan.Step, act plan.TagAddress) error {
	a, tags := r.on(act.OnAddress), plan.Tags(r.Clusters[0], r.Service)
	ended := func(err error) error {
		if alreadyTagged(err) && len(r.on(act.OnAddress).OwnTags) > 0 {
			r.Again = true // another Service that uses the address was first to take it over
			return nil
		}
		if tagged, err := r.tagOutcome(ctx, s, err); !tagged {
			return err
		}
		r.Records.set(r.record(r.on(act.OnAddress)))
		return r.Records.Save(ctx)
	}
	if a.FormerCluster && slices.Contains(a.OwnTags, plan.TagCluster) {
		// A tag cannot be changed. Without this one the address is ours by the Service's UID.
		if err := r.untag(ctx, a.ID, []string{plan.TagCluster}); err != nil {
			return ended(err)
		}
		a.OwnTags = slices.DeleteFunc(slices.Clone(a.OwnTags), func(k string) bool { return k == plan.TagCluster })
	}
	for _, key := range a.OwnTags {
		delete(tags, key)
	}
	return r.tag(ctx, s, plan.ResourcePublicIP, []string{a.ID}, tags, ended)
}

// tagRules submits all tags of rules.
func (r *run) tagRules(ctx context.Context, s plan.Step, act plan.TagRules) error {
	var ids []string
	for _, port := range act.Ports {
		id := r.rules[port]
		for _, rule := range r.on(act.OnAddress).OwnRules() {
			if rule.PublicPort == port && id == "" {
				id = rule.ID
			}
		}
		if id != "" {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return r.tag(ctx, s, plan.ResourceRule, ids, plan.RuleTags(r.Clusters[0], r.Service), func(err error) error {
		_, err = r.tagOutcome(ctx, s, err)
		return err
	})
}

func (r *run) tag(ctx context.Context, s plan.Step, kind string, ids []string, tags map[string]string, ended func(error) error) error {
	submitted, err := r.API.CreateTags(ctx, kind, ids, tags)
	if err != nil {
		return ended(err)
	}
	j := r.follow(s, cmdCreateTags, submitted)
	j.ended, j.proof = ended, r.proofOfTags(s, kind, ids, tags)
	return nil
}

// tagOutcome ends tagging. A Service is served without its tags: those that the role refuses are done without, and
// those that failed are set by the next sync, at the latest by that of the next drift round.
func (r *run) tagOutcome(ctx context.Context, s plan.Step, err error) (tagged bool, _ error) {
	switch {
	case r.tagged(r.Work, err):
		r.effect(s, plan.Outcome{})
		return true, nil
	case ctx.Err() != nil:
		return false, err
	case r.TagErr == nil && !cloudstack.IsKind(err, cloudstack.KindNotPermitted):
		r.TagErr = fmt.Errorf("%s: %w", s.Label(), err)
	}
	return false, nil
}

// tagged reports whether createTags succeeded, and learns from it.
func (a *Applier) tagged(w *Work, err error) bool {
	switch {
	case err == nil:
		return true
	case cloudstack.IsKind(err, cloudstack.KindNotPermitted):
		if !a.Server.NoTags.Swap(true) {
			w.Notify(plan.Notice{Warning: true, Reason: plan.ReasonTaggingForbidden, Message: "the role may not tag (createTags); names and the Services' annotations alone prove what is ours"})
		}
		return false
	default:
		return alreadyTagged(err)
	}
}

// alreadyTagged reports whether a createTags failed because it was done before.
func alreadyTagged(err error) bool {
	e, ok := errors.AsType[*cloudstack.Error](err)
	return ok && e.Kind == cloudstack.KindJobFailed && strings.Contains(e.Text, "already on")
}
