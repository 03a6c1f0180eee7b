// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"context"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// API is what the package needs of CloudStack.
type API interface {
	ListPublicIPs(ctx context.Context, q cloudstack.PublicIPQuery) ([]cloudstack.PublicIP, error)
	ListLoadBalancerRules(ctx context.Context, q cloudstack.LoadBalancerRuleQuery) ([]cloudstack.LoadBalancerRule, error)
	ListLoadBalancerMembers(ctx context.Context, ruleID string) ([]cloudstack.LoadBalancerMember, error)
	ListFirewallRules(ctx context.Context, q cloudstack.FirewallRuleQuery) ([]cloudstack.FirewallRule, error)
	ListNetworkACLs(ctx context.Context, q cloudstack.NetworkACLQuery) ([]cloudstack.NetworkACL, error)
	ListStickinessPolicies(ctx context.Context, ruleID string) ([]cloudstack.StickinessPolicy, error)
	ListCertificatesOfRule(ctx context.Context, ruleID string) ([]string, error)
	ListInternalLoadBalancers(ctx context.Context, q cloudstack.InternalLoadBalancerQuery) ([]cloudstack.InternalLoadBalancer, error)
	ListPortForwardings(ctx context.Context, q cloudstack.PortForwardingQuery) ([]cloudstack.PortForwarding, error)
	ListTags(ctx context.Context, q cloudstack.TagQuery) ([]cloudstack.Tag, error)
	QueryJob(ctx context.Context, jobID string) (*cloudstack.Job, error)

	AssociateIP(ctx context.Context, r cloudstack.AssociateIPRequest) (cloudstack.Submitted, error)
	DisassociateIP(ctx context.Context, id string) (cloudstack.Submitted, error)
	CreateLoadBalancerRule(ctx context.Context, r cloudstack.CreateLoadBalancerRuleRequest) (cloudstack.Submitted, error)
	UpdateLoadBalancerRule(ctx context.Context, r cloudstack.UpdateLoadBalancerRuleRequest) (cloudstack.Submitted, error)
	DeleteLoadBalancerRule(ctx context.Context, id string) (cloudstack.Submitted, error)
	AssignToLoadBalancerRule(ctx context.Context, ruleID string, members []cloudstack.MemberAddress) (cloudstack.Submitted, error)
	RemoveFromLoadBalancerRule(ctx context.Context, ruleID string, members []cloudstack.MemberAddress) (cloudstack.Submitted, error)
	CreateFirewallRule(ctx context.Context, r cloudstack.CreateFirewallRuleRequest) (cloudstack.Submitted, error)
	DeleteFirewallRule(ctx context.Context, id string) (cloudstack.Submitted, error)
	CreateNetworkACL(ctx context.Context, r cloudstack.CreateNetworkACLRequest) (cloudstack.Submitted, error)
	DeleteNetworkACL(ctx context.Context, id string) (cloudstack.Submitted, error)
	CreateStickinessPolicy(ctx context.Context, ruleID string, p cloudstack.StickinessPolicy) (cloudstack.Submitted, error)
	DeleteStickinessPolicy(ctx context.Context, id string) (cloudstack.Submitted, error)
	AssignCertificate(ctx context.Context, ruleID, certID string) (cloudstack.Submitted, error)
	CreateInternalLoadBalancer(ctx context.Context, r cloudstack.CreateInternalLoadBalancerRequest) (cloudstack.Submitted, error)
	DeleteInternalLoadBalancer(ctx context.Context, id string) (cloudstack.Submitted, error)
	CreateTags(ctx context.Context, resourceType string, ids []string, tags map[string]string) (cloudstack.Submitted, error)
	DeleteTags(ctx context.Context, resourceType string, ids []string, keys []string) (cloudstack.Submitted, error)

	// Wait returns when the job has ended, with an error of KindJobFailed when it failed.
	Wait(ctx context.Context, command, jobID string) (*cloudstack.Job, error)
}

// FromClient makes a client an API.
func FromClient(c *cloudstack.Client) API { return clientAPI{c} }

type clientAPI struct{ *cloudstack.Client }

func (c clientAPI) Wait(ctx context.Context, command, jobID string) (*cloudstack.Job, error) {
	return c.Jobs().Wait(ctx, command, jobID)
}

// RecordStore keeps records on one Service.
type RecordStore interface {
	// Load reads the records as they are now, not from a cache.
	Load(ctx context.Context) (annotation.Records, error)
	// Save replaces them. A Service that is gone is no error.
	Save(ctx context.Context, r annotation.Records) error
}
