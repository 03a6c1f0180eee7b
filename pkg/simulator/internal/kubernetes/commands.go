// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"strings"

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
		{
			Name: "updateKubernetesSupportedVersion", Refs: cksVersionRefs, Write: true, Run: updateKubernetesSupportedVersion,
			Order: []string{"id", "state"},
		},
		{
			Name: "deleteKubernetesSupportedVersion", Refs: cksVersionRefs, Submit: deleteKubernetesSupportedVersion,
			Class: "admin.kubernetes.version.DeleteKubernetesSupportedVersionCmd",
		},

		{Name: "listKubernetesClusters", Refs: clusterRefs, Run: listKubernetesClusters},
		clusterCommand("createKubernetesCluster", func(c *wire.Call) (*wire.JobSpec, error) { return createKubernetesCluster(c, create) },
			"name", "description", "zoneid", "kubernetesversionid", "serviceofferingid", "nodeofferings", "nodetemplates", "etcdnodes",
			"account", "domainid", "projectid", "networkid", "keypair", "masternodes", "controlnodes", "externalloadbalanceripaddress", "size"),
		clusterCommand("startKubernetesCluster", startKubernetesCluster),
		clusterCommand("stopKubernetesCluster", stopKubernetesCluster),
		clusterCommand("scaleKubernetesCluster", scaleKubernetesCluster,
			"id", "serviceofferingid", "nodeofferings", "size", "nodeids", "autoscalingenabled", "minsize", "maxsize"),
		clusterCommand("upgradeKubernetesCluster", upgradeKubernetesCluster, "id", "kubernetesversionid"),
		clusterCommand("deleteKubernetesCluster", deleteKubernetesCluster, "id"),
		{Name: "getKubernetesClusterConfig", Refs: clusterRefs, Run: getKubernetesClusterConfig},

		{
			Name: "addVirtualMachinesToKubernetesCluster", Refs: clusterRefs, Write: true, Run: addVMsToCluster,
			Order: []string{"id", "virtualmachineids"},
		},
		{
			Name: "removeVirtualMachinesFromKubernetesCluster", Refs: clusterRefs, Write: true, Run: removeVMsFromCluster,
			Order: []string{"id", "virtualmachineids"},
		},
		clusterCommand("addNodesToKubernetesCluster", addNodesToCluster, "nodeids", "id"),
		clusterCommand("removeNodesFromKubernetesCluster", removeNodesFromCluster, "nodeids", "id"),
	}
}

// clusterCommand is a command with a job on a cluster; order are its parameters.
func clusterCommand(name string, submit func(*wire.Call) (*wire.JobSpec, error), order ...string) wire.Command {
	class := store.ClusterClass + strings.ToUpper(name[:1]) + name[1:] + "Cmd"
	return wire.Command{Name: name, Refs: clusterRefs, Submit: submit, Class: class, Order: order}
}
