// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudapi

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/cloudstack"
)

const testPassword = "canaryPassword~*&=CCCC"

// TestRecordedAnswers reads answers of a real management server.
func TestRecordedAnswers(t *testing.T) {
	t.Parallel()
	ctx := t.Context()

	for _, tc := range []struct {
		golden string
		call   func(c *Client) (any, error)
		want   any
		params map[string]string // required parameters of the call; "" means that it must be absent
	}{
		{"listServiceOfferings.all", func(c *Client) (any, error) { return c.ListServiceOfferings(ctx, "z") },
			[]ServiceOffering{
				{
					ID:        "1fb97a24-6f10-485a-bc7e-f540e0bba35f",
					Name:      "Small Instance",
					State:     "Active",
					CPUs:      1,
					SpeedMHz:  500,
					MemoryMiB: 512,
				},
				{
					ID:        "4e2d8c13-e8e7-4e06-8302-96f232b55fc1",
					Name:      "Medium Instance",
					State:     "Active",
					CPUs:      1,
					SpeedMHz:  1000,
					MemoryMiB: 1024,
				},
			}, map[string]string{"zoneid": "z"}},
		{"listKubernetesClusters.by-id-with-vms",
			func(c *Client) (any, error) { return c.ListKubernetesClusters(ctx, "p") }, []KubernetesCluster{{
				ID:           "4be17028-6145-408b-b431-52c8074ea5fe",
				Name:         "ext0",
				State:        "Running",
				Type:         "ExternalManaged",
				Description:  "x",
				ZoneID:       "a8885454-8c33-4770-9640-f2234fce520e",
				ZoneName:     "Sandbox-simulator",
				ControlNodes: 1,
				Size:         3,
				Created:      "2026-11-21T10:46:51+0000",
				Account:      "kubeadmin",
				VMs: []string{"f1db34f8-ed2e-4d48-8931-dc1a06f72c9c", "c6b00d13-fbaf-44cd-ba24-6f90b660474b",
					"8648015f-e2d3-484f-b6a1-5b19593d0869", "fae1c4e4-86fe-46d9-b8e9-88a96136e04f"},
			}}, map[string]string{"projectid": "p"}},
		{"listKubernetesClusters.by-id-with-vms", func(c *Client) (any, error) {
			k, err := c.KubernetesCluster(ctx, "k", "p")
			return k.Name, err
		}, "ext0", map[string]string{"id": "k", "projectid": "p"}},
		{"listKubernetesSupportedVersions.admin",
			func(c *Client) (any, error) { return c.ListKubernetesVersions(ctx, "z") }, []KubernetesVersion{{
				ID: "7a84e841-531a-4326-92f3-1a267186b7ec", Name: "v1.31.1", Semantic: "1.31.1",
				ISOID:    "52b29f06-2bd5-4105-b629-08379de75d1b",
				ISOName:  "v1.31.1-Kubernetes-Binaries-ISO",
				ISOState: "Ready",
				ZoneID:   "a8885454-8c33-4770-9640-f2234fce520e", ZoneName: "Sandbox-simulator", Arch: "x86_64",
				State: "Enabled", MinCPUs: 2, MinMemoryMiB: 2048, SupportsHA: true, SupportsAutoscaling: true,
			}}, map[string]string{"zoneid": "z"}},
		{"listCniConfiguration.all", func(c *Client) (any, error) {
			all, err := c.ListCNIConfigs(ctx, "p")
			return all[1], err
		}, CNIConfig{
			ID:       "c7bf2f10-ff21-4127-a2d4-9c13251e9647",
			Name:     "calico-1",
			Account:  "kubeadmin",
			Domain:   "ROOT/k8s",
			Params:   "AS_NUMBER",
			UserData: "I2Nsb3VkLWNvbmZpZwpydW5jbWQ6Ci0gZWNobyBjbmkK",
		}, map[string]string{"projectid": "p"}},
		{"listVolumes.by-vm", func(c *Client) (any, error) { return c.ListVolumes(ctx, "v", "p") }, []Volume{
			{ID: "81a686ad-6f32-4572-b337-3bf11dfb07a1", Type: "ROOT", Size: 2 << 30},
		}, map[string]string{"virtualmachineid": "v", "projectid": "p"}},
		{"listRoles.admin",
			func(c *Client) (any, error) { roles, err := c.ListRoles(ctx, "user"); return len(roles), err }, 9,
			map[string]string{"name": "user"}},
		{"createRole.ok",
			func(c *Client) (any, error) { role, err := c.CreateRole(ctx, "n", "d"); return role.ID, err },
			"2284ea2f-87d4-48a4-9f9a-062877e08200", map[string]string{"name": "n", "type": "User", "description": "d"}},
		{"createRolePermission.allow-0", func(c *Client) (any, error) {
			return nil, c.Do(ctx, "createRolePermission", cloudstack.Params{"rule": "listZones"})
		}, nil, map[string]string{"rule": "listZones"}},
		{"listAccounts.self", func(c *Client) (any, error) {
			accounts, err := c.ListAccounts(ctx, "kubeadmin")
			return accounts[0].Users[0].Username, err
		}, "kubeadmin", map[string]string{"name": "kubeadmin", "listall": "true"}},
		{"listAccounts.limited", func(c *Client) (any, error) { return c.ReadQuota(ctx, "") }, &Quota{
			Owner:      "account kubeadmin",
			VMs:        Usage{20, 10},
			CPUs:       Usage{40, 10},
			MemoryMiB:  Usage{40960, 5120},
			Volumes:    Usage{20, 10},
			StorageGiB: Usage{200, 20},
			PublicIPs:  Usage{3, 3}, Networks: Usage{20, 4},
		}, map[string]string{"id": "", "listall": ""}},
		{"listProjects.user", func(c *Client) (any, error) {
			q, err := c.ReadQuota(ctx, "p")
			return []any{q.Owner, q.VMs, q.CPUs, q.PublicIPs}, err
		},
			[]any{"project k8s-project", Usage{20, 2}, Usage{40, 2}, Usage{20, 1}}, map[string]string{"id": "p"}},
		{"listPublicIpAddresses.state-free", func(c *Client) (any, error) { return c.CountFreePublicIPs(ctx, "z") },
			185,
			map[string]string{"state": "Free", "zoneid": "z", "page": "1", "pagesize": "1"}},
		{"listUsers.self", func(c *Client) (any, error) {
			users, err := c.ListUsers(ctx, "d")
			return []string{users[0].AccountID, users[0].RoleType}, err
		}, []string{"2578845e-6284-49d4-a658-75c95d8c7c92", "User"},
			map[string]string{"listall": "true", "domainid": "d"}},
		{"createUser.admin", func(c *Client) (any, error) {
			user, err := c.CreateUser(ctx, NewUser{Account: "a", Name: "u", DomainID: "d"})
			return user.ID != "", err
		}, true,
			map[string]string{
				"account":  "a",
				"username": "u",
				"lastname": "a",
				"email":    "u@localhost",
				"domainid": "d",
				"roleid":   "",
			}},
		{"createAccount.custom-role", func(c *Client) (any, error) {
			account, err := c.CreateAccount(ctx, NewUser{Account: "a", Name: "u", DomainID: "d", RoleID: "r"})
			return account.ID != "" && len(account.Users) > 0, err
		}, true, map[string]string{"account": "a", "username": "u", "roleid": "r", "domainid": "d"}},
		{"registerUserKeys.self-again", func(c *Client) (any, error) {
			keys, err := c.RegisterUserKeys(ctx, "u")
			return keys.APIKey != "" && keys.SecretKey != "", err
		}, true, nil},
	} {
		t.Run(tc.golden, func(t *testing.T) {
			t.Parallel()
			f := golden(t, tc.golden)
			got, err := tc.call(f.client(t))
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
			for name, want := range tc.params {
				require.Equal(t, want, f.form().Get(name), name)
			}
		})
	}
}

func TestSecretsArePrintedRedacted(t *testing.T) {
	t.Parallel()
	keys := Keys{APIKey: testPassword, SecretKey: testPassword}
	for _, v := range []any{keys, &keys} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			text := fmt.Sprintf(verb, v)
			require.NotContains(t, text, "canary")
			require.NotContains(t, text, fmt.Sprintf("%x", "canary"))
		}
	}
}

// Administrators get "Unlimited" as a limit, and some roles get no limits at all.
func TestReadQuotaOddAnswers(t *testing.T) {
	t.Parallel()
	f := always(`{"listaccountsresponse":{"count":1,"account":[{"id":"a","name":"admin","vmlimit":"Unlimited","vmtotal":7,"cpulimit":"-1","iplimit":"5","iptotal":9}]}}`)
	q, err := f.client(t).ReadQuota(t.Context(), "")
	require.NoError(t, err)
	_, unlimited := q.VMs.Free()
	require.True(t, unlimited)
	_, unlimited = q.CPUs.Free()
	require.True(t, unlimited)
	left, unlimited := q.PublicIPs.Free()
	require.False(t, unlimited)
	require.Zero(t, left, "a limit that was lowered below what is used")

	for _, body := range []string{`{"listaccountsresponse":{}}`,
		`{"listaccountsresponse":{"count":1,"account":[{"id":"a","name":"n"}]}}`} {
		_, err := always(body).client(t).ReadQuota(t.Context(), "")
		require.ErrorContains(t, err, "does not show the limits of exactly one account")
	}
}

func TestOddAnswers(t *testing.T) {
	t.Parallel()
	c := always(`{"x":{}}`).client(t)
	keys, err := c.GetUserKeys(t.Context(), "u")
	require.NoError(t, err, "a user that never registered keys has none")
	require.Equal(t, Keys{}, keys)
	_, err = c.RegisterUserKeys(t.Context(), "u")
	require.ErrorContains(t, err, "no userkeys")
	var e *cloudstack.Error
	require.ErrorAs(t, err, &e)
	require.True(t, e.MayHaveHappened)
	cluster, err := c.KubernetesCluster(t.Context(), "k", "")
	require.NoError(t, err)
	require.Nil(t, cluster)
}

// A server that refuses or throttles a call counts as a CloudStack server.
func TestARefusalIsAnAnswer(t *testing.T) {
	t.Parallel()
	for status, answers := range map[int]bool{
		http.StatusUnauthorized:    true,
		http.StatusTooManyRequests: true,
		432:                        true,
		http.StatusNotFound:        false,
	} {
		f := &fakeAPI{
			status: status,
			body:   fmt.Sprintf(`{"listcapabilitiesresponse":{"uuidList":[],"errorcode":%d,"errortext":"please retry after [1] ms."}}`, status),
		}
		require.Equal(t, answers, f.client(t).Answers(t.Context()) == nil, "%d", status)
	}
}
