// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/commands/tenants"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/provider"
)

// planTenants finds the Services that the chart's policy for tenants would refuse, and gives the chart the values that
// keep those which have an address: an install changes nothing for Services that work.
func (in *Installer) planTenants(ctx context.Context) error {
	deployed := ""
	if r := in.facts.release; r != nil && r.Deployed() {
		deployed = r.Manifest
	}
	var addresses func([]corev1.Service) (map[string]tenants.Address, error)
	if in.cloud != nil { // without keys CloudStack's addresses are not known
		addresses = func(services []corev1.Service) (map[string]tenants.Address, error) {
			return in.tenantsAddresses(ctx, services)
		}
	}
	p, err := tenants.Decide(ctx, in.Env, in.plan.manifest, deployed, &in.StrictTenancy, addresses)
	if err != nil || p == nil {
		return err
	}
	in.plan.Tenants = p
	if p.Values == nil {
		return nil
	}
	in.Progress.Info("chart values keep %s: %s (--strict-tenancy leaves them refused)",
		strings.Join(p.Kept(), ", "), strings.Join(flatten("", p.Values), ", "))
	in.Values = helm.MergeValues(in.Values, p.Values)
	return in.planChart(ctx)
}

func (in *Installer) tenantsAddresses(ctx context.Context, services []corev1.Service) (map[string]tenants.Address, error) {
	id, err := cluster.Identity{Config: in.config.ClusterID}.Resolve(ctx, in.Cluster.Kube)
	if err != nil {
		return nil, in.Cluster.Explain(err)
	}
	addresses, err := in.cloud.ListPublicIPs(ctx, cloudstack.PublicIPQuery{ProjectID: in.config.ProjectID})
	if err != nil {
		return nil, fmt.Errorf("list public addresses: %w", err)
	}
	rules, err := in.cloud.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{ProjectID: in.config.ProjectID})
	if err != nil {
		return nil, fmt.Errorf("list load balancer rules: %w", err)
	}
	return tenants.Addresses(addresses, rules, services, func(tag string, own bool) bool { return provider.OwnClusterTag(tag, id, own) }), nil
}
