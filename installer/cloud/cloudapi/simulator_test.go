// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudapi_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// TestProvisioning is the installer's way from an admin's password to keys of a small role.
func TestProvisioning(t *testing.T) {
	t.Parallel()
	cloud := testenv.NewCloud(t, nil)
	ctx := t.Context()
	_, err := cloudapi.Login(ctx, &cloudstack.Config{APIURL: cloud.URL}, "admin", "wrong", "")
	require.True(t, cloudstack.IsKind(err, cloudstack.KindAuth), "%v", err)
	admin, err := cloudapi.Login(ctx, &cloudstack.Config{APIURL: cloud.URL}, "admin", "password", "")
	require.NoError(t, err)

	role, err := admin.CreateRole(ctx, "ccm", "User", "for the controller")
	require.NoError(t, err)
	for _, rule := range []string{"listZones", "listVirtualMachines", "queryAsyncJobResult"} {
		require.NoError(t, admin.CreateRolePermission(ctx, role.ID, rule, "allow"))
	}
	require.NoError(t, admin.CreateRolePermission(ctx, role.ID, "*", "deny"))
	permissions, err := admin.ListRolePermissions(ctx, role.ID)
	require.NoError(t, err)
	require.Len(t, permissions, 4)
	roles, err := admin.ListRoles(ctx, "CCM")
	require.NoError(t, err)
	require.Len(t, roles, 1)
	domains, err := admin.ListDomains(ctx)
	require.NoError(t, err)
	require.NotEmpty(t, domains)
	account, err := admin.CreateAccount(ctx, cloudapi.CreateUserRequest{
		Account: "ccm", Username: "ccm", Password: "p~*&=", FirstName: "c", LastName: "m", Email: "c@example.com", RoleID: role.ID, DomainID: domains[0].ID,
	})
	require.NoError(t, err)
	require.Len(t, account.Users, 1)
	users, err := admin.ListUsers(ctx, "ccm", "ccm", domains[0].ID)
	require.NoError(t, err)
	require.Len(t, users, 1)
	none, err := admin.GetUserKeys(ctx, users[0].ID)
	require.NoError(t, err)
	require.Empty(t, none.SecretKey)
	keys, err := admin.RegisterUserKeys(ctx, users[0].ID)
	require.NoError(t, err)

	c, err := cloudapi.NewClient(&cloudstack.Config{APIURL: cloud.URL, APIKey: keys.APIKey, SecretKey: keys.SecretKey})
	require.NoError(t, err)
	_, err = c.ListZones(ctx)
	require.NoError(t, err)
	_, err = c.ListNetworks(ctx, cloudstack.NetworkQuery{})
	require.True(t, cloudstack.IsKind(err, cloudstack.KindNotPermitted), "%v", err)
	require.NoError(t, admin.Logout(ctx))
	_, err = admin.ListZones(ctx)
	require.True(t, cloudstack.IsKind(err, cloudstack.KindAuth), "%v", err)
}
