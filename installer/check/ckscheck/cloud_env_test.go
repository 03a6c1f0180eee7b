// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package ckscheck_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/installer/check/ckscheck"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/simulator"
)

const cloud = `
settings: {endpoint.url: "http://192.0.2.1:8080/client/api"}
zones: [{name: z1, publicRanges: [203.0.113.10-203.0.113.30]}]
serviceOfferings:
  - {name: small, cpus: 1, cpuSpeed: 500, memoryMiB: 512}
  - {name: node, cpus: 2, cpuSpeed: 1000, memoryMiB: 2048}
  - {name: big, cpus: 4, cpuSpeed: 1000, memoryMiB: 4096}
accounts: [{name: owner, users: [{name: owner}]}]
projects: [{name: team, owner: owner}]
networks:
  - {name: cks-net, account: owner, cidr: 10.1.2.0/24, offering: DefaultNetworkOfferingforKubernetesService}
  - {name: closed-net, account: owner, cidr: 10.1.3.0/24}
kubernetesVersions:
  - {semanticVersion: 1.31.1}
  - {semanticVersion: 1.31.9, isoState: Creating}
  - {semanticVersion: 1.32.4}
  - {semanticVersion: 1.33.2, minCPUs: 4, minMemoryMiB: 4096}
`

// env is a CloudStack with a user's keys.
type env struct {
	t *testing.T
	*testenv.Cloud
	user *cloudapi.Client
	zone string
	kube kubernetes.Interface
}

func newEnv(t *testing.T, change ...func(w *simulator.World)) *env {
	t.Helper()
	w, err := simulator.LoadWorld(strings.NewReader(cloud))
	require.NoError(t, err)
	for _, f := range change {
		f(w)
	}
	e := &env{t: t, Cloud: testenv.NewCloud(t, w)}
	e.user = e.Client(t, "owner")
	zones, err := e.user.ListZones(t.Context())
	require.NoError(t, err)
	e.zone = zones[0].ID
	return e
}

// reader has nobody at the clusters' endpoints.
func (e *env) reader() *ckscheck.Reader {
	return &ckscheck.Reader{API: e.user, Kube: e.kube, NoKube: errors.New("there is no kubeconfig"), Clock: clock.RealClock{}, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("connection refused")
	}}
}

func (e *env) version(semantic string) string {
	e.t.Helper()
	all, err := e.user.ListKubernetesVersions(e.t.Context(), "")
	require.NoError(e.t, err)
	return testenv.Named(e.t, all, semantic, func(v cloudapi.KubernetesVersion) string { return v.Semantic }).ID
}

func (e *env) offering(name string) string {
	e.t.Helper()
	all, err := e.user.ListServiceOfferings(e.t.Context(), "")
	require.NoError(e.t, err)
	return testenv.Named(e.t, all, name, func(v cloudapi.ServiceOffering) string { return v.Name }).ID
}

func (e *env) network(name string) string {
	e.t.Helper()
	all, err := e.user.ListNetworks(e.t.Context(), cloudstack.NetworkQuery{})
	require.NoError(e.t, err)
	return testenv.Named(e.t, all, name, func(v cloudstack.Network) string { return v.Name }).ID
}

// done waits for a job and returns the text of its failure, or of the call's.
func (e *env) done(s cloudstack.Submitted, err error) string {
	e.t.Helper()
	if err != nil {
		return err.Error()
	}
	text := ""
	require.Eventually(e.t, func() bool {
		j, err := e.user.QueryJob(e.t.Context(), s.JobID)
		require.NoError(e.t, err)
		text = j.ErrorText
		return j.Status != cloudstack.JobPending
	}, time.Minute, time.Millisecond)
	return text
}

// request is one for a cluster that can be created.
func (e *env) request() cloudapi.CreateClusterRequest {
	return cloudapi.CreateClusterRequest{Name: "c1", ZoneID: e.zone, VersionID: e.version("1.31.1"), OfferingID: e.offering("node"), ControlNodes: 1, Size: 1}
}

func (e *env) create(r cloudapi.CreateClusterRequest) *cloudapi.KubernetesCluster {
	e.t.Helper()
	require.Empty(e.t, e.done(e.user.Submit(e.t.Context(), "createKubernetesCluster", r.Params())))
	return e.cluster()
}

// cluster is the only one.
func (e *env) cluster() *cloudapi.KubernetesCluster {
	e.t.Helper()
	all, err := e.user.ListKubernetesClusters(e.t.Context(), "")
	require.NoError(e.t, err)
	require.Len(e.t, all, 1)
	return &all[0]
}

// only returns the finding with a code.
func only(t *testing.T, all []ckscheck.Finding, code string) ckscheck.Finding {
	t.Helper()
	var found []ckscheck.Finding
	for _, f := range all {
		if f.Code == code {
			found = append(found, f)
		}
	}
	require.Len(t, found, 1, "%s in %+v", code, all)
	return found[0]
}

// problems are the codes of errors and warnings.
func problems(all []ckscheck.Finding) (codes []string) {
	for _, f := range all {
		if f.Severity != ckscheck.NotChecked {
			codes = append(codes, string(f.Severity)+" "+f.Code)
		}
	}
	return codes
}
