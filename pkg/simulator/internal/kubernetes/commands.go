// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// Commands returns the commands of this family.
func Commands(create NetworkCreator) []wire.Command {
	return []wire.Command{
		{Name: "listKubernetesSupportedVersions", Refs: cksVersionRefs, Run: listKubernetesSupportedVersions},
		{
			Name: "addKubernetesSupportedVersion", Write: true, Run: addKubernetesSupportedVersion,
			Order: []string{"name", "semanticversion", "zoneid", "url", "checksum", "mincpunumber", "minmemory"},
		},
		{Name: "updateKubernetesSupportedVersion", Refs: cksVersionRefs, Write: true, Run: updateKubernetesSupportedVersion, Order: []string{"id", "state"}},
		{
			Name: "deleteKubernetesSupportedVersion", Refs: cksVersionRefs, Submit: deleteKubernetesSupportedVersion,
			Class: "admin.kubernetes.version.DeleteKubernetesSupportedVersionCmd",
		},

		{Name: "listKubernetesClusters", Refs: clusterRefs, Run: listKubernetesClusters},
		{
			Name: "createKubernetesCluster", Refs: clusterRefs, Submit: func(c *wire.Call) (*wire.JobSpec, error) { return createKubernetesCluster(c, create) }, Class: store.ClusterClass + "CreateKubernetesClusterCmd",
			Order: []string{
				"name", "description", "zoneid", "kubernetesversionid", "serviceofferingid", "nodeofferings", "nodetemplates", "etcdnodes", "account", "domainid",
				"projectid", "networkid", "keypair", "masternodes", "controlnodes", "externalloadbalanceripaddress", "size",
			},
		},
		{Name: "startKubernetesCluster", Refs: clusterRefs, Submit: startKubernetesCluster, Class: store.ClusterClass + "StartKubernetesClusterCmd"},
		{Name: "stopKubernetesCluster", Refs: clusterRefs, Submit: stopKubernetesCluster, Class: store.ClusterClass + "StopKubernetesClusterCmd"},
		{
			Name: "scaleKubernetesCluster", Refs: clusterRefs, Submit: scaleKubernetesCluster, Class: store.ClusterClass + "ScaleKubernetesClusterCmd",
			Order: []string{"id", "serviceofferingid", "nodeofferings", "size", "nodeids", "autoscalingenabled", "minsize", "maxsize"},
		},
		{
			Name: "upgradeKubernetesCluster", Refs: clusterRefs, Submit: upgradeKubernetesCluster, Class: store.ClusterClass + "UpgradeKubernetesClusterCmd",
			Order: []string{"id", "kubernetesversionid"},
		},
		{Name: "deleteKubernetesCluster", Refs: clusterRefs, Submit: deleteKubernetesCluster, Class: store.ClusterClass + "DeleteKubernetesClusterCmd", Order: []string{"id"}},
		{Name: "getKubernetesClusterConfig", Refs: clusterRefs, Run: getKubernetesClusterConfig},

		{Name: "addVirtualMachinesToKubernetesCluster", Refs: clusterNodeRefs, Write: true, Run: addVMsToCluster, Order: []string{"id", "virtualmachineids"}},
		{Name: "removeVirtualMachinesFromKubernetesCluster", Refs: clusterNodeRefs, Write: true, Run: removeVMsFromCluster, Order: []string{"id", "virtualmachineids"}},
		{
			Name: "addNodesToKubernetesCluster", Refs: clusterNodeRefs, Submit: addNodesToCluster, Class: store.ClusterClass + "AddNodesToKubernetesClusterCmd",
			Order: []string{"nodeids", "id"},
		},
		{
			Name: "removeNodesFromKubernetesCluster", Refs: clusterNodeRefs, Submit: removeNodesFromCluster, Class: store.ClusterClass + "RemoveNodesFromKubernetesClusterCmd",
			Order: []string{"nodeids", "id"},
		},
	}
}
