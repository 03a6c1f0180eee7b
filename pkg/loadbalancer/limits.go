// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/observe"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// usage is what a namespace has of the account's addresses.
type usage struct {
	held int // by its Services, kept ones included
	kept int // of Services that are gone
}

// usageOf counts by CloudStack's tags, and by the Services' status for those that the role could not tag.
func usageOf(namespace string, clusters []string, ips []cloudstack.PublicIP, services []observe.Neighbour) usage {
	var out usage
	held := map[string]bool{}
	prefix := namespace + "/"
	for i := range ips {
		tags := ips[i].Tags
		switch {
		case !slices.Contains(clusters, tags[plan.TagCluster]):
		case strings.HasPrefix(tags[plan.TagKeptBy], prefix):
			out.kept++
			held[ips[i].Address] = true
		case tags[plan.TagAllocatedBy] == plan.ManagedBy && strings.HasPrefix(tags[plan.TagService], prefix):
			held[ips[i].Address] = true
		}
	}
	for i := range services {
		if services[i].Namespace == namespace {
			for _, ip := range services[i].Addresses {
				held[ip] = true
			}
		}
	}
	out.held = len(held)
	return out
}

// usage reads what the Service's namespace has.
func (p *Planner) usage(ctx context.Context, t *task) (usage, error) {
	ips, err := p.reader.ListPublicIPs(ctx, cloudstack.PublicIPQuery{ProjectID: t.Project})
	if err != nil {
		return usage{}, fmt.Errorf("count the addresses of namespace %s: %w", t.Service.Namespace, err)
	}
	others, err := t.Neighbours(ctx)
	if err != nil {
		return usage{}, err
	}
	return usageOf(t.Service.Namespace, t.Clusters, ips, others.List), nil
}

func (p *Planner) keepLimited(t *task) bool {
	return t.Spec.KeepIP && t.grants.MaxKept >= 0 && !p.unguarded(plan.GuardKeepLimit)
}

// withinLimits refuses to acquire an address that is one too many for the Service's namespace.
func (p *Planner) withinLimits(ctx context.Context, t *task) error {
	if t.grants.MaxAddresses < 0 && !p.keepLimited(t) {
		return nil
	}
	has, err := p.usage(ctx, t)
	if err != nil {
		return err
	}
	switch {
	case t.grants.MaxAddresses >= 0 && has.held >= t.grants.MaxAddresses:
		return &plan.RefusalError{
			Reason:  plan.ReasonNotAllowed,
			Message: fmt.Sprintf("namespace %s has %d addresses, and may have %d (tenancy.limits.maxAddressesPerNamespace)", t.Service.Namespace, has.held, t.grants.MaxAddresses),
			Remedy:  "share one of them (" + annotation.Address + "), delete a Service, or have the limit raised",
		}
	case p.keepLimited(t) && p.limits().NoTags:
		return &plan.RefusalError{
			Reason:  plan.ReasonNotAllowed,
			Message: annotation.KeepIP + ": the role of the CloudStack user may not tag (createTags), so that kept addresses cannot be counted",
			Remedy:  "remove the annotation, allow the role createTags, or have tenancy.limits.keepIP.maxPerNamespace set to null",
		}
	case p.keepLimited(t) && has.kept >= t.grants.MaxKept:
		return &plan.RefusalError{Reason: plan.ReasonNotAllowed, Message: t.keptTooMany(has.kept), Remedy: "use one of them (" + annotation.Address + "), remove the annotation, or have the limit raised"}
	}
	return nil
}

func (t *task) keptTooMany(kept int) string {
	return fmt.Sprintf("%s: addresses kept for namespace %s: %d, and %d are allowed (tenancy.limits.keepIP.maxPerNamespace)", annotation.KeepIP, t.Service.Namespace, kept, t.grants.MaxKept)
}

// limitKept makes the task release what the plan would keep above the limit, or Services that come, move and go would
// use up the account. changed asks for another plan.
func (p *Planner) limitKept(ctx context.Context, t *task, steps []plan.Step) (changed bool, err error) {
	kept := 0
	for _, s := range steps {
		if act, ok := s.Action.(plan.ForgetAddress); ok && act.Allocated {
			kept++
		}
	}
	if kept == 0 || !t.Desired.KeepAddress || !p.keepLimited(t) {
		return false, nil
	}
	has, err := p.usage(ctx, t)
	if err != nil {
		return false, err
	}
	if has.kept+kept <= t.grants.MaxKept && !p.limits().NoTags {
		return false, nil
	}
	t.Notify(plan.Notice{Warning: true, Reason: plan.ReasonNotAllowed, Message: t.keptTooMany(has.kept) + "; the address is released"})
	t.Desired.KeepAddress = false
	return true, nil
}
