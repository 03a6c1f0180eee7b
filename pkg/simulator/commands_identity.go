// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

// identityCommands are the commands of this family.
var identityCommands = []command{
	{name: "listAccounts", refs: accountRefs, run: listAccounts},
	{name: "createAccount", write: true, run: createAccount, order: []string{"account", "accounttype", "roleid", "domainid", "email", "firstname", "lastname", "password", "username"}},
	{name: "updateAccount", refs: accountRefs, write: true, run: updateAccount},
	{name: "enableAccount", refs: accountRefs, write: true, run: enableAccount},
	{name: "lockAccount", refs: accountRefs, write: true, run: lockAccount},
	{name: "disableAccount", refs: accountRefs, submit: disableAccount, class: "admin.account.DisableAccountCmd"},
	{name: "deleteAccount", refs: accountRefs, submit: deleteAccount, class: "admin.account.DeleteAccountCmd"},

	{name: "listUsers", refs: userRefs, run: listUsers},
	{name: "getUser", run: getUser},
	{name: "createUser", write: true, run: createUser, order: []string{"account", "domainid", "email", "firstname", "lastname", "password", "username"}},
	{name: "updateUser", refs: userRefs, write: true, run: updateUser},
	{name: "enableUser", refs: userRefs, write: true, run: enableUser},
	{name: "lockUser", refs: userRefs, write: true, run: lockUser},
	{name: "deleteUser", refs: userRefs, write: true, run: deleteUser},
	{name: "moveUser", refs: userRefs, write: true, run: moveUser},
	{name: "disableUser", refs: userRefs, submit: disableUser, class: "admin.user.DisableUserCmd"},
	{name: "registerUserKeys", refs: userRefs, write: true, run: registerUserKeys},
	{name: "getUserKeys", refs: userRefs, run: getUserKeys},

	{name: "listRoles", refs: roleRefs, run: listRoles},
	{name: "createRole", write: true, run: createRole},
	{name: "importRole", write: true, run: importRole},
	{name: "updateRole", refs: roleRefs, write: true, run: updateRole},
	{name: "enableRole", refs: roleRefs, write: true, run: func(c *call) (any, error) { return c.switchRole(false) }},
	{name: "disableRole", refs: roleRefs, write: true, run: func(c *call) (any, error) { return c.switchRole(true) }},
	{name: "deleteRole", refs: roleRefs, write: true, run: deleteRole},
	{name: "listRolePermissions", run: listRolePermissions},
	{name: "createRolePermission", write: true, run: createRolePermission, order: []string{"roleid", "rule", "permission", "description"}},
	{name: "updateRolePermission", refs: permissionRefs, write: true, run: updateRolePermission},
	{name: "deleteRolePermission", refs: map[string]refKind{"id": refRolePermission}, write: true, run: deleteRolePermission},

	{name: "listProjects", refs: projectRefs, run: listProjects},
	{
		name: "createProject", submit: createProject, class: "user.project.CreateProjectCmd",
		order: []string{"account", "userid", "domainid", "accountid", "name", "displaytext"},
	},
	{name: "activateProject", refs: projectRefs, submit: activateProject, class: "user.project.ActivateProjectCmd"},
	{name: "suspendProject", refs: projectRefs, submit: suspendProject, class: "user.project.SuspendProjectCmd"},
	{name: "updateProject", refs: projectRefs, submit: updateProject, class: "user.project.UpdateProjectCmd"},
	{name: "deleteProject", refs: projectRefs, submit: deleteProject, class: "user.project.DeleteProjectCmd"},
	{name: "addAccountToProject", submit: addAccountToProject, class: "user.account.AddAccountToProjectCmd"},
	{name: "deleteAccountFromProject", submit: deleteAccountFromProject, class: "user.account.DeleteAccountFromProjectCmd"},
	{name: "addUserToProject", submit: addUserToProject, class: "user.account.AddUserToProjectCmd"},
	{name: "deleteUserFromProject", submit: deleteUserFromProject, class: "user.account.DeleteUserFromProjectCmd"},
	{name: "listProjectAccounts", run: listProjectAccounts},
	{name: "listProjectInvitations", run: listProjectInvitations},

	{name: "listDomains", refs: domainRefs, run: listDomains},
	{name: "listDomainChildren", refs: domainRefs, run: listDomainChildren},
	{name: "createDomain", write: true, run: createDomain, order: []string{"name", "networkdomain", "parentdomainid", "domainid"}},
	{name: "updateDomain", refs: domainRefs, write: true, run: updateDomain},
	{name: "moveDomain", write: true, run: moveDomain},
	{name: "deleteDomain", refs: domainRefs, submit: deleteDomain, class: "admin.domain.DeleteDomainCmd"},

	{name: "listResourceLimits", run: listResourceLimits},
	{name: "updateResourceLimit", write: true, run: updateResourceLimit, order: []string{"account", "domainid", "projectid", "max", "resourcetype"}},
	{name: "updateResourceCount", write: true, run: updateResourceCount, order: []string{"account", "domainid", "resourcetype", "projectid"}},

	{name: "listProjectRoles", run: listProjectRoles},
	{name: "createProjectRole", write: true, run: createProjectRole},
	{name: "updateProjectRole", refs: projectRoleRefs, write: true, run: updateProjectRole},
	{name: "deleteProjectRole", refs: projectRoleRefs, write: true, run: deleteProjectRole},
	{name: "listProjectRolePermissions", run: listProjectRolePermissions},
	{name: "createProjectRolePermission", write: true, run: createProjectRolePermission},
	{
		name: "updateProjectRolePermission", write: true, run: updateProjectRolePermission,
		refs: map[string]refKind{"projectrolepermissionid": refProjectPermission, "ruleorder": refProjectPermission},
	},
	{name: "deleteProjectRolePermission", refs: map[string]refKind{"id": refProjectPermission}, write: true, run: deleteProjectRolePermission},
}
