// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// Commands are the commands of this family.
var Commands = []wire.Command{
	{Name: "listAccounts", Refs: accountRefs, Run: listAccounts},
	{Name: "createAccount", Write: true, Run: createAccount, Order: []string{"account", "accounttype", "roleid", "domainid", "email", "firstname", "lastname", "password", "username"}},
	{Name: "updateAccount", Refs: accountRefs, Write: true, Run: updateAccount},
	{Name: "enableAccount", Refs: accountRefs, Write: true, Run: enableAccount},
	{Name: "lockAccount", Refs: accountRefs, Write: true, Run: lockAccount},
	{Name: "disableAccount", Refs: accountRefs, Submit: disableAccount, Class: "admin.account.DisableAccountCmd"},
	{Name: "deleteAccount", Refs: accountRefs, Submit: deleteAccount, Class: "admin.account.DeleteAccountCmd"},

	{Name: "listUsers", Refs: userRefs, Run: listUsers},
	{Name: "getUser", Run: getUser},
	{Name: "createUser", Write: true, Run: createUser, Order: []string{"account", "domainid", "email", "firstname", "lastname", "password", "username"}},
	{Name: "updateUser", Refs: userRefs, Write: true, Run: updateUser},
	{Name: "enableUser", Refs: userRefs, Write: true, Run: enableUser},
	{Name: "lockUser", Refs: userRefs, Write: true, Run: lockUser},
	{Name: "deleteUser", Refs: userRefs, Write: true, Run: deleteUser},
	{Name: "moveUser", Refs: userRefs, Write: true, Run: moveUser},
	{Name: "disableUser", Refs: userRefs, Submit: disableUser, Class: "admin.user.DisableUserCmd"},
	{Name: "registerUserKeys", Refs: userRefs, Write: true, Run: registerUserKeys},
	{Name: "getUserKeys", Refs: userRefs, Run: getUserKeys},

	{Name: "listRoles", Refs: roleRefs, Run: listRoles},
	{Name: "createRole", Write: true, Run: createRole},
	{Name: "importRole", Write: true, Run: importRole},
	{Name: "updateRole", Refs: roleRefs, Write: true, Run: updateRole},
	{Name: "enableRole", Refs: roleRefs, Write: true, Run: func(c *wire.Call) (any, error) { return switchRole(c, false) }},
	{Name: "disableRole", Refs: roleRefs, Write: true, Run: func(c *wire.Call) (any, error) { return switchRole(c, true) }},
	{Name: "deleteRole", Refs: roleRefs, Write: true, Run: deleteRole},
	{Name: "listRolePermissions", Run: listRolePermissions},
	{Name: "createRolePermission", Write: true, Run: createRolePermission, Order: []string{"roleid", "rule", "permission", "description"}},
	{Name: "updateRolePermission", Refs: permissionRefs, Write: true, Run: updateRolePermission},
	{Name: "deleteRolePermission", Refs: map[string]store.RefKind{"id": store.RefRolePermission}, Write: true, Run: deleteRolePermission},

	{Name: "listProjects", Refs: projectRefs, Run: listProjects},
	{
		Name: "createProject", Submit: createProject, Class: "user.project.CreateProjectCmd",
		Order: []string{"account", "userid", "domainid", "accountid", "name", "displaytext"},
	},
	{Name: "activateProject", Refs: projectRefs, Submit: activateProject, Class: "user.project.ActivateProjectCmd"},
	{Name: "suspendProject", Refs: projectRefs, Submit: suspendProject, Class: "user.project.SuspendProjectCmd"},
	{Name: "updateProject", Refs: projectRefs, Submit: updateProject, Class: "user.project.UpdateProjectCmd"},
	{Name: "deleteProject", Refs: projectRefs, Submit: deleteProject, Class: "user.project.DeleteProjectCmd"},
	{Name: "addAccountToProject", Submit: addAccountToProject, Class: "user.account.AddAccountToProjectCmd"},
	{Name: "deleteAccountFromProject", Submit: deleteAccountFromProject, Class: "user.account.DeleteAccountFromProjectCmd"},
	{Name: "addUserToProject", Submit: addUserToProject, Class: "user.account.AddUserToProjectCmd"},
	{Name: "deleteUserFromProject", Submit: deleteUserFromProject, Class: "user.account.DeleteUserFromProjectCmd"},
	{Name: "listProjectAccounts", Run: listProjectAccounts},
	{Name: "listProjectInvitations", Run: listProjectInvitations},

	{Name: "listDomains", Refs: domainRefs, Run: listDomains},
	{Name: "listDomainChildren", Refs: domainRefs, Run: listDomainChildren},
	{Name: "createDomain", Write: true, Run: createDomain, Order: []string{"name", "networkdomain", "parentdomainid", "domainid"}},
	{Name: "updateDomain", Refs: domainRefs, Write: true, Run: updateDomain},
	{Name: "moveDomain", Write: true, Run: moveDomain},
	{Name: "deleteDomain", Refs: domainRefs, Submit: deleteDomain, Class: "admin.domain.DeleteDomainCmd"},

	{Name: "listResourceLimits", Run: listResourceLimits},
	{Name: "updateResourceLimit", Write: true, Run: updateResourceLimit, Order: []string{"account", "domainid", "projectid", "max", "resourcetype"}},
	{Name: "updateResourceCount", Write: true, Run: updateResourceCount, Order: []string{"account", "domainid", "resourcetype", "projectid"}},

	{Name: "listProjectRoles", Run: listProjectRoles},
	{Name: "createProjectRole", Write: true, Run: createProjectRole},
	{Name: "updateProjectRole", Refs: projectRoleRefs, Write: true, Run: updateProjectRole},
	{Name: "deleteProjectRole", Refs: projectRoleRefs, Write: true, Run: deleteProjectRole},
	{Name: "listProjectRolePermissions", Run: listProjectRolePermissions},
	{Name: "createProjectRolePermission", Write: true, Run: createProjectRolePermission},
	{
		Name: "updateProjectRolePermission", Write: true, Run: updateProjectRolePermission,
		Refs: map[string]store.RefKind{"projectrolepermissionid": store.RefProjectPermission, "ruleorder": store.RefProjectPermission},
	},
	{Name: "deleteProjectRolePermission", Refs: map[string]store.RefKind{"id": store.RefProjectPermission}, Write: true, Run: deleteProjectRolePermission},
}
