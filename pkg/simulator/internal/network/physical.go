// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// physicalView is the API object physicalnetwork. Each zone has one.
type physicalView struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Broadcast string `json:"broadcastdomainrange"`
	ZoneID    string `json:"zoneid"`
	ZoneName  string `json:"zonename"`
	State     string `json:"state"`
	VLAN      string `json:"vlan"`
}

const physicalName = "physical network 1"

func listPhysicalNetworks(c *wire.Call) (any, error) {
	var out []*store.Zone
	for _, z := range c.St.Zones.Rows {
		if z.Removed || !wire.Matches(c, "id", z) || !wire.Matches(c, "zoneid", z) || c.Has("name") && !strings.EqualFold(c.Str("name"), physicalName) ||
			c.Has("keyword") && !store.Like(physicalName, c.Str("keyword")) {
			continue
		}
		out = append(out, z)
	}
	return wire.Page(c, "physicalnetwork", out, func(z *store.Zone) physicalView {
		return physicalView{
			ID: z.PhysicalNetID, Name: physicalName, Broadcast: "ZONE", ZoneID: z.UUID, ZoneName: z.Name, State: "Enabled",
			VLAN: fmt.Sprintf("%d-%d", store.FirstGuestVLAN, store.LastGuestVLAN),
		}
	})
}

// providerView is the API object networkserviceprovider.
type providerView struct {
	ID         string   `json:"id"`
	Name       string   `json:"name"`
	NetworkID  string   `json:"physicalnetworkid"`
	State      string   `json:"state"`
	Services   []string `json:"servicelist"`
	Individual bool     `json:"canenableindividualservice"`
}

// allProviders are the network service providers of a zone, enabled or not.
var allProviders = []string{
	"ConfigDrive", "InternalLbVm", "Netris", "Netscaler", "Nsx", "SecurityGroupProvider", "Tungsten", "VirtualRouter", "VpcVirtualRouter",
}

func provider(z *store.Zone, name string) providerView {
	caps, err := store.ProviderCapabilities()
	v := providerView{
		ID: store.StableID("provider", z.UUID+"/"+name), Name: name, NetworkID: z.PhysicalNetID, State: "Disabled", Services: []string{}, Individual: true,
	}
	if EnabledProviders[name] {
		v.State = "Enabled"
	}
	if err == nil { // a test decodes the embedded file
		v.Services = append(v.Services, slices.Sorted(maps.Keys(caps[name]))...)
	}
	return v
}

func listNetworkServiceProviders(c *wire.Call) (any, error) {
	var out []providerView
	for _, z := range c.St.Zones.Rows {
		for _, name := range allProviders {
			v := provider(z, name)
			if z.Removed || !wire.Matches(c, "physicalnetworkid", z) || c.Has("name") && !strings.EqualFold(c.Str("name"), name) ||
				c.Has("state") && !strings.EqualFold(c.Str("state"), v.State) || c.Has("keyword") && !store.Like(name, c.Str("keyword")) {
				continue
			}
			out = append(out, v)
		}
	}
	return wire.Page(c, "networkserviceprovider", out, func(v providerView) providerView { return v })
}

type supportedService struct {
	Name       string             `json:"name"`
	Providers  []supportedBy      `json:"provider"`
	Capability []supportedFeature `json:"capability"`
}

type supportedBy struct {
	Name       string `json:"name"`
	Individual bool   `json:"canenableindividualservice"`
}

type supportedFeature struct {
	Name      string `json:"name"`
	CanChoose bool   `json:"canchooseservicecapability"`
}

func listSupportedNetworkServices(c *wire.Call) (any, error) {
	caps, err := store.ProviderCapabilities()
	if err != nil {
		return nil, err
	}
	if s := c.Str("service"); s != "" && !serviceNames[s] {
		return nil, wire.Invalid("Invalid Network Service=%s", s)
	}
	if p := c.Str("provider"); p != "" && !slices.Contains(allProviders, p) {
		return nil, wire.Invalid("Invalid Network Service Provider=%s", p)
	}
	var out []supportedService
	for _, name := range slices.Sorted(maps.Keys(serviceNames)) {
		v := supportedService{Name: name, Providers: []supportedBy{}, Capability: []supportedFeature{}}
		for _, p := range slices.Sorted(maps.Keys(caps)) {
			features, ok := caps[p][name]
			if !ok || c.Has("provider") && c.Str("provider") != p {
				continue
			}
			v.Providers = append(v.Providers, supportedBy{Name: p, Individual: true})
			for _, f := range features {
				feature := supportedFeature{Name: f.Name, CanChoose: f.CanChoose}
				if !slices.Contains(v.Capability, feature) {
					v.Capability = append(v.Capability, feature)
				}
			}
		}
		if c.Has("service") && c.Str("service") != name || c.Has("provider") && len(v.Providers) == 0 {
			continue
		}
		out = append(out, v)
	}
	return wire.Page(c, "networkservice", out, func(v supportedService) supportedService { return v })
}

// vlanRangeView is the API object vlaniprange.
type vlanRangeView struct {
	ID          string `json:"id"`
	ForVirtual  bool   `json:"forvirtualnetwork"`
	ZoneID      string `json:"zoneid"`
	VLAN        string `json:"vlan"`
	DomainID    string `json:"domainid,omitempty"`
	Domain      string `json:"domain,omitempty"`
	Gateway     string `json:"gateway"`
	Netmask     string `json:"netmask"`
	CIDR        string `json:"cidr"`
	StartIP     string `json:"startip"`
	EndIP       string `json:"endip"`
	NetworkID   string `json:"networkid"`
	PhysicalID  string `json:"physicalnetworkid"`
	ForSystemVM bool   `json:"forsystemvms"`

	zone *store.Zone
}

func listVLANIPRanges(c *wire.Call) (any, error) {
	var all []vlanRangeView
	for _, z := range c.St.Zones.Rows {
		if v, ok := publicRange(c.St, z); ok {
			all = append(all, v)
		}
	}
	for _, n := range c.St.Networks.Rows {
		if n.Typ == store.TypeShared && !n.Removed && n.CIDR.IsValid() {
			all = append(all, rangeView(n))
		}
	}
	var out []vlanRangeView
	for _, v := range all {
		switch {
		case c.Given("id") && (wire.Arg[*store.Zone](c, "id") != v.zone || !v.ForVirtual), !wire.Matches(c, "zoneid", v.zone), !wire.Matches(c, "physicalnetworkid", v.zone):
		case c.Has("networkid") && !strings.EqualFold(c.Str("networkid"), v.NetworkID), c.Given("podid"), c.Has("account"), c.Given("projectid"):
		case c.Has("forvirtualnetwork") && c.Boolean("forvirtualnetwork") != v.ForVirtual:
		case c.Has("vlan") && c.Str("vlan") != v.VLAN && "vlan://"+c.Str("vlan") != v.VLAN:
		case c.Has("keyword") && !store.Like(v.VLAN, c.Str("keyword")) && !store.Like(v.StartIP+"-"+v.EndIP, c.Str("keyword")):
		default:
			out = append(out, v)
		}
	}
	return wire.Page(c, "vlaniprange", out, func(v vlanRangeView) vlanRangeView { return v })
}

// publicGateway returns the /24 that contains a public address, and its first address.
func publicGateway(a netip.Addr) (netip.Prefix, netip.Addr) {
	p := netip.PrefixFrom(a, 24).Masked()
	return p, p.Addr().Next()
}

// publicRange returns the public addresses of a zone as one range.
func publicRange(st *store.State, z *store.Zone) (vlanRangeView, bool) {
	var first, last netip.Addr
	for _, ip := range st.IPs.Rows {
		if ip.Zone != z {
			continue
		}
		if !first.IsValid() || ip.Addr.Less(first) {
			first = ip.Addr
		}
		if !last.IsValid() || last.Less(ip.Addr) {
			last = ip.Addr
		}
	}
	if !first.IsValid() {
		return vlanRangeView{}, false
	}
	p, gw := publicGateway(first)
	return vlanRangeView{
		ID: z.VLANID(), ForVirtual: true, ZoneID: z.UUID, VLAN: fmt.Sprintf("vlan://%d", store.PublicVLAN), Gateway: gw.String(), Netmask: wire.Netmask(24), CIDR: p.String(),
		StartIP: first.String(), EndIP: last.String(), NetworkID: z.PublicNetID, PhysicalID: z.PhysicalNetID, zone: z,
	}, true
}

// rangeView returns the address range of a shared network.
func rangeView(n *store.Network) vlanRangeView {
	first, last := n.GuestRange()
	return vlanRangeView{
		ID: store.StableID("vlan", n.UUID), ZoneID: n.Zone.UUID, VLAN: "vlan://" + vlanText(n), DomainID: n.Domain.UUID, Domain: n.Domain.Name, Gateway: n.Gateway,
		Netmask: wire.Netmask(n.CIDR.Bits()), CIDR: n.CIDR.String(), StartIP: first.String(), EndIP: last.String(), NetworkID: n.UUID,
		PhysicalID: n.Zone.PhysicalNetID, zone: n.Zone,
	}
}
