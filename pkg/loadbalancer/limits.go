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
)

// usage is what a namespace has of the account's addresses.
type usage struct {
	held int // by its Services, kept ones included
	kept int // of Services that are gone
}

// usageOf counts by CloudStack's tags, and by the Services' status for those that the role could not tag.
func usageOf(namespace string, clusters []string, ips []cloudstack.PublicIP, services []Neighbour) usage {
	var out usage
	held := map[string]bool{}
	prefix := namespace + "/"
	for i := range ips {
		tags := ips[i].Tags
		switch {
		case !slices.Contains(clusters, tags[TagCluster]):
		case strings.HasPrefix(tags[TagKeptBy], prefix):
			out.kept++
			held[ips[i].Address] = true
		case tags[TagAllocatedBy] == ManagedBy && strings.HasPrefix(tags[TagService], prefix):
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
func (r *Reconciler) usage(ctx context.Context, t *task) (usage, error) {
	ips, err := r.api.ListPublicIPs(ctx, cloudstack.PublicIPQuery{ProjectID: t.project})
	if err != nil {
		return usage{}, fmt.Errorf("count the addresses of namespace %s: %w", t.Service.Namespace, err)
	}
	others, err := r.neighboursOf(ctx, t)
	if err != nil {
		return usage{}, err
	}
	return usageOf(t.Service.Namespace, t.clusters, ips, others.list), nil
}

func (r *Reconciler) keepLimited(t *task) bool {
	return t.Spec.KeepIP && t.Grants.MaxKept >= 0 && !r.options.Unguarded[GuardKeepLimit]
}

// withinLimits refuses to acquire an address that is one too many for the Service's namespace.
func (r *Reconciler) withinLimits(ctx context.Context, t *task) error {
	if t.Grants.MaxAddresses < 0 && !r.keepLimited(t) {
		return nil
	}
	has, err := r.usage(ctx, t)
	if err != nil {
		return err
	}
	switch {
	case t.Grants.MaxAddresses >= 0 && has.held >= t.Grants.MaxAddresses:
		return &RefusalError{
			Reason:  ReasonNotAllowed,
			Message: fmt.Sprintf("namespace %s has %d addresses, and may have %d (tenancy.limits.maxAddressesPerNamespace)", t.Service.Namespace, has.held, t.Grants.MaxAddresses),
			Remedy:  "share one of them (" + annotation.Address + "), delete a Service, or have the limit raised",
		}
	case r.keepLimited(t) && r.limits().NoTags:
		return &RefusalError{
			Reason:  ReasonNotAllowed,
			Message: annotation.KeepIP + ": the role of the CloudStack user may not tag (createTags), so that kept addresses cannot be counted",
			Remedy:  "remove the annotation, allow the role createTags, or have tenancy.limits.keepIP.maxPerNamespace set to null",
		}
	case r.keepLimited(t) && has.kept >= t.Grants.MaxKept:
		return &RefusalError{Reason: ReasonNotAllowed, Message: t.keptTooMany(has.kept), Remedy: "use one of them (" + annotation.Address + "), remove the annotation, or have the limit raised"}
	}
	return nil
}

func (t *task) keptTooMany(kept int) string {
	return fmt.Sprintf("%s: addresses kept for namespace %s: %d, and %d are allowed (tenancy.limits.keepIP.maxPerNamespace)", annotation.KeepIP, t.Service.Namespace, kept, t.Grants.MaxKept)
}

// limitKept makes the task release what the plan would keep above the limit, or Services that come, move and go would
// use up the account. changed asks for another plan.
func (r *Reconciler) limitKept(ctx context.Context, t *task, actions []Action) (changed bool, err error) {
	kept := 0
	for i := range actions {
		if actions[i].Kind == ForgetAddress && actions[i].Allocated {
			kept++
		}
	}
	if kept == 0 || !t.wanted.KeepAddress || !r.keepLimited(t) {
		return false, nil
	}
	has, err := r.usage(ctx, t)
	if err != nil {
		return false, err
	}
	if has.kept+kept <= t.Grants.MaxKept && !r.limits().NoTags {
		return false, nil
	}
	t.notify(Notice{Warning: true, Reason: ReasonNotAllowed, Message: t.keptTooMany(has.kept) + "; the address is released"})
	t.wanted.KeepAddress = false
	return true, nil
}
