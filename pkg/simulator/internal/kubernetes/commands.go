// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubernetes implements the commands of CloudStack Kubernetes Service.
package kubernetes

import (
	"strings"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// Commands are the commands of this family. Those for VMs of ExternalManaged clusters record no event.
var Commands = []wire.Command{
	{Name: "listKubernetesSupportedVersions", ID: store.RefKubernetesVersion, Run: listKubernetesSupportedVersions},
	{
		Name: "addKubernetesSupportedVersion", Write: true, Run: addKubernetesSupportedVersion,
		Order: "name semanticversion zoneid url checksum mincpunumber minmemory",
		Event: wire.Records("KUBERNETES.VERSION.ADD", "Adding Kubernetes supported version", "", ""),
	},
	{
		Name:  "updateKubernetesSupportedVersion",
		ID:    store.RefKubernetesVersion,
		Write: true,
		Run:   updateKubernetesSupportedVersion,
		Order: "id state",
		Event: wire.Records("KUBERNETES.VERSION.UPDATE", "Updating Kubernetes supported version", "", "id"),
	},
	{
		Name:   "deleteKubernetesSupportedVersion",
		ID:     store.RefKubernetesVersion,
		Submit: deleteKubernetesSupportedVersion,
		Class:  "admin.kubernetes.version",
		Event: &store.EventSpec{
			Kind: "KUBERNETES.VERSION.DELETE", Phrase: "Deleting Kubernetes supported version", Param: "id",
			Scheduled: "Deleting Kubernetes supported version ID: {uuid}",
		},
	},

	{Name: "listKubernetesClusters", ID: store.RefKubernetesCluster, Run: listKubernetesClusters},
	clusterCommand("createKubernetesCluster", "creating", createKubernetesCluster,
		"name description zoneid kubernetesversionid serviceofferingid "+
			"nodeofferings nodetemplates etcdnodes cniconfigurationid cniconfigdetails account domainid projectid "+
			"networkid controlnodes size"),
	clusterCommand("startKubernetesCluster", "starting", startKubernetesCluster, ""),
	clusterCommand("stopKubernetesCluster", "stopping", stopKubernetesCluster, ""),
	clusterCommand("scaleKubernetesCluster", "scaling", scaleKubernetesCluster,
		"id serviceofferingid nodeofferings size nodeids autoscalingenabled minsize maxsize"),
	clusterCommand("upgradeKubernetesCluster", "upgrading", upgradeKubernetesCluster, "id kubernetesversionid"),
	clusterCommand("deleteKubernetesCluster", "deleting", deleteKubernetesCluster, "id"),
	{Name: "getKubernetesClusterConfig", ID: store.RefKubernetesCluster, Run: getKubernetesClusterConfig},
	{
		Name: "registerCniConfiguration", Write: true, Run: registerCNIConfiguration,
		Event: wire.Records("REGISTER.CNI.CONFIG", "registering CNI Configuration", "", ""),
	},
	{Name: "listCniConfiguration", ID: store.RefCNIConfig, Run: listCNIConfigurations},
	{
		Name: "deleteCniConfiguration", ID: store.RefCNIConfig, Write: true, Run: deleteCNIConfiguration,
		Event: wire.Records("DELETE.CNI.CONFIG", "CNI Configuration deletion", "", "id"),
	},
	clusterCommand("addNodesToKubernetesCluster", "adding nodes to", addNodes, "id nodeids"),
	clusterCommand("removeNodesFromKubernetesCluster", "removing nodes from", removeNodes, "id nodeids"),
	{
		Name:  "addVirtualMachinesToKubernetesCluster",
		ID:    store.RefKubernetesCluster,
		Write: true,
		Run:   addVMsToCluster,
		Order: "id virtualmachineids",
	},
	{
		Name:  "removeVirtualMachinesFromKubernetesCluster",
		ID:    store.RefKubernetesCluster,
		Write: true,
		Run:   removeVMsFromCluster,
		Order: "id virtualmachineids",
	},
}

// clusterCommand returns a command with a job on a cluster. order is the order of its parameters. The event texts are
// those of CloudStack's source.
func clusterCommand(name, doing string, submit func(*wire.Call) (*wire.JobSpec, error), order string) wire.Command {
	event := &store.EventSpec{
		Kind:   "KUBERNETES.CLUSTER." + strings.ToUpper(strings.TrimSuffix(name, "KubernetesCluster")),
		Phrase: doing + " Kubernetes cluster", Resource: "KubernetesCluster", Param: "id",
		Scheduled: strings.ToUpper(doing[:1]) + doing[1:] + " Kubernetes cluster ID: {uuid}",
	}

	if doing == "creating" {
		event.Param, event.Scheduled = "", "Creating Kubernetes cluster Id: {id}"
	}

	return wire.Command{
		Without: "keypair masternodes externalloadbalanceripaddress dockerregistryurl dockerregistryusername " +
			"dockerregistrypassword asnumber",
		Name:   name,
		ID:     store.RefKubernetesCluster,
		Submit: submit,
		Class:  "user.kubernetes.cluster",
		Order:  order,
		Event:  event,
	}
}
