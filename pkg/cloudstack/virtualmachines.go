// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"cmp"
	"context"
	"slices"

	"github.com/csccm/csccm/pkg/cloudstack/internal/flex"
)

// VMQuery filters listVirtualMachines; the zero value asks for all the caller's
// own. An unknown ID is KindNotFound. Tags are always part of the answer.
type VMQuery struct {
	ID, Name, ZoneID, NetworkID, ProjectID string
	// Account with DomainID are an owner; administrators ask by it.
	Account, DomainID  string
	ListAll            bool
	WithOffering       bool // details=nics,servoff instead of details=nics
	WithAffinityGroups bool // adds affgrp to details
}

// vmJSON leaves out members that the SDK's type cannot read (extradhcpoption,
// vnfnics: arrays of objects, not of strings).
type vmJSON struct {
	VirtualMachine
	NICs []struct {
		NIC
		DeviceID  flex.Int  `json:"deviceid"`
		Default   flex.Bool `json:"isdefault"`
		Secondary []struct {
			Address string `json:"ipaddress"`
		} `json:"secondaryip"`
	} `json:"nic"`
	Tags []flex.Tag `json:"tags"`
}

func (v *vmJSON) toVM() VirtualMachine {
	vm := v.VirtualMachine
	vm.Tags = flex.TagMap(v.Tags)
	for i := range v.NICs {
		nic := v.NICs[i].NIC
		nic.DeviceID, nic.Default = int(v.NICs[i].DeviceID), bool(v.NICs[i].Default)
		for _, s := range v.NICs[i].Secondary {
			if s.Address != "" {
				nic.SecondaryIP = append(nic.SecondaryIP, s.Address)
			}
		}
		vm.NICs = append(vm.NICs, nic)
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
	return vm
}

// ListVirtualMachines lists VMs with their NICs and tags.
func (c *Client) ListVirtualMachines(ctx context.Context, q VMQuery) ([]VirtualMachine, error) {
	// Without nics a VM of several NICs shows only its last one.
	details := "nics"
	if q.WithOffering {
		details = "nics,servoff"
	}
	if q.WithAffinityGroups {
		details += ",affgrp"
	}
	f := filter{"details": details}.
		set("id", q.ID).set("name", q.Name).set("account", q.Account).set("domainid", q.DomainID).
		set("zoneid", q.ZoneID).set("networkid", q.NetworkID).set("projectid", q.ProjectID).flag("listall", q.ListAll)
	raw, err := listPages(ctx, c, leanPage[vmJSON], "listVirtualMachines", "virtualmachine", f, func(v *vmJSON) string { return v.ID })
	return convert(raw, (*vmJSON).toVM), err
}
