// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package compute implements the commands for VMs, NICs, volumes, templates, offerings and hosts.
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

		{
			Name: "startVirtualMachine", Refs: vmRefs, Submit: startVirtualMachine, Class: "user.vm.StartVMCmd",
			ByAdmin: true, Event: wire.Records("VM.START", "starting Vm", "VirtualMachine", "id"),
		},
		{Name: "stopVirtualMachine", Refs: vmRefs, Submit: stopVirtualMachine, Class: "user.vm.StopVMCmd", ByAdmin: true, Event: wire.Records("VM.STOP", "stopping Vm", "VirtualMachine", "id")},
		{
			Name: "rebootVirtualMachine", Refs: vmRefs, Submit: rebootVirtualMachine, Class: "user.vm.RebootVMCmd",
			ByAdmin: true, Event: wire.Records("VM.REBOOT", "rebooting Vm", "VirtualMachine", "id"),
		},
		{
			Name: "destroyVirtualMachine", Refs: vmRefs, Submit: destroyVirtualMachine, Class: "user.vm.DestroyVMCmd",
			ByAdmin: true, Event: wire.Records("VM.DESTROY", "destroying Vm", "VirtualMachine", "id"),
		},
		{Name: "expungeVirtualMachine", Refs: vmRefs, Submit: expungeVirtualMachine, Class: "admin.vm.ExpungeVMCmd", Event: wire.Records("VM.EXPUNGE", "expunging Vm", "VirtualMachine", "id")},

		{
			Name: "deployVirtualMachine",
			Without: "snapshotid volumeid details rootdisksize keyboard boottype bootmode extraconfig userdata userdataid hostid podid clusterid keypair keypairs " +
				"securitygroupids ip6address macaddress customid displayvm copyimagetags hypervisor affinitygroupids diskofferingid size",
			Refs:   map[string]store.RefKind{"networkids": store.RefNetwork},
			Submit: func(c *wire.Call) (*wire.JobSpec, error) { return deployVirtualMachine(c, create) }, Class: "user.vm.DeployVMCmd",
			ByAdmin: true, Event: wire.Records("VM.CREATE", "deploying Vm", "VirtualMachine", ""),
		},

		{
			Name: "addNicToVirtualMachine", Submit: addNic, Class: "user.vm.AddNicToVMCmd", Order: []string{"virtualmachineid", "networkid"},
			ByAdmin: true, Event: wire.Records("NIC.CREATE", "Creating Nic", "VirtualMachine", "virtualmachineid"),
		},
		{
			Name: "removeNicFromVirtualMachine", Submit: removeNic, Class: "user.vm.RemoveNicFromVMCmd", Order: []string{"virtualmachineid", "nicid"},
			ByAdmin: true, Event: wire.Records("NIC.DELETE", "Removing Nic", "VirtualMachine", "virtualmachineid"),
		},

		{Name: "listTemplates", Refs: map[string]store.RefKind{"id": store.RefTemplate, "ids": store.RefTemplate}, Run: listTemplates},

		{Name: "listSSHKeyPairs", Run: listSSHKeyPairs},
	}
}
