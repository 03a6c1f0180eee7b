// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package balancer implements the commands for load balancer rules and certificates.
package balancer

import (
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// Commands are the commands of this family.
var Commands = []wire.Command{
	{Name: "listLoadBalancerRules", Refs: lbRefs, Run: listLoadBalancerRules},
	{
		Name: "createLoadBalancerRule", Submit: createLoadBalancerRule, Class: "user.loadbalancer.CreateLoadBalancerRuleCmd",
		Order: []string{"algorithm", "description", "name", "privateport", "publicipid", "zoneid", "publicport"}, Lock: wire.LockIP("publicipid"),
		Event: &store.EventSpec{Kind: "LB.CREATE", Phrase: "creating load balancer", Label: "Load balancer Id", Resource: "FirewallRule"},
	},
	{
		Name: "updateLoadBalancerRule", Refs: lbRefs, Submit: updateLoadBalancerRule, Class: "user.loadbalancer.UpdateLoadBalancerRuleCmd",
		Event: wire.Records("LB.UPDATE", "updating load balancer", "LoadBalancerRule", "id"),
	},
	{
		Name: "deleteLoadBalancerRule", Refs: lbRefs, Submit: deleteLoadBalancerRule, Class: "user.loadbalancer.DeleteLoadBalancerRuleCmd",
		Event: wire.Records("LB.DELETE", "deleting load balancer", "LoadBalancerRule", "id"),
	},

	{
		Name: "assignToLoadBalancerRule", Refs: lbRefs, Submit: assignToLoadBalancerRule, Class: "user.loadbalancer.AssignToLoadBalancerRuleCmd",
		Event: wire.Records("LB.ASSIGN.TO.RULE", "assigning to load balancer", "LoadBalancerRule", "id"),
	},
	{
		Name: "removeFromLoadBalancerRule", Refs: lbRefs, Submit: removeFromLoadBalancerRule, Class: "user.loadbalancer.RemoveFromLoadBalancerRuleCmd",
		Event: wire.Records("LB.REMOVE.FROM.RULE", "removing from load balancer", "LoadBalancerRule", "id"),
	},
	{Name: "listLoadBalancerRuleInstances", Refs: lbRefs, Run: listLoadBalancerRuleInstances},

	{
		Name: "createLBStickinessPolicy", Refs: stickyRefs, Submit: createLBStickinessPolicy, Class: "user.loadbalancer.CreateLBStickinessPolicyCmd",
		Wrapper: "createLBStickinessPolicy", Order: []string{"lbruleid", "description", "name", "methodname", "param"},
		Event: &store.EventSpec{Kind: "LB.STICKINESSPOLICY.CREATE", Phrase: "Apply Stickinesspolicy to load balancer", Resource: "LoadBalancerRule", Param: "lbruleid"},
	},
	{
		Name: "deleteLBStickinessPolicy", Refs: stickyRefs, Submit: deleteLBStickinessPolicy, Class: "user.loadbalancer.DeleteLBStickinessPolicyCmd",
		Wrapper: "deleteLBstickinessrruleresponse",
		Event:   &store.EventSpec{Kind: "LB.STICKINESSPOLICY.DELETE", Phrase: "revoking LB Stickiness policy", Resource: "LoadBalancerRule", Param: "id"},
	},
	{Name: "listLBStickinessPolicies", Refs: stickyRefs, Run: listLBStickinessPolicies},

	// Virtual routers cannot probe members, so no health check policy ever exists.

	{
		Name: "uploadSslCert", Without: "certchain password enabledrevocationcheck", Write: true, Run: uploadSSLCert,
		Order: []string{"certificate", "privatekey", "account", "projectid", "domainid", "name"},
		Event: wire.Records("LB.CERT.UPLOAD", "Uploading a certificate to cloudstack", "", ""),
	},
	{Name: "listSslCerts", Refs: certRefs, Run: listSSLCerts, Order: []string{"certid", "accountid", "lbruleid", "projectid"}},
	{Name: "deleteSslCert", Refs: certRefs, Write: true, Run: deleteSSLCert, Event: wire.Records("LB.CERT.DELETE", "Deleting a certificate to cloudstack", "", "id")},
	{
		Name: "assignCertToLoadBalancer", Refs: certRefs, Submit: assignCertToLoadBalancer,
		Class: "user.loadbalancer.AssignCertToLoadBalancerCmd", Order: []string{"lbruleid", "certid"},
		Event: wire.Records("LB.CERT.ASSIGN", "assigning certificate to load balancer", "LoadBalancerRule", "lbruleid"),
	},

	// Internal load balancers of VPC tiers: rules like the public ones, with a source address of the tier. Members are
	// assigned with assignToLoadBalancerRule too.
	{
		Name: "createLoadBalancer", Refs: internalRefs, Submit: createLoadBalancer, Class: "user.loadbalancer.CreateApplicationLoadBalancerCmd",
		Order: []string{"name", "description", "networkid", "sourceport", "algorithm", "instanceport", "sourceipaddress", "sourceipaddressnetworkid", "scheme"},
		Event: wire.Records("LB.CREATE", "creating load balancer", "LoadBalancerRule", ""),
	},
	{
		Name: "updateLoadBalancer", Refs: internalRefs, Submit: updateLoadBalancer, Class: "user.loadbalancer.UpdateApplicationLoadBalancerCmd",
		Event: wire.Records("LB.UPDATE", "updating internal load balancer", "LoadBalancerRule", "id"),
	},
	{
		Name: "deleteLoadBalancer", Refs: internalRefs, Submit: deleteLoadBalancerRule, Class: "user.loadbalancer.DeleteApplicationLoadBalancerCmd",
		Event: wire.Records("LB.DELETE", "deleting load balancer", "LoadBalancerRule", "id"),
	},
	{Name: "listLoadBalancers", Refs: internalRefs, Run: listLoadBalancers},
}
