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

func TestClusterInGivenNetwork(t *testing.T) {
	t.Parallel()
	h := startCKS(t)
	const u = "owner"
	net := h.network("cks-net")
	c := clusterIn(h.done(u, h.create(u, "networkid", net)))
	h.fails(h.create(u, "networkid", net), 530, wire.CSGeneric, "is already under use by another Kubernetes cluster")
	ip := c["ipaddressid"].(string)

	extra := h.vm("extra")
	h.broken(u, h.call(u, "addNodesToKubernetesCluster", "id", id(c), "nodeids", h.vm("vm-1")), 530, "No valid nodes found to be added to the Kubernetes cluster")
	c = clusterIn(h.done(u, h.call(u, "addNodesToKubernetesCluster", "id", id(c), "nodeids", extra)))
	require.EqualValues(t, 2, c["size"])
	require.Equal(t, true, c["virtualmachines"].([]any)[2].(map[string]any)["isexternalnode"])
	require.Len(t, h.ok(h.call(u, "listFirewallRules", "ipaddressid", ip)).items("firewallrule"), 3)
	c = clusterIn(h.done(u, h.call(u, "removeNodesFromKubernetesCluster", "id", id(c), "nodeids", extra)))
	require.EqualValues(t, 1, c["size"])

	h.done(u, h.call(u, "deleteKubernetesCluster", "id", id(c)))
	require.Empty(t, h.ok(h.call(u, "listFirewallRules", "ipaddressid", ip)).items("firewallrule"))
	require.Empty(t, h.ok(h.call(u, "listLoadBalancerRules", "publicipid", ip)).items("loadbalancerrule"))
	require.Len(t, h.ok(h.call(u, "listNetworks", "id", net)).items("network"), 1)
	require.Equal(t, "Running", h.first(h.call(u, "listVirtualMachines", "id", extra), "virtualmachine")["state"])
}

func TestClusterOnTier(t *testing.T) {
	t.Parallel()
	h := startCKS(t)
	const u = "owner"
	tier := h.network("tier")
	c := clusterIn(h.done(u, h.create(u, "networkid", tier, "etcdnodes", "1")))
	require.NotContains(t, c, "ipaddress")
	require.Len(t, c["etcdips"], 1)
	require.EqualValues(t, 1, c["etcdnodes"])
	numbers := func() (out []int) {
		for _, it := range h.ok(h.call(u, "listNetworkACLs", "networkid", tier)).items("networkacl") {
			out = append(out, int(it["number"].(float64)))
		}
		return out
	}
	require.ElementsMatch(t, []int{1, 2, 3, 4, 5}, numbers())
	top := h.sim.st.KubernetesClusters.Rows[0].ACLItems
	require.Equal(t, []int{2, 1}, []int{top[0].Number, top[1].Number}, "SSH on top, then the API")
	ips := h.ok(h.call(u, "listPublicIpAddresses", "associatednetworkid", tier)).items("publicipaddress")
	require.Len(t, ips, 1)
	h.done(u, h.call(u, "deleteKubernetesCluster", "id", id(c)))
	require.ElementsMatch(t, []int{3, 4, 5}, numbers())
	require.Empty(t, h.ok(h.call(u, "listPublicIpAddresses", "associatednetworkid", tier)).items("publicipaddress"))
}

func TestClusterInSharedNetwork(t *testing.T) {
	t.Parallel()
	h := startCKS(t)
	c := clusterIn(h.done("owner", h.create("owner", "networkid", h.network("shared"))))
	node := c["virtualmachines"].([]any)[0].(map[string]any)
	addr := node["nic"].([]any)[0].(map[string]any)["ipaddress"].(string)
	require.Equal(t, "https://"+addr+":6443/", c["endpoint"])
	require.NotContains(t, c, "ipaddress")
	h.done("owner", h.call("owner", "deleteKubernetesCluster", "id", id(c)))
}

func TestProjectCluster(t *testing.T) {
	t.Parallel()
	h := startCKS(t)
	team := id(h.first(h.call("owner", "listProjects"), "project"))
	first, _, _ := strings.Cut(team, "-")
	service := "kubeadmin-" + first
	c := clusterIn(h.done("owner", h.create("owner", "projectid", team)))
	require.Equal(t, team, c["projectid"])
	require.NotContains(t, c, "account")
	acct := h.first(h.root("listAccounts", "name", service, "listall", "true"), "account")
	require.Equal(t, store.CKSProjectRole, acct["rolename"])

	require.Len(t, h.ok(h.call(service, "listKubernetesClusters", "projectid", team)).items("kubernetescluster"), 1)
	require.Len(t, h.ok(h.call(service, "listVirtualMachines", "projectid", team)).items("virtualmachine"), 2)
	h.fails(h.call(service, "listZones"), 432, wire.CSGeneric, "does not exist or is not available")
	require.Len(t, h.ok(h.call("mate", "listKubernetesClusters", "projectid", "-1")).items("kubernetescluster"), 1)
	require.Empty(t, h.ok(h.call("mate", "listKubernetesClusters", "listall", "true")).items("kubernetescluster"))

	two := clusterIn(h.done("mate", h.create("mate", "projectid", team, "name", "c2")))
	h.done("owner", h.call("owner", "deleteKubernetesCluster", "id", id(c)))
	h.ok(h.call(service, "listNetworks", "projectid", team))
	h.done("owner", h.call("owner", "deleteKubernetesCluster", "id", id(two)))
	_, _, ok := h.sim.Keys(service)
	require.False(t, ok, "the service account goes with the last cluster")
}

func TestExternalManagedCluster(t *testing.T) {
	t.Parallel()
	h := startCKS(t)
	const u = "owner"
	create := func(more ...string) answer {
		return h.post(u, "createKubernetesCluster", append([]string{"name", "Ext_1!", "zoneid", h.zone, "clustertype", store.ExternalManaged}, more...)...)
	}
	c := clusterIn(h.done(u, create("networkid", h.network("cks-net"))))
	require.Equal(t, "Running", c["state"])
	require.Equal(t, "Ext_1!", c["description"])
	require.NotEmpty(t, c["ipaddress"])
	require.NotContains(t, c, "etcdips")
	k, one, two := id(c), h.vm("vm-1"), h.vm("vm-2")
	add := func(user string, more ...string) answer {
		return h.call(user, "addVirtualMachinesToKubernetesCluster", append([]string{"id", k}, more...)...)
	}
	h.ok(add(u, "virtualmachineids", one+","+one))
	h.ok(add(u, "virtualmachineids", two, "iscontrolnode", "true"))
	c = h.cluster(u, k)
	require.EqualValues(t, 1, c["size"])
	require.EqualValues(t, 1, c["controlnodes"])
	require.Equal(t, map[string]any{}, c["etcdips"])
	h.fails(add(u, "virtualmachineids", h.vm("foreign")), 530, wire.CSGeneric, wire.NoAccessText)
	h.fails(add("other", "virtualmachineids", one), 530, wire.CSGeneric, wire.NoAccessText)
	h.fails(add(u), 431, wire.CSGeneric, "missing parameter virtualmachineids")

	out := h.ok(h.call(u, "removeVirtualMachinesFromKubernetesCluster", "id", k, "virtualmachineids", h.vm("extra")+","+two))
	list := out.items("removevirtualmachinesfromkubernetesclusterresponse")
	require.Equal(t, []any{true, false}, []any{list[0]["success"], list[1]["success"]})
	require.Equal(t, "VM is not part of the cluster", list[1]["displaytext"])
	require.EqualValues(t, 0, h.cluster(u, k)["controlnodes"])
	for _, verb := range []string{"start", "stop", "scale", "upgrade"} {
		a := h.call(u, verb+"KubernetesCluster", "id", k, "size", "2", "kubernetesversionid", h.version)
		h.broken(u, a, 530, strings.ToUpper(verb[:1])+verb[1:]+" kubernetes cluster is not supported for an externally managed cluster (Ext_1!)")
	}
	h.fails(h.call(u, "getKubernetesClusterConfig", "id", k), 530, wire.CSGeneric, "Config not found for Kubernetes cluster : Ext_1!")
	h.fails(h.call("other", "getKubernetesClusterConfig", "id", k), 530, wire.CSGeneric, wire.NoAccessText)
	h.broken("other", h.call("other", "deleteKubernetesCluster", "id", k), 530, wire.NoAccessText)

	managed := clusterIn(h.done(u, h.create(u)))
	h.fails(h.call(u, "addVirtualMachinesToKubernetesCluster", "id", id(managed), "virtualmachineids", one), 530, wire.CSGeneric,
		"VM cannot be added to a CloudStack managed Kubernetes cluster")
	for q, n := range map[string]int{"clustertype=CloudManaged": 1, "name=ext_1!": 1, "keyword=c1": 1, "state=Running": 2, "state=Stopped": 0} {
		name, value, _ := strings.Cut(q, "=")
		require.Len(t, h.ok(h.call(u, "listKubernetesClusters", name, value)).items("kubernetescluster"), n, q)
	}
	h.fails(h.call(u, "listKubernetesClusters", "clustertype", "x"), 530, wire.CSGeneric, "Unable to resolve cluster type x")
	require.Empty(t, h.ok(h.call("other", "listKubernetesClusters", "listall", "true")).items("kubernetescluster"))
	require.Len(t, h.ok(h.root("listKubernetesClusters", "listall", "true")).items("kubernetescluster"), 2)

	h.done(u, h.call(u, "destroyVirtualMachine", "id", two)) // members are free to go
	h.broken(u, h.call(u, "deleteKubernetesCluster", "id", k, "expunge", "true"), 530, "Parameter expunge can be passed by Admin only.")
	h.done(u, h.call(u, "deleteKubernetesCluster", "id", k, "cleanup", "true"))
	require.Empty(t, h.ok(h.call(u, "listVirtualMachines", "id", one)).items("virtualmachine"))
	require.Equal(t, "Destroyed", h.first(h.root("listVirtualMachines", "id", one), "virtualmachine")["state"])
}
