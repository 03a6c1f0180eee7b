// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/loadbalancer/plan/access"
)

// readRules reads the load balancer rules on an address.
func (r *reading) readRules(ctx context.Context, a *plan.Address) error {
	rules, err := r.findRules(ctx, r.fresh(a.ID), cloudstack.LoadBalancerRuleQuery{PublicIPID: a.ID},
		func(l *cloudstack.LoadBalancerRule) bool { return l.PublicIPID == a.ID })
	if err != nil {
		return fmt.Errorf("list load balancer rules of %s: %w", a.IP, err)
	}

	for i := range rules {
		led, err := r.leadsToNodes(ctx, &rules[i], a)
		if err != nil {
			return err
		}
		rule := r.classify(&rules[i], a, led)
		if len(rule.CIDRs) > 0 {
			r.Role.Note(r.Project, plan.AbilityCIDRs, true)
		}
		if a.NetworkID == "" {
			a.NetworkID = rules[i].NetworkID
		}
		a.Rules = append(a.Rules, rule)
	}

	if r.Desired.Absent {
		return nil
	}

	sticky := false
	for i := range a.Rules {
		rule := &a.Rules[i]
		if rule.Owner != plan.Owned {
			continue
		}
		rule.Members, err = r.members(ctx, rule, a)
		if rule.MembersUnread, err = r.unread(ctx, err); err != nil {
			return err
		}
		if rule.ExtrasUnread, err = r.unread(ctx, r.readExtras(ctx, rule, a)); err != nil {
			return err
		}
		sticky = sticky || rule.PolicyID != ""
	}

	// If there is no policy and none is desired, the next read need not look for any.
	a.HasStickiness = sticky || a.HasStickiness && r.Desired.HasStickiness()
	return nil
}

// classify decides which Service owns a rule. The tags decide if there are any. Otherwise the name decides, together
// with another fact that only the Service's own rule would have.
func (r *reading) classify(in *cloudstack.LoadBalancerRule, a *plan.Address, led bool) plan.Item {
	out := item(in.ID, in.State, in.Protocol, in.PublicPort, in.PublicPort, in.CIDRs, r.mark(in.Tags))
	out.Name, out.Algorithm, out.PrivatePort = in.Name, strings.ToLower(in.Algorithm), in.PrivatePort
	out.Adopted = in.Description != r.Service.Key()

	switch {
	case a.ForeignCluster:
		out.Owner = plan.Foreign
	case out.Owner == plan.Unknown:
		out.Owner = plan.Foreign
		byUID, own := r.Service.NamesRule(in.Name, r.ClusterName)
		switch {
		case !own:
		case r.corroborates(in, a, byUID), led:
			out.Owner = plan.Owned
		default:
			out.Owner = plan.Unknown
			r.warn(plan.ReasonUnverifiedRule, fmt.Sprintf(
				"load balancer rule %s (%s) on %s has a name of this Service, but nothing proves that the Service "+
					"owns it; it is left alone", in.Name, in.ID, a.IP))
		}
	}

	if out.Owner != plan.Owned {
		out.By = r.describe(r.serviceOf(in.Name, in.Tags))
	}

	return out
}

// corroborates reports whether more than the name shows that a rule is the Service's: the address is the Service's, or
// the name contains the UID and the rule has the Service's node port or our description.
func (r *reading) corroborates(in *cloudstack.LoadBalancerRule, a *plan.Address, byUID bool) bool {
	described := in.Description == r.Service.Key() || r.Service.HasPort("", in.PublicPort, in.PrivatePort)
	return a.Recorded || a.InStatus || a.Owner == plan.Owned || byUID && described
}

// leadsToNodes reports whether a rule that Leaseweb's provider named after the Service leads to its node port on the
// cluster's own nodes. This is the proof if the status shows a hostname instead of an address, since anybody could have
// written the annotation that names the address.
func (r *reading) leadsToNodes(ctx context.Context, in *cloudstack.LoadBalancerRule, a *plan.Address) (bool, error) {
	byUID, named := r.Service.NamesRule(in.Name, r.ClusterName)
	switch {
	case !named, byUID, a.ID != r.Spec.PredecessorAddress, a.InStatus, a.Recorded, len(in.Tags) > 0,
		!r.Service.HasPort("", in.PublicPort, in.PrivatePort):
		return false, nil
	}
	members, err := r.members(ctx, &plan.Item{Rule: access.Rule{ID: in.ID}, Name: in.Name}, a)
	if err != nil {
		return false, err
	}
	outside := slices.ContainsFunc(members, func(name string) bool {
		vm, _ := plan.SplitMember(name)
		return !slices.ContainsFunc(r.Nodes(), func(m plan.Member) bool { return m.VMID == vm })
	})
	return len(members) > 0 && !outside, nil
}

// serviceOf returns the Service of a rule, by its tags or else by its name; nil if the cluster has no such Service.
func (r *reading) serviceOf(rule string, tags map[string]string) *plan.Holder {
	if uid := tags[plan.TagServiceUID]; uid != "" {
		return r.Book.ByUID(uid)
	}
	if lb, _, _, _, ok := plan.ParseRuleName(rule); ok {
		return r.Book.Find(func(h *plan.Holder) bool { return plan.LBName(h.UID) == lb })
	}
	if cluster, namespace, service, ok := plan.ParseLeasewebName(rule); ok && cluster == r.ClusterName {
		return r.Book.Find(func(h *plan.Holder) bool { return h.Namespace == namespace && h.Name == service })
	}
	return nil
}

// describe returns a description of a Service; empty for nil. It contains the name only if the Service is in the same
// namespace.
func (r *reading) describe(h *plan.Holder) string {
	switch {
	case h == nil:
		return ""
	case h.Namespace != r.Service.Namespace:
		return "a Service of another namespace"
	}
	return "Service " + h.Namespace + "/" + h.Name
}

// last returns the last known state of an own rule, if its members, stickiness and certificate are known, each of which
// costs a read per rule; otherwise nil.
func (r *reading) last(a *plan.Address, ruleID string) *plan.Item {
	if r.Actual == nil {
		return nil
	}
	if before := r.Actual.Find(a.ID); before != nil && before.Acquired == a.Acquired {
		if rule := before.Rule(ruleID, 0); rule != nil &&
			rule.Owner == plan.Owned &&
			!rule.MembersUnread &&
			!rule.ExtrasUnread {
			return rule
		}
	}
	return nil
}

// members returns the members of a rule, as remembered or else as read. Most lists equal the desired one, which is then
// shared.
func (r *reading) members(ctx context.Context, rule *plan.Item, a *plan.Address) (out []string, err error) {
	// A rule in state Add has no members, so do not ask for them.
	if known := r.last(a, rule.ID); known != nil && (rule.State != plan.StateAdd || len(known.Members) == 0) {
		return known.Members, nil
	}

	byRule, err := r.membersByRule(ctx, a)
	if err != nil {
		return nil, err
	}

	out = slices.Sorted(slices.Values(byRule[rule.ID]))
	if byRule == nil {
		list, err := r.api.ListLoadBalancerMembers(ctx, rule.ID)
		if err != nil {
			return nil, fmt.Errorf("list members of rule %s: %w", rule.Name, err)
		}
		out = r.memberNames(list, a.NetworkID)
	}

	if slices.Equal(out, r.Desired.Members) {
		out = r.Desired.Members
	}

	return out, nil
}

// memberNames returns the names of members in a network, see plan.MemberName. It is that of the rule, which is not the
// desired one while the Service has yet to move. The NIC's address is not known for a VM that is no longer a node.
func (r *reading) memberNames(list []cloudstack.LoadBalancerMember, network string) (out []string) {
	known := r.primaryIn(network)
	for _, m := range list {
		primary := known[m.VMID]
		if primary == "" || len(m.Addresses) == 0 {
			out = append(out, m.VMID)
			continue
		}
		for _, address := range m.Addresses {
			if address == primary {
				address = ""
			}
			out = append(out, plan.MemberName(m.VMID, address))
		}
	}

	slices.Sort(out)
	return slices.Compact(out)
}

// primaryIn returns the primary addresses of the nodes in a network, by VM.
func (r *reading) primaryIn(network string) map[string]string {
	if r.primary[network] == nil {
		r.primary[network] = plan.PrimaryAddresses(r.Nodes(), network)
	}
	return r.primary[network]
}

// readExtras reads the stickiness policy and certificate of a rule that may have them. It uses what is remembered, or
// else one call each.
func (r *reading) readExtras(ctx context.Context, rule *plan.Item, a *plan.Address) error {
	sticky, tls := a.HasStickiness, rule.Protocol == plan.ProtocolSSL
	if !sticky && !tls {
		return nil
	}

	if known := r.last(a, rule.ID); known != nil {
		rule.Stickiness, rule.PolicyID, rule.Certificate = known.Stickiness, known.PolicyID, known.Certificate
		return nil
	}

	if sticky {
		policies, err := r.api.ListStickinessPolicies(ctx, rule.ID)
		if err != nil {
			return fmt.Errorf("read the stickiness of rule %s: %w", rule.Name, err)
		}
		if n := len(policies); n > 0 {
			p := policies[n-1]
			rule.Stickiness, rule.PolicyID = &annotation.Stickiness{Method: p.Method, Params: p.Params}, p.ID
		}
	}

	if tls {
		certificates, err := r.api.ListCertificatesOfRule(ctx, rule.ID)
		if err != nil && !cloudstack.IsNotFound(err) {
			return fmt.Errorf("read the certificate of rule %s: %w", rule.Name, err)
		}
		if len(certificates) > 0 {
			rule.Certificate = certificates[0]
		}
	}

	return nil
}

// forwardsTagged returns the port forwardings that are tagged for the Service.
func (r *reading) forwardsTagged(ctx context.Context) ([]cloudstack.PortForwarding, error) {
	uid := r.Service.UID
	list, err := find(ctx, r, r.shared != nil, r.api.ListPortForwardings,
		cloudstack.PortForwardingQuery{ProjectID: r.Project},
		cloudstack.PortForwardingQuery{Tags: map[string]string{plan.TagServiceUID: uid}, ProjectID: r.Project},
		func(f *cloudstack.PortForwarding) bool { return f.Tags[plan.TagServiceUID] == uid })
	if Permitted(err) != nil {
		return nil, fmt.Errorf("look for port forwardings tagged for %s: %w", r.Service.Key(), err)
	}
	return list, nil
}

// mayHaveForwards reports whether the address may have port forwardings of the Service: the Service wants some, or its
// record names some.
func (r *reading) mayHaveForwards(c *candidate) bool {
	return len(r.Desired.Forwards) > 0 || c.recorded != nil && (c.recorded.Forwarded != "" || c.recorded.Forwards != "")
}

// readForwards reads the port forwardings of an address. If the role may not list them, none are known, and CloudStack
// refuses a rule on a forwarded port before anything else is changed.
func (r *reading) readForwards(ctx context.Context, c *candidate) error {
	a := &c.Address
	if r.mayHaveForwards(c) {
		r.noForwards.Store(false)
	}

	all := cloudstack.PortForwardingQuery{ProjectID: r.Project}
	query := cloudstack.PortForwardingQuery{PublicIPID: a.ID, ProjectID: r.Project}
	if a.State == plan.StateReleasing {
		// CloudStack does not list the forwardings of a single address that is being released.
		query = all
	}

	on := func(f *cloudstack.PortForwarding) bool { return f.PublicIPID == a.ID }
	list, err := find(ctx, r, r.fresh(a.ID), r.api.ListPortForwardings, all, query, on)
	if Permitted(err) != nil {
		return fmt.Errorf("list port forwardings of %s: %w", a.IP, err)
	}

	var ids []string
	if c.recorded != nil {
		ids = strings.Fields(c.recorded.Forwards)
	}

	for i := range list {
		f := r.forward(&list[i], a, ids)
		if f.Owner == plan.Owned && a.NetworkID == "" {
			a.NetworkID = list[i].NetworkID
		}
		a.Forwards = append(a.Forwards, f)
	}

	a.ForwardsKnown = true
	return nil
}

// forward converts a port forwarding, and decides to whom it belongs.
func (r *reading) forward(in *cloudstack.PortForwarding, a *plan.Address, recorded []string) plan.Item {
	out := item(in.ID, in.State, in.Protocol, in.StartPort, in.EndPort, in.CIDRs, r.mark(in.Tags))
	out.VM, out.Member, out.PrivatePort = cmp.Or(in.VMName, in.VMID), in.VMID, in.PrivatePort

	// The tags decide, or else the record: by id, or by port and node port if the id was not recorded.
	byRecord := slices.Contains(recorded, in.ID) ||
		slices.Contains(a.ForwardPorts[out.Protocol], out.StartPort) &&
			slices.Contains(a.ForwardTargets[out.Protocol], in.PrivatePort)
	own := out.Owner == plan.Owned || out.Owner == plan.Unknown && byRecord
	switch {
	case own && !a.ForeignCluster && out.StartPort == out.EndPort:
		out.Owner = plan.Owned
	case out.Owner == plan.Foreign && slices.Contains(r.Clusters, in.Tags[plan.TagCluster]):
		out.By = r.describe(r.Book.ByUID(in.Tags[plan.TagServiceUID]))
	default:
		out.Owner = plan.Foreign
	}

	if primary := r.primaryIn(in.NetworkID)[in.VMID]; primary != "" && in.GuestIP != "" && in.GuestIP != primary {
		out.Member = plan.MemberName(in.VMID, in.GuestIP)
	}

	return out
}

// allForwards returns the port forwardings of the project, to find orphans among them. They are listed once, and again
// only while the cluster has any. A role that may not list them has created none.
func (r *reading) allForwards(ctx context.Context, clusters []string) ([]cloudstack.PortForwarding, error) {
	if r.noForwards.Load() {
		return nil, nil
	}
	list, err := whole(ctx, r, r.api.ListPortForwardings, cloudstack.PortForwardingQuery{ProjectID: r.Project})
	if Permitted(err) != nil {
		return nil, fmt.Errorf("list port forwardings: %w", err)
	}
	r.noForwards.Store(!slices.ContainsFunc(list,
		func(f cloudstack.PortForwarding) bool { return slices.Contains(clusters, f.Tags[plan.TagCluster]) }))
	return list, nil
}
