// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/simulator"
)

// cksWorld is a CloudStack in which Owner can create clusters. It has two offerings that are large enough for nodes,
// one that is too small, and a network that exists before the clusters.
const cksWorld = `
settings: {endpoint.url: "http://192.0.2.1:8080/client/api"}
zones: [{name: zone-1, publicRanges: [203.0.113.10-203.0.113.60]}, {name: zone-2, publicRanges: [203.0.113.100-203.0.113.110]}]
serviceOfferings:
  - {name: small, cpus: 1, cpuSpeed: 500, memoryMiB: 512}
  - {name: node, cpus: 2, cpuSpeed: 1000, memoryMiB: 2048}
  - {name: big, cpus: 4, cpuSpeed: 1000, memoryMiB: 4096}
cksTemplates: [ubuntu-cks, rocky-cks]
accounts: [{name: k8s, users: [{name: k8s-owner, password: password}]}]
projects: [{name: shop, owner: k8s}]
networks:
  - {name: own-net, account: k8s, cidr: 10.1.2.0/24, offering: DefaultNetworkOfferingforKubernetesService}
`

// NewCKS starts a CloudStack with CloudStack Kubernetes Service, the Kubernetes versions 1.33.1, 1.33.4 and 1.34.0, and
// no cluster.
func NewCKS(t *testing.T) *Cloud {
	t.Helper()
	return NewCloud(t, CKSWorld(t))
}

// CKSWorld returns the world of NewCKS.
func CKSWorld(t *testing.T) *simulator.World {
	t.Helper()
	world, err := simulator.LoadWorld(strings.NewReader(cksWorld))
	require.NoError(t, err)
	for _, v := range []string{"1.33.1", "1.33.4", "1.34.0"} {
		world.KubernetesVersions = append(world.KubernetesVersions, simulator.KubernetesVersion{Semantic: v})
	}
	return world
}

// Named returns the element of a list that has a name.
func Named[T any](t *testing.T, all []T, want string, name func(T) string) T {
	t.Helper()
	i := slices.IndexFunc(all, func(v T) bool { return name(v) == want })
	require.GreaterOrEqual(t, i, 0, "there is no %s", want)
	return all[i]
}

// ClusterRequest returns a request for a cluster with one control node, two workers and version 1.33.1.
func (c *Cloud) ClusterRequest(t *testing.T, name string) cloudapi.CreateClusterRequest {
	t.Helper()
	api := c.Client(t, "")
	versions, err := api.ListKubernetesVersions(t.Context(), "")
	require.NoError(t, err)
	offerings, err := api.ListServiceOfferings(t.Context(), "")
	require.NoError(t, err)
	zones, err := api.ListZones(t.Context())
	require.NoError(t, err)
	return cloudapi.CreateClusterRequest{
		Name:         name,
		ControlNodes: 1,
		Size:         2,
		ZoneID:       Named(t, zones, "zone-1", func(z cloudstack.Zone) string { return z.Name }).ID,
		VersionID:    Named(t, versions, "1.33.1", func(v cloudapi.KubernetesVersion) string { return v.Semantic }).ID,
		OfferingID:   Named(t, offerings, "node", func(o cloudapi.ServiceOffering) string { return o.Name }).ID,
	}
}

// Cluster creates a cluster, waits for the job, and returns the cluster. change may modify the request.
func (c *Cloud) Cluster(
	t *testing.T, name string, change func(*cloudapi.CreateClusterRequest),
) *cloudapi.KubernetesCluster {
	t.Helper()
	api, r := c.Client(t, ""), c.ClusterRequest(t, name)
	if change != nil {
		change(&r)
	}
	made, err := api.Submit(t.Context(), "createKubernetesCluster", r.Params())
	require.NoError(t, err)
	_, _ = api.Jobs().Wait(t.Context(), "createKubernetesCluster", made.JobID)
	k, err := api.KubernetesCluster(t.Context(), made.ID, r.ProjectID)
	require.NoError(t, err)
	c.Ledger().Reset()
	return k
}

// Supplied creates the cluster demo in the existing network own-net, with a public address and a rule for the Service
// default/web. It returns the address.
func (c *Cloud) Supplied(t *testing.T) (address string) {
	t.Helper()
	api := c.Client(t, "")
	nets, err := api.ListNetworks(t.Context(), cloudstack.NetworkQuery{})
	require.NoError(t, err)
	own := Named(t, nets, "own-net", func(n cloudstack.Network) string { return n.Name })
	k := c.Cluster(t, "demo", func(r *cloudapi.CreateClusterRequest) { r.NetworkID = own.ID })
	require.Equal(t, own.Name, k.NetworkName)
	ip, err := api.AssociateIP(t.Context(), cloudstack.AssociateIPRequest{NetworkID: k.NetworkID})
	require.NoError(t, err)
	rule, err := api.CreateLoadBalancerRule(t.Context(), cloudstack.CreateLoadBalancerRuleRequest{
		Name:        "K8s_svc_demo_default_web-tcp-80",
		PublicIPID:  ip.ID,
		NetworkID:   k.NetworkID,
		PublicPort:  80,
		PrivatePort: 30080,
		Protocol:    "tcp",
		Algorithm:   "roundrobin",
	})
	require.NoError(t, err)
	for _, job := range []string{ip.JobID, rule.JobID} {
		_, err = api.Jobs().Wait(t.Context(), "", job)
		require.NoError(t, err)
	}

	ips, err := api.ListPublicIPs(t.Context(), cloudstack.PublicIPQuery{ID: ip.ID})
	require.NoError(t, err)
	return ips[0].Address
}
