// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"errors"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/commands/migrate"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
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
	apisFact = cloudFact("the allowed commands", func(ctx context.Context, e *Env) (map[string]cloudstack.API, error) {
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
	balancersFact = projectFact("the members of the load balancer rules", readBalancers)
)

// readBalancers reads all rules whose names any provider for Kubernetes gives, and their members.
func readBalancers(ctx context.Context, e *Env, project string) (decide.Balancers, error) {
	in := decide.MemberFacts{All: e.facts.allMembers, Now: e.Clock.Now()}
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) { in.Rules, err = rulesFact.get(gctx, e); return err })
	group.Go(func() (err error) { in.Nodes, err = nodesFact.get(gctx, e); return err })
	group.Go(func() (err error) { in.Services, err = servicesFact.get(gctx, e); return err })
	group.Go(func() (err error) { in.VMs, err = vmsFact.get(gctx, e); return err })
	if err := group.Wait(); err != nil {
		return decide.Balancers{}, err
	}
	in.Rules = slices.DeleteFunc(slices.Clone(in.Rules), func(r cloudstack.LoadBalancerRule) bool {
		return migrate.ParseName(r.Name).Family == migrate.FamilyForeign
	})
	slices.SortFunc(in.Rules, func(a, b cloudstack.LoadBalancerRule) int { return strings.Compare(a.Name+a.ID, b.Name+b.ID) })
	b, ok, err := e.readMembers(ctx, project, &in)
	if err == nil && !ok {
		in.All = true
		b, _, err = e.readMembers(ctx, project, &in)
	}
	return b, err
}

// readMembers reads the members of the rules; ok is false where a sample of them shows that all must be read.
func (e *Env) readMembers(ctx context.Context, project string, in *decide.MemberFacts) (b decide.Balancers, ok bool, err error) {
	reads := decide.PlanMembers(in)
	ofVM := make([][]string, len(reads.VMs))
	members := make([][]cloudstack.LoadBalancerMember, len(reads.Rules))
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, r := range reads.Rules {
		group.Go(func() (err error) {
			members[i], err = e.CloudStack.ListLoadBalancerMembers(gctx, r.ID)
			if cloudstack.IsNotFound(err) {
				return nil // deleted since the list was read
			}
			return err
		})
	}
	for i, vm := range reads.VMs {
		group.Go(func() error {
			rules, err := e.CloudStack.ListLoadBalancerRules(gctx, cloudstack.LoadBalancerRuleQuery{VMID: vm.VM, NetworkID: vm.Network, ProjectID: project})
			for j := range rules {
				ofVM[i] = append(ofVM[i], rules[j].ID)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return b, false, err
	}
	ofRule := make(map[string][]cloudstack.LoadBalancerMember, len(in.Rules))
	for i := range reads.Rules {
		ofRule[reads.Rules[i].ID] = members[i]
	}
	b, ok = reads.Collect(in, ofRule, ofVM)
	return b, ok, nil
}

// forwardingFact reads port forwardings where a Service may have some. What cannot be read keeps no other check from its work.
var forwardingFact = &fact[decide.Forwarding]{"the port forwardings", func(ctx context.Context, e *Env) (in decide.Forwarding, err error) {
	services, err := servicesFact.get(ctx, e)
	if err != nil {
		return in, err
	}
	if e.CloudConfig != nil {
		in.Mode = e.CloudConfig.LBMode
	}
	if !slices.ContainsFunc(services, func(s corev1.Service) bool { return decide.MayForward(&s, in.Mode) }) {
		return in, nil
	}
	if in.Networks, err = networksFact.get(ctx, e); err == nil {
		in.Rules, err = forwardsFact.get(ctx, e)
	}
	in.Err = err
	return in, nil
}}

// balanceFact reads all at once: the rules' members are most of what a run waits for.
var balanceFact = &fact[decide.BalanceFacts]{"Services and rules", func(ctx context.Context, e *Env) (in decide.BalanceFacts, err error) {
	in.Now = e.Clock.Now()
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) { in.Nodes, err = nodesFact.get(gctx, e); return err })
	group.Go(func() (err error) { in.VMs, err = vmsFact.get(gctx, e); return err })
	group.Go(func() (err error) { in.Services, err = servicesFact.get(gctx, e); return err })
	group.Go(func() (err error) { in.Balancers, err = balancersFact.get(gctx, e); return err })
	group.Go(func() (err error) { in.Forwarding, err = forwardingFact.get(gctx, e); return err })
	return in, group.Wait()
}}
