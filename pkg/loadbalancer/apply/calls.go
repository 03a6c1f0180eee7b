// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/loadbalancer/plan/access"
)

// call makes the call of an action. This is the one place that knows which action is which call.
func (r *run) call(ctx context.Context, s plan.Step) error {
	api, rule := r.API, r.ruleID(s)
	// submitted waits for the job of a call.
	submitted := func(command string) func(cloudstack.Submitted, error) error {
		return func(answer cloudstack.Submitted, err error) error {
			if err == nil {
				r.follow(s, command, answer)
			}
			return err
		}
	}
	// deleted is submitted for deletions: an item that is gone needs none.
	deleted := func(command string) func(cloudstack.Submitted, error) error {
		return func(answer cloudstack.Submitted, err error) error {
			if cloudstack.IsNotFound(err) {
				r.effect(s, plan.Outcome{})
				return nil
			}
			return submitted(command)(answer, err)
		}
	}
	switch act := s.Action.(type) {
	case plan.AllocateAddress:
		return r.allocate(ctx, s, act)
	case plan.RememberAddress:
		return r.remember(ctx, s, act)
	case plan.TagAddress:
		return r.tagAddress(ctx, s, act)
	case plan.ReleaseAddress:
		return r.releaseAddress(ctx, s, act)
	case plan.ForgetAddress:
		return r.forget(ctx, s, act)
	case plan.CreateRule:
		return r.createRule(ctx, s, act)
	case plan.UpdateRule:
		return r.updateRule(ctx, s, act)
	case plan.DeleteRule:
		if act.Internal {
			return deleted("deleteLoadBalancer")(api.DeleteInternalLoadBalancer(ctx, act.RuleID))
		}
		return deleted("deleteLoadBalancerRule")(api.DeleteLoadBalancerRule(ctx, act.RuleID))
	case plan.TagRules:
		return r.tagRules(ctx, s, act)
	case plan.AddMembers:
		return submitted("assignToLoadBalancerRule")(api.AssignToLoadBalancerRule(ctx, rule, r.memberAddresses(act.Members, nil)))
	case plan.RemoveMembers:
		have := r.on(act.OnAddress).Rule(act.RuleID, act.Port).Members
		return submitted("removeFromLoadBalancerRule")(api.RemoveFromLoadBalancerRule(ctx, rule, r.memberAddresses(act.Members, have)))
	case plan.SetStickiness:
		policy := cloudstack.StickinessPolicy{Name: act.Rule.Name, Method: act.Rule.Stickiness.Method, Params: act.Rule.Stickiness.Params}
		return submitted("createLBStickinessPolicy")(api.CreateStickinessPolicy(ctx, rule, policy))
	case plan.DropStickiness:
		return deleted("deleteLBStickinessPolicy")(api.DeleteStickinessPolicy(ctx, act.PolicyID))
	case plan.BindCertificate:
		answer, err := api.AssignCertificate(ctx, rule, act.Rule.Certificate)
		return submitted("assignCertToLoadBalancer")(answer, noCertificate(act, err))
	case plan.CreateForward:
		return r.createForward(ctx, s, act)
	case plan.UpdateForward:
		return r.updateForward(ctx, s, act)
	case plan.DeleteForward:
		return deleted("deletePortForwardingRule")(api.DeletePortForwarding(ctx, act.ForwardID))
	case plan.TagForwards:
		return r.tagForwards(ctx, s, act)
	case plan.OpenFirewall:
		return r.openFirewall(ctx, s, act)
	case plan.CloseFirewall:
		return deleted("deleteFirewallRule")(api.DeleteFirewallRule(ctx, act.FirewallID))
	case plan.OpenACL:
		return r.openACL(ctx, s, act)
	case plan.CloseACL:
		return deleted("deleteNetworkACL")(api.DeleteNetworkACL(ctx, act.FirewallID))
	}
	return fmt.Errorf("unknown action %q", s.Kind())
}

// remember records an address on the Service.
func (r *run) remember(ctx context.Context, s plan.Step, act plan.RememberAddress) error {
	a := r.on(act.OnAddress)
	a.HasStickiness = a.HasStickiness || r.Desired.HasStickiness()
	a.FirewallPorts, a.ForwardPorts = act.FirewallPorts, act.ForwardPorts
	r.Records.set(r.record(a))
	return r.saved(ctx, s)
}

func (r *run) createRule(ctx context.Context, s plan.Step, act plan.CreateRule) error {
	if act.Internal {
		return r.createInternal(ctx, s, act)
	}
	request := cloudstack.CreateLoadBalancerRuleRequest{
		Name: act.Rule.Name, Description: r.Service.Key(), Algorithm: act.Rule.Algorithm, Protocol: act.Rule.Protocol,
		PublicIPID: r.on(act.OnAddress).ID, PublicPort: act.Rule.PublicPort, PrivatePort: act.Rule.PrivatePort, CIDRs: act.Rule.CIDRs,
		RuleTimeouts: timeouts(act.Rule),
	}
	if r.Desired.VPCID != "" {
		request.NetworkID = r.Desired.NetworkID // the first rule binds the address to the tier
	}
	submitted, err := r.API.CreateLoadBalancerRule(ctx, request)
	if err != nil {
		return portTaken(err, act.Port, act.IP)
	}
	r.created(s, act, "createLoadBalancerRule", submitted)
	return nil
}

func timeouts(r plan.Rule) cloudstack.RuleTimeouts {
	return cloudstack.RuleTimeouts{IdleTimeout: r.IdleTimeout, KeepAlive: r.KeepAlive}
}

// created follows the creation of a rule.
func (r *run) created(s plan.Step, act plan.CreateRule, command string, submitted cloudstack.Submitted) {
	r.rules[act.Port] = submitted.ID
	j := r.follow(s, command, submitted)
	j.rule = submitted.ID
	j.ended = func(err error) error {
		if err != nil {
			return err
		}
		r.effect(s, j.outcome)
		if len(s.Replaces) > 0 && !act.Switched {
			r.Notify(plan.Notice{Reason: plan.ReasonRuleReplaced, Message: fmt.Sprintf("replaced the rule of port %d on %s: it could not be changed in place", act.Port, act.IP)})
		}
		if r.Desired.CIDRsDecide && !r.Server.CIDRsProven.Load() && !access.Same(act.Rule.CIDRs, []string{annotation.Anyone}) {
			r.readBack(submitted.ID, act.Rule, true)
		}
		return nil
	}
}

// readBack asks for a look at whether the server took a rule's source ranges.
func (r *run) readBack(id string, rule plan.Rule, created bool) {
	r.Again = true
	r.Written[id] = plan.Written{CIDRs: rule.CIDRs, Created: created}
}

// createInternal makes one port of an address of a tier. If CloudStack chooses the address, the first port shows which
// it is.
func (r *run) createInternal(ctx context.Context, s plan.Step, act plan.CreateRule) error {
	a := r.on(act.OnAddress)
	submitted, err := r.API.CreateInternalLoadBalancer(ctx, cloudstack.CreateInternalLoadBalancerRequest{
		Name: act.Rule.Name, Description: r.Service.Key(), Algorithm: act.Rule.Algorithm, NetworkID: a.NetworkID, Address: a.IP,
		Port: act.Rule.PublicPort, InstancePort: act.Rule.PrivatePort,
	})
	if err != nil {
		return portTaken(err, act.Port, act.IP)
	}
	if a.IP == "" {
		made, err := r.API.ListInternalLoadBalancers(ctx, cloudstack.InternalLoadBalancerQuery{ID: submitted.ID, ProjectID: r.Project})
		if err != nil || len(made) == 0 {
			return errors.Join(fmt.Errorf("read the internal load balancer %s", submitted.ID), err)
		}
		r.Records.drop(a.ID)
		a.IP, a.ID = made[0].Address, plan.InternalID(a.NetworkID, made[0].Address)
		r.Records.set(r.record(a))
		if err := r.Records.Save(ctx); err != nil {
			return err
		}
	}
	r.created(s, act, "createLoadBalancer", submitted)
	return nil
}

func portTaken(err error, port int, ip string) error {
	if !cloudstack.IsKind(err, cloudstack.KindConflict) {
		return err
	}
	refusal := &plan.RefusalError{
		Reason: plan.ReasonPortTaken, Message: fmt.Sprintf("port %d of %s is taken by a rule that is not of this Service", port, ip),
		Remedy: "delete that rule, or choose another port or address", Port: port,
	}
	return errors.Join(refusal, err)
}

func (r *run) updateRule(ctx context.Context, s plan.Step, act plan.UpdateRule) error {
	u := cloudstack.UpdateLoadBalancerRuleRequest{ID: act.RuleID, Name: act.Rule.Name, Algorithm: act.Rule.Algorithm, Protocol: act.Rule.Protocol, RuleTimeouts: timeouts(act.Rule)}
	if act.Rule.CIDRs != nil {
		u.CIDRs = &act.Rule.CIDRs
	}
	submitted, err := r.API.UpdateLoadBalancerRule(ctx, u)
	if err != nil {
		return err
	}
	j := r.follow(s, "updateLoadBalancerRule", submitted)
	j.ended = func(err error) error {
		unproven := act.Rule.CIDRs != nil && !r.Server.CIDRUpdateProven.Load()
		switch {
		case err == nil:
			r.effect(s, j.outcome)
			if unproven {
				r.readBack(act.RuleID, act.Rule, false)
			}
		case unproven && cloudstack.IsKind(err, cloudstack.KindJobFailed):
			r.Server.NoCIDRUpdate.Store(true) // the next sync replaces the rule instead
		}
		return err
	}
	return nil
}

// memberAddresses are members as CloudStack takes them. To take one address of a VM and leave another, both
// have to be named.
func (r *run) memberAddresses(names, remaining []string) []cloudstack.MemberAddress {
	out := make([]cloudstack.MemberAddress, 0, len(names))
	for _, name := range names {
		vm, ip := plan.SplitMember(name)
		stays := slices.ContainsFunc(remaining, func(other string) bool {
			otherVM, _ := plan.SplitMember(other)
			return otherVM == vm && other != name && !slices.Contains(names, other)
		})
		if ip == "" && stays {
			ip, _ = plan.PrimaryAddress(r.Members, vm, r.Desired.NetworkID)
		}
		out = append(out, cloudstack.MemberAddress{VMID: vm, IP: ip})
	}
	return out
}

// noCertificate refuses a certificate that CloudStack does not have, or not for the caller. A rule that is gone, or a role
// without the command, is another failure.
func noCertificate(act plan.BindCertificate, err error) error {
	e, ok := errors.AsType[*cloudstack.Error](err)
	if !ok || e.Kind != cloudstack.KindNotFound && e.Kind != cloudstack.KindNotPermitted || e.HTTPCode == 432 || strings.Contains(e.Text, "parameter lbruleid") {
		return err
	}
	return &plan.RefusalError{
		Reason:  plan.ReasonNoSuchCertificate,
		Message: fmt.Sprintf("annotation %s names certificate %q, which CloudStack does not have for the controller's account or the Service's project", annotation.SSLCertificate, act.Rule.Certificate),
		Remedy:  "upload the certificate (uploadSslCert) and set the annotation to its id", Port: act.Port,
	}
}

func (r *run) openFirewall(ctx context.Context, s plan.Step, act plan.OpenFirewall) error {
	f := act.Firewall
	submitted, err := r.API.CreateFirewallRule(ctx, cloudstack.CreateFirewallRuleRequest{
		PublicIPID: r.on(act.OnAddress).ID, Protocol: f.Protocol, StartPort: f.StartPort, EndPort: f.EndPort, CIDRs: f.CIDRs,
	})
	if err == nil {
		r.opened(s, "createFirewallRule", submitted, plan.Outcome{ID: submitted.ID}, f)
	}
	return err
}

// openACL chooses the new item's number from a fresh list, one at a time: numbers are unique in a list.
func (r *run) openACL(ctx context.Context, s plan.Step, act plan.OpenACL) error {
	unlock, err := r.acls.Lock(ctx, act.ACLID)
	if err != nil {
		return err
	}
	defer unlock()
	items, err := r.API.ListNetworkACLs(ctx, cloudstack.NetworkACLQuery{ListID: act.ACLID, ProjectID: r.Project})
	if err != nil {
		return err
	}
	known := make([]plan.ACLItem, 0, len(items))
	for i := range items {
		item := plan.ACLItem{Number: items[i].Number, Ingress: items[i].Ingress, Allow: items[i].Allow}
		item.Range = access.Range{Protocol: strings.ToLower(items[i].Protocol), StartPort: items[i].StartPort, EndPort: items[i].EndPort, CIDRs: items[i].CIDRs}
		known = append(known, item)
	}
	f := act.Firewall
	number, err := plan.FreeNumber(known, f)
	if err != nil {
		return &plan.RefusalError{Reason: plan.ReasonSourceRanges, Message: err.Error(), Remedy: "renumber the items of the list so that there is room"}
	}
	submitted, err := r.API.CreateNetworkACL(ctx, cloudstack.CreateNetworkACLRequest{
		ListID: act.ACLID, Protocol: f.Protocol, StartPort: f.StartPort, EndPort: f.EndPort, CIDRs: f.CIDRs,
		Number: number, Reason: plan.ACLReason(r.Clusters[0], r.Service),
	})
	if err == nil {
		r.opened(s, "createNetworkACL", submitted, plan.Outcome{ID: submitted.ID, Number: number}, f)
	}
	return err
}

// opened follows the creation of a firewall rule or ACL item.
func (r *run) opened(s plan.Step, command string, submitted cloudstack.Submitted, o plan.Outcome, f access.Range) {
	r.follow(s, command, submitted).ended = func(err error) error {
		if err != nil {
			return err
		}
		r.effect(s, o)
		if len(s.Replaces) > 0 {
			r.Notify(plan.Notice{Reason: plan.ReasonBriefInterruption, Message: f.Ports() + " was closed for a moment for " + strings.Join(f.CIDRs, ",") +
				": its old rule let in more than it may now, and CloudStack could not have both"})
		}
		return nil
	}
}
