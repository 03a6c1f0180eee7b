// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"cmp"
	"context"
	"slices"
)

// VMQuery filters listVirtualMachines; the zero value asks for all the caller's
// own. IDs must all be known to the server: one that is not makes the whole
// list fail with KindNotFound. Tags are always part of the answer.
type VMQuery struct {
	ID, Name, Keyword, ZoneID, ProjectID, NetworkID string
	IDs                                             []string
	// Account with DomainID are an owner; administrators ask by it.
	Account, DomainID  string
	ListAll            bool
	WithOffering       bool // details=nics,servoff instead of details=nics
	WithAffinityGroups bool // adds affgrp to details
}

// vmJSON leaves out members that the SDK's type cannot read (extradhcpoption,
// vnfnics: arrays of objects, not of strings).
type vmJSON struct {
	ID              string    `json:"id"`
	Name            string    `json:"name"`
	DisplayName     string    `json:"displayname"`
	State           string    `json:"state"`
	ZoneID          string    `json:"zoneid"`
	ZoneName        string    `json:"zonename"`
	ProjectID       string    `json:"projectid"`
	Account         string    `json:"account"`
	DomainID        string    `json:"domainid"`
	ServiceOffering string    `json:"serviceofferingid"`
	OfferingName    string    `json:"serviceofferingname"`
	HostID          string    `json:"hostid"`
	HostName        string    `json:"hostname"`
	Hypervisor      string    `json:"hypervisor"`
	PublicIP        string    `json:"publicip"`
	NICs            []nicJSON `json:"nic"`
	Tags            []tagJSON `json:"tags"`
	AffinityGroups  []struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"affinitygroup"`
}

type nicJSON struct {
	ID          string   `json:"id"`
	NetworkID   string   `json:"networkid"`
	NetworkName string   `json:"networkname"`
	DeviceID    flexInt  `json:"deviceid"`
	Default     flexBool `json:"isdefault"`
	Type        string   `json:"type"`
	IPv4        string   `json:"ipaddress"`
	IPv6        string   `json:"ip6address"`
	MAC         string   `json:"macaddress"`
	PublicIP    string   `json:"publicip"`
	Secondary   []struct {
		Address string `json:"ipaddress"`
	} `json:"secondaryip"`
}

func (v *vmJSON) toVM() VirtualMachine {
	vm := VirtualMachine{
		ID: v.ID, Name: v.Name, DisplayName: v.DisplayName, State: VMState(v.State),
		ZoneID: v.ZoneID, ZoneName: v.ZoneName, ProjectID: v.ProjectID, Account: v.Account, DomainID: v.DomainID,
		ServiceOfferingID: v.ServiceOffering, ServiceOfferingName: v.OfferingName,
		HostID: v.HostID, HostName: v.HostName, Hypervisor: v.Hypervisor, PublicIP: v.PublicIP,
		Tags: tagMap(v.Tags),
	}
	for _, g := range v.AffinityGroups {
		vm.AffinityGroups = append(vm.AffinityGroups, AffinityGroup{ID: g.ID, Name: g.Name})
	}
	for i := range v.NICs {
		n := &v.NICs[i]
		nic := NIC{
			ID: n.ID, NetworkID: n.NetworkID, NetworkName: n.NetworkName, DeviceID: int(n.DeviceID),
			Default: bool(n.Default), Type: n.Type, IPv4: n.IPv4, IPv6: n.IPv6, MAC: n.MAC, PublicIP: n.PublicIP,
		}
		for _, s := range n.Secondary {
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
		set("id", q.ID).set("ids", joinIDs(q.IDs)).set("name", q.Name).set("keyword", q.Keyword).
		set("account", q.Account).set("domainid", q.DomainID).
		set("zoneid", q.ZoneID).set("projectid", q.ProjectID).set("networkid", q.NetworkID).
		flag("listall", q.ListAll)
	return list(ctx, c, "listVirtualMachines", "virtualmachine", f, func(v *vmJSON) string { return v.ID }, (*vmJSON).toVM)
}
