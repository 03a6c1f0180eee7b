// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

func TestCloudManagedCluster(t *testing.T) {
	t.Parallel()
	h := startCKS(t)
	const u = "owner"
	a := h.ok(h.create(u, "name", "web", "size", "2", "controlnodes", "2"))
	k := a.str("id")
	c := h.cluster(u, k)
	require.Equal(t, "Starting", c["state"])
	h.fails(h.call(u, "getKubernetesClusterConfig", "id", k), 530, wire.CSGeneric, "Setup is in progress for Kubernetes cluster : web")
	h.broken(u, h.call(u, "deleteKubernetesCluster", "id", k), 530, "in state: Starting")

	c = h.cluster(u, k)
	require.Equal(t, "Running", c["state"])
	require.Equal(t, "web-network", c["associatednetworkname"])
	require.Equal(t, "8", c["cpunumber"])
	require.Equal(t, "8192", c["memory"])
	ip := c["ipaddress"].(string)
	require.Equal(t, "https://"+ip+":6443/", c["endpoint"])
	vms := c["virtualmachines"].([]any)
	require.Len(t, vms, 4)
	for i, want := range []string{"web-control-", "web-control-", "web-node-", "web-node-"} {
		v := vms[i].(map[string]any)
		require.Contains(t, v["name"], want)
		require.Equal(t, "1.31.1", v["kubernetesnodeversion"])
		require.Equal(t, "Running", v["state"])
	}
	require.Len(t, h.ok(h.call(u, "listVirtualMachines", "networkid", c["networkid"].(string))).items("virtualmachine"), 4)

	fw := h.ok(h.call(u, "listFirewallRules", "ipaddressid", c["ipaddressid"].(string))).items("firewallrule")
	require.Len(t, fw, 2)
	require.EqualValues(t, 6443, fw[0]["startport"])
	require.EqualValues(t, 2222, fw[1]["startport"])
	require.EqualValues(t, 2225, fw[1]["endport"])
	lb := h.first(h.call(u, "listLoadBalancerRules", "publicipid", c["ipaddressid"].(string)), "loadbalancerrule")
	require.Equal(t, "api-lb", lb["name"])
	require.Len(t, h.call(u, "listLoadBalancerRuleInstances", "id", id(lb)).items("loadbalancerruleinstance"), 2)
	require.Len(t, h.ok(h.call(u, "listPortForwardingRules", "ipaddressid", c["ipaddressid"].(string))).items("portforwardingrule"), 4)

	config := h.ok(h.call(u, "getKubernetesClusterConfig", "id", k)).body["clusterconfig"].(map[string]any)["configdata"].(string)
	var parsed struct {
		Clusters []struct{ Cluster struct{ Server string } }
	}
	require.NoError(t, yaml.Unmarshal([]byte(config), &parsed))
	require.Equal(t, "https://"+ip+":6443", parsed.Clusters[0].Cluster.Server)
	require.NotEmpty(t, h.first(h.root("listUsers", "username", "owner-kubeadmin", "listall", "true"), "user")["apikey"])

	// Its VMs are its own.
	node := vms[3].(map[string]any)
	h.broken(u, h.call(u, "destroyVirtualMachine", "id", id(node)), 530, "Instance is a part of a Kubernetes cluster: web.")
	require.Equal(t, "Running", h.first(h.call(u, "listVirtualMachines", "id", id(node)), "virtualmachine")["state"])
	h.done(u, h.call(u, "stopVirtualMachine", "id", id(node)))
	require.Equal(t, "Alert", h.cluster(u, k)["state"])
	h.broken(u, h.call(u, "scaleKubernetesCluster", "id", k, "size", "1"), 530, "Kubernetes cluster web is in Alert state and can not be scaled")
	h.done(u, h.call(u, "startKubernetesCluster", "id", k))
	require.Equal(t, "Running", h.cluster(u, k)["state"])

	stop := h.ok(h.call(u, "stopKubernetesCluster", "id", k))
	require.Equal(t, "Stopping", h.cluster(u, k)["state"])
	require.Equal(t, true, h.done(u, stop)["success"])
	require.Equal(t, "Stopped", h.cluster(u, k)["state"])
	require.Equal(t, true, h.done(u, h.call(u, "stopKubernetesCluster", "id", k))["success"])
	h.broken(u, h.call(u, "scaleKubernetesCluster", "id", k, "size", "3"), 530, "Kubernetes cluster : web is in Stopped state")
	require.Equal(t, "Running", clusterIn(h.done(u, h.call(u, "startKubernetesCluster", "id", k)))["state"])

	require.Equal(t, true, h.done(u, h.call(u, "deleteKubernetesCluster", "id", k))["success"])
	require.Empty(t, h.ok(h.call(u, "listKubernetesClusters", "id", k)).items("kubernetescluster"))
	require.Empty(t, h.ok(h.call(u, "listVirtualMachines", "keyword", "web-")).items("virtualmachine"))
	require.Empty(t, h.ok(h.call(u, "listNetworks", "keyword", "web-")).items("network"))
	require.Empty(t, h.ok(h.call(u, "listPublicIpAddresses", "ipaddress", ip)).items("publicipaddress"))
	for command, text := range map[string]string{
		"deleteKubernetesCluster": "Invalid cluster id specified", "startKubernetesCluster": "Given Kubernetes cluster was not found",
		"stopKubernetesCluster": "Failed to find Kubernetes cluster with given ID", "scaleKubernetesCluster": "Invalid Kubernetes cluster ID",
	} {
		h.broken(u, h.call(u, command, "id", k), 530, text)
	}
}

func TestScaleKubernetesCluster(t *testing.T) {
	t.Parallel()
	h := startCKS(t)
	const u = "owner"
	big := h.named("listServiceOfferings", "serviceoffering", "big")
	k := clusterIn(h.done(u, h.create(u)))["id"].(string)
	scale := func(more ...string) answer {
		return h.call(u, "scaleKubernetesCluster", append([]string{"id", k}, more...)...)
	}
	c := clusterIn(h.done(u, scale("size", "3")))
	require.EqualValues(t, 3, c["size"])
	require.Len(t, c["virtualmachines"], 4)
	require.Equal(t, "8", c["cpunumber"])
	ssh := h.ok(h.call(u, "listFirewallRules", "ipaddressid", c["ipaddressid"].(string))).items("firewallrule")[0]
	require.EqualValues(t, 2225, ssh["endport"])
	vms := c["virtualmachines"].([]any)
	control, first, second := id(vms[0].(map[string]any)), id(vms[1].(map[string]any)), id(vms[2].(map[string]any))

	c = clusterIn(h.done(u, scale("nodeids", second)))
	require.EqualValues(t, 2, c["size"])
	require.Len(t, c["virtualmachines"], 3)
	c = clusterIn(h.done(u, scale("size", "1")))
	require.Len(t, c["virtualmachines"], 2)
	require.Equal(t, first, id(c["virtualmachines"].([]any)[1].(map[string]any)))
	for _, bad := range []struct {
		args []string
		text string
	}{
		{nil, "either service offering or cluster size or nodeids to be removed or autoscaling must be passed"},
		{[]string{"size", "0"}, "cannot be scaled for size, 0"},
		{[]string{"size", "10"}, "Maximum cluster size can not exceed 10. Please contact your administrator"},
		{[]string{"nodeids", control}, "Can not remove all control nodes from a cluster"},
		{[]string{"nodeids", first}, "Can not remove all nodes from a cluster"},
		{[]string{"nodeids", h.vm("vm-1")}, "Invalid node ids"},
		{[]string{"nodeids", first, "size", "1"}, "nodeids can not be passed along with clustersize or service offering"},
		{[]string{"serviceofferingid", h.named("listServiceOfferings", "serviceoffering", "small")}, "needs minimum 2 vCPUs and 2048 MB RAM"},
		{[]string{"autoscalingenabled", "true"}, "Autoscaling requires minsize and maxsize to be passed"},
		{[]string{"autoscalingenabled", "true", "minsize", "0", "maxsize", "3"}, "Minsize must be at least than 1"},
		{[]string{"autoscalingenabled", "true", "minsize", "3", "maxsize", "3"}, "Maxsize must be greater than minsize"},
		{[]string{"autoscalingenabled", "true", "minsize", "1", "maxsize", "30"}, "Maximum cluster size can not exceed 10."},
		{[]string{"autoscalingenabled", "true", "size", "2"}, "Autoscaling can not be passed along with nodeids or clustersize"},
		{[]string{"nodeofferings[0].node", "worker"}, "Incomplete Node Type to Service Offering ID mapping: 'worker' -> 'null'"},
		{[]string{"nodeofferings[0].node", "x", "nodeofferings[0].offering", big}, "The provided value 'x' for Node Type is invalid"},
	} {
		h.broken(u, scale(bad.args...), 530, bad.text)
	}
	require.Equal(t, "Running", h.cluster(u, k)["state"])
	c = clusterIn(h.done(u, scale("autoscalingenabled", "true", "minsize", "1", "maxsize", "3")))
	require.Equal(t, true, c["autoscalingenabled"])
	require.EqualValues(t, 3, c["maxsize"])
	c = clusterIn(h.done(u, scale("nodeofferings[0].node", "worker", "nodeofferings[0].offering", big)))
	require.Equal(t, "6", c["cpunumber"])
	require.Equal(t, "big", c["workerofferingname"])
	c = clusterIn(h.done(u, scale("serviceofferingid", big)))
	require.Equal(t, "8", c["cpunumber"])
	require.Equal(t, "big", c["serviceofferingname"])
	h.broken(u, scale("serviceofferingid", h.node), 530, "offers lesser resources")
	h.broken("other", h.call("other", "scaleKubernetesCluster", "id", k, "size", "2"), 530, wire.NoAccessText)
}

func TestUpgradeKubernetesCluster(t *testing.T) {
	t.Parallel()
	h := startCKS(t)
	const u = "owner"
	k := clusterIn(h.done(u, h.create(u)))["id"].(string)
	upgrade := func(semantic string, more ...string) answer {
		return h.call(u, "upgradeKubernetesCluster", "id", k, "kubernetesversionid", h.addVersion(semantic, more...))
	}
	h.broken(u, upgrade("1.31.1", "name", "same"), 530, "Kubernetes clusters can not be upgraded, current version: 1.31.1, upgrade version: 1.31.1")
	h.broken(u, upgrade("1.30.9"), 530, "Kubernetes clusters can not be downgraded")
	h.broken(u, upgrade("1.33.0"), 530, "Kubernetes clusters can be upgraded between next minor or patch version releases")
	h.broken(u, upgrade("1.32.9", "mincpunumber", "8"), 530, "needs minimum 8 vCPUs while associated service offering : node offers only 2 vCPUs")
	a := upgrade("1.32.0")
	require.Equal(t, "Upgrading", h.cluster(u, k)["state"])
	c := clusterIn(h.done(u, a))
	require.Equal(t, "v1.32.0", c["kubernetesversionname"])
	require.Equal(t, "1.32.0", c["virtualmachines"].([]any)[0].(map[string]any)["kubernetesnodeversion"])
	h.done(u, h.call(u, "stopKubernetesCluster", "id", k))
	h.broken(u, upgrade("1.32.1"), 530, "Kubernetes cluster : c1 is not in running state")
}

// TestClusterWithoutAddress runs out of public addresses while the cluster is made.
func TestClusterWithoutAddress(t *testing.T) {
	t.Parallel()
	h := startCKS(t)
	for _, ip := range h.sim.st.IPs.Rows {
		if ip.State == store.IPFree {
			ip.State = store.IPReserved
		}
	}
	a := h.create("owner")
	h.broken("owner", a, 530, "Failed to start Kubernetes cluster : c1 as no public IP found for the cluster")
	c := h.cluster("owner", a.str("id"))
	require.Equal(t, "Error", c["state"])
	require.Empty(t, c["virtualmachines"])
	h.broken("owner", h.call("owner", "startKubernetesCluster", "id", id(c)), 530, "Kubernetes cluster : c1 has invalid API endpoint.")
	h.done("owner", h.call("owner", "deleteKubernetesCluster", "id", id(c)))
}
