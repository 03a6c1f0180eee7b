// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
	lbrules "github.com/csccm/csccm/installer/cloud/rules"
	planner "github.com/csccm/csccm/installer/plan"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	lbplan "github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/service"
)

// errNoCloudStack is the error of facts of CloudStack without credentials; checks that need one of
// them also need CS-001, which says it properly.
var errNoCloudStack = errors.New("no CloudStack credentials")

// cloudFact is a fact of CloudStack.
func cloudFact[T any](noun string, read func(ctx context.Context, e *Env) (T, error)) *fact[T] {
	return &fact[T]{noun, func(ctx context.Context, e *Env) (value T, err error) {
		if e.CloudStack == nil {
			return value, errNoCloudStack
		}
		return read(ctx, e)
	}}
}

// projectFact is a fact of the project of the cloud-config.
func projectFact[T any](noun string, read func(ctx context.Context, e *Env, project string) (T, error)) *fact[T] {
	return cloudFact(noun, func(ctx context.Context, e *Env) (value T, err error) {
		project, err := e.facts.inventory.ProjectID(ctx)
		if err != nil {
			return value, err
		}
		return read(ctx, e, project)
	})
}

var (
	capabilitiesFact = cloudFact("the answer to the keys", func(ctx context.Context, e *Env) (*cloudstack.Capabilities, error) {
		return e.CloudStack.Capabilities(ctx)
	})
	apisFact = cloudFact("the allowed commands", func(ctx context.Context, e *Env) (sets.Set[string], error) {
		return e.CloudStack.ListAPIs(ctx)
	})
	vmsFact = cloudFact("the VMs", func(ctx context.Context, e *Env) (*inventory.VMSnapshot, error) {
		return e.facts.inventory.VMs(ctx, 0)
	})
	// placesFact holds the VMs of other places than the project of the cloud-config.
	placesFact = projectFact("the VMs of other projects", func(ctx context.Context, e *Env, project string) ([]credentials.Place, error) {
		return credentials.Places(ctx, e.CloudStack, project), nil
	})
	networksFact = projectFact("the networks", func(ctx context.Context, e *Env, project string) ([]cloudstack.Network, error) {
		return e.CloudStack.ListNetworks(ctx, cloudstack.NetworkQuery{ProjectID: project})
	})
	addressesFact = projectFact("the addresses", func(ctx context.Context, e *Env, project string) ([]cloudstack.PublicIP, error) {
		return e.CloudStack.ListPublicIPs(ctx, cloudstack.PublicIPQuery{ProjectID: project})
	})
	forwardsFact = projectFact("the port forwardings", func(ctx context.Context, e *Env, project string) ([]cloudstack.PortForwarding, error) {
		return e.CloudStack.ListPortForwardings(ctx, cloudstack.PortForwardingQuery{ProjectID: project})
	})
	rulesFact = projectFact("the load balancer rules", func(ctx context.Context, e *Env, project string) ([]cloudstack.LoadBalancerRule, error) {
		return e.CloudStack.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{ProjectID: project})
	})
	balancersFact = cloudFact("the members of the load balancer rules", readBalancers)
)

// readBalancers reads all rules whose names any provider for Kubernetes gives, and the members of those that are not the
// current rule of a Service: they say whose a rule is.
func readBalancers(ctx context.Context, e *Env) (b decide.Balancers, err error) {
	rules, err := rulesFact.get(ctx, e)
	if err != nil {
		return b, err
	}
	services, err := servicesFact.get(ctx, e)
	if err != nil {
		return b, err
	}
	b.Rules = slices.DeleteFunc(slices.Clone(rules), func(r cloudstack.LoadBalancerRule) bool {
		return lbrules.ParseName(r.Name).Family == lbrules.FamilyForeign
	})
	slices.SortFunc(b.Rules, func(a, b cloudstack.LoadBalancerRule) int { return strings.Compare(a.Name+a.ID, b.Name+b.ID) })
	names := decide.BalanceFacts{Services: services, Balancers: b}
	var odd []string
	for _, it := range names.Plan().Items {
		if it.Verdict != lbrules.VerdictCurrent {
			odd = append(odd, it.RuleID)
		}
	}
	members, err := parallel(ctx, odd, func(ctx context.Context, id *string) ([]cloudstack.LoadBalancerMember, error) {
		list, err := e.CloudStack.ListLoadBalancerMembers(ctx, *id)
		if cloudstack.IsNotFound(err) {
			return nil, nil // deleted since the list was read
		}
		return list, err
	})
	b.Members = make(map[string][]cloudstack.LoadBalancerMember, len(odd))
	for i, id := range odd {
		b.Members[id] = members[i]
	}
	return b, err
}

const (
	// enoughRules is how many rules there may be for all Services to be planned: each rule's members cost a call.
	enoughRules = 16
	// sampleOf is how many of the Services that look as they should are planned where there are more.
	sampleOf = 4
)

// plans are those of the run: for Facts they are read with members.
type plans struct {
	decide.Plans
	members map[string][]cloudstack.LoadBalancerMember // by rule id
}

// plansFact holds what the controller would do for Services.
var plansFact = cloudFact("what the controller would do", func(ctx context.Context, e *Env) (out plans, err error) {
	client, ok := e.CloudStack.(*cloudapi.Client)
	if !ok || e.CloudConfig == nil {
		return out, nil
	}
	services, err := servicesFact.get(ctx, e)
	if err != nil {
		return out, err
	}
	nodes, err := nodesFact.get(ctx, e)
	if err != nil {
		return out, err
	}
	rules, err := rulesFact.get(ctx, e)
	if err != nil {
		return out, err
	}
	vms, err := vmsFact.get(ctx, e)
	if err != nil {
		return out, err
	}
	many := len(rules) > enoughRules && !e.facts.allMembers
	costly := many && vms.Len() > enoughRules && len(rules) > vms.Len() // the planner asks each VM for its rules
	var chosen, settled []*corev1.Service
	for i := range services {
		switch s := &services[i]; {
		case !service.Handles(s) || s.DeletionTimestamp != nil:
		case many && decide.Settled(s, e.CloudConfig.LBMode):
			settled = append(settled, s)
		default:
			chosen = append(chosen, s)
		}
	}
	out.Sampled = len(settled) > sampleOf
	if costly {
		out.Sampled, settled = len(settled) > 0, nil
	}
	chosen = append(chosen, turn(settled, e.Clock.Now())...)
	previewer, settings, err := planner.PreviewerOf(ctx, e.Cluster, &cloud.Cloud{Client: client, Config: e.CloudConfig}, e.Release, "")
	if err != nil {
		out.Err = err
		return out, nil
	}
	all := make([]*corev1.Node, 0, len(nodes))
	for i := range nodes {
		all = append(all, &nodes[i])
	}
	r, err := planner.Of(ctx, previewer.Round(time.Now()), settings, chosen, all)
	if err != nil {
		return out, err
	}
	out.ByName, out.members = map[string]decide.Planned{}, map[string][]cloudstack.LoadBalancerMember{}
	for _, s := range r.Services {
		p := decide.Planned{Err: s.Cause()}
		if s.Refusal != nil {
			p.Refused, p.Remedy = s.Refusal.Message, s.Refusal.Remedy
		}
		for i := range s.Actions {
			if !s.Actions[i].Held && !bookkeeping(s.Actions[i].Kind) {
				p.Actions = append(p.Actions, "would "+s.Actions[i].Label())
			}
		}
		out.ByName[s.Service] = p
		if s.Actual == nil {
			continue
		}
		for i := range s.Actual.Addresses {
			for j := range s.Actual.Addresses[i].Rules {
				rule := &s.Actual.Addresses[i].Rules[j]
				for _, id := range rule.Members {
					vm, _ := lbplan.SplitMember(id)
					out.members[rule.ID] = append(out.members[rule.ID], cloudstack.LoadBalancerMember{VMID: vm})
				}
			}
		}
	}
	return out, nil
})

// bookkeeping reports whether an action only notes whose something is: the Service works without it.
func bookkeeping(kind string) bool {
	return strings.HasPrefix(kind, "tag-")
}

// turn takes some from all over the list, others at another time.
func turn[T any](list []T, now time.Time) []T {
	if len(list) <= sampleOf {
		return list
	}
	var out []T
	first := int(now.Unix() % int64(len(list)))
	for i := range sampleOf {
		out = append(out, list[(first+i*len(list)/sampleOf)%len(list)])
	}
	return out
}

// forwardsShown holds the port forwardings where a Service may have some; nil where they cannot be read.
var forwardsShown = &fact[[]cloudstack.PortForwarding]{"the port forwardings", func(ctx context.Context, e *Env) ([]cloudstack.PortForwarding, error) {
	services, err := servicesFact.get(ctx, e)
	mode := ""
	if e.CloudConfig != nil {
		mode = e.CloudConfig.LBMode
	}
	if err != nil || !slices.ContainsFunc(services, func(s corev1.Service) bool { return decide.MayForward(&s, mode) }) {
		return nil, err
	}
	return forwardsFact.get(ctx, e)
}}

// balanceFact reads all at once.
var balanceFact = &fact[decide.BalanceFacts]{"Services and rules", func(ctx context.Context, e *Env) (in decide.BalanceFacts, err error) {
	in.Now = e.Clock.Now()
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) { in.Nodes, err = nodesFact.get(gctx, e); return err })
	group.Go(func() (err error) { in.VMs, err = vmsFact.get(gctx, e); return err })
	group.Go(func() (err error) { in.Services, err = servicesFact.get(gctx, e); return err })
	group.Go(func() (err error) { in.Balancers, err = balancersFact.get(gctx, e); return err })
	return in, group.Wait()
}}
