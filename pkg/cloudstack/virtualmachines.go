// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"cmp"
	"context"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// VirtualMachine is an instance as listVirtualMachines shows it.
type VirtualMachine struct {
	ID          string  `json:"id"`
	Name        string  `json:"name"` // host name inside the guest; can change while the VM runs
	DisplayName string  `json:"displayname"`
	State       VMState `json:"state"`
	ZoneID      string  `json:"zoneid"`
	ZoneName    string  `json:"zonename"`
	ProjectID   string  `json:"projectid"`
	Account     string  `json:"account"` // empty if a project owns the VM
	DomainID    string  `json:"domainid"`
	// ServiceOfferingID and ServiceOfferingName are empty when the query did not ask for servoff.
	ServiceOfferingID   string `json:"serviceofferingid"`
	ServiceOfferingName string `json:"serviceofferingname"`
	// HostID and HostName are the hypervisor host; root admin only, and only while the VM runs.
	HostID         string            `json:"hostid"`
	HostName       string            `json:"hostname"`
	Hypervisor     string            `json:"hypervisor"`
	AffinityGroups []AffinityGroup   `json:"affinitygroup"` // empty when the query did not ask for them
	PublicIP       string            `json:"publicip"`      // static NAT address, if any
	NICs           []NIC             `json:"nic"`           // default NIC first, then by device id
	Tags           map[string]string `json:"tags"`
}

// AffinityGroup is a group that restricts the hosts on which its VMs may run.
type AffinityGroup struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// VMState is the state of a virtual machine (reference: listVirtualMachines).
type VMState string

// States of virtual machines that csccm distinguishes.
const (
	VMRunning   VMState = "Running"
	VMStarting  VMState = "Starting"
	VMStopping  VMState = "Stopping"
	VMStopped   VMState = "Stopped"
	VMShutdown  VMState = "Shutdown" // powered off from inside the guest
	VMMigrating VMState = "Migrating"
	VMDestroyed VMState = "Destroyed"
	VMExpunging VMState = "Expunging"
	VMError     VMState = "Error"
)

// NIC is one network interface of a VM.
type NIC struct {
	ID          string   `json:"id"`
	NetworkID   string   `json:"networkid"`
	NetworkName string   `json:"networkname"`
	DeviceID    int      `json:"deviceid"`
	Default     bool     `json:"isdefault"`
	Type        string   `json:"type"`      // Isolated, Shared, L2
	IPv4        string   `json:"ipaddress"` // empty on L2 networks
	IPv6        string   `json:"ip6address"`
	SecondaryIP []string `json:"secondaryip"`
	PublicIP    string   `json:"publicip"` // static NAT
}

// UnmarshalJSONFrom reads an entry of listVirtualMachines.
func (vm *VirtualMachine) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	type plain VirtualMachine
	err := json.UnmarshalDecode(d, (*plain)(vm))
	for i := range vm.NICs {
		vm.NICs[i].SecondaryIP = append([]string(nil),
			slices.DeleteFunc(vm.NICs[i].SecondaryIP, func(address string) bool { return address == "" })...)
	}
	slices.SortStableFunc(vm.NICs, func(a, b NIC) int {
		if a.Default != b.Default {
			if a.Default {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.DeviceID, b.DeviceID)
	})
	return err
}

// VMQuery filters listVirtualMachines; the zero value selects all VMs of the caller. An unknown ID is KindNotFound. The
// answer always has the tags.
type VMQuery struct {
	ID, ZoneID, NetworkID, ProjectID string
	// Account and DomainID select the VMs of one owner, for administrators.
	Account, DomainID  string
	ListAll            bool
	WithOffering       bool // details=nics,servoff instead of details=nics
	WithAffinityGroups bool // adds affgrp to details
}

// ListVirtualMachines lists VMs with their NICs and tags.
func (c *Client) ListVirtualMachines(ctx context.Context, q VMQuery) ([]VirtualMachine, error) {
	// Without nics, the answer has only the last NIC of a VM.
	details := "nics"
	if q.WithOffering {
		details = "nics,servoff"
	}
	if q.WithAffinityGroups {
		details += ",affgrp"
	}
	f := Params{"details": details}.
		Set("id", q.ID).Set("account", q.Account).Set("domainid", q.DomainID).
		Set("zoneid", q.ZoneID).Set("networkid", q.NetworkID).Set("projectid", q.ProjectID).Flag("listall", q.ListAll)
	return List(ctx, c, "listVirtualMachines", "virtualmachine", f, func(vm *VirtualMachine) string { return vm.ID })
}
