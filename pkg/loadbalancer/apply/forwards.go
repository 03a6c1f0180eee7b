// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

const (
	cmdCreateForward = "createPortForwardingRule"
	cmdUpdateForward = "updatePortForwardingRule"
	// textNoCIDRs is what servers say that have no source ranges of port forwardings.
	textNoCIDRs = "cidrList is deprecated"
)

func (r *run) createForward(ctx context.Context, s plan.Step, act plan.CreateForward) error {
	vm, secondary := plan.SplitMember(act.Member)
	request := cloudstack.CreatePortForwardingRequest{
		PublicIPID: r.on(act.OnAddress).ID, Protocol: act.Protocol, PublicPort: act.Port, PrivatePort: act.PrivatePort, VMID: vm, GuestIP: secondary, CIDRs: act.CIDRs,
	}
	if r.Desired.VPCID != "" {
		request.NetworkID = r.Desired.NetworkID // the first one binds the address to the tier
	}
	submitted, err := r.API.CreatePortForwarding(ctx, request)
	if err != nil {
		return forwardRefused(err, cmdCreateForward, act.OnForward)
	}
	r.forwards = append(r.forwards, submitted.ID)
	r.follow(s, cmdCreateForward, submitted)
	return nil
}

func (r *run) updateForward(ctx context.Context, s plan.Step, act plan.UpdateForward) error {
	vm, secondary := plan.SplitMember(act.Member)
	submitted, err := r.API.UpdatePortForwarding(ctx, cloudstack.UpdatePortForwardingRequest{
		ID: act.ForwardID, VMID: vm, GuestIP: secondary, PrivatePort: act.PrivatePort, CIDRs: act.CIDRs,
	})
	switch {
	case cloudstack.IsNotFound(err) && strings.Contains(err.Error(), "parameter id "):
		// CloudStack deletes the port forwardings of a VM that is expunged: another look shows what is there.
		r.Again = true
		return nil
	case err != nil:
		return forwardRefused(err, cmdUpdateForward, act.OnForward)
	}
	j := r.follow(s, cmdUpdateForward, submitted)
	j.ended = func(err error) error {
		if err == nil {
			r.effect(s, j.outcome)
			r.moved = append(r.moved, act)
		}
		return err
	}
	return nil
}

// recordForwards writes the ids of port forwardings without tags to the Service, if some were made: nothing else proves
// them the Service's when its node port has changed.
func (r *run) recordForwards(ctx context.Context) error {
	for i := range r.Actual.Addresses {
		a := &r.Actual.Addresses[i]
		if slices.ContainsFunc(a.OwnForwards(), func(f plan.Forward) bool { return !f.Tagged && slices.Contains(r.forwards, f.ID) }) {
			r.Records.set(r.record(a))
		}
	}
	if len(r.forwards) == 0 {
		return nil
	}
	return r.Records.Save(ctx)
}

// forwardRefused makes a refusal of an error that only somebody else can put right.
func forwardRefused(err error, command string, on plan.OnForward) error {
	const remedy = "set the annotation " + annotation.Mode + " to " + annotation.Proxy
	e, ok := errors.AsType[*cloudstack.Error](err)
	switch {
	case !ok:
		return err
	case e.Kind == cloudstack.KindConflict:
		return portTaken(err, on.Port, on.IP)
	case e.Kind == cloudstack.KindNotPermitted && e.HTTPCode != 531: // which is about the address or the VM
		return errors.Join(&plan.RefusalError{
			Reason: plan.ReasonUnsupportedMode, Message: "the role of the CloudStack user may not forward ports (" + command + ")",
			Remedy: "have the role allow it, or " + remedy, Port: on.Port,
		}, err)
	case e.HTTPCode == 431 && strings.Contains(e.Text, textNoCIDRs):
		return errors.Join(&plan.RefusalError{
			Reason: plan.ReasonUnsupportedMode, Message: "this CloudStack has no source ranges of port forwardings, by which ports of a VPC are spread and protected",
			Remedy: "upgrade CloudStack, or " + remedy, Port: on.Port,
		}, err)
	}
	return err
}

// tagForwards submits all tags of port forwardings that have none, those created just now included.
func (r *run) tagForwards(ctx context.Context, s plan.Step, act plan.TagForwards) error {
	ids := slices.Clone(r.forwards)
	for _, f := range r.on(act.OnAddress).OwnForwards() {
		if !f.Tagged && !slices.Contains(ids, f.ID) {
			ids = append(ids, f.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return r.tag(ctx, s, plan.ResourceForward, ids, plan.RuleTags(r.Clusters[0], r.Service), func(err error) error {
		_, err = r.tagOutcome(ctx, s, err)
		return err
	})
}
