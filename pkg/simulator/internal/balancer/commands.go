// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package balancer implements the commands for load balancer rules and certificates. Virtual routers cannot probe
// members, so no health check policy ever exists.
package balancer

import (
	"strings"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// Commands are the commands of this family. The commands for internal load balancers of VPC tiers work on rules like
// the public ones, with a source address of the tier; assignToLoadBalancerRule assigns their members too.
var Commands = []wire.Command{
	{Name: "listLoadBalancerRules", ID: store.RefRule, Run: listLoadBalancerRules},
	{
		Name:   "createLoadBalancerRule",
		Submit: createLoadBalancerRule,
		Class:  "user.loadbalancer",
		Lock:   wire.LockIP("publicipid"),
		Order:  "algorithm description name privateport publicipid zoneid publicport",
		Event: &store.EventSpec{
			Kind:     "LB.CREATE",
			Phrase:   "creating load balancer",
			Label:    "Load balancer Id",
			Resource: "FirewallRule",
		},
	},
	onRule("updateLoadBalancerRule", updateLoadBalancerRule, "LB.UPDATE", "updating load balancer"),
	onRule("deleteLoadBalancerRule", deleteLoadBalancerRule, "LB.DELETE", "deleting load balancer"),
	onRule("assignToLoadBalancerRule", assignToLoadBalancerRule, "LB.ASSIGN.TO.RULE", "assigning to load balancer"),
	onRule("removeFromLoadBalancerRule", removeFromLoadBalancerRule, "LB.REMOVE.FROM.RULE",
		"removing from load balancer"),
	{Name: "listLoadBalancerRuleInstances", ID: store.RefRule, Run: listLoadBalancerRuleInstances},

	{
		Name:    "createLBStickinessPolicy",
		Submit:  createLBStickinessPolicy,
		Class:   "user.loadbalancer",
		Wrapper: "createLBStickinessPolicy",
		Order:   "lbruleid description name methodname param",
		Event: &store.EventSpec{
			Kind:     "LB.STICKINESSPOLICY.CREATE",
			Phrase:   "Apply Stickinesspolicy to load balancer",
			Resource: "LoadBalancerRule",
			Param:    "lbruleid",
		},
	},
	{
		Name:    "deleteLBStickinessPolicy",
		ID:      store.RefSticky,
		Submit:  deleteLBStickinessPolicy,
		Class:   "user.loadbalancer",
		Wrapper: "deleteLBstickinessrruleresponse",
		Event: &store.EventSpec{
			Kind:     "LB.STICKINESSPOLICY.DELETE",
			Phrase:   "revoking LB Stickiness policy",
			Resource: "LoadBalancerRule",
			Param:    "id",
		},
	},
	{Name: "listLBStickinessPolicies", ID: store.RefSticky, Run: listLBStickinessPolicies},

	{
		Name: "uploadSslCert", Write: true, Run: uploadSSLCert, Without: "certchain password enabledrevocationcheck",
		Order: "certificate privatekey account projectid domainid name",
		Event: wire.Records("LB.CERT.UPLOAD", "Uploading a certificate to cloudstack", "", ""),
	},
	{Name: "listSslCerts", Run: listSSLCerts, Order: "certid accountid lbruleid projectid"},
	{
		Name: "deleteSslCert", ID: store.RefSSLCert, Write: true, Run: deleteSSLCert,
		Event: wire.Records("LB.CERT.DELETE", "Deleting a certificate to cloudstack", "", "id"),
	},
	{
		Name:   "assignCertToLoadBalancer",
		Submit: assignCertToLoadBalancer,
		Class:  "user.loadbalancer",
		Order:  "lbruleid certid",
		Event: wire.Records("LB.CERT.ASSIGN", "assigning certificate to load balancer", "LoadBalancerRule",
			"lbruleid"),
	},

	{
		Name:   "createLoadBalancer",
		Submit: createLoadBalancer,
		Class:  "user.loadbalancer.CreateApplicationLoadBalancerCmd",
		Order: "name description networkid sourceport algorithm instanceport sourceipaddress " +
			"sourceipaddressnetworkid scheme",
		Event: wire.Records("LB.CREATE", "creating load balancer", "LoadBalancerRule", ""),
	},
	onRule("updateLoadBalancer", updateLoadBalancer, "LB.UPDATE", "updating internal load balancer"),
	onRule("deleteLoadBalancer", deleteLoadBalancerRule, "LB.DELETE", "deleting load balancer"),
	{Name: "listLoadBalancers", ID: store.RefRule, Run: listLoadBalancers},
}

// onRule returns a command with a job on one rule. Like CloudStack, it accepts ids of rules of every kind.
func onRule(name string, submit func(*wire.Call) (*wire.JobSpec, error), event, doing string) wire.Command {
	class := "user.loadbalancer"
	if verb, internal := strings.CutSuffix(name, "LoadBalancer"); internal {
		class += "." + strings.ToUpper(verb[:1]) + verb[1:] + "ApplicationLoadBalancerCmd"
	}
	return wire.Command{
		Name:   name,
		Submit: submit,
		Class:  class,
		Event:  wire.Records(event, doing, "LoadBalancerRule", "id"),
	}
}
