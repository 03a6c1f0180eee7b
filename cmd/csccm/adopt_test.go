// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/commands/adopt"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/simulator"
)

// The service that owns the old rules of the example world, as Apache's provider leaves it.
const serviceOfApache = `[{"metadata":{"namespace":"default","name":"web","uid":"01234567-89ab-cdef-0123-456789abcdef",` +
	`"annotations":{"service.beta.kubernetes.io/cloudstack-load-balancer-ip-associated-by-controller":"true"}},"spec":{"type":"LoadBalancer"}}]`

func TestAdopt(t *testing.T) {
	t.Parallel()
	a := newFakeCluster(t)
	cloud, file := cloudConfig(t)
	secretKey := cloud.Config(t, "").SecretKey
	a.set("/api/v1/services", serviceOfApache)
	base := []string{"adopt", "--server", a.url, "--cloud-config", file}

	c := execute(t, append(base, "--dry-run")...)
	require.Equal(t, 0, c.code, c.errOut)
	require.Contains(t, c.out, "default/web")
	require.Contains(t, c.out, "adopt")
	c = execute(t, base...)
	require.Equal(t, 2, c.code, c.errOut)
	require.Zero(t, cloud.Ledger().Count("createTags"), "nothing has been changed")

	cloud.Inject(simulator.Fault{Command: "createTags", Kind: simulator.FaultJobFails, Count: 1, Text: "busy"})
	c = execute(t, append(base, "--yes")...)
	require.NotEqual(t, 0, c.code)
	require.Contains(t, c.errOut, " of Service default/web", "address and Service are named")

	c = execute(t, append(base, "--yes", "-o", "json")...)
	require.Equal(t, 0, c.code, c.errOut)
	var r adopt.Result
	require.NoError(t, json.Unmarshal([]byte(c.out), &r))
	require.Equal(t, 1, r.Done)
	require.False(t, r.DryRun)
	require.Equal(t, adopt.Adopt, r.Items[0].Verdict)
	require.NotContains(t, c.out+c.errOut, secretKey)

	ips, err := cloud.Client(t, "").ListPublicIPs(t.Context(), cloudstack.PublicIPQuery{Tags: map[string]string{plan.TagServiceUID: "01234567-89ab-cdef-0123-456789abcdef"}})
	require.NoError(t, err)
	require.Len(t, ips, 1)
	require.Equal(t, plan.ManagedBy, ips[0].Tags[plan.TagAllocatedBy])

	c = execute(t, append(base, "--yes")...)
	require.Equal(t, 0, c.code, c.errOut)
	require.Contains(t, c.out, "handed over already")

	for _, args := range [][]string{{"default/nosuch"}, {"web"}} {
		c = execute(t, append(base, args...)...)
		require.Equal(t, 2, c.code, c.errOut)
		require.Contains(t, c.errOut, args[0])
	}
}
