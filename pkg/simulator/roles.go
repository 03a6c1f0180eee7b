// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"regexp"
	"strings"

	"github.com/google/uuid"
)

// domainAdminExtra are the commands that domain admins may call in addition to those of a User, if no rule of their
// role matches.
var domainAdminExtra = setOf(
	"createAccount", "createUser", "deleteAccount", "deleteUser", "disableAccount", "disableUser", "enableAccount", "enableUser",
	"listDomainChildren", "listDomains", "listRoles", "lockAccount", "lockUser", "updateAccount", "updateResourceCount", "updateResourceLimit",
	"assignVirtualMachine", "listTrafficTypes", "moveUser", "generateAlert", "listUsageRecords",
)

// resourceAdminExtra are the additional commands of resource admins.
var resourceAdminExtra = setOf(
	"createAccount", "createUser", "listDomainChildren", "listDomains", "listRoles", "updateResourceCount", "updateResourceLimit",
)

func setOf(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

// allows reports whether the role may call the command. Root admins may call every command. For other roles the first
// matching rule decides, or else the command's own role types.
func (r *role) allows(a *apiSpec) bool {
	if r.disabled {
		return false
	}
	if r.id == 1 { // Root Admin
		return true
	}
	for _, rule := range r.rules {
		if rule.matches(a.Name) {
			return rule.allow
		}
	}
	switch r.kind {
	case roleAdmin:
		return true
	case roleDomainAdmin:
		return a.User || domainAdminExtra[a.Name]
	case roleResourceAdmin:
		return a.User || resourceAdminExtra[a.Name]
	}
	return a.User
}

// ruleSyntax matches the valid rules: letters, digits and *, which matches any sequence of characters.
var ruleSyntax = regexp.MustCompile(`^[a-zA-Z0-9*]+$`)

// matches reports whether the rule applies to the command. Every call checks hundreds of rules, so it compares
// lengths first.
func (r *roleRule) matches(command string) bool {
	if strings.IndexByte(r.pattern, '*') < 0 {
		return len(r.pattern) == len(command) && strings.EqualFold(r.pattern, command)
	}
	return likeMatch([]rune(strings.ToLower(command)), []rune(strings.ReplaceAll(strings.ToLower(r.pattern), "*", "%")))
}

// checkAvailable checks the role (error 432), before any check of the parameters.
func (c *call) checkAvailable() *apiError {
	if !c.caller.account.role.allows(c.api) {
		// The id in the text is random and different in every answer.
		e := errf(codeUnsupported, csGeneric, "The API [%s] does not exist or is not available for the account for user id [%s].",
			c.api.Name, uuid.NewString())
		e.key = "errorresponse"
		return e
	}
	return c.checkProject()
}

// projectByID are the commands whose project is in the parameter id instead of projectid.
var projectByID = setOf("suspendProject", "updateProject", "activateProject", "deleteProject")

// checkProject refuses callers who are not members of the project of the call. The parameter name is case-sensitive.
func (c *call) checkProject() *apiError {
	name := "projectid"
	if projectByID[c.api.Name] {
		name = "id"
	}
	id, ok := c.req.asSent(name)
	if !ok || c.caller.rootAdmin() {
		return nil
	}
	p, ok := c.st.projects.get(id)
	if !ok || p.removed || !c.caller.account.normal() {
		return nil
	}
	if m := p.membership(c.caller); m != nil {
		return m.permits(c.api)
	}
	if c.api.Name == "updateProjectInvitation" { // an invited user is not a member yet
		return nil
	}
	e := errf(codeUnsupported, csGeneric, "The API [%s] does not exist or is not available for this account/user in project [%s].", c.api.Name, p.uuid)
	e.key = "errorresponse"
	return e
}

// cksProjectRole is the role that CloudStack Kubernetes Service assigns to the service account of a project's
// clusters.
const cksProjectRole = "Project Kubernetes Service Role"

// cksProjectRules are the commands that the role allows; it denies all others.
var cksProjectRules = strings.Fields(`queryAsyncJobResult listVirtualMachines listVolumes createVolume deleteVolume attachVolume
	detachVolume resizeVolume listNetworks createSnapshot listSnapshots deleteSnapshot listPublicIpAddresses associateIpAddress
	disassociateIpAddress listLoadBalancerRules createLoadBalancerRule updateLoadBalancerRule deleteLoadBalancerRule
	assignToLoadBalancerRule removeFromLoadBalancerRule listLoadBalancerRuleInstances listFirewallRules createFirewallRule
	updateFirewallRule deleteFirewallRule listNetworkACLs createNetworkACL deleteNetworkACL listKubernetesClusters
	scaleKubernetesCluster`)

// addBuiltinRoles creates the default roles of a fresh installation.
func (st *state) addBuiltinRoles(cat *catalogue, ids func(kind, name string) string) {
	add := func(name, kind, description string, public bool, rules ...*roleRule) *role {
		return st.roles.add(&role{
			entity: entity{uuid: ids("role", name)}, name: name, kind: kind, description: description, public: public, builtin: true, rules: rules,
		})
	}
	rule := func(pattern string, allow bool) *roleRule {
		return &roleRule{uuid: uuid.NewString(), pattern: pattern, allow: allow}
	}
	allowed := func(kind string) []*roleRule {
		probe := &role{kind: kind}
		var out []*roleRule
		for i := range cat.APIs {
			if probe.allows(&cat.APIs[i]) {
				out = append(out, rule(cat.APIs[i].Name, true))
			}
		}
		return out
	}
	readOnly := []*roleRule{rule("list*", true), rule("query*", true), rule("get*", true), rule("login", true), rule("logout", true), rule("*", false)}
	add("Root Admin", roleAdmin, "Default root admin role", true, rule("*", true))
	add("Resource Admin", roleResourceAdmin, "Default resource admin role", true, allowed(roleResourceAdmin)...)
	add("Domain Admin", roleDomainAdmin, "Default domain admin role", true, allowed(roleDomainAdmin)...)
	add("User", roleUser, "Default user role", true, allowed(roleUser)...)
	add("Read-Only Admin - Default", roleAdmin, "Default read-only admin role", true, readOnly...)
	add("Read-Only User - Default", roleUser, "Default read-only user role", true, readOnly...)
	add("Support Admin - Default", roleAdmin, "Default support admin role", true, readOnly...)
	add("Support User - Default", roleUser, "Default support user role", true, readOnly...)
	var cks []*roleRule
	for _, n := range cksProjectRules {
		cks = append(cks, rule(n, true))
	}
	cksRole := add(cksProjectRole, roleUser, "Project Kubernetes Service Role", false, append(cks, rule("*", false))...)
	cksRole.builtin = false // as listRoles shows it
}
