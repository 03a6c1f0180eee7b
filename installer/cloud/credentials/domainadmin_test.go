// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/cloud/credentials"
)

// A domain administrator names no domain: their own is meant, since they do not see ROOT.
func TestDomainAdminMakesUser(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	boss := c.loginAs(t, "boss", "ROOT/tenants")
	r := c.request()
	r.Account = "twin"
	p, err := credentials.Plan(t.Context(), boss, r)
	require.NoError(t, err)
	require.Equal(t, "ROOT/tenants", p.Domain.Path)
	keys, err := p.Apply(t.Context(), boss, nothing)
	require.NoError(t, err)
	v, err := credentials.Verify(t.Context(), c.as(t, keys), want(c))
	require.NoError(t, err)
	require.Equal(t, 1, v.VMs)

	r.Domain = "ROOT"
	_, err = credentials.Plan(t.Context(), boss, r)
	require.ErrorContains(t, err, `there is no domain "ROOT" that this administrator can see`)
}

// A domain administrator may not make roles; that is said before anything is made. With a role that exists it works.
func TestDomainAdminMakesAccount(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	boss := c.loginAs(t, "boss", "tenants")
	r := c.request()
	r.Account, r.Project = "", "tenant-shop"
	_, err := credentials.Plan(t.Context(), boss, r)
	require.ErrorContains(t, err, `this administrator may not make role "csccm-kubeadm"`)
	var e *credentials.Error
	require.ErrorAs(t, err, &e)
	require.Contains(t, e.Remedy(), "--role-name User")
	require.Zero(t, c.writes())

	for name, prepare := range map[string]func(*testing.T, *cloud, *credentials.Request){
		"default role": func(_ *testing.T, _ *cloud, r *credentials.Request) { r.Role = "User" },
		"role made by a root administrator": func(t *testing.T, c *cloud, r *credentials.Request) {
			t.Helper()
			root := *r
			root.Account, root.Project = "", "shop"
			p, err := credentials.Plan(t.Context(), c.login(t), root)
			require.NoError(t, err)
			_, err = p.Apply(t.Context(), c.login(t), nothing)
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCloud(t)
			r := c.request()
			r.Account, r.Project = "", "tenant-shop"
			prepare(t, c, &r)
			boss := c.loginAs(t, "boss", "tenants")
			p, err := credentials.Plan(t.Context(), boss, r)
			require.NoError(t, err)
			keys, err := p.Apply(t.Context(), boss, nothing)
			require.NoError(t, err)
			w := want(c)
			w.Project = "tenant-shop"
			v, err := credentials.Verify(t.Context(), c.as(t, keys), w)
			require.NoError(t, err)
			require.Equal(t, 1, v.VMs)

			again, err := credentials.Plan(t.Context(), boss, r)
			require.NoError(t, err)
			require.False(t, again.Changes(), "%q", again.Steps)
		})
	}
}
