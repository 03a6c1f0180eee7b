// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"regexp"
	"strings"

	"github.com/csccm/csccm/pkg/simulator/internal/catalogue"
)

// domainAdminExtra are the commands that domain admins may call in addition to the commands of role type User, if no
// rule of their role matches.
var domainAdminExtra = SetOf(
	"createAccount", "createUser", "deleteAccount", "deleteUser", "disableAccount", "disableUser", "enableAccount",
	"enableUser", "listDomainChildren", "listDomains", "listRoles", "lockAccount", "lockUser", "updateAccount",
	"updateResourceCount", "updateResourceLimit", "assignVirtualMachine", "listTrafficTypes", "moveUser",
	"generateAlert", "listUsageRecords",
)

// resourceAdminExtra are the additional commands of resource admins.
var resourceAdminExtra = SetOf(
	"createAccount", "createUser", "listDomainChildren", "listDomains", "listRoles", "updateResourceCount",
	"updateResourceLimit",
)

// Allows reports whether the role may call the command. Root admins may call every command. For other roles, the first
// matching rule decides. Without a matching rule, the role types of the command decide.
func (r *Role) Allows(a *catalogue.API) bool {
	if r.Disabled {
		return false
	}

	if r.ID == 1 { // Root Admin
		return true
	}

	for _, rule := range r.Rules {
		if rule.Matches(a.Name) {
			return rule.Allow
		}
	}

	switch r.Kind {
	case RoleAdmin:
		return true
	case RoleDomainAdmin:
		return a.User || domainAdminExtra[a.Name]
	case RoleResourceAdmin:
		return a.User || resourceAdminExtra[a.Name]
	}

	return a.User
}

// RuleSyntax matches the valid rules: letters, digits and *, which matches any sequence of characters.
var RuleSyntax = regexp.MustCompile(`^[a-zA-Z0-9*]+$`)

// Matches reports whether the rule applies to the command. Every call checks hundreds of rules, so it compares
// lengths first.
func (r *RoleRule) Matches(command string) bool {
	if strings.IndexByte(r.Pattern, '*') < 0 {
		return len(r.Pattern) == len(command) && strings.EqualFold(r.Pattern, command)
	}
	return LikeMatch([]rune(strings.ToLower(command)), []rune(strings.ReplaceAll(strings.ToLower(r.Pattern), "*", "%")))
}

// CKSProjectRole is the role that CloudStack Kubernetes Service assigns to the service account of a project's
// clusters.
const CKSProjectRole = "Project Kubernetes Service Role"

// CKSProjectRules are the commands that the role allows; it denies all others.
var CKSProjectRules = strings.Fields(`queryAsyncJobResult listVirtualMachines listVolumes createVolume deleteVolume attachVolume
	detachVolume resizeVolume listNetworks createSnapshot listSnapshots deleteSnapshot listPublicIpAddresses
	associateIpAddress disassociateIpAddress listLoadBalancerRules createLoadBalancerRule updateLoadBalancerRule
	deleteLoadBalancerRule assignToLoadBalancerRule removeFromLoadBalancerRule listLoadBalancerRuleInstances
	listFirewallRules createFirewallRule updateFirewallRule deleteFirewallRule listNetworkACLs createNetworkACL
	deleteNetworkACL listKubernetesClusters scaleKubernetesCluster`)
