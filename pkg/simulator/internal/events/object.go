// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"reflect"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

// resourceTables maps the resource types of events to the kinds of objects, to look up current names.
var resourceTables = map[string]store.RefKind{
	"VirtualMachine": store.RefVM, "IpAddress": store.RefIP, "FirewallRule": store.RefRule, "LoadBalancerRule": store.RefLBRule, "Network": store.RefNetwork, "Vpc": store.RefVPC,
	"Project": store.RefProject, "Account": store.RefAccount, "User": store.RefUser, "Domain": store.RefDomain, "Role": store.RefRole, "NetworkAcl": store.RefACLList,
	"Nic": store.RefNIC, "ServiceOffering": store.RefOffering, "Template": store.RefTemplate,
	"NetworkOffering": store.RefNetOffering, "VpcOffering": store.RefVPCOffering, "NetworkAclItem": store.RefACLItem,
	"PhysicalNetwork": store.RefPhysicalNet, "Zone": store.RefZone, "KubernetesCluster": store.RefKubernetesCluster,
}

// OwnerOf returns the owner of an object, or nil if it has none.
func OwnerOf(obj any) *store.Account {
	switch o := obj.(type) {
	case *store.VM:
		return o.Owner
	case *store.NIC:
		return OwnerOf(o.VM)
	case *store.SecondaryIP:
		return OwnerOf(o.NIC)
	case *store.PublicIP:
		return o.Owner
	case *store.LBRule:
		return o.Account
	case *store.StickyPolicy:
		return OwnerOf(o.Rule)
	case *store.SSLCert:
		return o.Owner
	case *store.FWRule:
		return o.Account
	case *store.PFRule:
		return o.Account
	case *store.Network:
		return o.Owner
	case *store.VPC:
		return o.Owner
	case *store.ACLList:
		if o.VPC != nil {
			return o.VPC.Owner
		}
	case *store.ACLItem:
		return OwnerOf(o.List)
	case *store.KubernetesCluster:
		return o.Owner
	case *store.Project:
		return o.Owner()
	case *store.Account:
		return o
	case *store.User:
		return o.Account
	case *store.Job:
		return o.Caller.Account
	case *store.Event:
		return o.Owner
	}
	return nil
}

// nameOf returns the name of an object in events, or "" for kinds without a name.
func nameOf(obj any) string {
	switch o := obj.(type) {
	case *store.PublicIP:
		return o.Addr.String()
	case *store.User:
		return o.Username
	case *store.NetworkOffering:
		return o.Spec.Name
	}
	if name := reflect.Indirect(reflect.ValueOf(obj)).FieldByName("Name"); name.IsValid() {
		return name.String()
	}
	return ""
}
