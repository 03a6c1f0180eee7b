// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
)

// AddressServices reports whether a shared network of the offering can have public addresses.
func (o *NetworkOffering) AddressServices() bool {
	return slices.ContainsFunc([]string{"SourceNat", "StaticNat", "Firewall", "PortForwarding", "Lb"}, o.Has)
}

// Text formats the offering like CloudStack's error texts.
func (o *NetworkOffering) Text() string {
	return fmt.Sprintf(`NetworkOffering {"id":%d,"name":"%s","trafficType":"%s","uuid":"%s"}`, o.ID, o.Spec.Name,
		o.Spec.TrafficType, o.UUID)
}

// capabilitiesJSON maps a provider and a service to the capabilities that listNetworks shows.
//
//go:embed capabilities.json
var capabilitiesJSON []byte

// ProviderCapabilities are the capabilities of the services, by provider.
var ProviderCapabilities = sync.OnceValues(func() (map[string]map[string][]capabilityView, error) {
	var m map[string]map[string][]capabilityView
	if err := json.Unmarshal(capabilitiesJSON, &m); err != nil {
		return nil, fmt.Errorf("decode the embedded capabilities: %w", err)
	}
	return m, nil
})

// ServiceOfNetwork is a service with the capabilities of its providers.
type ServiceOfNetwork struct {
	Name         string           `json:"name"`
	Provider     []NameView       `json:"provider"`
	Capabilities []capabilityView `json:"capability"`
}

// NetworkServices builds the services of an offering once; all networks of the offering share the result.
func (o *NetworkOffering) NetworkServices() []ServiceOfNetwork {
	o.once.Do(func() {
		caps, err := ProviderCapabilities()
		if err != nil {
			return // cannot happen: a test decodes the embedded file
		}
		o.rendered = []ServiceOfNetwork{}
		for _, s := range o.Services {
			v := ServiceOfNetwork{Name: s.Name, Provider: s.Provider, Capabilities: []capabilityView{}}
			for _, p := range s.Provider {
				v.Capabilities = append(v.Capabilities, caps[p.Name][s.Name]...)
			}
			o.rendered = append(o.rendered, v)
		}
	})
	return o.rendered
}

// AutoScaling reports whether the load balancer of the offering supports autoscaling VM groups.
func (o *NetworkOffering) AutoScaling() bool {
	return o.ProvidedBy("Lb", "VirtualRouter", "VpcVirtualRouter")
}

// PublicLB reports whether the offering balances load on public addresses.
func (o *NetworkOffering) PublicLB() bool {
	return o.Has("Lb") && !o.ProvidedBy("Lb", "InternalLbVm")
}

// Has reports whether the offering has the service.
func (o *NetworkOffering) Has(service string) bool {
	_, ok := o.service(service)
	return ok
}

// HasAll reports whether the offering has all services.
func (o *NetworkOffering) HasAll(services []string) bool {
	for _, s := range services {
		if !o.Has(s) {
			return false
		}
	}
	return true
}

// NetworkOffering defines the services of a network and their providers.
type NetworkOffering struct {
	Entity
	Body     json.RawMessage // without id and created
	Spec     offeringSpec
	Services []serviceView

	once     sync.Once
	rendered []ServiceOfNetwork
}

// offeringSpec holds the fields of an offering that the simulator uses.
type offeringSpec struct {
	Name         string        `json:"name"`
	DisplayText  string        `json:"displaytext"`
	GuestType    string        `json:"guestiptype"`
	ForVPC       bool          `json:"forvpc"`
	Conserve     bool          `json:"conservemode"`
	Availability string        `json:"availability"`
	State        string        `json:"state"`
	IsDefault    bool          `json:"isdefault"`
	TrafficType  string        `json:"traffictype"`
	SpecifyVlan  bool          `json:"specifyvlan"`
	SpecifyIPs   bool          `json:"specifyipranges"`
	Persistent   bool          `json:"ispersistent"`
	Egress       bool          `json:"egressdefaultpolicy"`
	NetworkMode  string        `json:"networkmode"`
	Services     []serviceView `json:"service"`
}

type serviceView struct {
	Name         string           `json:"name"`
	Provider     []NameView       `json:"provider"`
	Capabilities []capabilityView `json:"capability,omitzero"`
}

// NameView is an object in answers that has only a name.
type NameView struct {
	Name string `json:"name"`
}

type capabilityView struct {
	Name      string `json:"name"`
	Value     string `json:"value"`
	CanChoose bool   `json:"canchooseservicecapability"`
}

func (o *NetworkOffering) service(name string) (*serviceView, bool) {
	for i := range o.Services {
		if o.Services[i].Name == name {
			return &o.Services[i], true
		}
	}
	return nil, false
}

// ProvidedBy reports whether one of the named providers provides the service.
func (o *NetworkOffering) ProvidedBy(service string, providers ...string) bool {
	s, ok := o.service(service)
	if !ok {
		return false
	}
	for _, p := range s.Provider {
		for _, want := range providers {
			if p.Name == want {
				return true
			}
		}
	}
	return false
}

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
var VPCServiceNames = []string{"Vpn", "StaticNat", "NetworkACL", "PortForwarding", "UserData", "Dns", "Lb", "Dhcp",
	"SourceNat"}

// VPCOffering returns a built-in offering.
func (st *State) VPCOffering(name string) *VPCOffering {
	o, _ := st.VPCOffs.Find(func(o *VPCOffering) bool { return o.Name == name })
	return o
}
