// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"sync"
	"time"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// The result of a job takes a call for each job. Where several jobs changed what is on one address, one list of it shows
// which of them succeeded, and the others are asked for their results, which have CloudStack's reasons.

// proof is how a job is seen to have succeeded. shown is nil where no list shows it.
type proof struct {
	in    listing
	shown func(items map[string]item) bool
}

// listing is a list of what is on an address; kind is a resource type of CloudStack's tags.
type listing struct{ kind, addressID string }

// item is one item of a list.
type item struct {
	state string
	tags  map[string]string
}

const stateActive = "Active" // programmed into the router

// enough is how many jobs a list replaces the results of: its answer is the longer one.
const enough = 4

// usually is how long a command's job takes where the router answers at once. Jobs that take longer are polled for.
func usually(command string) time.Duration {
	switch command {
	case cmdAssociate, cmdCreateTags, "deleteTags", "createLoadBalancerRule", "createFirewallRule", "deleteFirewallRule", "createNetworkACL", "deleteNetworkACL":
		return 50 * time.Millisecond
	}
	return 200 * time.Millisecond
}

// proofOf is where the success of an action shows; id is that of what it makes.
func (r *run) proofOf(s plan.Step, id string) proof {
	a := r.on(s)
	if a == nil || a.Internal {
		return proof{}
	}
	in := listing{s.Resource(), a.ID}
	switch s.Kind {
	case plan.CreateRule:
		// Without members a rule is programmed nowhere: it has to be there, and no more. A creation that fails removes it.
		return proof{in, func(items map[string]item) bool {
			made, there := items[id]
			return there && made.state != plan.StateDeleting
		}}
	case plan.AddMembers:
		// A rule becomes active with its first members; of one that had some the state says nothing.
		if made := r.rules[s.Port]; made != "" && s.ItemID == "" {
			return proof{listing{plan.ResourceRule, a.ID}, func(items map[string]item) bool { return items[made].state == stateActive }}
		}
	case plan.OpenFirewall, plan.CreateForward:
		return proof{in, func(items map[string]item) bool { return items[id].state == stateActive }}
	case plan.DeleteRule, plan.CloseFirewall, plan.DeleteForward:
		return proof{in, func(items map[string]item) bool { _, there := items[s.ItemID]; return !there }}
	}
	return proof{}
}

// proofOfTags is where tags of items of an address show.
func (r *run) proofOfTags(s plan.Step, kind string, ids []string, tags map[string]string) proof {
	if kind == plan.ResourcePublicIP || kind == plan.ResourceACLItem || r.on(s).Internal {
		return proof{} // a list for one job gains nothing
	}
	return proof{listing{kind, r.on(s).ID}, func(items map[string]item) bool {
		for _, id := range ids {
			for key, value := range tags {
				if items[id].tags[key] != value {
					return false
				}
			}
		}
		return true
	}}
}

// await waits until jobs have ended, and returns the error of each. All waits share the client's polls.
func (r *run) await(ctx context.Context, jobs []*job) []error {
	errs, unread := make([]error, len(jobs)), make([]bool, len(jobs))
	shown := map[listing]int{}
	var due time.Duration // nothing goes on before all have ended
	for _, j := range jobs {
		if j.proof.shown != nil {
			shown[j.proof.in]++
		}
		due = max(due, usually(j.command)-r.Clock.Since(j.submitted))
	}
	var waits sync.WaitGroup
	for i, j := range jobs {
		waits.Go(func() {
			ended, err := r.API.Await(ctx, cloudstack.Await{
				Command: j.command, JobID: j.id, Age: r.Clock.Since(j.submitted), Due: &due, Unread: j.proof.shown != nil && shown[j.proof.in] >= enough,
			})
			errs[i], unread[i] = err, err == nil && ended == nil
		})
	}
	waits.Wait()
	lists := map[listing]map[string]item{}
	for i, j := range jobs {
		if unread[i] && !r.shows(ctx, j.proof, lists) {
			_, errs[i] = r.API.Result(ctx, j.command, j.id)
		}
	}
	return errs
}

// shows reports whether CloudStack shows what a job did. Lists are kept in lists; one that cannot be read shows nothing.
func (r *run) shows(ctx context.Context, p proof, lists map[listing]map[string]item) bool {
	items, read := lists[p.in]
	if !read {
		var err error
		if items, err = r.items(ctx, p.in); err != nil {
			items = nil
		}
		lists[p.in] = items
	}
	return items != nil && p.shown(items)
}

// items reads what is on an address, by id.
func (r *run) items(ctx context.Context, in listing) (map[string]item, error) {
	switch in.kind {
	case plan.ResourceRule:
		list, err := r.API.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{PublicIPID: in.addressID, ProjectID: r.Project})
		return byID(list, func(l *cloudstack.LoadBalancerRule) (string, item) { return l.ID, item{l.State, l.Tags} }), err
	case plan.ResourceFirewall:
		list, err := r.API.ListFirewallRules(ctx, cloudstack.FirewallRuleQuery{PublicIPID: in.addressID, ProjectID: r.Project})
		return byID(list, func(f *cloudstack.FirewallRule) (string, item) { return f.ID, item{f.State, f.Tags} }), err
	default:
		list, err := r.API.ListPortForwardings(ctx, cloudstack.PortForwardingQuery{PublicIPID: in.addressID, ProjectID: r.Project})
		return byID(list, func(f *cloudstack.PortForwarding) (string, item) { return f.ID, item{f.State, f.Tags} }), err
	}
}

func byID[T any](list []T, of func(*T) (string, item)) map[string]item {
	out := make(map[string]item, len(list))
	for i := range list {
		id, it := of(&list[i])
		out[id] = it
	}
	return out
}
