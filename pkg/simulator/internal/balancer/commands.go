// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package balancer

import (
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// Commands are the commands of this family.
var Commands = []wire.Command{
	{Name: "listLoadBalancerRules", Refs: lbRefs, Run: listLoadBalancerRules},
	{
		Name: "createLoadBalancerRule", Submit: createLoadBalancerRule, Class: "user.loadbalancer.CreateLoadBalancerRuleCmd",
		Order: []string{"algorithm", "description", "name", "privateport", "publicipid", "zoneid", "publicport"}, Lock: wire.LockIP("publicipid"),
	},
	{Name: "updateLoadBalancerRule", Refs: lbRefs, Submit: updateLoadBalancerRule, Class: "user.loadbalancer.UpdateLoadBalancerRuleCmd"},
	{Name: "deleteLoadBalancerRule", Refs: lbRefs, Submit: deleteLoadBalancerRule, Class: "user.loadbalancer.DeleteLoadBalancerRuleCmd"},

	{Name: "assignToLoadBalancerRule", Refs: lbRefs, Submit: assignToLoadBalancerRule, Class: "user.loadbalancer.AssignToLoadBalancerRuleCmd"},
	{Name: "removeFromLoadBalancerRule", Refs: lbRefs, Submit: removeFromLoadBalancerRule, Class: "user.loadbalancer.RemoveFromLoadBalancerRuleCmd"},
	{Name: "listLoadBalancerRuleInstances", Refs: lbRefs, Run: listLoadBalancerRuleInstances},

	{
		Name: "createLBStickinessPolicy", Refs: stickyRefs, Submit: createLBStickinessPolicy, Class: "user.loadbalancer.CreateLBStickinessPolicyCmd",
		Wrapper: "createLBStickinessPolicy", Order: []string{"lbruleid", "description", "name", "methodname", "param"},
	},
	{Name: "updateLBStickinessPolicy", Refs: stickyRefs, Submit: updateLBStickinessPolicy, Class: "user.loadbalancer.UpdateLBStickinessPolicyCmd"},
	{
		Name: "deleteLBStickinessPolicy", Refs: stickyRefs, Submit: deleteLBStickinessPolicy, Class: "user.loadbalancer.DeleteLBStickinessPolicyCmd",
		Wrapper: "deleteLBstickinessrruleresponse",
	},
	{Name: "listLBStickinessPolicies", Refs: stickyRefs, Run: listLBStickinessPolicies},

	{
		Name: "createLBHealthCheckPolicy", Refs: healthCheckRefs, Submit: createLBHealthCheckPolicy,
		Class: "user.loadbalancer.CreateLBHealthCheckPolicyCmd", Order: []string{"lbruleid"},
	},
	{Name: "updateLBHealthCheckPolicy", Submit: updateLBHealthCheckPolicy, Class: "user.loadbalancer.UpdateLBHealthCheckPolicyCmd"},
	{Name: "deleteLBHealthCheckPolicy", Submit: deleteLBHealthCheckPolicy, Class: "user.loadbalancer.DeleteLBHealthCheckPolicyCmd"},
	// Virtual routers cannot probe members, so no health check policy ever exists.
	{Name: "listLBHealthCheckPolicies", Refs: healthCheckRefs, Run: listLBHealthCheckPolicies},
	{Name: "listAutoScaleVmGroups", Refs: healthCheckRefs, Run: listAutoScaleVMGroups},

	{
		Name: "uploadSslCert", Write: true, Run: uploadSSLCert,
		Order: []string{"certificate", "privatekey", "certchain", "password", "account", "projectid", "domainid", "name"},
	},
	{Name: "listSslCerts", Refs: certRefs, Run: listSSLCerts, Order: []string{"certid", "accountid", "lbruleid", "projectid"}},
	{Name: "deleteSslCert", Refs: certRefs, Write: true, Run: deleteSSLCert},
	{
		Name: "assignCertToLoadBalancer", Refs: certRefs, Submit: assignCertToLoadBalancer,
		Class: "user.loadbalancer.AssignCertToLoadBalancerCmd", Order: []string{"lbruleid", "certid"},
	},
	{Name: "removeCertFromLoadBalancer", Refs: certRefs, Submit: removeCertFromLoadBalancer, Class: "user.loadbalancer.RemoveCertFromLoadBalancerCmd"},

	// Internal load balancers of VPC tiers: rules like the public ones, with a source address of the tier. Members are
	// assigned with assignToLoadBalancerRule too.
	{
		Name: "createLoadBalancer", Refs: internalRefs, Submit: createLoadBalancer, Class: "user.loadbalancer.CreateApplicationLoadBalancerCmd",
		Order: []string{"name", "description", "networkid", "sourceport", "algorithm", "instanceport", "sourceipaddress", "sourceipaddressnetworkid", "scheme"},
	},
	{Name: "updateLoadBalancer", Refs: internalRefs, Submit: updateLoadBalancer, Class: "user.loadbalancer.UpdateApplicationLoadBalancerCmd"},
	{Name: "deleteLoadBalancer", Refs: internalRefs, Submit: deleteLoadBalancerRule, Class: "user.loadbalancer.DeleteApplicationLoadBalancerCmd"},
	{Name: "listLoadBalancers", Refs: internalRefs, Run: listLoadBalancers},
}
