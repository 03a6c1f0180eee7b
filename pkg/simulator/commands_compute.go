// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

// networkCreator creates the default network of an account that has none.
type networkCreator func(c *call, owner *account, z *zone, o *networkOffering, name, display string) (*network, error)

// computeCommands returns the commands of this family.
func computeCommands(create networkCreator) []command {
	return []command{
		{name: "listServiceOfferings", refs: map[string]refKind{"id": refOffering}, run: listServiceOfferings},
		{name: "listNetworkOfferings", refs: map[string]refKind{"id": refNetOffering}, run: listNetworkOfferings},

		{name: "listVirtualMachines", refs: vmRefs, run: listVirtualMachines},

		{name: "startVirtualMachine", refs: vmRefs, submit: startVirtualMachine, class: "user.vm.StartVMCmd"},
		{name: "stopVirtualMachine", refs: vmRefs, submit: stopVirtualMachine, class: "user.vm.StopVMCmd"},
		{name: "rebootVirtualMachine", refs: vmRefs, submit: rebootVirtualMachine, class: "user.vm.RebootVMCmd"},
		{name: "destroyVirtualMachine", refs: vmRefs, submit: destroyVirtualMachine, class: "user.vm.DestroyVMCmd"},
		{name: "recoverVirtualMachine", refs: vmRefs, write: true, run: recoverVirtualMachine},
		{name: "expungeVirtualMachine", refs: vmRefs, submit: expungeVirtualMachine, class: "admin.vm.ExpungeVMCmd"},
		{name: "migrateVirtualMachine", submit: migrateVirtualMachine, class: "admin.vm.MigrateVMCmd"},

		{
			name: "deployVirtualMachine", refs: map[string]refKind{"networkids": refNetwork, "affinitygroupids": refAffinityGroup},
			submit: func(c *call) (*jobSpec, error) { return deployVirtualMachine(c, create) }, class: "user.vm.DeployVMCmd",
		},

		{name: "updateVirtualMachine", refs: vmRefs, write: true, run: updateVirtualMachine},
		{name: "scaleVirtualMachine", refs: vmRefs, submit: scaleVirtualMachine, class: "user.vm.ScaleVMCmd"},
		{name: "changeServiceForVirtualMachine", refs: vmRefs, write: true, run: changeServiceForVirtualMachine},
		{name: "updateVMAffinityGroup", refs: map[string]refKind{"id": refVM, "affinitygroupids": refAffinityGroup}, submit: updateVMAffinityGroup, class: "user.affinitygroup.UpdateVMAffinityGroupCmd"},
		{name: "resetPasswordForVirtualMachine", refs: vmRefs, submit: resetPassword, class: "user.vm.ResetVMPasswordCmd"},

		{name: "listVirtualMachinesMetrics", refs: vmRefs, run: listVirtualMachinesMetrics},

		{name: "assignVirtualMachine", refs: map[string]refKind{"networkids": refNetwork}, write: true, run: func(c *call) (any, error) { return assignVirtualMachine(c, create) }},

		{name: "listNics", run: listNics},
		{name: "addNicToVirtualMachine", submit: addNic, class: "user.vm.AddNicToVMCmd", order: []string{"virtualmachineid", "networkid"}},
		{name: "removeNicFromVirtualMachine", submit: removeNic, class: "user.vm.RemoveNicFromVMCmd", order: []string{"virtualmachineid", "nicid"}},
		{name: "updateDefaultNicForVirtualMachine", submit: updateDefaultNic, class: "user.vm.UpdateDefaultNicForVMCmd", order: []string{"virtualmachineid", "nicid"}},
		{name: "addIpToNic", submit: addIPToNic, class: "user.vm.AddIpToVmNicCmd", wrapper: "addiptovmnicresponse"},
		{name: "removeIpFromNic", refs: map[string]refKind{"id": refSecondaryIP}, submit: removeIPFromNic, class: "user.vm.RemoveIpFromVmNicCmd"},
		{name: "updateVmNicIp", submit: updateVMNicIP, class: "user.vm.UpdateVmNicIpCmd"},

		{name: "listVolumes", refs: map[string]refKind{"id": refVolume, "ids": refVolume}, run: listVolumes},
		{name: "listDiskOfferings", refs: map[string]refKind{"id": refDiskOffering}, run: listDiskOfferings},
		{name: "listSnapshots", run: listSnapshots},

		{name: "listTemplates", refs: map[string]refKind{"id": refTemplate, "ids": refTemplate}, run: listTemplates},
		{name: "listIsos", run: listIsos},
		{name: "listOsTypes", refs: map[string]refKind{"id": refOSType}, run: listOSTypes},
		{name: "listOsCategories", refs: map[string]refKind{"id": refOSCategory}, run: listOSCategories},
		{name: "listDetailOptions", run: listDetailOptions},

		{name: "listAffinityGroups", refs: map[string]refKind{"id": refAffinityGroup}, run: listAffinityGroups},
		{name: "createAffinityGroup", submit: createAffinityGroup, class: "user.affinitygroup.CreateAffinityGroupCmd"},
		{name: "deleteAffinityGroup", refs: map[string]refKind{"id": refAffinityGroup}, submit: deleteAffinityGroup, class: "user.affinitygroup.DeleteAffinityGroupCmd"},
		{name: "listAffinityGroupTypes", run: listAffinityGroupTypes},

		{name: "listSSHKeyPairs", refs: map[string]refKind{"id": refKeyPair}, run: listSSHKeyPairs},
		{name: "createSSHKeyPair", write: true, run: createSSHKeyPair},
		{name: "registerSSHKeyPair", write: true, run: registerSSHKeyPair},
		{name: "deleteSSHKeyPair", write: true, run: deleteSSHKeyPair},
		{name: "getVMPassword", refs: vmRefs, run: getVMPassword},

		{name: "listInstanceGroups", refs: map[string]refKind{"id": refInstanceGroup}, run: listInstanceGroups},
		{name: "createInstanceGroup", write: true, run: createInstanceGroup},
		{name: "deleteInstanceGroup", refs: map[string]refKind{"id": refInstanceGroup}, write: true, run: deleteInstanceGroup},

		{name: "listHosts", refs: map[string]refKind{"id": refHost}, run: listHosts},
		{name: "listHypervisors", run: listHypervisors},

		{name: "listPods", refs: map[string]refKind{"id": refPod}, run: listPods},
		{name: "listClusters", refs: map[string]refKind{"id": refCluster}, run: listClusters},
		{name: "listStoragePools", refs: map[string]refKind{"id": refPool}, run: listStoragePools},
		{name: "listSystemVms", refs: map[string]refKind{"id": refSystemVM}, run: listSystemVMs},
	}
}
