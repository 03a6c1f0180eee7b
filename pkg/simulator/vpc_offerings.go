// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"slices"
	"strings"
)

// vpcOffering defines the services of a VPC and their providers.
type vpcOffering struct {
	entity
	name, display, mode string
	redundant           bool
	services            []vpcService
}

type vpcService struct {
	Name     string     `json:"name"`
	Provider []nameView `json:"provider"`
}

// provides reports whether the offering has the service from the provider, or from any provider if provider is "".
func (o *vpcOffering) provides(service, provider string) bool {
	return slices.ContainsFunc(o.services, func(s vpcService) bool {
		return s.Name == service && (provider == "" || slices.Contains(s.Provider, nameView{provider}))
	})
}

func (o *vpcOffering) hasAll(services []string) bool {
	return !slices.ContainsFunc(services, func(s string) bool { return !o.provides(s, "") })
}

func (o *vpcOffering) needsSourceNAT() bool { return o.provides("SourceNat", "") }

// Names of built-in offerings to which other code refers.
const (
	vpcOfferingName       = "Default VPC offering"
	redundantOfferingName = "Redundant VPC offering"
)

// vpcServiceNames are the services of the default offering, in the order of CloudStack's answers.
var vpcServiceNames = []string{"Vpn", "StaticNat", "NetworkACL", "PortForwarding", "UserData", "Dns", "Lb", "Dhcp", "SourceNat"}

// addVPCOfferings creates the built-in offerings.
func (st *state) addVPCOfferings(ids func(kind, name string) string, at entity) {
	const router = "VpcVirtualRouter"
	// all returns every service except those in without. Their provider is provider, unless special lists others.
	all := func(provider string, special map[string][]string, without ...string) []vpcService {
		var out []vpcService
		for _, s := range vpcServiceNames {
			if slices.Contains(without, s) {
				continue
			}
			v := vpcService{Name: s}
			names := special[s]
			if names == nil {
				names = []string{provider}
			}
			for _, n := range names {
				v.Provider = append(v.Provider, nameView{n})
			}
			out = append(out, v)
		}
		return out
	}
	lb := map[string][]string{"Lb": {router, "InternalLbVm"}}
	basics := map[string][]string{"UserData": {router}, "Dhcp": {router}, "Dns": {router}}
	withVPN := map[string][]string{"UserData": {router}, "Dhcp": {router}, "Dns": {router}, "Vpn": {router}}
	routed := []string{"Vpn", "StaticNat", "PortForwarding", "Lb"}
	for _, o := range []vpcOffering{
		{name: vpcOfferingName, services: all(router, lb)},
		{name: "Default VPC  offering with Netscaler", services: all(router, map[string][]string{"Lb": {"Netscaler", "InternalLbVm"}})},
		{name: redundantOfferingName, redundant: true, services: all(router, lb)},
		{name: "VPC offering with NSX - NAT Mode", mode: "NATTED", services: all("Nsx", basics, "Vpn")},
		{name: "VPC offering with NSX - Route Mode", mode: "ROUTED", services: all("Nsx", basics, routed...)},
		{name: "VPC offering with Netris - Route Mode", mode: "ROUTED", services: all("Netris", basics, routed...)},
		{name: "VPC offering with Netris - NAT Mode", mode: "NATTED", services: all("Netris", withVPN)},
	} {
		row := o
		row.entity, row.display = entity{uuid: ids("vpcoffering", o.name), created: at.created}, o.name
		st.vpcOffs.add(&row)
	}
}

// vpcOffering returns a built-in offering.
func (st *state) vpcOffering(name string) *vpcOffering {
	o, _ := st.vpcOffs.find(func(o *vpcOffering) bool { return o.name == name })
	return o
}

// vpcOfferingView is the API object vpcoffering.
type vpcOfferingView struct {
	ID          string       `json:"id"`
	Name        string       `json:"name"`
	Created     *timestamp   `json:"created"`
	DisplayText string       `json:"displaytext"`
	IsDefault   bool         `json:"isdefault"`
	State       string       `json:"state"`
	Services    []vpcService `json:"service"`
	Distributed bool         `json:"distributedvpcrouter"`
	RegionLevel bool         `json:"supportsregionLevelvpc"`
	NetworkMode string       `json:"networkmode,omitempty"`
	SpecifyAS   bool         `json:"specifyasnumber"`
	Protocol    string       `json:"internetprotocol"`
}

func listVPCOfferings(c *call) (any, error) {
	var out []*vpcOffering
	for _, o := range c.st.vpcOffs.rows {
		switch {
		case o.removed || !matches(c, "id", o):
		case c.has("name") && !like(o.name, c.str("name")), c.has("displaytext") && !like(o.display, c.str("displaytext")):
		case c.has("keyword") && !like(o.name, c.str("keyword")) && !like(o.display, c.str("keyword")) && !strings.EqualFold(c.str("keyword"), "Enabled"):
		case c.has("isdefault") && c.boolean("isdefault") != (o.name == vpcOfferingName):
		case c.has("state") && !strings.EqualFold(c.str("state"), "Enabled"), !o.hasAll(c.list("supportedservices")):
		default:
			out = append(out, o)
		}
	}
	return page(c, "vpcoffering", out, func(o *vpcOffering) vpcOfferingView {
		return vpcOfferingView{
			ID: o.uuid, Name: o.name, Created: stamp(o.created), DisplayText: o.display, IsDefault: o.name == vpcOfferingName, State: "Enabled",
			Services: o.services, NetworkMode: o.mode, Protocol: "IPv4",
		}
	})
}
