// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"errors"
	"fmt"
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
		decide.Forwards: {nil, func(r *reading, ctx context.Context, project string) (err error) {
			r.f.Forwards, err = r.CloudStack.ListPortForwardings(ctx, cloudstack.PortForwardingQuery{ProjectID: project})
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

// enough is how many rules or VMs there may be for all Services to be planned: the members of the rules cost a call for each of
// one or the other.
const enough = 16

// plans reads what the controller would do for Services.
func (r *reading) plans(ctx context.Context) error {
	client, ok := r.CloudStack.(*cloudapi.Client)
	if !ok || r.CloudConfig == nil {
		return nil
	}
	all := r.allMembers || min(len(r.f.AllRules), r.f.VMs.Len()) <= enough
	var chosen []*corev1.Service
	for i := range r.f.Services {
		if s := &r.f.Services[i]; service.Handles(s) && s.DeletionTimestamp == nil && (all || !decide.Settled(s)) {
			chosen = append(chosen, s)
		}
	}
	previewer, settings, err := planner.PreviewerOf(ctx, r.Cluster, &cloud.Cloud{Client: client, Config: r.CloudConfig}, r.Release, "")
	if err != nil {
		r.f.PlanErr = err
		return nil //nolint:nilerr // LB-001 shows it
	}
	nodes := make([]*corev1.Node, 0, len(r.f.Nodes))
	for i := range r.f.Nodes {
		nodes = append(nodes, &r.f.Nodes[i])
	}
	plans, err := planner.Of(ctx, previewer.Round(time.Now()), settings, chosen, nodes)
	if err != nil {
		return err
	}
	r.f.Planned = map[string]*planner.Service{}
	for _, s := range plans.Services {
		r.f.Planned[s.Service] = s
	}
	return nil
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
