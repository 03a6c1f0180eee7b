// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package identity implements the commands for domains, accounts, users, roles, projects and limits.
package identity

import (
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// Commands are the commands of this family.
var Commands = []wire.Command{
	{Name: "listAccounts", Refs: accountRefs, Run: listAccounts},
	{
		Name: "createAccount", Without: "networkdomain accountid userid accountdetails", Write: true, Run: createAccount, Order: []string{"account", "accounttype", "roleid", "domainid", "email", "firstname", "lastname", "password", "username"},
		Event: wire.Records("ACCOUNT.CREATE", "creating Account", "Account", ""),
	},
	{Name: "deleteAccount", Refs: accountRefs, Submit: deleteAccount, Class: "admin.account.DeleteAccountCmd", Event: wire.Records("ACCOUNT.DELETE", "deleting account", "Account", "id")},

	{Name: "listUsers", Refs: userRefs, Run: listUsers},
	{
		Name: "createUser", Without: "userid", Write: true, Run: createUser, Order: []string{"account", "domainid", "email", "firstname", "lastname", "password", "username"},
		Event: wire.Records("USER.CREATE", "creating User", "User", ""),
	},
	{Name: "deleteUser", Refs: userRefs, Write: true, Run: deleteUser, Event: wire.Records("USER.DELETE", "deleting User", "User", "id")},
	{Name: "registerUserKeys", Refs: userRefs, Write: true, Run: registerUserKeys, Event: wire.Records("REGISTER.USER.KEY", "register for the developer API keys", "User", "id")},
	{Name: "getUserKeys", Refs: userRefs, Run: getUserKeys},

	{Name: "listRoles", Refs: roleRefs, Run: listRoles},
	{Name: "createRole", Write: true, Run: createRole, Event: wire.Records("ROLE.CREATE", "creating Role", "Role", "")},
	{Name: "deleteRole", Refs: roleRefs, Write: true, Run: deleteRole, Event: wire.Records("ROLE.DELETE", "deleting Role", "Role", "id")},
	{Name: "listRolePermissions", Run: listRolePermissions},
	{
		Name: "createRolePermission", Write: true, Run: createRolePermission, Order: []string{"roleid", "rule", "permission", "description"},
		Event: wire.Records("ROLE.PERMISSION.CREATE", "creating Role Permission", "Role", "roleid"),
	},

	{Name: "listProjects", Refs: projectRefs, Run: listProjects},
	{
		Name: "createProject", Submit: createProject, Class: "user.project.CreateProjectCmd",
		Order: []string{"account", "userid", "domainid", "accountid", "name", "displaytext"},
		Event: wire.Records("PROJECT.CREATE", "creating project", "Project", ""),
	},
	{Name: "deleteProject", Refs: projectRefs, Submit: deleteProject, Class: "user.project.DeleteProjectCmd", Event: wire.Records("PROJECT.DELETE", "deleting project", "Project", "id")},
	{
		Name: "addAccountToProject", Submit: addAccountToProject, Class: "user.account.AddAccountToProjectCmd",
		Event: wire.Records("PROJECT.ACCOUNT.ADD", "adding account to project", "Project", "projectid"),
	},

	{Name: "listDomains", Refs: domainRefs, Run: listDomains},
	{
		Name: "createDomain", Without: "networkdomain domainid", Write: true, Run: createDomain, Order: []string{"name", "parentdomainid"},
		Event: wire.Records("DOMAIN.CREATE", "creating Domain", "Domain", ""),
	},
	{Name: "deleteDomain", Refs: domainRefs, Submit: deleteDomain, Class: "admin.domain.DeleteDomainCmd", Event: wire.Records("DOMAIN.DELETE", "deleting Domain", "Domain", "id")},

	{Name: "updateResourceLimit", Write: true, Run: updateResourceLimit, Order: []string{"account", "domainid", "projectid", "max", "resourcetype"}},
}
