// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials_test

import (
	"context"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/provider"
	"github.com/csccm/csccm/pkg/simulator"
)

const world = `
zones:
  - {name: zone-1, publicRanges: [203.0.113.10-203.0.113.99]}
domains:
  - {path: ROOT/tenants}
roles:
  - name: nearly nothing
    type: User
    rules: [{allow: listVirtualMachines}, {allow: listApis}, {allow: listCapabilities}, {allow: listZones}, {deny: "*"}]
  - name: no apis
    type: User
    rules: [{deny: listApis}, {deny: listCapabilities}, {deny: listZones}]
accounts:
  - {name: admin, role: Root Admin, users: [{name: admin, password: password}]}
  - {name: k8s, role: User, users: [{name: k8s-owner, password: password}]}
  - {name: other, role: User, users: [{name: other-owner, password: password}]}
  - {name: poor, role: nearly nothing, users: [{name: poor-owner, password: password}]}
  - {name: quiet, role: no apis, users: [{name: quiet-owner, password: password}]}
  - {name: frozen, role: User, users: [{name: kubeadmin, password: password, state: disabled}]}
  - {name: twin, role: User, domain: ROOT/tenants, users: [{name: twin-owner, password: password}]}
  - {name: boss, role: Domain Admin, domain: ROOT/tenants, users: [{name: boss, password: password}]}
projects:
  - {name: shop, owner: other}
  - {name: tenant-shop, owner: twin}
networks:
  - {name: k8s-net, account: k8s, cidr: 10.1.1.0/24}
  - {name: quiet-net, account: quiet, cidr: 10.1.2.0/24}
  - {name: poor-net, account: poor, cidr: 10.1.4.0/24}
  - {name: shop-net, project: shop, cidr: 10.1.3.0/24}
  - {name: twin-net, account: twin, cidr: 10.1.5.0/24}
  - {name: tenant-net, project: tenant-shop, cidr: 10.1.6.0/24}
virtualMachines:
  - {name: node-1, account: k8s, offering: Small Instance, nics: [{network: k8s-net, ip: 10.1.1.11}]}
  - {name: node-2, account: quiet, offering: Small Instance, nics: [{network: quiet-net, ip: 10.1.2.11}]}
  - {name: node-3, account: poor, offering: Small Instance, nics: [{network: poor-net, ip: 10.1.4.11}]}
  - {name: shop-1, project: shop, offering: Small Instance, nics: [{network: shop-net, ip: 10.1.3.11}]}
  - {name: twin-1, account: twin, offering: Small Instance, nics: [{network: twin-net, ip: 10.1.5.11}]}
  - {name: tenant-1, project: tenant-shop, offering: Small Instance, nics: [{network: tenant-net, ip: 10.1.6.11}]}
`

type cloud struct {
	sim *simulator.Simulator
	url string
}

func newCloud(t *testing.T) *cloud { t.Helper(); return newCloudOf(t, "") }

// newCloudOf is a CloudStack of a release.
func newCloudOf(t *testing.T, version string) *cloud {
	t.Helper()
	w, err := simulator.LoadWorld(strings.NewReader(world))
	require.NoError(t, err)
	w.Version = version
	sim, err := simulator.New(simulator.Options{World: w})
	require.NoError(t, err)
	server := httptest.NewServer(sim.Handler())
	t.Cleanup(func() { server.Close(); sim.Close() })
	return &cloud{sim, server.URL + "/client/api"}
}

func (c *cloud) login(t *testing.T) *cloudstack.Client {
	t.Helper()
	return c.loginAs(t, "admin", "ROOT")
}

func (c *cloud) loginAs(t *testing.T, user, domain string) *cloudstack.Client {
	t.Helper()
	cfg := cloudconfig.Default()
	cfg.APIURL = c.url
	admin, err := cloudstack.Login(t.Context(), &cfg, user, "password", domain)
	require.NoError(t, err)
	t.Cleanup(func() { _ = admin.Logout(context.WithoutCancel(t.Context())) })
	return admin
}

func (c *cloud) config(keys credentials.Keys) *cloudstack.Config {
	cfg := cloudconfig.Default()
	cfg.APIURL, cfg.APIKey, cfg.SecretKey = c.url, keys.APIKey, keys.SecretKey
	return &cfg
}

func (c *cloud) as(t *testing.T, keys credentials.Keys) *cloudstack.Client {
	t.Helper()
	client, err := cloudstack.NewClient(c.config(keys))
	require.NoError(t, err)
	return client
}

func (c *cloud) keysOf(t *testing.T, user string) credentials.Keys {
	t.Helper()
	api, secret, ok := c.sim.Keys(user)
	require.True(t, ok, user)
	return credentials.Keys{APIKey: api, SecretKey: secret}
}

func (c *cloud) request() credentials.Request {
	return credentials.Request{
		Account: "k8s", Commands: append([]string{"listApis", "listCapabilities"}, provider.RequiredCommands...),
		Sees: func(ctx context.Context, keys credentials.Keys, project string) (bool, error) {
			client, err := cloudstack.NewClient(c.config(keys))
			if err != nil {
				return false, err
			}
			projects, err := client.ListProjects(ctx)
			return slices.ContainsFunc(projects, func(p cloudstack.Project) bool { return p.ID == project }), err
		},
	}
}

func want(c *cloud) credentials.Want {
	return credentials.Want{
		APIURL: c.url, Optional: provider.OptionalCommands,
		Required: slices.DeleteFunc(slices.Clone(provider.RequiredCommands), func(s string) bool { return slices.Contains(provider.OptionalCommands, s) }),
	}
}

func nothing(string) {}

// writes counts the calls that change something.
func (c *cloud) writes() int {
	return c.sim.Ledger().Count("createRole", "createRolePermission", "createAccount", "createUser", "registerUserKeys", "addAccountToProject")
}
