// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubernetes implements the commands of CloudStack Kubernetes Service.
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
			Event: wire.Records("KUBERNETES.VERSION.ADD", "Adding Kubernetes supported version", "", ""),
		},
		{
			Name: "updateKubernetesSupportedVersion", Refs: cksVersionRefs, Write: true, Run: updateKubernetesSupportedVersion,
			Order: []string{"id", "state"},
			Event: wire.Records("KUBERNETES.VERSION.UPDATE", "Updating Kubernetes supported version", "", "id"),
		},
		{
			Name: "deleteKubernetesSupportedVersion", Refs: cksVersionRefs, Submit: deleteKubernetesSupportedVersion,
			Class: "admin.kubernetes.version.DeleteKubernetesSupportedVersionCmd",
			Event: &store.EventSpec{Kind: "KUBERNETES.VERSION.DELETE", Phrase: "Deleting Kubernetes supported version", Param: "id", Scheduled: "Deleting Kubernetes supported version ID: {uuid}"},
		},

		{Name: "listKubernetesClusters", Refs: clusterRefs, Run: listKubernetesClusters},
		clusterCommand("createKubernetesCluster", "creating", func(c *wire.Call) (*wire.JobSpec, error) { return createKubernetesCluster(c, create) },
			"name", "description", "zoneid", "kubernetesversionid", "serviceofferingid", "nodeofferings", "etcdnodes",
			"account", "domainid", "projectid", "networkid", "controlnodes", "size"),
		clusterCommand("startKubernetesCluster", "starting", startKubernetesCluster),
		clusterCommand("stopKubernetesCluster", "stopping", stopKubernetesCluster),
		clusterCommand("scaleKubernetesCluster", "scaling", scaleKubernetesCluster,
			"id", "serviceofferingid", "nodeofferings", "size", "nodeids", "autoscalingenabled", "minsize", "maxsize"),
		clusterCommand("upgradeKubernetesCluster", "upgrading", upgradeKubernetesCluster, "id", "kubernetesversionid"),
		clusterCommand("deleteKubernetesCluster", "deleting", deleteKubernetesCluster, "id"),
		{Name: "getKubernetesClusterConfig", Refs: clusterRefs, Run: getKubernetesClusterConfig},

		{
			Name: "addVirtualMachinesToKubernetesCluster", Refs: clusterRefs, Write: true, Run: addVMsToCluster,
			Order: []string{"id", "virtualmachineids"},
		},
		{
			Name: "removeVirtualMachinesFromKubernetesCluster", Refs: clusterRefs, Write: true, Run: removeVMsFromCluster,
			Order: []string{"id", "virtualmachineids"},
		},
	}
}

// clusterCommand is a command with a job on a cluster; order are its parameters. Its events say what it is doing, with the texts of
// CloudStack's source. The commands for VMs of ExternalManaged clusters record no event.
func clusterCommand(name, doing string, submit func(*wire.Call) (*wire.JobSpec, error), order ...string) wire.Command {
	event := &store.EventSpec{
		Kind:   "KUBERNETES.CLUSTER." + strings.ToUpper(strings.TrimSuffix(name, "KubernetesCluster")),
		Phrase: doing + " Kubernetes cluster", Resource: "KubernetesCluster", Param: "id",
		Scheduled: strings.ToUpper(doing[:1]) + doing[1:] + " Kubernetes cluster ID: {uuid}",
	}
	if doing == "creating" {
		event.Param, event.Scheduled = "", "Creating Kubernetes cluster Id: {id}"
	}
	return wire.Command{
		Without: "nodetemplates keypair masternodes externalloadbalanceripaddress dockerregistryurl dockerregistryusername dockerregistrypassword",
		Name:    name, Refs: clusterRefs, Submit: submit, Class: store.ClusterClass + strings.ToUpper(name[:1]) + name[1:] + "Cmd", Order: order, Event: event,
	}
}
