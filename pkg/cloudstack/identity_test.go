// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIdentityRecorded(t *testing.T) {
	t.Parallel()
	ctx := t.Context()

	roles, err := goldenAPI(t, "listRoles.admin").client(t).ListRoles(ctx, "")
	require.NoError(t, err)
	require.Len(t, roles, 9)
	roles, err = goldenAPI(t, "listRoles.admin").client(t).ListRoles(ctx, "user")
	require.NoError(t, err)
	require.Len(t, roles, 1, "Read-Only User only contains the name")
	require.Equal(t, Role{ID: "5785dd05-e595-11f1-ad40-02fc00000001", Name: "User", Type: "User", Description: "Default user role", Default: true}, roles[0])

	f := goldenAPI(t, "createRole.ok")
	role, err := f.client(t).CreateRole(ctx, "n", "User", "d")
	require.NoError(t, err)
	require.Equal(t, "2284ea2f-87d4-48a4-9f9a-062877e08200", role.ID)
	require.Equal(t, "User", f.recorded()[0].Form.Get("type"))

	f = goldenAPI(t, "createRolePermission.allow-0")
	require.NoError(t, f.client(t).CreateRolePermission(ctx, "r", "listZones", "allow", ""))
	require.Equal(t, "listZones", f.recorded()[0].Form.Get("rule"))
	require.NotContains(t, f.recorded()[0].Form, "description")

	accounts, err := goldenAPI(t, "listAccounts.self").client(t).ListAccounts(ctx, "kubeadmin", "0ab018e4-71f8-456c-ae10-4634d0077d6d")
	require.NoError(t, err)
	require.Len(t, accounts, 1)
	require.Equal(t, "User", accounts[0].RoleName)
	require.Len(t, accounts[0].Users, 1)
	require.Equal(t, "kubeadmin", accounts[0].Users[0].Username)
	accounts, err = goldenAPI(t, "listAccounts.self").client(t).ListAccounts(ctx, "other", "")
	require.NoError(t, err)
	require.Empty(t, accounts)

	f = goldenAPI(t, "listUsers.self")
	users, err := f.client(t).ListUsers(ctx, "kubeadmin", "", "")
	require.NoError(t, err)
	require.Len(t, users, 1)
	require.Equal(t, "2578845e-6284-49d4-a658-75c95d8c7c92", users[0].AccountID)
	require.Equal(t, "User", users[0].RoleType)
	require.Equal(t, "true", f.recorded()[0].Form.Get("listall"))
	users, err = goldenAPI(t, "listUsers.unknown").client(t).ListUsers(ctx, "nobody", "a", "d")
	require.NoError(t, err)
	require.Empty(t, users)

	f = goldenAPI(t, "createUser.admin")
	user, err := f.client(t).CreateUser(ctx, CreateUserRequest{Account: "a", Username: "u", Password: testPassword, FirstName: "f", LastName: "l", Email: "e", DomainID: "d"})
	require.NoError(t, err)
	require.NotEmpty(t, user.ID)
	require.Equal(t, testPassword, f.recorded()[0].Form.Get("password"))
	require.Equal(t, apiPath, f.recorded()[0].URL)

	f = goldenAPI(t, "createAccount.custom-role")
	account, err := f.client(t).CreateAccount(ctx, CreateAccountRequest{Account: "a", Username: "u", Password: testPassword, RoleID: "r", DomainID: "d", FirstName: "f", LastName: "l", Email: "e"})
	require.NoError(t, err)
	require.NotEmpty(t, account.ID)
	require.NotEmpty(t, account.Users)
	require.Equal(t, "r", f.recorded()[0].Form.Get("roleid"))

	keys, err := goldenAPI(t, "registerUserKeys.self-again").client(t).RegisterUserKeys(ctx, "u")
	require.NoError(t, err)
	require.NotEmpty(t, keys.APIKey)
	require.NotEmpty(t, keys.SecretKey)
}

func TestIdentityOddAnswers(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	empty := func() *Client {
		return newFakeAPI(t, func(int, url.Values) reply { return jsonReply(200, `{"x":{}}`) }).client(t)
	}
	keys, err := empty().GetUserKeys(ctx, "u")
	require.NoError(t, err, "a user that never registered keys has none")
	require.Equal(t, UserKeys{}, *keys)
	_, err = empty().RegisterUserKeys(ctx, "u")
	require.ErrorContains(t, err, "no keys")
	_, err = empty().CreateRole(ctx, "n", "User", "")
	require.True(t, asError(t, err).MayHaveHappened)
	_, err = empty().CreateUser(ctx, CreateUserRequest{})
	require.Error(t, err)
	_, err = empty().CreateAccount(ctx, CreateAccountRequest{})
	require.Error(t, err)
	require.Error(t, empty().CreateRolePermission(ctx, "r", "x", "allow", ""))

	f := newFakeAPI(t, func(_ int, form url.Values) reply {
		switch form.Get("command") {
		case "listRolePermissions":
			return jsonReply(200, `{"x":{"count":2,"rolepermission":[{"id":"1","rule":"listZones","permission":"ALLOW"},{"id":"2","rule":"*","permission":"deny"}]}}`)
		case "listDomains":
			return jsonReply(200, `{"x":{"count":1,"domain":[{"id":"d","name":"ROOT","path":"ROOT"}]}}`)
		default:
			return jsonReply(200, `{"x":{"jobid":"j"}}`)
		}
	})
	c := f.client(t)
	permissions, err := c.ListRolePermissions(ctx, "r")
	require.NoError(t, err)
	require.Equal(t, []RolePermission{{ID: "1", Rule: "listZones", Permission: "allow"}, {ID: "2", Rule: "*", Permission: "deny"}}, permissions)
	domains, err := c.ListDomains(ctx)
	require.NoError(t, err)
	require.Equal(t, []Domain{{ID: "d", Name: "ROOT", Path: "ROOT"}}, domains)
	s, err := c.AddAccountToProject(ctx, "p", "a")
	require.NoError(t, err)
	require.Equal(t, Submitted{JobID: "j"}, s)
	require.Equal(t, "a", f.recorded()[2].Form.Get("account"))
}
