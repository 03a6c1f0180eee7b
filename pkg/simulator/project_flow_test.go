// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

func TestProjectLife(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	d, _, _ := h.tenant("dev", "alice")
	_, _, bobUser := h.tenant("dev", "bob")
	alice, bob := "dev/alice", "dev/bob"

	made := h.ok(h.call(alice, "createProject", "name", "p1", "displaytext", "first"))
	pid := made.str("id")
	p := h.done(alice, made)["project"].(map[string]any)
	require.Equal(t, "Active", p["state"])
	require.Equal(t, []any{map[string]any{"account": "alice"}}, p["owner"])
	h.fails(h.call(alice, "createProject", "name", "P1"), 431, wire.CSInvalidValue, "Project with name P1 already exists in domain id=")
	h.fails(h.root("createProject", "name", "p2", "account", "alice"), 431, wire.CSInvalidValue, "Account name and domain id must be specified together")
	h.fails(h.root("createProject", "name", "p2", "account", "nobody", "domainid", d), 431, wire.CSInvalidValue, "Unable to find account nobody in domain")
	h.rootJob(h.root("createProject", "name", "p2", "account", "bob", "domainid", d))
	require.Len(t, h.root("listProjects", "listall", "true").items("project"), 2+len(ExampleWorld().Projects))
	require.Len(t, h.root("listProjects", "account", "bob", "domainid", d).items("project"), 1)
	require.Len(t, h.call(bob, "listProjects").items("project"), 1)

	require.Equal(t, 432, h.call(bob, "listNetworks", "projectid", pid).status)
	h.broken(alice, h.call(alice, "addAccountToProject", "projectid", pid), 431, "Either accountName or email is required")
	h.broken(alice, h.call(alice, "addAccountToProject", "projectid", pid, "account", "nobody"), 431, "Unable to find account name=nobody")
	h.done(alice, h.call(alice, "addAccountToProject", "projectid", pid, "account", "bob"))
	h.done(alice, h.call(alice, "addAccountToProject", "projectid", pid, "account", "bob"))
	h.ok(h.call(bob, "listNetworks", "projectid", pid))
	members := h.call(bob, "listProjectAccounts", "projectid", pid).items("projectaccount")
	require.Len(t, members, 2)
	require.Equal(t, "Regular", members[1]["role"])
	h.broken(bob, h.call(bob, "suspendProject", "id", pid), 530, wire.NoAccessText)
	h.broken(alice, h.call(alice, "addUserToProject", "projectid", pid, "username", "bob"), 431, "already part of the project")
	h.broken(alice, h.call(alice, "deleteAccountFromProject", "projectid", pid, "account", "alice"), 431, "is the owner of the project")

	h.done(alice, h.call(alice, "updateProject", "id", pid, "account", "bob", "displaytext", "second"))
	require.Equal(t, []any{map[string]any{"account": "bob"}}, h.first(h.call(bob, "listProjects", "id", pid), "project")["owner"])
	h.broken(bob, h.call(bob, "updateProject", "id", pid, "account", "bob", "roletype", "Regular", "swapowner", "false"), 431, "Cannot demote the only admin")
	h.done(bob, h.call(bob, "updateProject", "id", pid, "account", "alice", "roletype", "Admin", "swapowner", "false"))
	h.done(alice, h.call(alice, "deleteAccountFromProject", "projectid", pid, "account", "bob"))
	h.done(alice, h.call(alice, "addUserToProject", "projectid", pid, "username", "bob"))
	require.Equal(t, "bob", h.first(h.call(bob, "listProjectAccounts", "projectid", pid, "userid", bobUser), "projectaccount")["username"])
	h.done(alice, h.call(alice, "deleteUserFromProject", "projectid", pid, "userid", bobUser))

	require.Equal(t, "Suspended", h.done(alice, h.call(alice, "suspendProject", "id", pid))["project"].(map[string]any)["state"])
	h.broken(alice, h.call(alice, "addAccountToProject", "projectid", pid, "account", "bob"), 431, "state=Suspended")
	require.Equal(t, "Active", h.done(alice, h.call(alice, "activateProject", "id", pid))["project"].(map[string]any)["state"])
	aliceID := id(h.first(h.root("listAccounts", "name", "alice", "listall", "true"), "account"))
	h.broken("admin", h.root("deleteAccount", "id", aliceID), 431, "because it manages the following project(s)")
	h.done(alice, h.call(alice, "deleteProject", "id", pid))
	h.fails(h.call(alice, "deleteProject", "id", pid), 431, wire.CSInvalidValue, "Unable to find project by id")
	require.Empty(t, h.call(alice, "listProjects").body)
	require.Empty(t, h.call(alice, "listProjectInvitations").body)
	h.rootJob(h.root("deleteAccount", "id", aliceID))
}

func TestProjectRoles(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	h.tenant("dev", "alice")
	h.tenant("dev", "bob")
	alice, bob := "dev/alice", "dev/bob"
	made := h.ok(h.call(alice, "createProject", "name", "p1"))
	h.done(alice, made)
	pid := made.str("id")
	r := h.obj(h.call(alice, "createProjectRole", "projectid", pid, "name", "viewer", "description", "looks only"), "projectrole")
	h.fails(h.call(alice, "createProjectRole", "projectid", pid, "name", "viewer"), 530, wire.CSGeneric, "Entity already exists ")
	perm := h.obj(h.call(alice, "createProjectRolePermission", "projectid", pid, "projectroleid", id(r), "rule", "listVirtual*", "permission", "deny"), "projectrolepermission")
	h.done(alice, h.call(alice, "addAccountToProject", "projectid", pid, "account", "bob", "projectroleid", id(r)))
	h.ok(h.call(bob, "listNetworks", "projectid", pid))
	require.Equal(t, 401, h.call(bob, "listVirtualMachines", "projectid", pid).status)
	h.ok(h.call(alice, "listVirtualMachines", "projectid", pid))
	h.fails(h.call(bob, "createProjectRole", "projectid", pid, "name", "x"), 531, wire.CSPermission, "User unauthorized to perform operation in the project")
	h.fails(h.call(alice, "deleteProjectRole", "projectid", pid, "id", id(r)), 531, wire.CSPermission, "Found users that have the project role in use")
	require.Len(t, h.call(bob, "listProjectRolePermissions", "projectid", pid).items("projectrolepermission"), 1)
	h.ok(h.call(alice, "updateProjectRolePermission", "projectid", pid, "projectroleid", id(r), "projectrolepermissionid", id(perm), "permission", "allow"))
	h.ok(h.call(bob, "listVirtualMachines", "projectid", pid))
	h.ok(h.call(alice, "deleteProjectRolePermission", "projectid", pid, "id", id(perm)))
	require.Equal(t, "boss", h.obj(h.call(alice, "updateProjectRole", "projectid", pid, "id", id(r), "name", "boss"), "projectrole")["name"])
	h.done(alice, h.call(alice, "deleteAccountFromProject", "projectid", pid, "account", "bob"))
	h.ok(h.call(alice, "deleteProjectRole", "projectid", pid, "id", id(r)))
	require.Empty(t, h.call(alice, "listProjectRoles", "projectid", pid).body)
}
