// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

// balancerCommands are the commands of this family.
var balancerCommands = []command{
	{name: "listLoadBalancerRules", refs: lbRefs, run: listLoadBalancerRules},
	{
		name: "createLoadBalancerRule", submit: createLoadBalancerRule, class: "user.loadbalancer.CreateLoadBalancerRuleCmd",
		order: []string{"algorithm", "description", "name", "privateport", "publicipid", "zoneid", "publicport"}, lock: lockIP("publicipid"),
	},
	{name: "updateLoadBalancerRule", refs: lbRefs, submit: updateLoadBalancerRule, class: "user.loadbalancer.UpdateLoadBalancerRuleCmd"},
	{name: "deleteLoadBalancerRule", refs: lbRefs, submit: deleteLoadBalancerRule, class: "user.loadbalancer.DeleteLoadBalancerRuleCmd"},

	{name: "assignToLoadBalancerRule", refs: lbRefs, submit: assignToLoadBalancerRule, class: "user.loadbalancer.AssignToLoadBalancerRuleCmd"},
	{name: "removeFromLoadBalancerRule", refs: lbRefs, submit: removeFromLoadBalancerRule, class: "user.loadbalancer.RemoveFromLoadBalancerRuleCmd"},
	{name: "listLoadBalancerRuleInstances", refs: lbRefs, run: listLoadBalancerRuleInstances},

	{
		name: "createLBStickinessPolicy", refs: stickyRefs, submit: createLBStickinessPolicy, class: "user.loadbalancer.CreateLBStickinessPolicyCmd",
		wrapper: "createLBStickinessPolicy", order: []string{"lbruleid", "description", "name", "methodname", "param"},
	},
	{name: "updateLBStickinessPolicy", refs: stickyRefs, submit: updateLBStickinessPolicy, class: "user.loadbalancer.UpdateLBStickinessPolicyCmd"},
	{
		name: "deleteLBStickinessPolicy", refs: stickyRefs, submit: deleteLBStickinessPolicy, class: "user.loadbalancer.DeleteLBStickinessPolicyCmd",
		wrapper: "deleteLBstickinessrruleresponse",
	},
	{name: "listLBStickinessPolicies", refs: stickyRefs, run: listLBStickinessPolicies},

	{
		name: "createLBHealthCheckPolicy", refs: healthCheckRefs, submit: createLBHealthCheckPolicy,
		class: "user.loadbalancer.CreateLBHealthCheckPolicyCmd", order: []string{"lbruleid"},
	},
	{name: "updateLBHealthCheckPolicy", submit: updateLBHealthCheckPolicy, class: "user.loadbalancer.UpdateLBHealthCheckPolicyCmd"},
	{name: "deleteLBHealthCheckPolicy", submit: deleteLBHealthCheckPolicy, class: "user.loadbalancer.DeleteLBHealthCheckPolicyCmd"},
	{name: "listLBHealthCheckPolicies", refs: healthCheckRefs, run: listLBHealthCheckPolicies},
	{name: "listAutoScaleVmGroups", refs: healthCheckRefs, run: listAutoScaleVMGroups},

	{
		name: "uploadSslCert", write: true, run: uploadSSLCert,
		order: []string{"certificate", "privatekey", "certchain", "password", "account", "projectid", "domainid", "name"},
	},
	{name: "listSslCerts", refs: certRefs, run: listSSLCerts, order: []string{"certid", "accountid", "lbruleid", "projectid"}},
	{name: "deleteSslCert", refs: certRefs, write: true, run: deleteSSLCert},
	{
		name: "assignCertToLoadBalancer", refs: certRefs, submit: assignCertToLoadBalancer,
		class: "user.loadbalancer.AssignCertToLoadBalancerCmd", order: []string{"lbruleid", "certid"},
	},
	{name: "removeCertFromLoadBalancer", refs: certRefs, submit: removeCertFromLoadBalancer, class: "user.loadbalancer.RemoveCertFromLoadBalancerCmd"},

	{
		name: "createLoadBalancer", refs: internalRefs, submit: createLoadBalancer, class: "user.loadbalancer.CreateApplicationLoadBalancerCmd",
		order: []string{"name", "description", "networkid", "sourceport", "algorithm", "instanceport", "sourceipaddress", "sourceipaddressnetworkid", "scheme"},
	},
	{name: "updateLoadBalancer", refs: internalRefs, submit: updateLoadBalancer, class: "user.loadbalancer.UpdateApplicationLoadBalancerCmd"},
	{name: "deleteLoadBalancer", refs: internalRefs, submit: deleteLoadBalancerRule, class: "user.loadbalancer.DeleteApplicationLoadBalancerCmd"},
	{name: "listLoadBalancers", refs: internalRefs, run: listLoadBalancers},
}
