// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
)

// Volume is a data disk.
type Volume struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	State string `json:"state"`
	// VMID, VMName and VMState are of the VM that the volume is attached to, if any.
	VMID    string  `json:"virtualmachineid"`
	VMName  string  `json:"vmname"`
	VMState VMState `json:"vmstate"`
}

// ListDataVolumes lists the data disks of a project, or of the account for "".
func (c *Client) ListDataVolumes(ctx context.Context, projectID string) ([]Volume, error) {
	return listAll(ctx, c, "listVolumes", "volume", filter{"type": "DATADISK"}.set("projectid", projectID), func(v *Volume) string { return v.ID })
}

// DiskOffering is a kind of data disks.
type DiskOffering struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Customized means that the one who creates a volume chooses its size; else it is SizeGiB.
	Customized  bool   `json:"iscustomized"`
	SizeGiB     int    `json:"disksize"`
	StorageType string `json:"storagetype"` // shared or local
	State       string `json:"state"`       // Active or Inactive; empty before 4.19
}

// ListDiskOfferings lists the disk offerings that the caller may use.
func (c *Client) ListDiskOfferings(ctx context.Context) ([]DiskOffering, error) {
	return listAll(ctx, c, "listDiskOfferings", "diskoffering", nil, func(o *DiskOffering) string { return o.ID })
}
