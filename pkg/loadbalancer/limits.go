// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// ErrNotShared is the error of Book.Reserve for an address of another namespace, ErrTooMany for one above the limit.
var (
	ErrNotShared = errors.New("a Service of another namespace has the address and does not share it")
	ErrTooMany   = errors.New("the Services of the namespace have as many addresses as they may")
)

// kept counts the addresses that are kept for the Service's namespace.
func (p *Planner) kept(ctx context.Context, t *task) (int, error) {
	ips, err := p.reader.ListPublicIPs(ctx, cloudstack.PublicIPQuery{ProjectID: t.Project})
	if err != nil {
		return 0, fmt.Errorf("count the addresses that are kept for namespace %s: %w", t.Service.Namespace, err)
	}
	n := 0
	for i := range ips {
		tags := ips[i].Tags
		ours := slices.Contains(t.Clusters, tags[plan.TagCluster]) && strings.HasPrefix(tags[plan.TagKeptBy], t.Service.Namespace+"/")
		used := func(h plan.Holder) bool { return !h.Leaving || h.UID == t.Service.UID } // its own is counted by its plan
		if ours && !slices.ContainsFunc(p.options.Book.Holders(ips[i].Address), used) {
			n++
		}
	}
	return n, nil
}

func (p *Planner) keepLimited(t *task) bool { return t.Spec.KeepIP && t.grants.MaxKept >= 0 }

func refuse(message, remedy string) *plan.RefusalError {
	return plan.Refuse(plan.ReasonNotAllowed, message, remedy)
}

// reserve notes in the address book that the Service is about to use an address, or refuses one that it may not use or that
// is one too many for its namespace. An empty address is one that is about to be acquired.
func (p *Planner) reserve(ctx context.Context, t *task, address string) error {
	acquires, kept := address == "", 0
	if own := p.options.Book.Holders(address); acquires || !slices.ContainsFunc(own, func(h plan.Holder) bool { return h.UID == t.Service.UID }) {
		if acquires && p.keepLimited(t) || t.grants.MaxAddresses >= 0 {
			var err error
			if kept, err = p.kept(ctx, t); err != nil {
				return err
			}
		}
		if refusal := p.mayKeep(t, acquires, kept); refusal != nil {
			return refusal
		}
	}
	limit := t.grants.MaxAddresses
	if limit >= 0 {
		limit = max(0, limit-kept)
	}
	switch held, err := p.options.Book.Reserve(t.Service.UID, address, limit); {
	case errors.Is(err, ErrNotShared):
		return refuse("address "+address+" belongs to a Service of another namespace, which does not share it",
			"choose another address, or have its Service annotated with "+annotation.ShareWith+" and this Service's namespace")
	case errors.Is(err, ErrTooMany):
		return refuse(fmt.Sprintf("namespace %s has %d addresses, and may have %d (tenancy.limits.maxAddressesPerNamespace)", t.Service.Namespace, held+kept, t.grants.MaxAddresses),
			"share one of them ("+annotation.Address+"), delete a Service, or have the limit raised")
	default:
		return err
	}
}

// mayKeep refuses to acquire an address that the Service could not keep as it asks for.
func (p *Planner) mayKeep(t *task, acquires bool, kept int) *plan.RefusalError {
	switch {
	case !acquires || !p.keepLimited(t):
		return nil
	case p.limits().NoTags:
		return refuse(annotation.KeepIP+": the role of the CloudStack user may not tag (createTags), so that kept addresses cannot be counted",
			"remove the annotation, allow the role createTags, or have tenancy.limits.keepIP.maxPerNamespace set to null")
	case kept >= t.grants.MaxKept:
		return refuse(t.keptTooMany(kept), "use one of them ("+annotation.Address+"), remove the annotation, or have the limit raised")
	}
	return nil
}

func (t *task) keptTooMany(kept int) string {
	return fmt.Sprintf("%s: addresses kept for namespace %s: %d, and %d are allowed (tenancy.limits.keepIP.maxPerNamespace)", annotation.KeepIP, t.Service.Namespace, kept, t.grants.MaxKept)
}

// limitKept makes the task release what the plan would keep above the limit, or Services that come, move and go would
// use up the account. changed asks for another plan. Until the task ends, no other decides for the namespace.
func (p *Planner) limitKept(ctx context.Context, t *task, steps []plan.Step) (changed bool, err error) {
	kept := 0
	for _, s := range steps {
		if s.Kind == plan.ForgetAddress && s.Allocated && s.Keep {
			kept++
		}
	}
	if kept == 0 || !t.Desired.KeepAddress || !p.keepLimited(t) {
		return false, nil
	}
	unlock, err := p.keeping.Lock(ctx, t.Service.Namespace)
	if err != nil {
		return false, err
	}
	t.unlock = append(t.unlock, unlock)
	has, err := p.kept(ctx, t)
	if err != nil {
		return false, err
	}
	if has+kept <= t.grants.MaxKept && !p.limits().NoTags {
		return false, nil
	}
	t.Notify(plan.Notice{Warning: true, Reason: plan.ReasonNotAllowed, Message: t.keptTooMany(has) + "; the address is released"})
	t.Desired.KeepAddress = false
	return true, nil
}
