// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"errors"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/commands/migrate"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
)

// errNoCloudStack is the error of facts of CloudStack without credentials; checks that need one of
// them also need CS-001, which says it properly.
var errNoCloudStack = errors.New("no CloudStack credentials")

func (e *Env) readCapabilities(ctx context.Context) (*cloudstack.Capabilities, error) {
	if e.CloudStack == nil {
		return nil, errNoCloudStack
	}
	return e.CloudStack.Capabilities(ctx)
}

func (e *Env) readAPIs(ctx context.Context) (map[string]cloudstack.API, error) {
	if e.CloudStack == nil {
		return nil, errNoCloudStack
	}
	return e.CloudStack.ListAPIs(ctx)
}

func (e *Env) readVMs(ctx context.Context) (*inventory.VMSnapshot, error) {
	if e.CloudStack == nil {
		return nil, errNoCloudStack
	}
	return e.facts.inventory.VMs(ctx, 0)
}

func (e *Env) readNetworks(ctx context.Context) ([]cloudstack.Network, error) {
	if e.CloudStack == nil {
		return nil, errNoCloudStack
	}
	project, err := e.facts.inventory.ProjectID(ctx)
	if err != nil {
		return nil, err
	}
	return e.CloudStack.ListNetworks(ctx, cloudstack.NetworkQuery{ProjectID: project})
}

func (e *Env) readAddresses(ctx context.Context) ([]cloudstack.PublicIP, error) {
	if e.CloudStack == nil {
		return nil, errNoCloudStack
	}
	project, err := e.facts.inventory.ProjectID(ctx)
	if err != nil {
		return nil, err
	}
	return e.CloudStack.ListPublicIPs(ctx, cloudstack.PublicIPQuery{ProjectID: project})
}

// memberReads is how many rules are asked for their members at once: CloudStack lists those of one rule only.
const memberReads = 8

// readBalancers reads all rules whose names any provider for Kubernetes gives, and their members.
func (e *Env) readBalancers(ctx context.Context) (decide.Balancers, error) {
	if e.CloudStack == nil {
		return decide.Balancers{}, errNoCloudStack
	}
	project, err := e.facts.inventory.ProjectID(ctx)
	if err != nil {
		return decide.Balancers{}, err
	}
	rules, err := e.CloudStack.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{ProjectID: project})
	if err != nil {
		return decide.Balancers{}, err
	}
	everything := slices.Clone(rules)
	rules = slices.DeleteFunc(rules, func(r cloudstack.LoadBalancerRule) bool {
		return migrate.ParseName(r.Name).Family == migrate.FamilyForeign
	})
	slices.SortFunc(rules, func(a, b cloudstack.LoadBalancerRule) int { return strings.Compare(a.Name+a.ID, b.Name+b.ID) })

	members := make([][]cloudstack.LoadBalancerMember, len(rules))
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(memberReads)
	for i := range rules {
		group.Go(func() error {
			m, err := e.CloudStack.ListLoadBalancerMembers(gctx, rules[i].ID)
			members[i] = m
			if cloudstack.IsNotFound(err) {
				return nil // deleted since the list was read
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return decide.Balancers{}, err
	}
	b := decide.Balancers{All: everything, Rules: rules, Members: make(map[string][]cloudstack.LoadBalancerMember, len(rules))}
	for i := range rules {
		b.Members[rules[i].ID] = members[i]
	}
	return b, nil
}
