// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// freshAge is how old what a refusal rests on may be: many Services that are refused at once share a read.
const freshAge = 5 * time.Second

// desire decides what the Service is to have. It makes no call but for a network not seen before, and before a refusal.
func (p *Planner) desire(ctx context.Context, t *task) error {
	if err := p.checkProject(ctx, t); err != nil {
		return err
	}
	refusal, outside, err := p.desireAt(ctx, t, 0)
	if err != nil {
		return err
	}
	if refusal != nil || len(outside) > 0 {
		// What was read may be minutes old: a NIC may have been added, or the network changed.
		if t.refresh != nil {
			if t.Members, t.Reach, err = t.refresh(ctx); err != nil {
				return err
			}
		}
		if refusal, outside, err = p.desireAt(ctx, t, freshAge); err != nil {
			return err
		}
	}
	if refusal != nil {
		return refusal
	}
	if n := t.nobodyFit(); n != nil {
		t.Notify(*n)
	}
	if len(outside) > 0 {
		t.Notify(plan.Notice{Warning: true, Reason: plan.ReasonNodeOutside, Message: "not serving, without a NIC in the network: " + some(outside)})
	}
	return nil
}

func (p *Planner) checkProject(ctx context.Context, t *task) error {
	asked := t.Spec.Project
	if asked == "" && t.OwnProject == "" {
		return nil
	}
	id, err := p.options.Project(ctx, asked)
	known := err == nil
	if !known && (!cloudstack.IsNotFound(err) || t.records.Empty()) {
		return err
	}
	if known && id == t.Project {
		return nil
	}
	names := fmt.Sprintf("annotation %s names project %q", annotation.Project, asked)
	if asked == "" {
		names = "annotation " + annotation.Project + " is not set any more"
	}
	has, back := "project "+t.Project, fmt.Sprintf("set the annotation to %s again", t.Project)
	if t.Project == "" {
		has, back = "no project", "remove the annotation"
	}
	return &plan.RefusalError{
		Reason: plan.ReasonProjectChanged, Message: names + ", and the Service has an address in " + has + ", which CloudStack cannot move",
		Remedy: back + ", or delete and recreate the Service",
	}
}

// desireAt is desire with a description of the network that is no older than maxAge, or than some minutes with zero.
// outside are nodes without a NIC in the network.
func (p *Planner) desireAt(ctx context.Context, t *task, maxAge time.Duration) (refusal *plan.RefusalError, outside []string, err error) {
	current := ""
	if len(t.records.Addresses) > 0 {
		current = t.records.Addresses[0].NetworkID
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
		return refusal, nil, nil
	}
	if id == "" {
		id = current // no nodes: the network of the address that there is
	}
	if id != "" {
		n, err := p.options.Network(ctx, t.Project, id, maxAge)
		if err == nil && n.VPCID != "" && maxAge == 0 && t.tierAge != 0 && !p.limits().LeaveACLs {
			n, err = p.options.Network(ctx, t.Project, id, t.tierAge)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("look up the nodes' network: %w", err)
		}
		t.network = &n
	}
	facts := plan.Facts{Service: t.Service, Spec: t.Spec, Members: t.Members, Network: t.network, LeaveACLs: p.limits().LeaveACLs, Unfit: t.Unfit}
	p.ask(ctx, &facts, maxAge)
	t.Desired, refusal = plan.Desire(facts)
	if refusal != nil && refusal.Reason == plan.ReasonUnsupportedNetwork && t.Spec.Network == "" {
		if others := plan.CommonNetworks(reach, id); len(others) > 0 {
			refusal.Remedy += ", or name another network that all nodes have in " + annotation.Network + ": " + some(others)
		}
	}
	if refusal == nil {
		t.Desired.Members = p.members.one(t.Desired.Members)
		outside = plan.Outside(t.Members, id)
	}
	return refusal, outside, nil
}

// ask finds out what the server lacks of what the Service needs of it.
func (p *Planner) ask(ctx context.Context, facts *plan.Facts, maxAge time.Duration) {
	if facts.Forwards() {
		// Where that cannot be found out, the first creation shows it.
		if lacks, _ := p.apis.missing(ctx, p.options, maxAge, forwardNeeds); lacks != nil {
			facts.NoForwards = lacks.String()
		}
	}
	var needs []need
	if facts.Spec.IdleTimeout > 0 {
		needs = timeoutNeeds(cloudstack.ParamIdleTimeout)
	}
	if facts.Spec.KeepAlive != nil {
		needs = append(needs, timeoutNeeds(cloudstack.ParamKeepAlive)...)
	}
	if len(needs) == 0 {
		return
	}
	// A server ignores a parameter that it does not know, so that nothing would show that it has no effect.
	switch lacks, known := p.apis.missing(ctx, p.options, maxAge, needs); {
	case !known:
		facts.NoTimeouts = "listApis, which would say whether it has them, cannot be called"
	case lacks != nil:
		facts.NoTimeouts = lacks.String() + " (apache/cloudstack#14131)"
	}
}

// some names a few of many.
func some(names []string) string {
	if n := len(names); n > 5 {
		return strings.Join(names[:5], ", ") + fmt.Sprintf(" and %d more", n-5)
	}
	return strings.Join(names, ", ")
}
