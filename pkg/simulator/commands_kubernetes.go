// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

// clusterNetworkCreator creates the network of a cluster for which the caller specified none.
type clusterNetworkCreator func(c *call, owner *account, z *zone, o *networkOffering, name, display string) (*network, error)

// kubernetesCommands returns the commands of this family.
func kubernetesCommands(create clusterNetworkCreator) []command {
	return []command{
		{name: "listKubernetesSupportedVersions", refs: cksVersionRefs, run: listKubernetesSupportedVersions},
		{
			name: "addKubernetesSupportedVersion", write: true, run: addKubernetesSupportedVersion,
			order: []string{"name", "semanticversion", "zoneid", "url", "checksum", "mincpunumber", "minmemory"},
		},
		{name: "updateKubernetesSupportedVersion", refs: cksVersionRefs, write: true, run: updateKubernetesSupportedVersion, order: []string{"id", "state"}},
		{
			name: "deleteKubernetesSupportedVersion", refs: cksVersionRefs, submit: deleteKubernetesSupportedVersion,
			class: "admin.kubernetes.version.DeleteKubernetesSupportedVersionCmd",
		},

		{name: "listKubernetesClusters", refs: clusterRefs, run: listKubernetesClusters},
		{
			name: "createKubernetesCluster", refs: clusterRefs, submit: func(c *call) (*jobSpec, error) { return createKubernetesCluster(c, create) }, class: clusterClass + "CreateKubernetesClusterCmd",
			order: []string{
				"name", "description", "zoneid", "kubernetesversionid", "serviceofferingid", "nodeofferings", "nodetemplates", "etcdnodes", "account", "domainid",
				"projectid", "networkid", "keypair", "masternodes", "controlnodes", "externalloadbalanceripaddress", "size",
			},
		},
		{name: "startKubernetesCluster", refs: clusterRefs, submit: startKubernetesCluster, class: clusterClass + "StartKubernetesClusterCmd"},
		{name: "stopKubernetesCluster", refs: clusterRefs, submit: stopKubernetesCluster, class: clusterClass + "StopKubernetesClusterCmd"},
		{
			name: "scaleKubernetesCluster", refs: clusterRefs, submit: scaleKubernetesCluster, class: clusterClass + "ScaleKubernetesClusterCmd",
			order: []string{"id", "serviceofferingid", "nodeofferings", "size", "nodeids", "autoscalingenabled", "minsize", "maxsize"},
		},
		{
			name: "upgradeKubernetesCluster", refs: clusterRefs, submit: upgradeKubernetesCluster, class: clusterClass + "UpgradeKubernetesClusterCmd",
			order: []string{"id", "kubernetesversionid"},
		},
		{name: "deleteKubernetesCluster", refs: clusterRefs, submit: deleteKubernetesCluster, class: clusterClass + "DeleteKubernetesClusterCmd", order: []string{"id"}},
		{name: "getKubernetesClusterConfig", refs: clusterRefs, run: getKubernetesClusterConfig},

		{name: "addVirtualMachinesToKubernetesCluster", refs: clusterNodeRefs, write: true, run: addVMsToCluster, order: []string{"id", "virtualmachineids"}},
		{name: "removeVirtualMachinesFromKubernetesCluster", refs: clusterNodeRefs, write: true, run: removeVMsFromCluster, order: []string{"id", "virtualmachineids"}},
		{
			name: "addNodesToKubernetesCluster", refs: clusterNodeRefs, submit: addNodesToCluster, class: clusterClass + "AddNodesToKubernetesClusterCmd",
			order: []string{"nodeids", "id"},
		},
		{
			name: "removeNodesFromKubernetesCluster", refs: clusterNodeRefs, submit: removeNodesFromCluster, class: clusterClass + "RemoveNodesFromKubernetesClusterCmd",
			order: []string{"nodeids", "id"},
		},
	}
}
