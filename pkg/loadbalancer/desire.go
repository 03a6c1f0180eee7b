// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/evidence"
	"github.com/csccm/csccm/pkg/loadbalancer/observe"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

const (
	// freshAge is the maximum age of what a refusal is based on. Many Services that are refused at the same time share
	// one read.
	freshAge = 5 * time.Second
	// networkAge is the maximum age of the description of a network: the services of an offering rarely change.
	networkAge = 10 * time.Minute
)

// ErrStale means that a refusal would be based on nodes that were read minutes ago: a NIC may have been added since.
// Reconcile has done nothing, and should be called again with nodes that were just read.
var ErrStale = errors.New("the nodes have to be read again")

// desire decides what the Service should have. It calls CloudStack only for a network not seen before, and for a
// request that is Fresh.
func (r *Reconciler) desire(ctx context.Context, t *task) error {
	err := r.desireNow(ctx, t)
	outside := plan.Outside(t.Members, t.Desired.NetworkID)
	unserved := plan.RefusalOf(err) != nil || err == nil && len(outside) > 0
	switch {
	case unserved && !t.req.Fresh:
		return ErrStale
	case err != nil:
		return err
	}

	if n := plan.NoneEligible(t.Facts, t.Desired); n != nil {
		t.Notify(*n)
	}

	if len(outside) > 0 {
		t.Notify(*plan.Warning(plan.ReasonNodeOutside,
			"not serving, without a NIC in the network: "+plan.Some(outside, 5)))
	}

	return nil
}

// desireNow is like desire, for one description of the network. That may be some minutes old, or a few seconds if the
// request is Fresh.
func (r *Reconciler) desireNow(ctx context.Context, t *task) error {
	maxAge := time.Duration(0)
	if t.req.Fresh {
		maxAge = freshAge
	}

	// The network of an address that is not of the desired kind, public or internal, may not offer that kind.
	current := ""
	kind := func(rec annotation.AddressRecord) bool { return rec.Internal == t.Spec.Internal }
	if at := slices.IndexFunc(t.Records.Addresses, kind); at >= 0 {
		current = t.Records.Addresses[at].NetworkID
	}

	reach := t.Reach
	if len(reach) == 0 {
		reach = t.Members
	}

	id, refusal := plan.ServingNetwork(reach, t.Spec.Network, current)
	if refusal != nil && len(t.Members) > 0 {
		id, refusal = plan.ServingNetwork(t.Members, t.Spec.Network, current)
	}
	if refusal != nil {
		return refusal
	}

	if id == "" {
		id = current // without nodes, use the network of the existing address
	}

	if id != "" {
		read, err := t.Inventory.Network(ctx, id, cmp.Or(maxAge, networkAge))
		if err == nil && read.VPCID != "" && maxAge == 0 && t.tierAge != 0 && !r.LeaveACLs {
			read, err = t.Inventory.Network(ctx, id, min(t.tierAge, networkAge))
		}
		if err != nil {
			return fmt.Errorf("look up the nodes' network: %w", err)
		}
		n := NetworkOf(&read)
		t.Network, t.LeaveACLs = &n, r.skipsACL(t, n.ACLID)
	}

	if t.Forwards() {
		// If this cannot be found out, the first creation shows it.
		t.NoForwards = r.missingForForwards(ctx, maxAge)
	}

	t.Desired, refusal = plan.Desire(t.Facts)
	if refusal != nil && refusal.Reason == plan.ReasonUnsupportedNetwork && t.Spec.Network == "" {
		if others := plan.CommonNetworks(reach, id); len(others) > 0 {
			refusal.Remedy += ", or name another network that all nodes have in " + annotation.Network + ": " +
				plan.Some(others, 5)
		}
	}

	if refusal != nil {
		return refusal
	}
	t.Desired.Members = r.oneCopy(t.Desired.Members)
	return nil
}

// Commands that some roles do not allow.
const (
	cmdListAPIs   = "listApis"
	cmdCreateTags = "createTags"
)

// limits returns what the role and the server cannot do for a Service, as far as that is known.
func (r *Reconciler) limits(t *task) plan.Limits {
	inPlace, _ := r.role.Has("", plan.AbilityInPlace, time.Time{})
	return plan.Limits{NoTags: t.Denied(cmdCreateTags), InPlace: inPlace}
}

// skipsACL reports whether a network ACL list is not changed, because of a setting or because the role may not list its
// items. If the role was allowed to list them before, the Service's items are known and can be removed by id.
func (r *Reconciler) skipsACL(t *task, list string) bool {
	known := slices.ContainsFunc(t.ACLs, func(l plan.ACL) bool { return l.ListID == list })
	return r.LeaveACLs || t.Denied(observe.CmdListACLs) && !known
}

// forwardCommands are the commands that port forwardings need.
var forwardCommands = []string{"createPortForwardingRule", "updatePortForwardingRule", "deletePortForwardingRule",
	"listPortForwardingRules"}

// missingForForwards returns a port forwarding command that the role does not allow; empty if there is none, or if that
// cannot be found out. The check comes before the first Service that forwards ports gets an address. A missing command
// is checked again if the answer is older than maxAge, unless maxAge is zero.
func (r *Reconciler) missingForForwards(ctx context.Context, maxAge time.Duration) string {
	unlock, err := r.asking.Lock(ctx, cmdListAPIs) // one at a time, because the answer is large
	if err != nil {
		return ""
	}
	defer unlock()

	since := time.Time{}
	if maxAge > 0 {
		since = r.Clock.Now().Add(-maxAge)
	}

	unknown := func(name string) bool { _, known := r.role.Has("", name, since); return !known }
	if slices.ContainsFunc(forwardCommands, unknown) && !r.role.Denied("", cmdListAPIs, since) {
		commands, err := r.API.Client.ListAPIs(ctx)
		r.role.Learn("", cmdListAPIs, err)
		for _, name := range forwardCommands {
			if len(commands) > 0 {
				r.role.Note("", name, commands.Has(name))
			}
		}
	}

	denied := func(name string) bool { return r.role.Denied("", name, since) }
	if at := slices.IndexFunc(forwardCommands, denied); at >= 0 {
		return forwardCommands[at]
	}
	return ""
}

// oneCopy returns the list itself, or an earlier list with the same content. Most Services of a cluster have the same
// nodes, and a list of a thousand of them is kept as long as its Service.
func (r *Reconciler) oneCopy(list []string) []string {
	key := strings.Join(list, " ")
	if known, ok := r.members.Get(key); ok {
		return known.([]string) //nolint:forcetypeassert // nothing else is added
	}
	list = slices.Clip(list) // the shared list must not be appended to
	r.members.Add(key, list)
	return list
}

// countKeepIP returns the number of addresses that are kept for the Service's namespace, in all projects.
func (r *Reconciler) countKeepIP(ctx context.Context, t *task) (int, error) {
	kept := sets.New[string]() // ids, because the second list may have addresses of the first one, too
	for _, project := range []string{"", "-1"} {
		ips, err := r.API.ListPublicIPs(ctx, cloudstack.PublicIPQuery{ProjectID: project})
		if err != nil {
			return 0, fmt.Errorf("count the addresses that are kept for namespace %s: %w", t.Service.Namespace, err)
		}

		for _, ip := range ips {
			tags := ip.Tags
			ours := slices.Contains(t.Clusters, tags[plan.TagCluster]) &&
				strings.HasPrefix(tags[plan.TagKeptBy], t.Service.Namespace+"/")
			use := r.Book.Use(ip.Address, evidence.InstantOf(ip.Allocated), "")
			// Do not count the Service's own addresses: the plan counts them.
			if own, shared := use.Users(t.Service.UID); ours && !own && !shared {
				kept.Insert(ip.ID)
			}
		}
	}
	return len(kept), nil
}

// keepIPLimited reports whether the Service asks to keep its address and the number of kept addresses is limited.
func (t *task) keepIPLimited() bool { return t.Spec.KeepIP && t.req.Grants.MaxKeepIP >= 0 }

// reserve records in the address book that the Service is about to use an address, or refuses an address that it may
// not use or that exceeds the limit of its namespace. An empty address means one that is about to be acquired. tags are
// those of the address.
func (r *Reconciler) reserve(ctx context.Context, t *task, address string, tags plan.AddressUse) error {
	refuse := func(message, remedy string) error { return plan.Refuse(plan.ReasonNotAllowed, message, remedy) }
	adds := address == "" && !t.Desired.Internal && t.keepIPLimited()
	use := r.Book.Use(address, tags.Acquired, "")
	uses, _ := use.Users(t.Service.UID) // nobody has the empty address
	wish := plan.Wish{Address: address, Tags: tags, Ports: len(t.Service.Ports), Grants: t.req.Grants}
	if !uses && (adds || wish.Grants.MaxAddresses >= 0) {
		var err error
		if wish.KeepIP, err = r.countKeepIP(ctx, t); err != nil {
			return err
		}
	}

	switch {
	case adds && t.Denied(cmdCreateTags):
		return refuse(annotation.KeepIP+
			": the role of the CloudStack user may not tag (createTags), so that kept addresses cannot be counted",
			"remove the annotation, allow the role createTags, or have tenancy.limits.keepIP.maxPerNamespace "+
				"set to null")
	case adds && wish.KeepIP >= wish.Grants.MaxKeepIP:
		return refuse(t.keepIPExceeded(wish.KeepIP),
			"use one of them ("+annotation.Address+"), remove the annotation, or have the limit raised")
	}

	return r.Book.Reserve(t.Service.UID, wish)
}

func (t *task) keepIPExceeded(count int) string {
	return fmt.Sprintf("%s: addresses kept for namespace %s: %d, and %d are allowed "+
		"(tenancy.limits.keepIP.maxPerNamespace)", annotation.KeepIP, t.Service.Namespace, count,
		t.req.Grants.MaxKeepIP)
}

// limitKeepIP makes the task release addresses that the plan would keep above the limit. Otherwise Services that are
// created, moved to other addresses and deleted would use up the account's addresses. changed means that the task has
// to plan again. Until the task ends, no other task decides for the namespace.
func (r *Reconciler) limitKeepIP(ctx context.Context, t *task, steps []plan.Step) (changed bool, err error) {
	count, counted := 0, true
	for _, s := range steps {
		if s.Kind == plan.DisownAddress && s.Keep {
			count++
			counted = counted && !t.Denied(cmdCreateTags) // it must get the tags by which kept addresses are counted
		}
	}

	if count == 0 || !t.Desired.KeepAddress || !t.keepIPLimited() {
		return false, nil
	}

	unlock, err := r.keeping.Lock(ctx, t.Service.Namespace)
	if err != nil {
		return false, err
	}

	t.unlock = append(t.unlock, unlock)
	has, err := r.countKeepIP(ctx, t)
	if err != nil {
		return false, err
	}

	if counted && has+count <= t.req.Grants.MaxKeepIP {
		return false, nil
	}

	t.Notify(*plan.Warning(plan.ReasonNotAllowed, t.keepIPExceeded(has)+"; the address is not kept"))
	t.Desired.KeepAddress = false
	return true, nil
}
