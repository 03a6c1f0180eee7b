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
)

// start submits one action.
func (ap *applier) start(ctx context.Context, act Action) error {
	t, api := ap.t, ap.r.api
	ap.r.options.Log(t.Service.Key(), act.Label)
	if act.AddressID == "" && act.Kind != AllocateAddress && act.ACLID == "" {
		act.AddressID = t.mem.actual.find("").ID
	}
	ap.r.touch(act.AddressID)
	if err := ap.clear(ctx, act); err != nil {
		return err
	}
	rule := ap.ruleID(act)
	switch act.Kind {
	case AllocateAddress:
		return ap.allocate(ctx, act)
	case RememberAddress:
		a := t.mem.actual.find(act.AddressID)
		a.Sticky = a.Sticky || slices.ContainsFunc(t.wanted.Rules, func(r Rule) bool { return r.Stickiness != nil })
		a.Opened = act.Opened
		t.setRecord(t.record(a))
		return ap.local(ctx, act)
	case TagAddress, TagRules:
		return ap.tag(ctx, act)
	case CreateRule:
		return ap.createRule(ctx, act)
	case AddMembers:
		return ap.submit(ctx, act, "assignToLoadBalancerRule", func() (cloudstack.Submitted, error) {
			return api.AssignToLoadBalancerRule(ctx, rule, t.memberAddresses(act.Members, nil))
		})
	case RemoveMembers:
		return ap.submit(ctx, act, "removeFromLoadBalancerRule", func() (cloudstack.Submitted, error) {
			return api.RemoveFromLoadBalancerRule(ctx, rule, t.memberAddresses(act.Members, t.mem.members[rule].vms))
		})
	case UpdateRule:
		return ap.submit(ctx, act, "updateLoadBalancerRule", func() (cloudstack.Submitted, error) { return api.UpdateLoadBalancerRule(ctx, updateRequest(act)) })
	case DeleteRule:
		if act.Internal {
			return ap.submitGone(ctx, act, "deleteLoadBalancer", func() (cloudstack.Submitted, error) { return api.DeleteInternalLoadBalancer(ctx, rule) })
		}
		return ap.submitGone(ctx, act, "deleteLoadBalancerRule", func() (cloudstack.Submitted, error) { return api.DeleteLoadBalancerRule(ctx, rule) })
	case SetStickiness:
		return ap.submit(ctx, act, "createLBStickinessPolicy", func() (cloudstack.Submitted, error) {
			return api.CreateStickinessPolicy(ctx, rule, cloudstack.StickinessPolicy{Name: act.Rule.Name, Method: act.Rule.Stickiness.Method, Params: act.Rule.Stickiness.Params})
		})
	case DropStickiness:
		return ap.submitGone(ctx, act, "deleteLBStickinessPolicy", func() (cloudstack.Submitted, error) { return api.DeleteStickinessPolicy(ctx, act.PolicyID) })
	case BindCertificate:
		err := ap.submit(ctx, act, "assignCertToLoadBalancer", func() (cloudstack.Submitted, error) { return api.AssignCertificate(ctx, rule, act.Rule.Certificate) })
		if cloudstack.IsNotFound(err) || cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
			return noCertificate(act, err)
		}
		return err
	case OpenFirewall:
		return ap.submit(ctx, act, "createFirewallRule", func() (cloudstack.Submitted, error) {
			return api.CreateFirewallRule(ctx, cloudstack.CreateFirewallRuleRequest{
				PublicIPID: act.AddressID, Protocol: act.Firewall.Protocol, StartPort: act.Firewall.StartPort, EndPort: act.Firewall.EndPort, CIDRs: act.Firewall.CIDRs,
			})
		})
	case CloseFirewall:
		return ap.submitGone(ctx, act, "deleteFirewallRule", func() (cloudstack.Submitted, error) { return api.DeleteFirewallRule(ctx, act.FirewallID) })
	case OpenACL:
		return ap.openACL(ctx, act)
	case CloseACL:
		return ap.submitGone(ctx, act, "deleteNetworkACL", func() (cloudstack.Submitted, error) { return api.DeleteNetworkACL(ctx, act.FirewallID) })
	case ReleaseAddress:
		t.mem.releasing[act.AddressID] = ap.r.options.Clock.Now()
		return ap.submit(ctx, act, cmdDisassociate, func() (cloudstack.Submitted, error) { return api.DisassociateIP(ctx, act.AddressID) })
	case ForgetAddress:
		return ap.leave(ctx, act)
	default:
		return fmt.Errorf("unknown action %q", act.Kind)
	}
}

func updateRequest(act Action) cloudstack.UpdateLoadBalancerRuleRequest {
	u := cloudstack.UpdateLoadBalancerRuleRequest{ID: act.RuleID, Name: act.Rule.Name, Algorithm: act.Rule.Algorithm, Protocol: act.Rule.Protocol}
	if act.Rule.CIDRs != nil {
		u.CIDRs = &act.Rule.CIDRs
	}
	return u
}

func (ap *applier) createRule(ctx context.Context, act Action) error {
	t, api := ap.t, ap.r.api
	if act.Internal {
		return ap.createInternal(ctx, act)
	}
	request := cloudstack.CreateLoadBalancerRuleRequest{
		Name: act.Rule.Name, Description: t.Service.Key(), Algorithm: act.Rule.Algorithm, Protocol: act.Rule.Protocol,
		PublicIPID: act.AddressID, PublicPort: act.Rule.PublicPort, PrivatePort: act.Rule.PrivatePort, CIDRs: act.Rule.CIDRs,
	}
	if t.wanted.VPCID != "" {
		request.NetworkID = t.wanted.NetworkID // the first rule binds the address to the tier
	}
	s, err := api.CreateLoadBalancerRule(ctx, request)
	if err != nil {
		return portTaken(err, act)
	}
	ap.rules[act.Port] = s.ID
	ap.follow(ctx, act, "createLoadBalancerRule", s, Outcome{})
	return nil
}

// createInternal makes one port of an address of a tier. The first one of an address that CloudStack chooses
// tells which it is.
func (ap *applier) createInternal(ctx context.Context, act Action) error {
	t, api := ap.t, ap.r.api
	a := t.mem.actual.find(act.AddressID)
	s, err := api.CreateInternalLoadBalancer(ctx, cloudstack.CreateInternalLoadBalancerRequest{
		Name: act.Rule.Name, Description: t.Service.Key(), Algorithm: act.Rule.Algorithm, NetworkID: a.NetworkID, Address: a.IP,
		Port: act.Rule.PublicPort, InstancePort: act.Rule.PrivatePort,
	})
	if err != nil {
		return portTaken(err, act)
	}
	ap.rules[act.Port] = s.ID
	if a.IP == "" {
		made, err := api.ListInternalLoadBalancers(ctx, cloudstack.InternalLoadBalancerQuery{ID: s.ID, ProjectID: t.project})
		if err != nil || len(made) == 0 {
			return errors.Join(fmt.Errorf("read the internal load balancer %s", s.ID), err)
		}
		t.dropRecord(a.ID)
		a.IP, a.ID = made[0].Address, internalID(a.NetworkID, made[0].Address)
		t.setRecord(t.record(a))
		if err := ap.r.save(ctx, t); err != nil {
			return err
		}
		act.AddressID, act.IP = a.ID, a.IP
	}
	ap.follow(ctx, act, "createLoadBalancer", s, Outcome{})
	return nil
}

func portTaken(err error, act Action) error {
	if !cloudstack.IsKind(err, cloudstack.KindConflict) {
		return err
	}
	refusal := &RefusalError{ReasonPortTaken, fmt.Sprintf("port %d of %s is taken by a rule that is not of this Service", act.Port, act.IP), "delete that rule, or choose another port or address", act.Port}
	return errors.Join(refusal, err)
}

// noCertificate refuses a certificate that CloudStack does not have, or not for the caller. A rule that is gone, or a role
// without the command, is another failure.
func noCertificate(act Action, err error) error {
	e, ok := errors.AsType[*cloudstack.Error](err)
	if !ok || e.HTTPCode == 432 || strings.Contains(e.Text, "parameter lbruleid") {
		return err
	}
	return &RefusalError{
		ReasonNoSuchCertificate,
		fmt.Sprintf("annotation %s names certificate %q, which CloudStack does not have for the controller's account or the Service's project", annotation.SSLCertificate, act.Rule.Certificate),
		"upload the certificate (uploadSslCert) and set the annotation to its id", act.Port,
	}
}

// openACL chooses the new item's number from a fresh list, one at a time: numbers are unique in a list.
func (ap *applier) openACL(ctx context.Context, act Action) error {
	unlock, err := ap.r.acls.Lock(ctx, act.ACLID)
	if err != nil {
		return err
	}
	defer unlock()
	items, err := ap.r.api.ListNetworkACLs(ctx, cloudstack.NetworkACLQuery{ListID: act.ACLID, ProjectID: ap.t.project})
	if err != nil {
		return err
	}
	known := make([]ACLItem, 0, len(items))
	for i := range items {
		known = append(known, aclItem(&items[i], ap.t.clusters, ap.t.Service.UID))
	}
	number, err := freeNumber(known, *act.Firewall)
	if err != nil {
		return &RefusalError{Reason: ReasonSourceRanges, Message: err.Error(), Remedy: "renumber the items of the list so that there is room"}
	}
	s, err := ap.r.api.CreateNetworkACL(ctx, cloudstack.CreateNetworkACLRequest{
		ListID: act.ACLID, Protocol: act.Firewall.Protocol, StartPort: act.Firewall.StartPort, EndPort: act.Firewall.EndPort, CIDRs: act.Firewall.CIDRs,
		Number: number, Reason: aclReason(ap.t.clusters[0], ap.t.Service),
	})
	if err != nil {
		return err
	}
	ap.follow(ctx, act, "createNetworkACL", s, Outcome{Number: number})
	return nil
}

func (ap *applier) allocate(ctx context.Context, act Action) error {
	var rec annotation.AddressRecord
	var err error
	if act.Internal {
		// The intent is what a crash leaves: by it the tier is looked through for what the Service has there.
		rec = annotation.AddressRecord{ID: internalID(act.NetworkID, act.IP), IP: act.IP, NetworkID: act.NetworkID, ProjectID: ap.t.ownProject, Allocated: true, Internal: true}
		ap.t.setRecord(rec)
		err = ap.r.save(ctx, ap.t)
	} else {
		rec, err = ap.r.allocate(ctx, ap.t, act)
	}
	if err != nil {
		return err
	}
	ap.effect(act, Outcome{ID: rec.ID, IP: rec.IP})
	a := ap.t.mem.actual.find(rec.ID)
	a.Tagged, a.Sticky, a.Opened = rec.Tagged, rec.Sticky, parseOpened(rec.Opened)
	if rec.Tagged {
		a.Owner, a.OwnTags = Mine, TagKeys()
	}
	return nil
}

// local ends an action that only changes the Service's record.
func (ap *applier) local(ctx context.Context, act Action) error {
	if err := ap.r.save(ctx, ap.t); err != nil {
		return err
	}
	ap.effect(act, Outcome{})
	return nil
}

// leave removes our tags and record from an address that stays. What others go on using keeps the mark that
// the cluster acquired it, so that the last of them can release it. What is kept says who keeps it.
func (ap *applier) leave(ctx context.Context, act Action) error {
	a := ap.t.mem.actual.find(act.AddressID)
	keys := a.OwnTags
	switch {
	case act.HandOver:
		keys = pick(keys, func(k *string) bool { return slices.Contains(serviceKeys, *k) })
	case act.Keep:
		if err := ap.markKept(ctx, a); err != nil {
			return err
		}
		keys = pick(keys, func(k *string) bool { return *k != TagCluster && *k != TagManagedBy && *k != TagKeptBy })
	}
	if a.Owner == Mine && len(keys) > 0 && !act.Internal {
		if err := ap.untag(ctx, a.ID, keys); err != nil {
			return err
		}
	}
	ap.t.dropRecord(act.AddressID)
	if !act.Internal {
		ap.t.notify(Notice{Reason: ReasonAddressKept, Message: "address " + act.IP + " is kept: " + act.Note})
	}
	return ap.local(ctx, act)
}

// markKept tags an address before the Service's own tags go, so that it is never without an owner.
func (ap *applier) markKept(ctx context.Context, a *Address) error {
	if slices.Contains(a.OwnTags, TagKeptBy) {
		return nil
	}
	tags := map[string]string{TagCluster: ap.t.clusters[0], TagManagedBy: ManagedBy, TagKeptBy: ap.t.Service.Key()}
	for _, key := range a.OwnTags {
		delete(tags, key)
	}
	s, err := ap.r.api.CreateTags(ctx, ResourcePublicIP, []string{a.ID}, tags)
	if err == nil {
		_, err = ap.r.api.Wait(ctx, "createTags", s.JobID)
	}
	if err != nil && !alreadyTagged(err) && !cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		return err
	}
	return nil
}

// untag deletes tags of an address; a role that may not tag leaves them.
func (ap *applier) untag(ctx context.Context, id string, keys []string) error {
	s, err := ap.r.api.DeleteTags(ctx, ResourcePublicIP, []string{id}, keys)
	if err == nil {
		_, err = ap.r.api.Wait(ctx, "deleteTags", s.JobID)
	}
	if err != nil && !cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		return err
	}
	return nil
}

// tag submits tags: of an address those that it lacks, of rules all.
func (ap *applier) tag(ctx context.Context, act Action) error {
	t := ap.t
	kind, ids, tags := ResourceRule, []string{}, ruleTags(t.clusters[0], t.Service)
	a := t.mem.actual.find(act.AddressID)
	if act.Kind == TagAddress {
		kind, ids, tags = ResourcePublicIP, []string{act.AddressID}, Tags(t.clusters[0], t.Service)
		if a.FormerCluster && slices.Contains(a.OwnTags, TagCluster) {
			// A tag cannot be changed. Without this one the address is ours by the Service's UID.
			if err := ap.untag(ctx, a.ID, []string{TagCluster}); err != nil {
				return ap.tagOutcome(ctx, act, err)
			}
			a.OwnTags = slices.DeleteFunc(slices.Clone(a.OwnTags), func(k string) bool { return k == TagCluster })
		}
		for _, key := range a.OwnTags {
			delete(tags, key)
		}
	} else {
		for _, port := range act.Ports {
			id := ap.rules[port]
			for _, r := range a.ownRules() {
				if r.PublicPort == port && id == "" {
					id = r.ID
				}
			}
			if id != "" {
				ids = append(ids, id)
			}
		}
	}
	if len(ids) == 0 {
		return nil
	}
	s, err := ap.r.api.CreateTags(ctx, kind, ids, tags)
	if err != nil {
		return ap.tagOutcome(ctx, act, err)
	}
	ap.follow(ctx, act, "createTags", s, Outcome{})
	return nil
}

// tagOutcome ends tagging. A Service is served without its tags: those that the role refuses are done without, and
// those that failed are set by the next sync, at the latest by that of the next drift round.
func (ap *applier) tagOutcome(ctx context.Context, act Action, err error) error {
	a := ap.t.mem.actual.find(act.AddressID)
	if act.Kind == TagAddress && alreadyTagged(err) && len(a.OwnTags) > 0 {
		ap.again = true // another Service that uses the address was first to take it over
		return nil
	}
	if !ap.r.tagged(ap.t, err) {
		if ctx.Err() != nil {
			return err
		}
		if ap.t.tagErr == nil && !cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
			ap.t.tagErr = fmt.Errorf("%s: %w", act.Label, err)
		}
		return nil
	}
	ap.effect(act, Outcome{})
	if act.Kind == TagRules {
		return nil
	}
	ap.t.setRecord(ap.t.record(a))
	return ap.r.save(ctx, ap.t)
}
