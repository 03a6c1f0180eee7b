// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/simulator"
)

// cksWorld is a CloudStack in which Owner can create clusters: two offerings that are large enough, one that is not, and a
// network to bring along.
const cksWorld = `
settings: {endpointURL: "http://192.0.2.1:8080/client/api"}
zones: [{name: zone-1, publicRanges: [203.0.113.10-203.0.113.60]}, {name: zone-2, publicRanges: [203.0.113.100-203.0.113.110]}]
serviceOfferings:
  - {name: small, cpus: 1, cpuSpeed: 500, memoryMiB: 512}
  - {name: node, cpus: 2, cpuSpeed: 1000, memoryMiB: 2048}
  - {name: big, cpus: 4, cpuSpeed: 1000, memoryMiB: 4096}
accounts: [{name: k8s, users: [{name: k8s-owner, password: password}]}]
projects: [{name: shop, owner: k8s}]
networks:
  - {name: own-net, account: k8s, cidr: 10.1.2.0/24, offering: DefaultNetworkOfferingforKubernetesService}
`

// NewCKS starts a CloudStack with CloudStack Kubernetes Service, its versions 1.33.1, 1.33.4 and 1.34.0, and no cluster.
func NewCKS(t *testing.T) *Cloud {
	t.Helper()
	world, err := simulator.LoadWorld(strings.NewReader(cksWorld))
	require.NoError(t, err)
	c := NewCloud(t, world)
	admin := c.Admin(t)
	for _, v := range []string{"1.33.1", "1.33.4", "1.34.0"} {
		_, err := admin.AddKubernetesVersion(t.Context(), cloudstack.AddKubernetesVersionRequest{
			Semantic: v, URL: "http://192.0.2.1/" + v + ".iso", MinCPUs: 2, MinMemoryMiB: 2048,
		})
		require.NoError(t, err)
	}
	c.Ledger().Reset()
	return c
}

// Zone is the id of a zone.
func (c *Cloud) Zone(t *testing.T, name string) string {
	t.Helper()
	zones, err := c.Client(t, "").ListZones(t.Context())
	require.NoError(t, err)
	for _, z := range zones {
		if z.Name == name {
			return z.ID
		}
	}
	require.Fail(t, "no such zone", name)
	return ""
}

// Cluster creates a cluster of one control node and two workers with version 1.33.1, and returns it as it is then.
func (c *Cloud) Cluster(t *testing.T, name string, change func(*cloudstack.CreateClusterRequest)) *cloudstack.KubernetesCluster {
	t.Helper()
	api := c.Client(t, "")
	versions, err := api.ListKubernetesVersions(t.Context(), "")
	require.NoError(t, err)
	offerings, err := api.ListServiceOfferings(t.Context(), "")
	require.NoError(t, err)
	r := cloudstack.CreateClusterRequest{Name: name, ZoneID: c.Zone(t, "zone-1"), ControlNodes: 1, Size: 2}
	for _, v := range versions {
		if v.Semantic == "1.33.1" {
			r.VersionID = v.ID
		}
	}
	for _, o := range offerings {
		if o.Name == "node" {
			r.OfferingID = o.ID
		}
	}
	if change != nil {
		change(&r)
	}
	made, err := api.CreateKubernetesCluster(t.Context(), r)
	require.NoError(t, err)
	_, _ = api.Jobs().Wait(t.Context(), "createKubernetesCluster", made.JobID)
	k, err := api.KubernetesCluster(t.Context(), made.ID, r.ProjectID)
	require.NoError(t, err)
	c.Ledger().Reset()
	return k
}
