// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"slices"
)

// VPCOffering defines the services of a VPC and their providers.
type VPCOffering struct {
	Entity
	Name, Display, Mode string
	Redundant           bool
	Services            []VPCService
}

// VPCService is a service of a VPC offering with its providers.
type VPCService struct {
	Name     string     `json:"name"`
	Provider []NameView `json:"provider"`
}

// Provides reports whether the offering has the service from the provider, or from any provider if provider is "".
func (o *VPCOffering) Provides(service, provider string) bool {
	return slices.ContainsFunc(o.Services, func(s VPCService) bool {
		return s.Name == service && (provider == "" || slices.Contains(s.Provider, NameView{provider}))
	})
}

// HasAll reports whether the offering has all services.
func (o *VPCOffering) HasAll(services []string) bool {
	return !slices.ContainsFunc(services, func(s string) bool { return !o.Provides(s, "") })
}

// IsDefault reports whether listVPCOfferings names the offering as a default.
func (o *VPCOffering) IsDefault() bool {
	return o.Name == VPCOfferingName || o.Name == RedundantOfferingName
}

// NeedsSourceNAT reports whether VPCs of the offering have a source NAT address.
func (o *VPCOffering) NeedsSourceNAT() bool { return o.Provides("SourceNat", "") }

// Names of built-in offerings to which other code refers.
const (
	VPCOfferingName       = "Default VPC offering"
	RedundantOfferingName = "Redundant VPC offering"
)

// VPCServiceNames are the services of the default offering, in the order of CloudStack's answers.
var VPCServiceNames = []string{"Vpn", "StaticNat", "NetworkACL", "PortForwarding", "UserData", "Dns", "Lb", "Dhcp", "SourceNat"}

// VPCOffering returns a built-in offering.
func (st *State) VPCOffering(name string) *VPCOffering {
	o, _ := st.VPCOffs.Find(func(o *VPCOffering) bool { return o.Name == name })
	return o
}
