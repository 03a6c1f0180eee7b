// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/check/ckscheck"
	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
	lbrules "github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/kube/cluster"
	planner "github.com/csccm/csccm/installer/plan"
	"github.com/csccm/csccm/pkg/cloudstack"
	lbplan "github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/service"
)

// allSources are those of Kubernetes and of CloudStack.
func allSources() map[decide.Source]source {
	out := kubeSources()
	for s, src := range cloudSources() {
		read := src.read
		src.read = func(r *reading, ctx context.Context) error {
			if r.CloudStack == nil {
				// Checks that need the source also need CS-001, which says it properly.
				return errors.New("no CloudStack credentials")
			}
			return read(r, ctx)
		}
		out[s] = src
	}
	return out
}

func cloudSources() map[decide.Source]source {
	out := map[decide.Source]source{
		decide.Capabilities: {read: func(r *reading, ctx context.Context) (err error) {
			if r.f.Capabilities, err = r.CloudStack.Capabilities(ctx); err == nil {
				r.f.CloudStackVersion = r.f.Capabilities.Version
			}
			return err
		}},
		// Even a refusal has a date.
		decide.Clock: {tries: []decide.Source{decide.Capabilities}, read: func(r *reading, _ context.Context) error {
			if api, is := r.CloudStack.(interface{ ClockOffset() (time.Duration, bool) }); is {
				if d, known := api.ClockOffset(); known {
					r.f.ClockAhead = &d
				}
			}
			return nil
		}},
		decide.APIs: {read: func(r *reading, ctx context.Context) (err error) {
			r.f.APIs, err = r.CloudStack.ListAPIs(ctx)
			return err
		}},
		decide.Users: {tries: []decide.Source{decide.Capabilities}, read: (*reading).owner},
		decide.Project: {read: func(r *reading, ctx context.Context) error {
			_, err := r.inventory.ProjectID(ctx)
			return err
		}},
		decide.Zones: {read: func(r *reading, ctx context.Context) (err error) { r.f.Zones, err = r.inventory.Zones(ctx); return err }},
		decide.VMs:   {read: func(r *reading, ctx context.Context) (err error) { r.f.VMs, err = r.inventory.VMs(ctx, 0); return err }},
		decide.EmptyPlace: {needs: []decide.Source{decide.VMs}, read: func(r *reading, ctx context.Context) error {
			if r.f.VMs.Len() > 0 {
				return nil
			}
			return r.get(ctx, decide.Places)
		}},
		decide.Balancers: {needs: []decide.Source{decide.AllRules, decide.Services}, read: (*reading).balancers},
		decide.Plans:     {needs: []decide.Source{decide.Services, decide.Nodes, decide.AllRules, decide.VMs}, read: (*reading).plans},
	}
	// The others are of the project of the cloud-config.
	for s, src := range map[decide.Source]struct {
		needs []decide.Source
		read  func(r *reading, ctx context.Context, project string) error
	}{
		decide.Places: {[]decide.Source{decide.Nodes, decide.VMs}, func(r *reading, ctx context.Context, project string) error {
			if len(decide.Lost(r.f.Nodes, r.f.VMs)) > 0 {
				r.f.Places = credentials.Places(ctx, r.CloudStack, project)
			}
			return nil
		}},
		decide.Networks: {nil, func(r *reading, ctx context.Context, project string) (err error) {
			r.f.Networks, err = r.CloudStack.ListNetworks(ctx, cloudstack.NetworkQuery{ProjectID: project})
			return err
		}},
		decide.Addresses: {nil, func(r *reading, ctx context.Context, project string) (err error) {
			r.f.Addresses, err = r.CloudStack.ListPublicIPs(ctx, cloudstack.PublicIPQuery{ProjectID: project})
			return err
		}},
		decide.AllRules: {nil, func(r *reading, ctx context.Context, project string) (err error) {
			r.f.AllRules, err = r.CloudStack.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{ProjectID: project})
			return err
		}},
		decide.Forwards: {[]decide.Source{decide.Services}, func(r *reading, ctx context.Context, project string) (err error) {
			if slices.ContainsFunc(r.f.Services, func(s corev1.Service) bool { return decide.MayForward(&s, r.f.Config.LBMode) }) {
				r.f.Forwards, err = r.CloudStack.ListPortForwardings(ctx, cloudstack.PortForwardingQuery{ProjectID: project})
			}
			return err
		}},
		decide.CKS: {[]decide.Source{decide.Nodes, decide.VMs}, (*reading).cks},
	} {
		out[s] = source{needs: src.needs, read: func(r *reading, ctx context.Context) error {
			project, err := r.inventory.ProjectID(ctx)
			if err != nil {
				return err
			}
			return src.read(r, ctx, project)
		}}
	}
	return out
}

// owner reads whose accepted keys are, where the role may list its users.
func (r *reading) owner(ctx context.Context) error {
	if err := r.f.Err(decide.Capabilities); err != nil && !cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		return err
	}
	users, err := r.CloudStack.ListUsers(ctx, "", "", "")
	for _, u := range users {
		if u.APIKey != "" && u.APIKey == r.f.Config.APIKey {
			r.f.Owner = &decide.Owner{User: u.Username, Account: u.Account, Domain: u.Domain, State: u.State, Role: fmt.Sprintf("%s (%s)", u.RoleName, u.RoleType)}
		}
	}
	return err
}

// balancers reads the members of all rules whose names any provider for Kubernetes gives and that are not the current rule of
// a Service: they say whose a rule is.
func (r *reading) balancers(ctx context.Context) error {
	rules := slices.DeleteFunc(slices.Clone(r.f.AllRules), func(x cloudstack.LoadBalancerRule) bool {
		return lbrules.ParseName(x.Name).Family == lbrules.FamilyForeign
	})
	slices.SortFunc(rules, func(a, b cloudstack.LoadBalancerRule) int { return strings.Compare(a.Name+a.ID, b.Name+b.ID) })
	names := &Facts{Services: r.f.Services, Rules: rules}
	var odd []string
	for _, it := range names.RulePlan().Items {
		if it.Verdict != lbrules.VerdictCurrent {
			odd = append(odd, it.RuleID)
		}
	}
	members, err := parallel(ctx, odd, func(ctx context.Context, id *string) ([]cloudstack.LoadBalancerMember, error) {
		list, err := r.CloudStack.ListLoadBalancerMembers(ctx, *id)
		if cloudstack.IsNotFound(err) {
			return nil, nil // deleted since the list was read
		}
		return list, err
	})
	if err != nil {
		return err
	}
	r.f.Rules, r.f.OddMembers = rules, decide.Members{}
	for i, id := range odd {
		r.f.OddMembers[id] = members[i]
	}
	return nil
}

const (
	// enoughRules is how many rules there may be for all Services to be planned: each rule's members cost a call.
	enoughRules = 16
	// sampleOf is how many of the Services that look as they should are planned where there are more.
	sampleOf = 4
)

// plans reads what the controller would do for Services.
func (r *reading) plans(ctx context.Context) error {
	client, ok := r.CloudStack.(*cloudapi.Client)
	if !ok || r.CloudConfig == nil {
		return nil
	}
	rules, vms := len(r.f.AllRules), r.f.VMs.Len()
	many := rules > enoughRules && !r.allMembers
	costly := many && vms > enoughRules && rules > vms // the planner asks each VM for its rules
	var chosen, settled []*corev1.Service
	for i := range r.f.Services {
		switch s := &r.f.Services[i]; {
		case !service.Handles(s) || s.DeletionTimestamp != nil:
		case many && decide.Settled(s, r.CloudConfig.LBMode):
			settled = append(settled, s)
		default:
			chosen = append(chosen, s)
		}
	}
	r.f.Sampled = len(settled) > sampleOf || costly && len(settled) > 0
	switch first := int(r.f.At.Unix()); {
	case costly:
	case len(settled) <= sampleOf:
		chosen = append(chosen, settled...)
	default: // some from all over the list, others at another time
		for i := range sampleOf {
			chosen = append(chosen, settled[(first+i*len(settled)/sampleOf)%len(settled)])
		}
	}
	previewer, settings, err := planner.PreviewerOf(ctx, r.Cluster, &cloud.Cloud{Client: client, Config: r.CloudConfig}, r.Release, "")
	if err != nil {
		r.f.PlanErr = err
		return nil //nolint:nilerr // LB-001 shows it, and compares the rules alone
	}
	nodes := make([]*corev1.Node, 0, len(r.f.Nodes))
	for i := range r.f.Nodes {
		nodes = append(nodes, &r.f.Nodes[i])
	}
	all, err := planner.Of(ctx, previewer.Round(time.Now()), settings, chosen, nodes)
	if err != nil {
		return err
	}
	r.f.Planned, r.f.PlanMembers = map[string]decide.Planned{}, decide.Members{}
	for _, s := range all.Services {
		p := decide.Planned{Err: s.Cause()}
		if s.Refusal != nil {
			p.Refused, p.Remedy = s.Refusal.Message, s.Refusal.Remedy
		}
		for i := range s.Actions {
			// A tag only notes whose something is: the Service works without it.
			if !s.Actions[i].Held && !strings.HasPrefix(s.Actions[i].Kind, "tag-") {
				p.Actions = append(p.Actions, "would "+s.Actions[i].Label())
			}
		}
		r.f.Planned[s.Service] = p
		if s.Actual != nil {
			maps.Copy(r.f.PlanMembers, membersOf(s.Actual.Addresses))
		}
	}
	return nil
}

func membersOf(addresses []lbplan.Address) decide.Members {
	out := decide.Members{}
	for i := range addresses {
		for _, rule := range addresses[i].Rules {
			for _, id := range rule.Members {
				vm, _ := lbplan.SplitMember(id)
				out[rule.ID] = append(out[rule.ID], cloudstack.LoadBalancerMember{VMID: vm})
			}
		}
	}
	return out
}

// cks reads CloudStack's object of the cluster, the firewall of its address and its API server's certificate: on clusters
// whose nodes are named as CKS names them.
func (r *reading) cks(ctx context.Context, project string) error {
	if !slices.ContainsFunc(r.f.Nodes, func(n corev1.Node) bool { return cluster.NamedByCKS(n.Name) }) {
		r.f.NotCKS = "not made by CKS: no node has such a name"
		return nil
	}
	clusters, err := r.CloudStack.ListKubernetesClusters(ctx, project)
	k := ckscheck.ClusterOf(clusters, lbrules.NodeVMs(r.f.Nodes, r.f.VMs))
	switch {
	case cloudstack.IsKind(err, cloudstack.KindNotPermitted):
		r.f.NotCKS = "not checked: the role of the keys may not list the clusters of CKS"
	case err != nil:
		return err
	case k == nil:
		r.f.NotCKS = "not made by CKS: none of its clusters has these nodes"
	case k.Type == cloudstack.ExternalManaged:
		r.f.NotCKS = "not made by CKS: CloudStack only lists it"
	}
	if r.f.NotCKS != "" {
		return nil
	}
	f := &ckscheck.Facts{Now: r.Clock.Now(), Cluster: k, Nodes: r.f.Nodes, Unread: map[ckscheck.Subject]string{}}
	// CloudStack's clock is that of the nodes more likely than this machine's.
	if _ = r.get(ctx, decide.Clock); r.f.ClockAhead != nil {
		f.Now = f.Now.Add(*r.f.ClockAhead)
	}
	if c, err := ckscheck.Serving(ctx, r.DialAPI, k.Endpoint); err != nil {
		f.Unread[ckscheck.SubjectCertificate] = err.Error()
	} else {
		f.Certificates = []ckscheck.Certificate{*c}
	}
	if k.IPAddressID != "" {
		f.Firewall, err = r.CloudStack.ListFirewallRules(ctx, cloudstack.FirewallRuleQuery{PublicIPID: k.IPAddressID, ProjectID: project})
		if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
			f.Unread[ckscheck.SubjectFirewall] = "the role of the keys does not allow it"
			err = nil
		}
	}
	r.f.CKS = f
	return err
}
