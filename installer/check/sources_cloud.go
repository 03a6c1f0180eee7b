// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"errors"
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

// allSources are those of Kubernetes and of CloudStack. Without an answer to the keys no other is asked for from CloudStack.
func allSources() map[decide.Source]source {
	out := kubeSources()
	for s, src := range cloudSources() {
		if s != decide.Capabilities {
			src.needs = append(src.needs, decide.Capabilities)
		}
		out[s] = src
	}
	return out
}

func cloudSources() map[decide.Source]source {
	inProject := []decide.Source{decide.Project}
	return map[decide.Source]source{
		decide.Capabilities: {read: func(ctx context.Context, r *reading, f *Facts) (err error) {
			if r.CloudStack == nil {
				return errors.New("no CloudStack credentials") // CS-001, which all others need, says it properly
			}
			f.Capabilities, err = r.CloudStack.Capabilities(ctx)
			if d, known := r.CloudStack.ClockOffset(); known { // even a refusal has a date
				f.ClockAhead = &d
			}
			if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
				return nil // a role may refuse listCapabilities and allow others
			}
			if err == nil {
				f.CloudStackVersion = f.Capabilities.Version
			}
			return err
		}},
		decide.APIs: {read: func(ctx context.Context, r *reading, f *Facts) (err error) {
			f.APIs, err = r.CloudStack.ListAPIs(ctx)
			return err
		}},
		// Whose the keys are, where the role may list its users.
		decide.Users: {read: func(ctx context.Context, r *reading, f *Facts) error {
			users, err := r.CloudStack.ListUsers(ctx, "")
			if i := slices.IndexFunc(users, func(u cloudapi.User) bool { return u.APIKey != "" && u.APIKey == f.Config.APIKey }); i >= 0 {
				f.Owner = &users[i]
			}
			return err
		}},
		decide.Project: {read: func(ctx context.Context, r *reading, _ *Facts) (err error) {
			r.project, err = r.inventory.ProjectID(ctx)
			return err
		}},
		decide.Zones: {read: func(ctx context.Context, r *reading, f *Facts) (err error) {
			f.Zones, err = r.inventory.Zones(ctx)
			return err
		}},
		decide.VMs: {read: func(ctx context.Context, r *reading, f *Facts) (err error) {
			f.VMs, err = r.inventory.VMs(ctx, 0)
			return err
		}},
		decide.Places: {needs: []decide.Source{decide.Project, decide.Nodes, decide.VMs}, read: func(ctx context.Context, r *reading, f *Facts) error {
			if len(decide.Lost(f.Nodes, f.VMs)) > 0 {
				f.Places = credentials.Places(ctx, r.CloudStack, r.project)
			}
			return nil
		}},
		decide.Networks: {needs: inProject, read: func(ctx context.Context, r *reading, f *Facts) (err error) {
			f.Networks, err = r.CloudStack.ListNetworks(ctx, cloudstack.NetworkQuery{ProjectID: r.project})
			return err
		}},
		decide.Addresses: {needs: inProject, read: func(ctx context.Context, r *reading, f *Facts) (err error) {
			f.Addresses, err = r.CloudStack.ListPublicIPs(ctx, cloudstack.PublicIPQuery{ProjectID: r.project})
			return err
		}},
		// The minimal role may not ask, and the checks do without.
		decide.Quota: {needs: []decide.Source{decide.Project, decide.APIs}, read: func(ctx context.Context, r *reading, f *Facts) error {
			if !f.APIs.HasAll("listAccounts", "listProjects") {
				return nil
			}
			quota, err := r.CloudStack.ReadQuota(ctx, r.project)
			if err == nil && quota.PublicIPs.Max != cloudapi.Unlimited {
				f.Quota = &quota.PublicIPs
			}
			return err
		}},
		decide.AllRules: {needs: inProject, read: func(ctx context.Context, r *reading, f *Facts) (err error) {
			f.AllRules, err = r.CloudStack.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{ProjectID: r.project})
			return err
		}},
		decide.Forwards: {needs: inProject, read: func(ctx context.Context, r *reading, f *Facts) (err error) {
			f.Forwards, err = r.CloudStack.ListPortForwardings(ctx, cloudstack.PortForwardingQuery{ProjectID: r.project})
			return err
		}},
		decide.Balancers: {needs: []decide.Source{decide.AllRules, decide.Services}, read: readBalancers},
		decide.Plans:     {needs: []decide.Source{decide.Services, decide.Nodes, decide.AllRules, decide.VMs}, read: readPlans},
		decide.CKS:       {needs: []decide.Source{decide.Project, decide.Nodes, decide.VMs}, read: readCKS},
	}
}

// readBalancers reads the members of all rules whose names any provider for Kubernetes gives and that are not the current rule of
// a Service: they say whose a rule is.
func readBalancers(ctx context.Context, r *reading, f *Facts) (err error) {
	rules := slices.DeleteFunc(slices.Clone(f.AllRules), func(x cloudstack.LoadBalancerRule) bool {
		return lbrules.ParseName(x.Name).Family == lbrules.FamilyForeign
	})
	slices.SortFunc(rules, func(a, b cloudstack.LoadBalancerRule) int { return strings.Compare(a.Name+a.ID, b.Name+b.ID) })
	names := &Facts{Services: f.Services, Rules: rules}
	var odd []string
	for _, it := range names.RulePlan().Items {
		if it.Verdict != lbrules.VerdictCurrent {
			odd = append(odd, it.RuleID)
		}
	}
	if f.OddMembers, err = lbrules.ReadMembers(ctx, r.CloudStack, odd); err == nil {
		f.Rules = rules
	}
	return err
}

// enough is how many rules or VMs there may be for all Services to be planned: the members of the rules cost a call for each of
// one or the other.
const enough = 16

// readPlans reads what the controller would do for Services.
func readPlans(ctx context.Context, r *reading, f *Facts) error {
	all := r.allMembers || min(len(f.AllRules), f.VMs.Len()) <= enough
	var chosen []*corev1.Service
	for i := range f.Services {
		if s := &f.Services[i]; service.Handles(s) && s.DeletionTimestamp == nil && (all || !decide.Settled(s)) {
			chosen = append(chosen, s)
		}
	}
	previewer, settings, err := planner.PreviewerOf(ctx, r.Cluster, &cloud.Cloud{Client: r.CloudStack, Config: r.CloudConfig}, r.Release, "")
	if err != nil {
		f.PlanErr = err
		return nil //nolint:nilerr // LB-001 shows it
	}
	plans, err := planner.Of(ctx, previewer.Round(time.Now()), settings, chosen, f.Nodes)
	if err != nil {
		return err
	}
	f.Planned = map[string]*planner.Service{}
	for _, s := range plans.Services {
		f.Planned[s.Service] = s
	}
	return nil
}

// readCKS reads CloudStack's object of the cluster, the firewall of its address and its API server's certificate: on clusters
// whose nodes are named as CKS names them.
func readCKS(ctx context.Context, r *reading, f *Facts) error {
	if !slices.ContainsFunc(f.Nodes, func(n corev1.Node) bool { return cluster.NamedByCKS(n.Name) }) {
		f.NotCKS = "not made by CKS: no node has such a name"
		return nil
	}
	clusters, err := r.CloudStack.ListKubernetesClusters(ctx, r.project)
	k := ckscheck.ClusterOf(clusters, lbrules.NodeVMs(f.Nodes, f.VMs))
	switch {
	case cloudstack.IsKind(err, cloudstack.KindNotPermitted):
		f.NotCKS = "not checked: the role of the keys may not list the clusters of CKS"
	case err != nil:
		return err
	case k == nil:
		f.NotCKS = "not made by CKS: none of its clusters has these nodes"
	case k.Type == cloudstack.ExternalManaged:
		f.NotCKS = "not made by CKS: CloudStack only lists it"
	}
	if f.NotCKS != "" {
		return nil
	}
	found := &ckscheck.Facts{Now: r.Clock.Now(), Cluster: k, Nodes: f.Nodes, Unread: map[ckscheck.Subject]string{}}
	// CloudStack's clock is that of the nodes more likely than this machine's.
	if f.ClockAhead != nil {
		found.Now = found.Now.Add(*f.ClockAhead)
	}
	if c, err := ckscheck.Serving(ctx, r.DialAPI, k.Endpoint); err != nil {
		found.Unread[ckscheck.SubjectCertificate] = err.Error()
	} else {
		found.Certificate = c
	}
	if k.IPAddressID != "" {
		found.Firewall, err = r.CloudStack.ListFirewallRules(ctx, cloudstack.FirewallRuleQuery{PublicIPID: k.IPAddressID, ProjectID: r.project})
		if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
			found.Unread[ckscheck.SubjectFirewall] = "the role of the keys does not allow it"
			err = nil
		}
	}
	f.CKS = found
	return err
}
