// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/observe"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// submitted returns a function that handles the answer to a call.
func (w *Work) submitted(s plan.Step) func(cloudstack.Submitted, error) error {
	return func(answer cloudstack.Submitted, err error) error {
		switch {
		case err == nil:
			w.note(s, answer)
			return nil
		case strings.HasPrefix(answer.Command, "delete") && cloudstack.IsNotFound(err):
			// The item no longer exists, so there is nothing to delete.
			w.effect(s, plan.Outcome{})
			return nil

		case s.Kind == plan.UpdateForward &&
			cloudstack.IsNotFound(err) &&
			strings.Contains(err.Error(), "parameter id "):
			// CloudStack deletes the port forwardings of a VM that is expunged: reading again shows what is left.
			w.Again = true
			return nil
		}

		return refused(s, answer.Command, err)
	}
}

// call makes the call of an action. It is the only place that maps actions to calls.
func (w *Work) call(ctx context.Context, s plan.Step) error {
	api, rule := w.API.Client, w.ruleID(s)
	vm, secondary := plan.SplitMember(s.Member)
	submitted := w.submitted(s)
	remove := func(command, id string) error { return submitted(api.Delete(ctx, command, id)) }

	switch s.Kind {
	case plan.AllocateAddress:
		return w.allocate(ctx, s)
	case plan.TagAddress:
		return w.tagAddress(ctx, s)
	case plan.ReleaseAddress:
		return w.releaseAddress(ctx, s)
	case plan.DisownAddress:
		return w.disown(ctx, s)
	case plan.CreateRule:
		if s.Internal {
			return w.createInternal(ctx, s)
		}
		return submitted(api.CreateLoadBalancerRule(ctx,
			cloudstack.CreateLoadBalancerRuleRequest{
				Name:        s.Rule.Name,
				Description: w.Service.Key(),
				Algorithm:   s.Rule.Algorithm,
				Protocol:    s.Rule.Protocol,
				NetworkID:   w.tier(),
				PublicIPID:  w.on(s).ID,
				PublicPort:  s.Rule.PublicPort,
				PrivatePort: s.Rule.PrivatePort,
				CIDRs:       s.Rule.CIDRs,
			}))

	case plan.UpdateRule:
		return submitted(api.UpdateLoadBalancerRule(ctx,
			cloudstack.UpdateLoadBalancerRuleRequest{
				ID:        s.ItemID,
				Name:      s.Rule.Name,
				Algorithm: s.Rule.Algorithm,
				Protocol:  s.Rule.Protocol,
				CIDRs:     s.Rule.CIDRs,
			}))

	case plan.DeleteRule:
		if s.Internal {
			return remove("deleteLoadBalancer", s.ItemID)
		}
		return remove("deleteLoadBalancerRule", s.ItemID)

	case plan.AddMembers:
		return submitted(api.AssignToLoadBalancerRule(ctx, rule,
			w.memberAddresses(s.Members, nil)))
	case plan.RemoveMembers:
		have := w.on(s).Rule(s.ItemID, s.Port).Members
		return submitted(api.RemoveFromLoadBalancerRule(ctx, rule,
			w.memberAddresses(s.Members, have)))

	case plan.SetStickiness:
		policy := cloudstack.StickinessPolicy{
			Name:   s.Rule.Name,
			Method: s.Rule.Stickiness.Method,
			Params: s.Rule.Stickiness.Params,
		}
		return submitted(api.CreateStickinessPolicy(ctx, rule, policy))

	case plan.DeleteStickiness:
		return remove("deleteLBStickinessPolicy", s.PolicyID)
	case plan.BindCertificate:
		return submitted(api.AssignCertificate(ctx, rule, s.Rule.Certificate))
	case plan.CreateForward:
		return submitted(api.CreatePortForwarding(ctx,
			cloudstack.CreatePortForwardingRequest{
				PublicIPID:  w.on(s).ID,
				Protocol:    s.Protocol,
				PublicPort:  s.Port,
				PrivatePort: s.PrivatePort,
				VMID:        vm,
				GuestIP:     secondary,
				CIDRs:       s.CIDRs, NetworkID: w.tier(),
			}))

	case plan.UpdateForward:
		return submitted(api.UpdatePortForwarding(ctx,
			cloudstack.UpdatePortForwardingRequest{
				ID: s.ItemID, VMID: vm, GuestIP: secondary, PrivatePort: s.PrivatePort, CIDRs: s.CIDRs,
			}))

	case plan.DeleteForward:
		return remove("deletePortForwardingRule", s.ItemID)
	case plan.OpenFirewall:
		return submitted(api.CreateFirewallRule(ctx, cloudstack.CreateFirewallRuleRequest{
			PublicIPID: w.on(s).ID,
			Protocol:   s.Access.Protocol,
			StartPort:  s.Access.StartPort,
			EndPort:    s.Access.EndPort,
			CIDRs:      s.Access.CIDRs,
		}))

	case plan.OpenACL:
		return w.openACL(ctx, s)
	case plan.CloseFirewall:
		return remove("deleteFirewallRule", s.ItemID)
	case plan.CloseACL:
		return remove("deleteNetworkACL", s.ItemID)
	case plan.TagRules, plan.TagForwards, plan.TagFirewall, plan.TagACL:
		return w.tagItems(ctx, s)
	}

	return fmt.Errorf("unknown action %q", s.Kind)
}

// tier returns the VPC tier for new rules and forwardings, the first of which binds the address to it; empty outside of
// a VPC.
func (w *Work) tier() string {
	if w.Desired.VPCID == "" {
		return ""
	}
	return w.Desired.NetworkID
}

// createInternal creates one port of a tier's address. If CloudStack chooses the address, the first port shows which
// one.
func (w *Work) createInternal(ctx context.Context, s plan.Step) error {
	a := w.on(s)
	submitted, err := w.API.Client.CreateInternalLoadBalancer(ctx, cloudstack.CreateInternalLoadBalancerRequest{
		Name:        s.Rule.Name,
		Description: w.Service.Key(),
		Algorithm:   s.Rule.Algorithm,
		NetworkID:   a.NetworkID,
		Address:     a.IP,
		Port:        s.Rule.PublicPort, InstancePort: s.Rule.PrivatePort,
	})
	if err == nil && a.IP == "" {
		created, err := w.API.ListInternalLoadBalancers(ctx,
			cloudstack.InternalLoadBalancerQuery{ID: submitted.ID, ProjectID: w.Project})
		if err != nil || len(created) == 0 {
			return errors.Join(fmt.Errorf("read the internal load balancer %s", submitted.ID), err)
		}

		// Without a record of the address, the next sync takes another one if a Service that shares nothing has it.
		id := plan.InternalID(a.NetworkID, created[0].Address)
		if w.Book.Reserve(w.Service.UID, plan.Wish{
			Address: id, Ports: len(w.Service.Ports), Grants: plan.AllGrants(),
		}) != nil {
			return errors.New("CloudStack has chosen an address that another Service uses")
		}

		w.deleteRecord(a.ID)
		a.IP, a.ID = created[0].Address, id
		if err := w.RecordServing(ctx, false); err != nil {
			return err
		}
	}

	return w.submitted(s)(submitted, err)
}

// memberAddresses returns members in the form that CloudStack expects. To remove one address of a VM and keep another,
// the call has to name the address.
func (w *Work) memberAddresses(names, remaining []string) (out []cloudstack.MemberAddress) {
	primary := sync.OnceValue(func() map[string]string { return plan.PrimaryAddresses(w.Members, w.Desired.NetworkID) })
	for _, name := range names {
		vm, ip := plan.SplitMember(name)
		remains := slices.ContainsFunc(remaining, func(other string) bool {
			otherVM, _ := plan.SplitMember(other)
			return otherVM == vm && other != name && !slices.Contains(names, other)
		})
		if ip == "" && remains {
			ip = primary()[vm]
		}
		out = append(out, cloudstack.MemberAddress{VMID: vm, IP: ip})
	}
	return out
}

// refused turns an error that only the owner or operator can fix into a refusal.
func refused(s plan.Step, command string, err error) error {
	const proxy = "set the annotation " + annotation.Mode + " to " + annotation.Proxy
	e, ok := errors.AsType[*cloudstack.Error](err)
	if !ok {
		return err
	}

	refuse := func(reason plan.Reason, message, remedy string) error {
		return errors.Join(plan.RefusePort(reason, message, remedy, s.Port), err)
	}
	denied := e.Kind == cloudstack.KindNotPermitted
	switch {
	case e.Kind == cloudstack.KindConflict && (s.Kind == plan.CreateRule || s.OnForward()):
		return refuse(plan.ReasonPortTaken,
			fmt.Sprintf("port %d of %s is taken by a rule that is not of this Service: %s", s.Port, s.IP, e.Text),
			"delete that rule, or choose another port or address")

	// Error 531 is about the address or the VM, not about the command.
	case s.OnForward() && denied && e.HTTPCode != 531:
		return refuse(plan.ReasonUnsupportedMode, "the role of the CloudStack user may not forward ports ("+command+")",
			"have the role allow it, or "+proxy)
	case s.OnForward() && e.HTTPCode == 431 && strings.Contains(e.Text, "cidrList is deprecated"):
		return refuse(plan.ReasonUnsupportedMode,
			"this CloudStack does not support source ranges of port forwardings, which a VPC needs to spread and "+
				"protect ports",
			"upgrade CloudStack, or "+proxy)

	// A missing rule, or a role without the command, is a different failure.
	case s.Kind == plan.BindCertificate &&
		(denied && e.HTTPCode != 432 || e.Kind == cloudstack.KindNotFound) &&
		!strings.Contains(e.Text, "parameter lbruleid"):
		return refuse(plan.ReasonNoSuchCertificate,
			fmt.Sprintf("annotation %s names certificate %q, which CloudStack does not have for the controller's "+
				"account or the Service's project", annotation.SSLCertificate, s.Rule.Certificate),
			"upload the certificate (uploadSslCert) and set the annotation to its id")
	}

	return err
}

// openACL creates an ACL item. It chooses the number from a fresh list, one item at a time, because numbers in a list
// are unique.
func (w *Work) openACL(ctx context.Context, s plan.Step) error {
	unlock, err := w.acls.Lock(ctx, s.ACLID)
	if err != nil {
		return err
	}
	defer unlock()
	items, err := w.API.ListNetworkACLs(ctx, cloudstack.NetworkACLQuery{ListID: s.ACLID, ProjectID: w.Project})
	if err != nil {
		return err
	}

	var known []plan.Item
	for _, it := range items {
		known = append(known, observe.ACLItem(&it, w.Subject))
	}

	if conflict, widens := plan.SharedACL(w.Desired, plan.ACL{ListID: s.ACLID, Items: known}); widens {
		return conflict // another Service has opened the port since the plan was made
	}

	f := s.Access
	number, refusal := plan.FreeNumber(known, f)
	if refusal != nil {
		return refusal
	}

	submitted, err := w.API.Client.CreateNetworkACL(ctx, cloudstack.CreateNetworkACLRequest{
		ListID: s.ACLID, Protocol: f.Protocol, StartPort: f.StartPort, EndPort: f.EndPort, CIDRs: f.CIDRs,
		Number: number, Reason: plan.ACLReason(w.Clusters[0], w.Service),
	})
	if err == nil {
		w.note(s, submitted).outcome.Number = number
	}

	return err
}
