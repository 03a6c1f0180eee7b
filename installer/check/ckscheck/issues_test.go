// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package ckscheck_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/csccm/csccm/installer/check/ckscheck"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// Each test is a world as users met it in an issue upstream: the finding with its remedy, and what the operation would have done.

// TestIssue14148 upgrades a cluster that was created with offerings for its kinds of nodes, and none for all.
func TestIssue14148(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.request()
	r.OfferingID, r.ControlOfferingID, r.WorkerOfferingID = "", e.offering("node"), e.offering("big")
	f, err := e.reader().Create(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, []string{"error offering-missing"}, problems(ckscheck.Create(f, r)), "found before it is created")

	k := e.create(r)
	f, err = e.reader().Upgrade(t.Context(), k)
	require.NoError(t, err)
	found := only(t, ckscheck.Upgrade(f, e.version("1.32.4")), "offering-missing")
	require.Equal(t, ckscheck.Error, found.Severity)
	require.Contains(t, found.What, "created without an offering for all nodes")
	require.Contains(t, found.Remedy, "csccm cks scale c1")
	require.Equal(t, "https://github.com/apache/cloudstack/issues/14148", found.Reference)
	upgrade := cloudstack.Params{"id": k.ID, "kubernetesversionid": e.version("1.32.4")}
	require.Equal(t, "Invalid service offering associated with Kubernetes cluster : c1", e.done(e.user.Submit(t.Context(), "upgradeKubernetesCluster", upgrade)))

	require.Empty(t, e.done(e.user.Submit(t.Context(), "scaleKubernetesCluster", cloudstack.Params{"id": k.ID, "serviceofferingid": e.offering("big")})), "the remedy")
	k = e.cluster()
	f, err = e.reader().Upgrade(t.Context(), k)
	require.NoError(t, err)
	require.Empty(t, problems(ckscheck.Upgrade(f, e.version("1.32.4"))))
	require.Empty(t, e.done(e.user.Submit(t.Context(), "upgradeKubernetesCluster", upgrade)))
}

// TestIssue293 deletes a cluster in a network that CloudStack did not make for it: addresses and rules of Services stay.
// The issue is of Cluster API's provider; deleteKubernetesCluster does the same.
func TestIssue293(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.request()
	r.NetworkID = e.network("cks-net")
	k := e.create(r)
	const uid = "3f1c8b4e-0000-4000-8000-000000000001"
	s, err := e.user.AssociateIP(t.Context(), cloudstack.AssociateIPRequest{NetworkID: k.NetworkID})
	require.Empty(t, e.done(s, err))
	rule, err := e.user.CreateLoadBalancerRule(t.Context(), cloudstack.CreateLoadBalancerRuleRequest{
		Name: "a3f1c8b4e00004000800000000000000-tcp-80", PublicIPID: s.ID, NetworkID: k.NetworkID, PublicPort: 80, PrivatePort: 30080, Protocol: "tcp", Algorithm: "roundrobin", OpenFirewall: true,
	})
	require.Empty(t, e.done(rule, err))

	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: uid}}
	service.Spec.Type = corev1.ServiceTypeLoadBalancer
	e.kube = fake.NewClientset(service)
	f, err := e.reader().Delete(t.Context(), k)
	require.NoError(t, err)
	found := only(t, ckscheck.Delete(f, false), "leftover")
	require.Equal(t, ckscheck.Warning, found.Severity)
	require.Contains(t, found.Object, s.ID)
	require.Contains(t, found.Object, "of Service shop/web")
	require.Contains(t, found.What, rule.ID)
	require.Contains(t, found.Remedy, "csccm cks delete c1 --remove-services")
	require.Equal(t, "https://github.com/kubernetes-sigs/cluster-api-provider-cloudstack/issues/293", found.Reference)
	require.Empty(t, problems(ckscheck.Delete(f, true)), "the remedy")

	require.Empty(t, e.done(e.user.Submit(t.Context(), "deleteKubernetesCluster", cloudstack.Params{"id": k.ID})))
	left, err := e.user.ListLoadBalancerRules(t.Context(), cloudstack.LoadBalancerRuleQuery{NetworkID: k.NetworkID})
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.Equal(t, rule.ID, left[0].ID, "it stayed")
	addresses, err := e.user.ListPublicIPs(t.Context(), cloudstack.PublicIPQuery{ID: s.ID})
	require.NoError(t, err)
	require.Len(t, addresses, 1, "it stayed")
}
