// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/provider"
	"github.com/csccm/csccm/pkg/selftest"
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

// env is a simulated CloudStack with the accounts of the world.
type env struct {
	t   *testing.T
	sim *simulator.Simulator
	url string
	// made is the cluster's list of what csccm created.
	made credentials.Created
}

func newEnv(t *testing.T) *env { t.Helper(); return newEnvOf(t, "") }

// newEnvOf returns the env for a release of CloudStack.
func newEnvOf(t *testing.T, version string) *env {
	t.Helper()
	w, err := simulator.LoadWorld(strings.NewReader(world))
	require.NoError(t, err)
	w.Version = version
	cloud := testenv.NewCloud(t, w)
	return &env{t: t, sim: cloud.Simulator, url: cloud.URL, made: credentials.Created{Cluster: "this-cluster"}}
}

// admin returns a session of the root administrator, boss one of an administrator of ROOT/tenants.
func (e *env) admin() *cloudapi.Client { e.t.Helper(); return e.login("admin", "ROOT") }
func (e *env) boss() *cloudapi.Client  { e.t.Helper(); return e.login("boss", "tenants") }

func (e *env) login(user, domain string) *cloudapi.Client {
	e.t.Helper()
	session, err := cloudapi.Login(e.t.Context(), e.config(credentials.Keys{}), user, "password", domain)
	require.NoError(e.t, err)
	e.t.Cleanup(func() { _ = session.Logout(context.WithoutCancel(e.t.Context())) })
	return session
}

func (e *env) config(keys credentials.Keys) *cloudstack.Config {
	cfg := cloudconfig.Default()
	cfg.APIURL, cfg.APIKey, cfg.SecretKey = e.url, keys.APIKey, keys.SecretKey
	return &cfg
}

func (e *env) as(keys credentials.Keys) *cloudapi.Client {
	e.t.Helper()
	client, err := cloudapi.NewClient(e.config(keys))
	require.NoError(e.t, err)
	return client
}

func (e *env) keysOf(user string) credentials.Keys {
	e.t.Helper()
	api, secret, ok := e.sim.Keys(user)
	require.True(e.t, ok, user)
	return credentials.Keys{APIKey: api, SecretKey: secret}
}

// request returns a request for a user of an account or, without an account, for a member of a project.
func (e *env) request(account, project string) credentials.Request {
	return credentials.Request{
		Account: account, Project: project, Commands: provider.RequiredCommands, Created: &e.made,
		Sees: func(ctx context.Context, keys credentials.Keys, project string) (bool, error) {
			projects, err := e.as(keys).ListProjects(ctx)
			return slices.ContainsFunc(projects, func(p cloudstack.Project) bool { return p.ID == project }), err
		},
	}
}

func (e *env) plan(admin *cloudapi.Client, r credentials.Request) *credentials.Provision {
	e.t.Helper()
	p, err := credentials.Plan(e.t.Context(), admin, r)
	require.NoError(e.t, err)
	return p
}

func (e *env) apply(admin *cloudapi.Client, p *credentials.Provision) credentials.Keys {
	e.t.Helper()
	for _, o := range p.Makes {
		e.made.Objects = append(e.made.Objects, *o)
	}
	keys, err := p.Apply(e.t.Context(), nothing)
	require.NoError(e.t, err)
	return keys
}

// refused returns the error of Plan.
func (e *env) refused(admin *cloudapi.Client, r credentials.Request, says, remedy string) {
	e.t.Helper()
	_, err := credentials.Plan(e.t.Context(), admin, r)
	require.ErrorContains(e.t, err, says)
	var told *report.Error
	require.ErrorAs(e.t, err, &told)
	require.Contains(e.t, told.Remedy(), remedy)
}

// stays plans again: the plan must be empty and have the same keys. New keys would revoke the pair in use.
func (e *env) stays(admin *cloudapi.Client, r credentials.Request, keys credentials.Keys) {
	e.t.Helper()
	before, again := e.writes(), e.plan(admin, r)
	require.False(e.t, again.Changes(), "%q", again.Steps)
	require.Equal(e.t, keys, e.apply(admin, again))
	require.Equal(e.t, before, e.writes())
}

// verified verifies the keys, and returns the id of the project and the output of the self-test.
func (e *env) verified(keys credentials.Keys, project string) (id, says string) {
	e.t.Helper()
	id, says, err := e.verify(keys, func(c *cloudstack.Config) { c.ProjectID, c.Zone = project, "zone-1" })
	require.NoError(e.t, err)
	require.Contains(e.t, says, "(1 VMs)")
	require.NotContains(e.t, says, selftest.MarkWarning)
	return id, says
}

func (e *env) verify(keys credentials.Keys, change func(*cloudstack.Config)) (id, says string, err error) {
	e.t.Helper()
	var out strings.Builder
	cfg := e.config(keys)
	change(cfg)
	id, err = credentials.Verify(e.t.Context(), &selftest.Test{
		Config:   cfg,
		Client:   e.as(keys).Client,
		Required: provider.RequiredCommands,
		Optional: provider.OptionalCommands,
		Out:      &out,
	})
	return id, out.String(), err
}

func nothing(string) {}

// writes returns the number of calls that change something.
func (e *env) writes() int {
	return e.sim.Ledger().Count("createRole", "createRolePermission", "createAccount", "createUser", "registerUserKeys",
		"addAccountToProject")
}
