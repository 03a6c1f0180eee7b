// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// obj returns the one object inside an answer.
func (h *harness) obj(a answer, name string) map[string]any {
	h.t.Helper()
	h.ok(a)
	m, ok := a.body[name].(map[string]any)
	require.True(h.t, ok, a.raw)
	return m
}

// rootJob waits for a job that the integration port started.
func (h *harness) rootJob(a answer) map[string]any { return h.done("admin", a) }

// tenant makes a domain with an account whose user has keys; the names are those of the user for call.
func (h *harness) tenant(domain, account string, pairs ...string) (domainID, accountID, userID string) {
	h.t.Helper()
	domains := h.ok(h.root("listDomains", "name", domain)).items("domain")
	if len(domains) == 0 {
		domains = append(domains, h.obj(h.root("createDomain", "name", domain), "domain"))
	}
	domainID = id(domains[0])
	args := append([]string{
		"username", account, "password", "pw", "firstname", "F", "lastname", "L", "email", "a@b.c", "domainid", domainID, "accounttype", "0",
	}, pairs...)
	a := h.obj(h.root("createAccount", args...), "account")
	userID = id(a["user"].([]any)[0].(map[string]any))
	h.ok(h.root("registerUserKeys", "id", userID))
	return domainID, id(a), userID
}

func TestDomains(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	d := h.obj(h.root("createDomain", "name", "dev", "networkdomain", "dev.example"), "domain")
	require.Equal(t, "ROOT/dev", d["path"])
	require.Equal(t, "40", d["vmlimit"])
	require.NotContains(t, d, "vmrunning", "domains count VMs, but not by state")
	sub := h.obj(h.root("createDomain", "name", "sub", "parentdomainid", id(d)), "domain")
	require.Equal(t, "ROOT/dev/sub", sub["path"])
	require.EqualValues(t, 2, sub["level"])
	h.fails(h.root("createDomain", "name", "DEV"), 431, wire.CSInvalidValue, "Domain with name [DEV] already exists for the parent with ID [1].")
	h.fails(h.root("createDomain", "name", "x", "networkdomain", "-x"), 431, wire.CSInvalidValue, "Invalid network domain.")
	h.fails(h.root("createDomain"), 431, wire.CSGeneric, "missing parameter name")
	require.Equal(t, "Unlimited", h.first(h.root("listDomains", "level", "0"), "domain")["vmlimit"])
	require.Len(t, h.root("listDomainChildren", "id", id(d)).items("domain"), 1)
	require.Len(t, h.root("listDomainChildren", "isrecursive", "true", "name", "sub").items("domain"), 1)
	require.Equal(t, "ROOT/prod/sub", h.first(h.root("listDomains", "id", id(h.obj(h.root("updateDomain", "id", id(d), "name", "prod"), "domain")), "details", "min"), "domain")["path"].(string)+"/sub")
	h.fails(h.root("updateDomain", "id", id(h.first(h.root("listDomains", "level", "0"), "domain")), "name", "x"), 431, wire.CSInvalidValue, "ROOT domain can not be edited")

	_, account, _ := h.tenant("prod", "worker")
	h.broken("admin", h.root("deleteDomain", "id", id(d)), 530, "Delete failed on domain prod")
	h.rootJob(h.root("deleteDomain", "id", id(d), "cleanup", "true"))
	require.Empty(t, h.root("listDomains", "name", "prod").body)
	h.fails(h.root("listAccounts", "id", account, "listall", "true"), 431, wire.CSInvalidValue, "Unable to find account by id")
	h.fails(h.root("deleteDomain", "id", id(d)), 431, wire.CSInvalidValue, "domain not found")
	h.broken("admin", h.root("deleteDomain", "id", id(h.first(h.root("listDomains", "level", "0"), "domain"))), 530, "Can't delete ROOT domain")
}

func TestAccountStates(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	d, account, userID := h.tenant("dev", "worker")
	user := "dev/worker"
	h.ok(h.call(user, "listZones"))

	a := h.rootJob(h.root("disableAccount", "account", "worker", "domainid", d, "lock", "false"))["account"].(map[string]any)
	require.Equal(t, store.StateDisabled, a["state"])
	h.fails(h.call(user, "listZones"), 401, 0, wire.AuthText)
	require.Equal(t, store.StateEnabled, h.obj(h.root("enableAccount", "id", account), "account")["state"])
	h.ok(h.call(user, "listZones"))
	require.Equal(t, store.StateLocked, h.rootJob(h.root("disableAccount", "id", account, "lock", "true"))["account"].(map[string]any)["state"])
	require.Equal(t, store.StateEnabled, h.obj(h.root("enableUser", "id", userID), "user")["state"])
	require.Equal(t, store.StateEnabled, h.first(h.root("listAccounts", "id", account), "account")["state"], "enabling a user enables the account")
	require.Equal(t, store.StateLocked, h.obj(h.root("lockAccount", "account", "worker", "domainid", d), "account")["state"])
	h.ok(h.root("enableAccount", "id", account))
	require.Equal(t, store.StateLocked, h.obj(h.root("lockUser", "id", userID), "user")["state"])
	require.Equal(t, store.StateLocked, h.first(h.root("listAccounts", "id", account), "account")["state"], "the last enabled user locks the account")
	h.ok(h.root("enableUser", "id", userID))
	require.Equal(t, store.StateDisabled, h.rootJob(h.root("disableUser", "id", userID))["user"].(map[string]any)["state"])
	h.fails(h.root("lockUser", "id", userID), 530, wire.CSRuntime, "Unable to lock user")
	h.ok(h.root("enableUser", "id", userID))

	a = h.obj(h.root("updateAccount", "id", account, "newname", "carer", "networkdomain", "x.example", "accountdetails[0].tier", "gold"), "account")
	require.Equal(t, "carer", a["name"])
	require.Equal(t, map[string]any{"tier": "gold"}, a["accountdetails"])
	h.fails(h.root("updateAccount", "account", "worker", "domainid", d, "newname", "y"), 431, wire.CSInvalidValue, "Unable to find account by accountId: null OR by name: worker")
	h.obj(h.root("updateAccount", "id", account, "apikeyaccess", "disabled"), "account")
	h.fails(h.call("dev/worker", "listZones"), 401, 0, wire.AuthText)
	h.obj(h.root("updateUser", "id", userID, "apikeyaccess", "enabled"), "user")
	h.ok(h.call("dev/worker", "listZones"))
	h.fails(h.root("updateUser", "id", userID, "apikeyaccess", "maybe"), 431, wire.CSInvalidValue, "ApiKeyAccess value can only be")

	h.broken("admin", h.root("deleteAccount", "id", id(h.first(h.root("listAccounts", "name", "admin"), "account"))), 431, "Deletion of your own account is not allowed")
	h.rootJob(h.root("deleteAccount", "id", account))
	h.rootJob(h.root("deleteAccount", "id", account))
	h.fails(h.root("deleteAccount", "id", "nope"), 431, wire.CSGeneric, "Invalid parameter id value=nope")
}

func TestAccountCleanup(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	admin := h.first(h.root("listAccounts", "name", "k8s", "listall", "true"), "account")
	ips := len(h.root("listPublicIpAddresses", "listall", "true").items("publicipaddress"))
	require.Positive(t, ips)
	h.rootJob(h.root("deleteAccount", "id", id(admin)))
	for _, list := range []string{"listVirtualMachines", "listNetworks", "listVPCs", "listPublicIpAddresses", "listLoadBalancerRules", "listFirewallRules"} {
		for _, key := range []string{"virtualmachine", "network", "vpc", "publicipaddress", "loadbalancerrule", "firewallrule"} {
			for _, o := range h.root(list, "listall", "true").items(key) {
				require.NotEqual(t, "k8s", o["account"], list)
			}
		}
	}
}

func TestUsers(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	d, _, userID := h.tenant("dev", "worker")
	second := h.obj(h.root("createUser", "username", "second", "account", "worker", "domainid", d, "password", "pw", "firstname", "S", "lastname", "U", "email", "e"), "user")
	h.fails(h.root("createUser", "username", "third", "account", "nobody", "domainid", d, "password", "pw", "firstname", "S", "lastname", "U", "email", "e"),
		431, wire.CSInvalidValue, "Unable to find account nobody in domain Domain {")
	h.fails(h.call("dev/worker", "updateUser", "id", userID, "password", "new"), 431, wire.CSInvalidValue, "To set a new password the current password must be provided.")
	h.fails(h.call("dev/worker", "updateUser", "id", userID, "password", "new", "currentpassword", "old"), 431, wire.CSInvalidValue, "Current password is incorrect.")
	h.ok(h.call("dev/worker", "updateUser", "id", userID, "password", "new", "currentpassword", "pw"))
	a, _ := h.login("worker", "new", "/dev")
	h.ok(a)
	h.fails(h.call("dev/worker", "updateUser", "id", userID, "firstname", ""), 431, wire.CSInvalidValue, "Firstname cannot be empty.")
	h.fails(h.root("updateUser", "id", userID, "username", "second"), 431, wire.CSInvalidValue, "Username [second] already exists in domain")
	h.fails(h.root("updateUser", "id", userID, "userapikey", "k"), 431, wire.CSInvalidValue, "Please provide a userApiKey/userSecretKey pair")
	h.ok(h.root("updateUser", "id", userID, "userapikey", "my-key", "usersecretkey", "my-secret", "lastname", "New", "email", "n@b.c"))
	require.Equal(t, "New", h.obj(h.root("getUser", "userapikey", "my-key"), "user")["lastname"])
	h.ok(h.call("dev/worker", "listZones"))

	for range 5 {
		h.login("second", "wrong", "/dev")
	}
	require.Equal(t, store.StateDisabled, h.first(h.root("listUsers", "id", id(second)), "user")["state"], "five wrong passwords disable a user")
	h.fails(h.root("moveUser", "id", id(second)), 431, wire.CSGeneric, "Please provide either account name or account id")
	_, other, _ := h.tenant("dev", "other")
	h.ok(h.root("moveUser", "id", id(second), "accountid", other))
	require.Equal(t, "other", h.first(h.root("listUsers", "id", id(second)), "user")["account"])
	require.Equal(t, true, h.ok(h.root("deleteUser", "id", id(second))).body["success"])
	h.fails(h.root("deleteUser", "id", id(second)), 431, wire.CSInvalidValue, "The specified user doesn't exist in the system")
	h.fails(h.root("deleteUser", "id", id(h.first(h.root("listUsers", "username", "admin"), "user"))), 431, wire.CSInvalidValue, "can't be (re)moved")
	h.fails(h.call("dev/other", "updateUser", "id", userID, "email", "x"), 531, wire.CSPermission, wire.NoAccessText)
}

func TestDomainAdminsStayBelowThemselves(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	d, _, userID := h.tenant("dev", "worker")
	h.tenant("dev", "boss", "accounttype", "2")
	root := h.first(h.root("listUsers", "username", "admin"), "user")
	boss := "dev/boss"
	h.broken(boss, h.call(boss, "disableUser", "id", id(root)), 530, wire.NoAccessText)
	h.done(boss, h.call(boss, "disableUser", "id", userID))
	h.ok(h.call(boss, "enableUser", "id", userID))
	args := []string{"username", "u", "password", "pw", "firstname", "F", "lastname", "L", "email", "e"}
	h.fails(h.call(boss, "createAccount", append(args, "accounttype", "0")...), 531, wire.CSPermission, wire.NoAccessText) // in ROOT
	h.fails(h.call(boss, "createAccount", append(args, "accounttype", "1", "domainid", d)...), 431, wire.CSInvalidValue, "in non-ROOT domain")
	h.ok(h.call(boss, "createAccount", append(args, "accounttype", "0", "domainid", d)...))
	wide := h.obj(h.root("createRole", "name", "wide", "type", "User"), "role")
	h.ok(h.root("createRolePermission", "roleid", id(wide), "rule", "createZone", "permission", "allow"))
	args[1] = "v"
	h.fails(h.call(boss, "createAccount", append(args, "roleid", id(wide), "domainid", d)...), 531, wire.CSPermission, "access to more privileges they have themself")
	require.Len(t, h.call(boss, "listDomains").items("domain"), 1)
	h.fails(h.call(boss, "listDomains", "id", id(h.first(h.root("listDomains", "level", "0"), "domain"))), 531, wire.CSPermission, wire.NoAccessText)
}

func TestRoleRules(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	r := h.obj(h.root("createRole", "name", "ccm", "type", "User"), "role")
	rule := func(pattern, permission string) string {
		return id(h.obj(h.root("createRolePermission", "roleid", id(r), "rule", pattern, "permission", permission), "rolepermission"))
	}
	list, zones, deny := rule("listApis", "allow"), rule("listZones", "allow"), rule("*", "deny")
	h.tenant("dev", "worker", "roleid", id(r))
	names := func() (out []string) {
		for _, a := range h.call("dev/worker", "listApis").items("api") {
			out = append(out, a["name"].(string))
		}
		return out
	}
	require.Equal(t, []string{"listApis", "listZones"}, names())
	require.Equal(t, true, h.ok(h.root("updateRolePermission", "roleid", id(r), "ruleid", zones, "permission", "deny")).body["success"])
	require.Equal(t, []string{"listApis"}, names())
	h.ok(h.root("updateRolePermission", "roleid", id(r), "ruleorder", deny+","+zones+","+list))
	require.Equal(t, 432, h.call("dev/worker", "listApis").status)
	require.Equal(t, "*", h.root("listRolePermissions", "roleid", id(r)).items("rolepermission")[0]["rule"])
	h.fails(h.root("updateRolePermission", "roleid", id(r), "ruleorder", deny, "permission", "allow"), 431, wire.CSGeneric, "mutually exclusive")
	h.ok(h.root("deleteRolePermission", "id", deny))
	h.fails(h.root("deleteRolePermission", "id", deny), 431, wire.CSGeneric, "Invalid parameter id value")
	require.Greater(t, len(names()), 100, "without a closing rule the role type decides")
	h.ok(h.root("disableRole", "id", id(r)))
	require.Equal(t, 432, h.call("dev/worker", "listApis").status)
	h.ok(h.root("enableRole", "id", id(r)))

	require.Equal(t, "renamed", h.obj(h.root("updateRole", "id", id(r), "name", "renamed"), "role")["name"])
	h.fails(h.root("updateRole", "id", id(r), "type", "Admin"), 531, wire.CSPermission, "Found accounts that have role in use")
	h.fails(h.root("deleteRole", "id", id(r)), 531, wire.CSPermission, "Found accounts with role in use")
	user := h.first(h.root("listRoles", "name", "User"), "role")
	h.fails(h.root("deleteRole", "id", id(user)), 531, wire.CSPermission, "Default roles cannot be deleted")
	h.fails(h.root("updateRole", "id", id(user), "name", "x"), 531, wire.CSPermission, "Default roles cannot be updated")
	imported := h.obj(h.root("importRole", "name", "imp", "type", "User", "rules[0].rule", "list*", "rules[0].permission", "allow"), "role")
	require.Len(t, h.root("listRolePermissions", "roleid", id(imported)).items("rolepermission"), 1)
	h.fails(h.root("importRole", "name", "imp", "type", "User", "rules[0].rule", "list*", "rules[0].permission", "allow"), 530, wire.CSRuntime, "Role already exists")
	h.fails(h.root("importRole", "name", "i2", "type", "User", "rules[0].rule", "noSuch", "rules[0].permission", "allow"), 431, wire.CSGeneric, "Invalid api name: noSuch")
	clone := h.obj(h.root("createRole", "name", "clone", "roleid", id(imported)), "role")
	require.Len(t, h.root("listRolePermissions", "roleid", id(clone)).items("rolepermission"), 1)
	h.ok(h.root("deleteRole", "id", id(clone)))
}
