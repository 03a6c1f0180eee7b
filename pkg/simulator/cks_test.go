// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

func TestProjectCluster(t *testing.T) {
	t.Parallel()
	h := startScript(t, "kubernetes", Options{})
	team := h.idOf("projects", "team")
	first, _, _ := strings.Cut(team, "-")
	service := "kubeadmin-" + first
	h.set("team", team, "service", service, "role", store.CKSProjectRole).play(`
		newCluster projectid={team} => projectid={team} account=- > k
		root listAccounts name={service} listall=true => rolename="{role}"`)
	h.play(strings.ReplaceAll(`
		SERVICE listKubernetesClusters projectid={team} => count 1
		SERVICE listVirtualMachines projectid={team} => count 2
		SERVICE listZones => 432/9999 does not exist or is not available
		SERVICE listTags => 432
		SERVICE createTags => 432
		SERVICE listNetworkACLLists => 432
		SERVICE listVPCs => 432
		SERVICE listCapabilities => 432
		SERVICE listApis => 432
		mate listKubernetesClusters projectid=-1 => count 1
		mate listKubernetesClusters listall=true => count 0
		mate createKubernetesCluster name=c2 zoneid={zone} kubernetesversionid={version} serviceofferingid={node} size=1 projectid={team} > two
		owner deleteKubernetesCluster id={k}
		SERVICE listNetworks projectid={team}
		owner deleteKubernetesCluster id={two}
	`, "SERVICE", service))

	_, _, ok := h.sim.Keys(service)
	require.False(t, ok, "the service account goes with the last cluster")
}

func TestKubernetesServiceDisabled(t *testing.T) {
	t.Parallel()
	h := start(t, Options{World: &World{
		Settings: map[string]string{"cloud.kubernetes.service.enabled": "false"},
		Zones:    []Zone{{Name: "z", PublicRanges: []string{"203.0.113.10-203.0.113.19"}}},
	}})
	h.fails(h.root("listKubernetesClusters"), 432, wire.CSGeneric, "Unknown API command: listKubernetesClusters")
	a := h.call("admin", "listKubernetesClusters")
	h.fails(a, 401, 0, wire.AuthText)
	require.Equal(t, "errorresponse", a.key)
	caps := h.ok(h.root("listCapabilities")).body["capability"].(map[string]any)
	require.Equal(t, false, caps["kubernetesserviceenabled"])
	for _, a := range h.ok(h.root("listApis")).items("api") {
		require.NotContains(t, a["name"], "Kubernetes")
	}
}
