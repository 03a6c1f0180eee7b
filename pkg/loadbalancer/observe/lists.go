// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// The reads of an observation: each is one call, or uses whole lists that many Services share.

// Permitted returns an error unchanged, except for the error of a command that the role does not allow: then it returns
// nil.
func Permitted(err error) error {
	if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		return nil
	}
	return err
}

// sharedLists returns lists of a project that were started since a time, new ones if necessary.
func (o *Observer) sharedLists(project string, since time.Time) *lists {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.lists[project]
	if l == nil || l.begun.Before(since) {
		l = &lists{begun: o.Clock.Now()}
		o.lists[project] = l
	}
	return l
}

// shared caches the result of read for all users of the lists. Errors are not cached.
func shared[T any](ctx context.Context, l *lists, name string, read func() (T, error)) (out T, err error) {
	unlock, err := l.turns.Lock(ctx, name)
	if err != nil {
		return out, err
	}
	defer unlock()
	known, _ := l.read.Load(name)
	if out, ok := known.(T); ok {
		return out, nil
	}
	if out, err = read(); err == nil {
		l.read.Store(name, out)
	}
	return out, err
}

// whole returns a whole list of the project, shared with other Services.
func whole[Q, T any](ctx context.Context, r *reading, list func(context.Context, Q) ([]T, error), all Q) ([]T, error) {
	return shared(ctx, r.shared, fmt.Sprintf("%T", all), func() ([]T, error) { return list(ctx, all) })
}

// find returns the items that a query asks for: from the whole list with bulk, or else by a call of its own.
func find[Q, T any](
	ctx context.Context, r *reading, bulk bool, list func(context.Context, Q) ([]T, error), all, some Q,
	want func(*T) bool,
) (items []T, err error) {
	if bulk {
		items, err = whole(ctx, r, list, all)
	} else {
		items, err = list(ctx, some)
	}
	return pick(items, want), err
}

// allRules returns all load balancer rules of the project.
func (r *reading) allRules(ctx context.Context) ([]cloudstack.LoadBalancerRule, error) {
	return whole(ctx, r, r.api.ListLoadBalancerRules, cloudstack.LoadBalancerRuleQuery{ProjectID: r.Project})
}

// allIPs returns all public addresses of the project.
func (r *reading) allIPs(ctx context.Context) ([]cloudstack.PublicIP, error) {
	return whole(ctx, r, r.api.ListPublicIPs, cloudstack.PublicIPQuery{ProjectID: r.Project})
}

// fresh reports whether the lists were started after this process has last written to an address.
func (r *reading) fresh(addressID string) bool {
	return r.shared != nil && r.untouchedSince(addressID, r.shared.begun)
}

// pick returns the items for which want returns true.
func pick[T any](all []T, want func(*T) bool) (out []T) {
	for i := range all {
		if want(&all[i]) {
			out = append(out, all[i])
		}
	}
	return out
}

// findRules returns the load balancer rules that match.
func (r *reading) findRules(
	ctx context.Context, bulk bool, q cloudstack.LoadBalancerRuleQuery, want func(*cloudstack.LoadBalancerRule) bool,
) ([]cloudstack.LoadBalancerRule, error) {
	q.ProjectID = r.Project
	return find(ctx, r, bulk, r.api.ListLoadBalancerRules, cloudstack.LoadBalancerRuleQuery{ProjectID: r.Project}, q,
		want)
}

// aclItems returns the items of a network ACL list; those of all lists if listID is empty.
func (r *reading) aclItems(ctx context.Context, listID string) ([]cloudstack.NetworkACL, error) {
	return find(ctx, r, r.shared != nil, r.api.ListNetworkACLs, cloudstack.NetworkACLQuery{ProjectID: r.Project},
		cloudstack.NetworkACLQuery{ListID: listID, ProjectID: r.Project},
		func(a *cloudstack.NetworkACL) bool { return listID == "" || a.ListID == listID })
}

// findIPs returns the public addresses that match.
func (r *reading) findIPs(
	ctx context.Context, q cloudstack.PublicIPQuery, want func(*cloudstack.PublicIP) bool,
) ([]cloudstack.PublicIP, error) {
	q.ProjectID = r.Project
	return find(ctx, r, r.shared != nil, r.api.ListPublicIPs, cloudstack.PublicIPQuery{ProjectID: r.Project}, q, want)
}

// address returns a public address by id, in any state; nothing if there is none.
func (r *reading) address(ctx context.Context, id string) ([]cloudstack.PublicIP, error) {
	if r.fresh(id) {
		all, err := r.allIPs(ctx)
		if found := pick(all, func(p *cloudstack.PublicIP) bool { return p.ID == id }); err != nil || len(found) > 0 {
			return found, err
		}
	}
	// Addresses in any state.
	ips, err := r.api.ListPublicIPs(ctx,
		cloudstack.PublicIPQuery{ID: id, ProjectID: r.Project, AllocatedOnly: new(false)})
	if cloudstack.IsNotFound(err) {
		return nil, nil
	}
	return ips, err
}

// membersByRule returns the VMs of the rules in a network. It asks each VM for its rules if that takes fewer calls than
// asking each rule for its members, and if the lists are newer than our last write. Otherwise the result is nil.
func (r *reading) membersByRule(ctx context.Context, a *plan.Address) (map[string][]string, error) {
	if !r.fresh(a.ID) || a.NetworkID == "" {
		return nil, nil
	}

	return shared(ctx, r.shared, "members "+a.NetworkID, func() (map[string][]string, error) {
		all, err := r.allRules(ctx)
		if err != nil {
			return nil, err
		}

		vms, err := r.vmsIn(ctx, a.NetworkID)
		if err != nil {
			return nil, fmt.Errorf("list the VMs of network %s: %w", a.NetworkID, err)
		}

		// The rules of a VM do not show which of the VM's addresses is the member.
		several := func(n plan.NIC) bool { return len(n.Secondary) > 0 }
		ambiguous := func(m plan.Member) bool { return slices.ContainsFunc(m.NICs, several) }

		const page = 500

		// Only count rules of Kubernetes load balancers, all of which will be asked for.
		rules := len(pick(all, func(l *cloudstack.LoadBalancerRule) bool {
			return plan.OfKubernetes(l.Name) && l.NetworkID == a.NetworkID
		}))
		if len(vms) == 0 ||
			len(vms)*((rules+page-1)/page) >= rules ||
			slices.ContainsFunc(r.Nodes(), ambiguous) {
			return nil, nil
		}

		byRule := map[string][]string{}
		for _, vm := range vms {
			of, err := r.api.ListLoadBalancerRules(ctx,
				cloudstack.LoadBalancerRuleQuery{VMID: vm, NetworkID: a.NetworkID, ProjectID: r.Project})
			if err != nil {
				return nil, fmt.Errorf("list the rules of VM %s: %w", vm, err)
			}
			for i := range of {
				byRule[of[i].ID] = append(byRule[of[i].ID], vm)
			}
		}

		return byRule, nil
	})
}
