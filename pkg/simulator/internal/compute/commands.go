// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package compute implements the commands for VMs, NICs, templates and offerings.
package compute

import (
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// Commands are the commands of this family.
var Commands = []wire.Command{
	{
		Name: "listServiceOfferings", ID: store.RefOffering, Run: listServiceOfferings,
		Without: "issystem cpunumber cpuspeed memory encryptroot gpuenabled vgpuprofileid systemvmtype " +
			"storagetype state",
	},
	{
		Name: "listNetworkOfferings", ID: store.RefNetOffering, Run: listNetworkOfferings,
		Without: "traffictype availability isdefault specifyvlan specifyipranges sourcenatsupported networkid " +
			"supportedservices",
	},
	{
		Name: "listTemplates", ID: store.RefTemplate, Run: listTemplates,
		Without: "ids hypervisor templatetype arch isready isvnf parenttemplateid imagestoreid extensionid " +
			"showunique tags",
	},
	{Name: "listSSHKeyPairs", Run: listSSHKeyPairs},
	{
		Name: "listVolumes", Run: listVolumes,
		Without: "id ids name keyword zoneid podid clusterid hostid storageid diskofferingid serviceofferingid state " +
			"displayvolume tags isencrypted listsystemvms",
	},

	{
		Name: "listVirtualMachines", ID: store.RefVM, Run: listVirtualMachines,
		Without: "keypair arch userid hostid gpuenabled isvnf displayvm isoid securitygroupid autoscalevmgroupid " +
			"backupofferingid userdataid extensionid",
	},
	power("startVirtualMachine", startVirtualMachine, "user.vm.StartVMCmd", "VM.START", "starting Vm"),
	power("stopVirtualMachine", stopVirtualMachine, "user.vm.StopVMCmd", "VM.STOP", "stopping Vm"),
	power("rebootVirtualMachine", rebootVirtualMachine, "user.vm.RebootVMCmd", "VM.REBOOT", "rebooting Vm"),
	power("destroyVirtualMachine", destroyVirtualMachine, "user.vm.DestroyVMCmd", "VM.DESTROY", "destroying Vm"),
	power("expungeVirtualMachine", expungeVirtualMachine, "admin.vm.ExpungeVMCmd", "VM.EXPUNGE", "expunging Vm"),
	{
		Name: "deployVirtualMachine", Submit: deployVirtualMachine, Class: "user.vm.DeployVMCmd", ByAdmin: true,
		Without: "snapshotid volumeid details rootdisksize keyboard boottype bootmode extraconfig userdata " +
			"userdataid hostid podid clusterid keypair keypairs securitygroupids ip6address macaddress customid " +
			"displayvm copyimagetags hypervisor affinitygroupids diskofferingid size",
		Event: wire.Records("VM.CREATE", "deploying Vm", "VirtualMachine", ""),
	},
	{
		Name:    "addNicToVirtualMachine",
		Submit:  addNic,
		Class:   "user.vm.AddNicToVMCmd",
		ByAdmin: true,
		Order:   "virtualmachineid networkid",
		Event:   wire.Records("NIC.CREATE", "Creating Nic", "VirtualMachine", "virtualmachineid"),
	},
	{
		Name: "removeNicFromVirtualMachine", Submit: removeNic, Class: "user.vm.RemoveNicFromVMCmd", ByAdmin: true,
		Order: "virtualmachineid nicid",
		Event: wire.Records("NIC.DELETE", "Removing Nic", "VirtualMachine", "virtualmachineid"),
	},
}

// power returns a command with a job on one VM.
func power(name string, submit func(*wire.Call) (*wire.JobSpec, error), class, event, doing string) wire.Command {
	return wire.Command{
		Name:    name,
		Submit:  submit,
		Class:   class,
		ByAdmin: name != "expungeVirtualMachine",
		Without: "bootintosetup hostid podid clusterid",
		Event:   wire.Records(event, doing, "VirtualMachine", "id"),
	}
}
