// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// current is the state in CloudStack, as it will be once the rules have their names. The controller's own planner reads
// it.
type current struct {
	facts   *Facts
	members []plan.Member
	owner   map[string]string // Service by rule id
	rules   []rules.Rule      // as they will be
	renames []rules.Step      // of rules, and deletions of surplus ones
	planner *loadbalancer.Planner
}

func newCurrent(f *Facts, p *rules.Plan) *current {
	w := &current{facts: f, members: members(f), owner: map[string]string{}, renames: p.Steps}
	name, gone := map[string]string{}, map[string]bool{}
	for i := range p.Items {
		it := &p.Items[i]
		w.owner[it.RuleID], name[it.RuleID] = it.Service, cmp.Or(it.NewName, it.Name)
		gone[it.RuleID] = it.Verdict == rules.VerdictSurplus
	}
	for i := range f.Rules {
		r := f.Rules[i]
		if !gone[r.ID] {
			r.Name = cmp.Or(name[r.ID], r.Name)
			w.rules = append(w.rules, r)
		}
	}
	w.planner = loadbalancer.NewPlanner(factsReader{w}, loadbalancer.Options{
		ClusterIDs: func() []string { return f.ClusterIDs }, Known: f.Limits, Mode: f.mode,
		Project: func(_ context.Context, name string) (string, error) { return name, nil },
		Network: func(_ context.Context, _, id string, _ time.Duration) (plan.Network, error) {
			n, read := f.Networks[id]
			if !read {
				return n, fmt.Errorf("network %s is none of the nodes'", id)
			}
			return n, nil
		},
	})
	return w
}

// preview is what the controller would do for a Service.
func (w *current) preview(svc *corev1.Service, spec annotation.Spec) (loadbalancer.Preview, error) {
	return w.planner.Preview(context.Background(), loadbalancer.Request{
		Facts: plan.Facts{Service: loadbalancer.ServiceOf(svc), Spec: spec, Members: w.members}, Records: unwritten{spec.Records}, Grants: plan.AllGrants(),
	})
}

// unwritten holds a Service's records; a preview saves none.
type unwritten struct{ annotation.Records }

func (u unwritten) Load(context.Context) (annotation.Records, error) { return u.Records, nil }
func (unwritten) Save(context.Context, annotation.Records) error     { return errors.ErrUnsupported }

// factsReader answers the controller's reads from the facts. It implements observe.Reader.
type factsReader struct{ *current }

func (s factsReader) ListPublicIPs(_ context.Context, q cloudstack.PublicIPQuery) ([]cloudstack.PublicIP, error) {
	return keep(s.facts.Addresses, func(ip *cloudstack.PublicIP) bool {
		for key, value := range q.Tags {
			if ip.Tags[key] != value {
				return false
			}
		}
		return (q.ID == "" || q.ID == ip.ID) && (q.Address == "" || q.Address == ip.Address)
	}), nil
}

func (s factsReader) ListLoadBalancerRules(_ context.Context, q cloudstack.LoadBalancerRuleQuery) ([]cloudstack.LoadBalancerRule, error) {
	var out []cloudstack.LoadBalancerRule
	for i := range s.rules {
		r := s.rules[i].LoadBalancerRule
		if (q.PublicIPID == "" || q.PublicIPID == r.PublicIPID) && strings.Contains(r.Name, q.Keyword) {
			out = append(out, r)
		}
	}
	return out, nil
}

func (s factsReader) ListLoadBalancerMembers(_ context.Context, ruleID string) ([]cloudstack.LoadBalancerMember, error) {
	for i := range s.rules {
		if s.rules[i].ID == ruleID {
			return s.rules[i].Members, nil
		}
	}
	return nil, nil
}

func (s factsReader) ListFirewallRules(_ context.Context, q cloudstack.FirewallRuleQuery) ([]cloudstack.FirewallRule, error) {
	return keep(s.facts.Firewall, func(f *cloudstack.FirewallRule) bool { return q.PublicIPID == "" || q.PublicIPID == f.PublicIPID }), nil
}

func (s factsReader) ListNetworkACLs(_ context.Context, q cloudstack.NetworkACLQuery) ([]cloudstack.NetworkACL, error) {
	return keep(s.facts.ACLs, func(a *cloudstack.NetworkACL) bool { return q.ListID == "" || a.ListID == q.ListID }), s.facts.aclsRefused
}

func (s factsReader) ListPortForwardings(_ context.Context, q cloudstack.PortForwardingQuery) ([]cloudstack.PortForwarding, error) {
	return keep(s.facts.Forwards, func(f *cloudstack.PortForwarding) bool {
		for key, value := range q.Tags {
			if f.Tags[key] != value {
				return false
			}
		}
		return (q.ID == "" || q.ID == f.ID) && (q.PublicIPID == "" || q.PublicIPID == f.PublicIPID)
	}), s.facts.forwardsRefused
}

// The predecessors make none of these, and what they are for is not compared.

func (factsReader) ListStickinessPolicies(context.Context, string) ([]cloudstack.StickinessPolicy, error) {
	return nil, nil
}
func (factsReader) ListCertificatesOfRule(context.Context, string) ([]string, error) { return nil, nil }
func (factsReader) ListInternalLoadBalancers(context.Context, cloudstack.InternalLoadBalancerQuery) ([]cloudstack.InternalLoadBalancer, error) {
	return nil, nil
}

func keep[T any](all []T, want func(*T) bool) []T {
	return slices.DeleteFunc(slices.Clone(all), func(x T) bool { return !want(&x) })
}

// reach returns the sources that reach a port: both the firewall and the rule let them in. The result is minimal and sorted.
func reach(a *plan.Address, r *plan.Item) []string {
	var open []netip.Prefix
	for i := range a.Firewall {
		f := &a.Firewall[i]
		all := f.StartPort == 0 && f.EndPort == 0
		if f.Protocol != plan.ProtocolTCP && f.Protocol != "all" || !all && (r.StartPort < f.StartPort || f.EndPort < r.StartPort) {
			continue
		}
		open = append(open, prefixes(f.CIDRs)...)
	}
	rule := r.CIDRs
	if len(rule) == 0 {
		rule = []string{annotation.Anyone}
	}
	return minimal(annotation.Intersect(annotation.Normalise(open), prefixes(rule)))
}

func prefixes(in []string) []netip.Prefix {
	v4, _, err := annotation.ParseRanges(in)
	if err != nil {
		return nil // CloudStack sends no others
	}
	return v4
}

// minimal leaves out what another range holds.
func minimal(in []netip.Prefix) []string {
	return annotation.Strings(slices.DeleteFunc(slices.Clone(in), func(p netip.Prefix) bool {
		return slices.ContainsFunc(in, func(o netip.Prefix) bool { return o.Bits() < p.Bits() && o.Contains(p.Addr()) })
	}))
}
