// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
	"time"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/testenv"
)

// cksWorld is a CloudStack without any cluster.
func cksWorld() *simulator.World {
	return &simulator.World{
		Zones:            []simulator.Zone{{Name: "zone-1", PublicRanges: []string{"203.0.113.10-203.0.113.60"}}},
		ServiceOfferings: []simulator.ServiceOffering{{Name: "node", CPUs: 2, CPUSpeed: 1000, Memory: 4096}},
		Accounts:         []simulator.Account{{Name: "k8s", Users: []simulator.User{{Name: owner}}}},
	}
}

// newCKS returns an empty CloudStack whose first Kubernetes cluster runs on process nodes. Its API server is idle before.
func newCKS(t *testing.T) *clusterEnv {
	t.Helper()
	p := borrow(t, plane.Options{NodeGrace: defaultGrace})
	nodes, err := testenv.NewCluster(p, testenv.ClusterOptions{Controller: programs.Controller, Heartbeat: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	cloud, err := testenv.StartCloudStackWith(simulator.Options{World: cksWorld(), Inside: &testenv.CKS{Cluster: nodes}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cloud.Stop)
	if _, err := cloud.Admin(t.Context(), "updateConfiguration", map[string]string{"name": "endpoint.url", "value": cloud.URL}); err != nil {
		t.Fatal(err)
	}
	return newClusterEnvOf(t, p, cloud, nodes)
}

// TestKubernetesService takes a cluster of CloudStack Kubernetes Service from an empty cloud to its end.
func TestKubernetesService(t *testing.T) {
	t.Parallel()
	e := newCKS(t)
	ctx := t.Context()
	api := e.api(t, owner)
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := e.cloud.Admin(ctx, "addKubernetesSupportedVersion", map[string]string{
		"semanticversion": "1.36.3", "mincpunumber": "2", "minmemory": "2048", "url": "http://192.0.2.1/1.36.3.iso",
	})
	ok(err)
	zones, err := api.ListZones(ctx)
	ok(err)
	versions, err := api.ListKubernetesVersions(ctx, "")
	ok(err)
	offerings, err := e.cloud.Admin(ctx, "listServiceOfferings", map[string]string{"name": "node"})
	ok(err)
	t.Log(offerings)
	offering := offerings["serviceoffering"].([]any)[0].(map[string]any)["id"].(string)
	s, err := api.CreateKubernetesCluster(ctx, cloudstack.CreateClusterRequest{Name: "prod", ZoneID: zones[0].ID, VersionID: versions[0].ID, OfferingID: offering, ControlNodes: 1, Size: 1})
	ok(err)
	_, err = api.Jobs().Wait(ctx, "createKubernetesCluster", s.JobID)
	ok(err)
	clusters, err := api.ListKubernetesClusters(ctx, "")
	ok(err)
	t.Logf("%+v", clusters)
	r := e.csccm(t, adminPassword+"\n", installArgs(e)...)
	t.Log(r.all)
	r.want(t, 0)
	e.initialised(t, 2)
	s, err = api.ScaleKubernetesCluster(ctx, cloudstack.ScaleClusterRequest{ID: clusters[0].ID, Size: 2})
	ok(err)
	_, err = api.Jobs().Wait(ctx, "scaleKubernetesCluster", s.JobID)
	ok(err)
	e.initialised(t, 3)
	t.Log(e.csccm(t, "", "cks").all)
	t.Log(e.csccm(t, "", "doctor").all)
}
