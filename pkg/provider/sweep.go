// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/csccm/csccm/pkg/loadbalancer"
)

// sweepPeriod is how often tags of deleted rules are looked for. They harm nobody.
const sweepPeriod = time.Hour

// tagsToSweep lists what carries this cluster's tags, if it is time to. The drift round that follows reads the rules.
func (lb *loadBalancer) tagsToSweep(ctx context.Context) []loadbalancer.TaggedRules {
	now := lb.deps.Clock.Now()
	if !lb.swept.IsZero() && now.Sub(lb.swept) < sweepPeriod {
		return nil
	}
	lb.swept = now
	var out []loadbalancer.TaggedRules
	for _, project := range lb.projects() {
		tagged, err := lb.reconciler.TaggedRules(ctx, project)
		if err != nil {
			klog.ErrorS(err, "The tags of deleted load balancer rules could not be looked for", "project", project)
			continue
		}
		out = append(out, tagged)
	}
	return out
}

// sweepTags deletes the tags of rules that are gone. begun is after the tags were listed.
func (lb *loadBalancer) sweepTags(ctx context.Context, all []loadbalancer.TaggedRules, begun time.Time) {
	for _, tagged := range all {
		n, err := lb.reconciler.SweepTags(ctx, tagged, begun)
		if err != nil {
			klog.ErrorS(err, "The tags of deleted load balancer rules could not be deleted; it is tried again in an hour")
		}
		if n > 0 {
			klog.V(2).InfoS("Deleted the tags that CloudStack keeps of deleted load balancer rules", "rules", n)
		}
	}
}

// projects are the configured project and those that Services name.
func (lb *loadBalancer) projects() []string {
	lb.mu.Lock()
	defer lb.mu.Unlock()
	var others []string
	for project := range lb.others {
		others = append(others, project)
	}
	slices.Sort(others)
	return append([]string{""}, others...)
}
