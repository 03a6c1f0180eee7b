// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storage describes the CSI driver for CloudStack (github.com/cloudstack/cloudstack-csi-driver): its names in
// Kubernetes, the commands of the CloudStack API that it calls, and its chart. csccm does not contain a driver: it installs
// and checks this one.
package storage

// Names of the driver, as its version 3.0 uses them.
const (
	// DriverName is the name of the CSIDriver object, and the provisioner of its StorageClasses.
	DriverName = "csi.cloudstack.apache.org"
	// ZoneKey is the topology key whose value is the id of a node's zone in CloudStack.
	ZoneKey = "topology." + DriverName + "/zone"
	// HostKey is the topology key whose value is the id of the hypervisor host of a node.
	HostKey = "topology." + DriverName + "/host"
	// DiskOfferingKey is the parameter of a StorageClass whose value is the id of a disk offering.
	DiskOfferingKey = DriverName + "/disk-offering-id"
)

// Commands are the commands of the CloudStack API that the driver calls. Every one is allowed to the default User role.
var Commands = []string{
	"listVirtualMachines",
	"listVolumes",
	"createVolume",
	"deleteVolume",
	"attachVolume",
	"detachVolume",
	"resizeVolume",
	"listZones",
	"listDiskOfferings",
	"listSnapshots",
	"createSnapshot",
	"deleteSnapshot",
	"queryAsyncJobResult",
}
