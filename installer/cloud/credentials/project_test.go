// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/cloud/credentials"
)

// A project of another domain gets a member of its own domain: CloudStack knows no other.
func TestProjectOfAnotherDomain(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	admin := c.login(t)
	r := c.request()
	r.Account, r.Project = "", "tenant-shop"
	p, err := credentials.Plan(t.Context(), admin, r)
	require.NoError(t, err)
	require.Equal(t, "ROOT/tenants", p.Domain.Path)
	keys, err := p.Apply(t.Context(), admin, func(string) {})
	require.NoError(t, err)
	sees, err := r.Sees(t.Context(), keys, p.Project.ID)
	require.NoError(t, err)
	require.True(t, sees)

	again, err := credentials.Plan(t.Context(), admin, r)
	require.NoError(t, err)
	require.False(t, again.Changes(), "%v", again.Steps)

	// A domain that was named is not silently another.
	r.Domain = "ROOT"
	_, err = credentials.Plan(t.Context(), admin, r)
	require.ErrorContains(t, err, `there is no project "tenant-shop"`)
	r.Project = p.Project.ID
	_, err = credentials.Plan(t.Context(), admin, r)
	require.Error(t, err)
}
