// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package identity implements the commands for domains, accounts, users, roles, projects and limits.
package identity

import (
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// Commands are the commands of this family.
var Commands = []wire.Command{
	{Name: "listAccounts", ID: store.RefAccount, Run: listAccounts},
	{
		Name:    "createAccount",
		Write:   true,
		Run:     createAccount,
		Without: "networkdomain accountid userid accountdetails",
		Order:   "account accounttype roleid domainid email firstname lastname password username",
		Event:   wire.Records("ACCOUNT.CREATE", "creating Account", "Account", ""),
	},
	{
		Name: "deleteAccount", Submit: deleteAccount, Class: "admin.account",
		Event: wire.Records("ACCOUNT.DELETE", "deleting account", "Account", "id"),
	},

	{Name: "listUsers", ID: store.RefUser, Run: listUsers, Without: "accounttype"},
	{
		Name:    "createUser",
		Write:   true,
		Run:     createUser,
		Without: "userid",
		Order:   "account domainid email firstname lastname password username",
		Event:   wire.Records("USER.CREATE", "creating User", "User", ""),
	},
	{
		Name:  "deleteUser",
		Write: true,
		Run:   deleteUser,
		Event: wire.Records("USER.DELETE", "deleting User", "User", "id"),
	},
	{
		Name: "registerUserKeys", Write: true, Run: registerUserKeys,
		Event: wire.Records("REGISTER.USER.KEY", "register for the developer API keys", "User", "id"),
	},
	{Name: "getUserKeys", ID: store.RefUser, Run: getUserKeys},

	{Name: "listRoles", ID: store.RefRole, Run: listRoles},
	{Name: "createRole", Write: true, Run: createRole, Event: wire.Records("ROLE.CREATE", "creating Role", "Role", "")},
	{
		Name:  "deleteRole",
		Write: true,
		Run:   deleteRole,
		Event: wire.Records("ROLE.DELETE", "deleting Role", "Role", "id"),
	},
	{Name: "listRolePermissions", Run: listRolePermissions},
	{
		Name:  "createRolePermission",
		Write: true,
		Run:   createRolePermission,
		Order: "roleid rule permission description",
		Event: wire.Records("ROLE.PERMISSION.CREATE", "creating Role Permission", "Role", "roleid"),
	},

	{Name: "listProjects", ID: store.RefProject, Run: listProjects},
	{
		Name:   "createProject",
		Submit: createProject,
		Class:  "user.project",
		Order:  "account userid domainid accountid name displaytext",
		Event:  wire.Records("PROJECT.CREATE", "creating project", "Project", ""),
	},
	{
		Name: "deleteProject", Submit: deleteProject, Class: "user.project",
		Event: wire.Records("PROJECT.DELETE", "deleting project", "Project", "id"),
	},
	{
		Name:    "addAccountToProject",
		Submit:  addAccountToProject,
		Class:   "user.account",
		Without: "email projectroleid roletype",
		Event:   wire.Records("PROJECT.ACCOUNT.ADD", "adding account to project", "Project", "projectid"),
	},

	{Name: "listDomains", ID: store.RefDomain, Run: listDomains},
	{
		Name:    "createDomain",
		Write:   true,
		Run:     createDomain,
		Without: "networkdomain domainid",
		Order:   "name parentdomainid",
		Event:   wire.Records("DOMAIN.CREATE", "creating Domain", "Domain", ""),
	},
	{
		Name: "deleteDomain", Submit: deleteDomain, Class: "admin.domain",
		Event: wire.Records("DOMAIN.DELETE", "deleting Domain", "Domain", "id"),
	},

	{
		Name:  "updateResourceLimit",
		Write: true,
		Run:   updateResourceLimit,
		Order: "account domainid projectid max resourcetype",
	},
}
