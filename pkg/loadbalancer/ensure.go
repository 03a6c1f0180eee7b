// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// freshAge is how old what a refusal rests on may be: many Services that are refused at once share a read.
const freshAge = 5 * time.Second

// Ensure brings a Service to its desired state. Errors are *RefusalError when the
// Service cannot be served as it stands, *WaitError, or wrap *cloudstack.Error;
// the next call then goes on from where this one stopped.
func (r *Reconciler) Ensure(ctx context.Context, req Request) (Result, error) {
	t, err := r.begin(ctx, req)
	if err != nil {
		return Result{}, err
	}
	defer t.release()
	return r.ensure(ctx, t)
}

// Repair is Ensure for the drift loop: what is remembered is not trusted, and
// the reads may be shared with other Services by way of whole lists that were
// begun since; the zero time asks for this Service alone.
func (r *Reconciler) Repair(ctx context.Context, req Request, since time.Time) (Result, error) {
	t, err := r.begin(ctx, req)
	if err != nil {
		return Result{}, err
	}
	defer t.release()
	if t.mem.readAt.Before(since) || since.IsZero() {
		t.mem.actual = nil
		t.verify = true
	}
	t.bulkSince = since
	t.tierAge = freshAge
	if !since.IsZero() {
		t.tierAge = max(time.Second, r.options.Clock.Since(since)) // read once a round for all Services of the tier
	}
	return r.ensure(ctx, t)
}

func (r *Reconciler) ensure(ctx context.Context, t *task) (Result, error) {
	if err := r.desire(ctx, t); err != nil {
		return Result{}, err
	}
	if err := r.settle(ctx, t); err != nil {
		return Result{}, r.failed(t, err)
	}
	if t.mem.aclID != "" && t.mem.aclID != t.wanted.ACLID {
		t.everywhere = true // the list was replaced: our items of the old one go
	}
	if err := r.look(ctx, t); err != nil {
		return Result{}, r.failed(t, err)
	}
	t.bulkSince = time.Time{}
	var result Result
	// A second round only when the first taught us something about the server.
	for range 3 {
		actions, err := r.plan(ctx, t)
		if err != nil {
			return Result{}, r.failed(t, err)
		}
		result.Plan = append(result.Plan, actions...)
		again, err := r.apply(ctx, t, actions)
		result.Done = t.done
		if err != nil {
			return result, r.failed(t, err)
		}
		if !again {
			break
		}
		if err := r.observe(ctx, t, false); err != nil {
			return result, r.failed(t, err)
		}
	}
	if err := r.keepRecords(ctx, t); err != nil {
		return result, r.failed(t, err)
	}
	t.mem.survey = false
	t.noteTags()
	if r.applies() {
		d := t.wanted
		t.mem.done, t.mem.aclID = &d, d.ACLID
	}
	r.metrics.held(t.Service.UID, len(t.mem.actual.Addresses))
	result.Unserved = defaultACL(t.wanted, t.network)
	if target := chooseTarget(t.wanted, *t.mem.actual); target != nil {
		result.IP = target.IP
		t.noteNoLongerAsked(target.IP)
	}
	return result, nil
}

// noteNoLongerAsked tells the owner, who has just removed the request for an address, that the Service goes on using it.
func (t *task) noteNoLongerAsked(ip string) {
	if t.mem.asked == ip && t.wanted.Address == "" {
		t.notify(Notice{Reason: ReasonAddressKept, Message: fmt.Sprintf(
			"%s and spec.loadBalancerIP no longer name an address: the Service keeps %s; to change it name another one, or delete and recreate the Service", annotation.Address, ip)})
	}
	t.mem.asked = t.wanted.Address
}

// noteTags warns of tags that two syncs in a row could not set: one failure passes.
func (t *task) noteTags() {
	if t.tagErr == nil {
		t.mem.untagged = 0
		return
	}
	if t.mem.untagged++; t.mem.untagged > 1 {
		t.notify(Notice{Warning: true, Reason: ReasonTaggingFailed, Message: fmt.Sprintf(
			"the Service is served, but not all of its tags could be set in CloudStack: %v; each drift round tries again", t.tagErr)})
	}
}

// desire decides what the Service shall have. It makes no call but for a network not seen before, and before a refusal.
func (r *Reconciler) desire(ctx context.Context, t *task) error {
	if err := r.checkProject(ctx, t); err != nil {
		return err
	}
	refusal, outside, err := r.desireAt(ctx, t, 0)
	if err != nil {
		return err
	}
	if refusal != nil || len(outside) > 0 {
		// What was read may be minutes old: a NIC may have been added, or the network changed.
		if t.Refresh != nil {
			if t.Members, t.Reach, err = t.Refresh(ctx); err != nil {
				return err
			}
		}
		if refusal, outside, err = r.desireAt(ctx, t, freshAge); err != nil {
			return err
		}
	}
	if refusal != nil {
		return refusal
	}
	if len(outside) > 0 {
		t.notify(Notice{Warning: true, Reason: ReasonNodeOutside, Message: "not serving, without a NIC in the network: " + some(outside)})
	}
	return nil
}

// CheckProject refuses a Service that has an address in another project than the one that it names now. It comes before
// anything is looked for in the named project.
func (r *Reconciler) CheckProject(ctx context.Context, req Request) error {
	req.Notify = nil
	t, err := r.begin(ctx, req)
	if err != nil {
		return err
	}
	return r.checkProject(ctx, t)
}

func (r *Reconciler) checkProject(ctx context.Context, t *task) error {
	asked := t.Spec.Project
	if asked == "" && t.ownProject == "" {
		return nil
	}
	id, err := r.options.Project(ctx, asked)
	known := err == nil
	if !known && (!cloudstack.IsNotFound(err) || t.records.Empty()) {
		return err
	}
	if known && id == t.project {
		return nil
	}
	names := fmt.Sprintf("annotation %s names project %q", annotation.Project, asked)
	if asked == "" {
		names = "annotation " + annotation.Project + " is not set any more"
	}
	has, back := "project "+t.project, fmt.Sprintf("set the annotation to %s again", t.project)
	if t.project == "" {
		has, back = "no project", "remove the annotation"
	}
	return &RefusalError{
		Reason: ReasonProjectChanged, Message: names + ", and the Service has an address in " + has + ", which CloudStack cannot move",
		Remedy: back + ", or delete and recreate the Service",
	}
}

// desireAt is desire with a description of the network that is no older than maxAge, or than some minutes with zero.
// outside are nodes without a NIC in the network.
func (r *Reconciler) desireAt(ctx context.Context, t *task, maxAge time.Duration) (refusal *RefusalError, outside []string, err error) {
	current := ""
	if len(t.records.Addresses) > 0 {
		current = t.records.Addresses[0].NetworkID
	}
	reach := t.Reach
	if len(reach) == 0 {
		reach = t.Members
	}
	id, refusal := ServingNetwork(reach, t.Spec.Network, current)
	if refusal != nil && len(t.Members) > 0 {
		id, refusal = ServingNetwork(t.Members, t.Spec.Network, current)
	}
	if refusal != nil {
		return refusal, nil, nil
	}
	if id == "" {
		id = current // no nodes: the network of the address that there is
	}
	if id != "" {
		n, err := r.options.Network(ctx, t.project, id, maxAge)
		if err == nil && n.VPCID != "" && maxAge == 0 && t.tierAge != 0 && !r.leavesACLs() {
			n, err = r.options.Network(ctx, t.project, id, t.tierAge)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("look up the nodes' network: %w", err)
		}
		t.network = &n
	}
	t.wanted, refusal = Desire(Facts{Service: t.Service, Spec: t.Spec, Members: t.Members, Network: t.network, LeaveACLs: r.leavesACLs()})
	if refusal != nil && refusal.Reason == ReasonUnsupportedNetwork && t.Spec.Network == "" {
		if others := commonNetworks(reach, id); len(others) > 0 {
			refusal.Remedy += ", or name another network that all nodes have in " + annotation.Network + ": " + some(others)
		}
	}
	if refusal == nil {
		_, outside = memberNames(t.Members, id)
	}
	return refusal, outside, nil
}

// some names a few of many.
func some(names []string) string {
	if n := len(names); n > 5 {
		return strings.Join(names[:5], ", ") + fmt.Sprintf(" and %d more", n-5)
	}
	return strings.Join(names, ", ")
}

// look makes the memory hold the actual state: from memory while that is young, else by reading.
func (r *Reconciler) look(ctx context.Context, t *task) error {
	// An address that is asked for and not known to be used is looked at closely at once.
	known := func(rec annotation.AddressRecord) bool { return rec.IP == t.wanted.Address }
	t.survey = t.mem.survey || t.wanted.Address != "" && !t.wanted.Internal && !slices.ContainsFunc(t.records.Addresses, known)
	if t.mem.actual != nil && (r.options.DriftPeriod == 0 || r.options.Clock.Since(t.mem.readAt) < r.options.DriftPeriod) {
		target := chooseTarget(t.wanted, *t.mem.actual)
		aclKnown := t.wanted.ACLID == "" || slices.ContainsFunc(t.mem.actual.ACLs, func(l ACL) bool { return l.ListID == t.wanted.ACLID })
		// An address or list that was not looked for before has to be read first.
		if (t.wanted.Address == "" || target != nil) && aclKnown {
			return nil
		}
	}
	return r.observe(ctx, t, false)
}

// plan plans from memory, and once more from a proving read when something would be released.
func (r *Reconciler) plan(ctx context.Context, t *task) ([]Action, error) {
	for {
		if !t.survey && needsSurvey(t.wanted, *t.mem.actual) {
			t.survey = true
			if err := r.observe(ctx, t, false); err != nil {
				return nil, err
			}
		}
		if refusal := Fits(t.wanted, *t.mem.actual, t.network, r.granted(t)); refusal != nil {
			return nil, refusal
		}
		actions := Plan(t.wanted, *t.mem.actual, r.limits())
		proof := slices.ContainsFunc(actions, func(a Action) bool { return a.Kind == ReleaseAddress || a.Kind == ForgetAddress })
		if proof && !t.proven {
			if err := r.prove(ctx, t); err != nil {
				return nil, err
			}
			continue
		}
		if fewer, err := r.limitKept(ctx, t, actions); err != nil {
			return nil, err
		} else if fewer {
			continue
		}
		if err := r.underWay(t, actions); err != nil {
			return nil, err
		}
		r.noteDrift(t, actions)
		if t.read {
			for _, n := range t.observations(r.limits()) {
				t.notify(n)
			}
		}
		return actions, nil
	}
}

// granted are the Service's grants.
func (r *Reconciler) granted(t *task) Grants {
	out := t.Grants
	out.SourceNAT = out.SourceNAT || r.options.Unguarded[GuardSourceNAT]
	out.ForeignAddress = out.ForeignAddress || r.options.Unguarded[GuardForeignAddress]
	return out
}

// observations are what the Service's owner should know of what was read.
func (t *task) observations(limits Limits) []Notice {
	out := foreignAccess(t.wanted, *t.mem.actual)
	if n := defaultACL(t.wanted, t.network); n != nil {
		out = append(out, *n)
	}
	if t.wanted.CIDRsDecide && limits.NoCIDRs && !sameRanges(t.wanted.Ranges, []string{annotation.Anyone}) && len(t.wanted.Ranges) > 0 {
		out = append(out, Notice{Warning: true, Reason: ReasonRangesNotServed, Message: "this CloudStack (older than 4.18) cannot restrict the sources of a rule, and the network has no firewall: " +
			"the rules have no members, so that nobody is let in who should not be; upgrade CloudStack or remove the source ranges"})
	}
	return out
}

// noteDrift counts what others undid: actions towards a state that was reached before.
func (r *Reconciler) noteDrift(t *task, actions []Action) {
	r.metrics.planned(actions)
	if !t.read || t.mem.done == nil || !t.mem.done.Equal(t.wanted) {
		return
	}
	n := 0
	first := ""
	for _, a := range actions {
		if a.Kind != RememberAddress && a.Kind != TagAddress && a.Kind != TagRules {
			n++
			if first == "" {
				first = a.Label
			}
		}
	}
	if n == 0 {
		return
	}
	r.metrics.drift(n)
	t.notify(Notice{Warning: true, Reason: ReasonDriftRepaired, Message: "CloudStack was changed by others; repairing with " + ActionsText(n, first)})
}
