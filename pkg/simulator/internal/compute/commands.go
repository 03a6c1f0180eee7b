// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// Commands returns the commands of this family.
func Commands(create NetworkCreator) []wire.Command {
	return []wire.Command{
		{Name: "listServiceOfferings", Refs: map[string]store.RefKind{"id": store.RefOffering}, Run: listServiceOfferings},
		{Name: "listNetworkOfferings", Refs: map[string]store.RefKind{"id": store.RefNetOffering}, Run: listNetworkOfferings},

		{Name: "listVirtualMachines", Refs: vmRefs, Run: listVirtualMachines},

		{Name: "startVirtualMachine", Refs: vmRefs, Submit: startVirtualMachine, Class: "user.vm.StartVMCmd"},
		{Name: "stopVirtualMachine", Refs: vmRefs, Submit: stopVirtualMachine, Class: "user.vm.StopVMCmd"},
		{Name: "rebootVirtualMachine", Refs: vmRefs, Submit: rebootVirtualMachine, Class: "user.vm.RebootVMCmd"},
		{Name: "destroyVirtualMachine", Refs: vmRefs, Submit: destroyVirtualMachine, Class: "user.vm.DestroyVMCmd"},
		{Name: "recoverVirtualMachine", Refs: vmRefs, Write: true, Run: recoverVirtualMachine},
		{Name: "expungeVirtualMachine", Refs: vmRefs, Submit: expungeVirtualMachine, Class: "admin.vm.ExpungeVMCmd"},
		{Name: "migrateVirtualMachine", Submit: migrateVirtualMachine, Class: "admin.vm.MigrateVMCmd"},

		{
			Name: "deployVirtualMachine", Refs: map[string]store.RefKind{"networkids": store.RefNetwork, "affinitygroupids": store.RefAffinityGroup},
			Submit: func(c *wire.Call) (*wire.JobSpec, error) { return deployVirtualMachine(c, create) }, Class: "user.vm.DeployVMCmd",
		},

		{Name: "updateVirtualMachine", Refs: vmRefs, Write: true, Run: updateVirtualMachine},
		{Name: "scaleVirtualMachine", Refs: vmRefs, Submit: scaleVirtualMachine, Class: "user.vm.ScaleVMCmd"},
		{Name: "changeServiceForVirtualMachine", Refs: vmRefs, Write: true, Run: changeServiceForVirtualMachine},
		{Name: "updateVMAffinityGroup", Refs: map[string]store.RefKind{"id": store.RefVM, "affinitygroupids": store.RefAffinityGroup}, Submit: updateVMAffinityGroup, Class: "user.affinitygroup.UpdateVMAffinityGroupCmd"},
		{Name: "resetPasswordForVirtualMachine", Refs: vmRefs, Submit: resetPassword, Class: "user.vm.ResetVMPasswordCmd"},

		{Name: "listVirtualMachinesMetrics", Refs: vmRefs, Run: listVirtualMachinesMetrics},

		{Name: "assignVirtualMachine", Refs: map[string]store.RefKind{"networkids": store.RefNetwork}, Write: true, Run: func(c *wire.Call) (any, error) { return assignVirtualMachine(c, create) }},

		{Name: "listNics", Run: listNics},
		{Name: "addNicToVirtualMachine", Submit: addNic, Class: "user.vm.AddNicToVMCmd", Order: []string{"virtualmachineid", "networkid"}},
		{Name: "removeNicFromVirtualMachine", Submit: removeNic, Class: "user.vm.RemoveNicFromVMCmd", Order: []string{"virtualmachineid", "nicid"}},
		{Name: "updateDefaultNicForVirtualMachine", Submit: updateDefaultNic, Class: "user.vm.UpdateDefaultNicForVMCmd", Order: []string{"virtualmachineid", "nicid"}},
		{Name: "addIpToNic", Submit: addIPToNic, Class: "user.vm.AddIpToVmNicCmd", Wrapper: "addiptovmnicresponse"},
		{Name: "removeIpFromNic", Refs: map[string]store.RefKind{"id": store.RefSecondaryIP}, Submit: removeIPFromNic, Class: "user.vm.RemoveIpFromVmNicCmd"},
		{Name: "updateVmNicIp", Submit: updateVMNicIP, Class: "user.vm.UpdateVmNicIpCmd"},

		{Name: "listVolumes", Refs: map[string]store.RefKind{"id": store.RefVolume, "ids": store.RefVolume}, Run: listVolumes},
		{Name: "listDiskOfferings", Refs: map[string]store.RefKind{"id": store.RefDiskOffering}, Run: listDiskOfferings},
		{Name: "listSnapshots", Run: listSnapshots},

		{Name: "listTemplates", Refs: map[string]store.RefKind{"id": store.RefTemplate, "ids": store.RefTemplate}, Run: listTemplates},
		{Name: "listIsos", Run: listIsos},
		{Name: "listOsTypes", Refs: map[string]store.RefKind{"id": store.RefOSType}, Run: listOSTypes},
		{Name: "listOsCategories", Refs: map[string]store.RefKind{"id": store.RefOSCategory}, Run: listOSCategories},
		{Name: "listDetailOptions", Run: listDetailOptions},

		{Name: "listAffinityGroups", Refs: map[string]store.RefKind{"id": store.RefAffinityGroup}, Run: listAffinityGroups},
		{Name: "createAffinityGroup", Submit: createAffinityGroup, Class: "user.affinitygroup.CreateAffinityGroupCmd"},
		{Name: "deleteAffinityGroup", Refs: map[string]store.RefKind{"id": store.RefAffinityGroup}, Submit: deleteAffinityGroup, Class: "user.affinitygroup.DeleteAffinityGroupCmd"},
		{Name: "listAffinityGroupTypes", Run: listAffinityGroupTypes},

		{Name: "listSSHKeyPairs", Refs: map[string]store.RefKind{"id": store.RefKeyPair}, Run: listSSHKeyPairs},
		{Name: "createSSHKeyPair", Write: true, Run: createSSHKeyPair},
		{Name: "registerSSHKeyPair", Write: true, Run: registerSSHKeyPair},
		{Name: "deleteSSHKeyPair", Write: true, Run: deleteSSHKeyPair},
		{Name: "getVMPassword", Refs: vmRefs, Run: getVMPassword},

		{Name: "listInstanceGroups", Refs: map[string]store.RefKind{"id": store.RefInstanceGroup}, Run: listInstanceGroups},
		{Name: "createInstanceGroup", Write: true, Run: createInstanceGroup},
		{Name: "deleteInstanceGroup", Refs: map[string]store.RefKind{"id": store.RefInstanceGroup}, Write: true, Run: deleteInstanceGroup},

		{Name: "listHosts", Refs: map[string]store.RefKind{"id": store.RefHost}, Run: listHosts},
		{Name: "listHypervisors", Run: listHypervisors},

		{Name: "listPods", Refs: map[string]store.RefKind{"id": store.RefPod}, Run: listPods},
		{Name: "listClusters", Refs: map[string]store.RefKind{"id": store.RefCluster}, Run: listClusters},
		{Name: "listStoragePools", Refs: map[string]store.RefKind{"id": store.RefPool}, Run: listStoragePools},
		{Name: "listSystemVms", Refs: map[string]store.RefKind{"id": store.RefSystemVM}, Run: listSystemVMs},
	}
}
