// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
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

func listPhysicalNetworks(c *call) (any, error) {
	var out []*zone
	for _, z := range c.st.zones.rows {
		if z.removed || !matches(c, "id", z) || !matches(c, "zoneid", z) || c.has("name") && !strings.EqualFold(c.str("name"), physicalName) ||
			c.has("keyword") && !like(physicalName, c.str("keyword")) {
			continue
		}
		out = append(out, z)
	}
	return page(c, "physicalnetwork", out, func(z *zone) physicalView {
		return physicalView{
			ID: z.physicalNetID, Name: physicalName, Broadcast: "ZONE", ZoneID: z.uuid, ZoneName: z.name, State: "Enabled",
			VLAN: fmt.Sprintf("%d-%d", firstGuestVLAN, lastGuestVLAN),
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

func (z *zone) provider(name string) providerView {
	caps, err := providerCapabilities()
	v := providerView{
		ID: stableID("provider", z.uuid+"/"+name), Name: name, NetworkID: z.physicalNetID, State: "Disabled", Services: []string{}, Individual: true,
	}
	if enabledProviders[name] {
		v.State = "Enabled"
	}
	if err == nil { // a test decodes the embedded file
		v.Services = append(v.Services, slices.Sorted(maps.Keys(caps[name]))...)
	}
	return v
}

func listNetworkServiceProviders(c *call) (any, error) {
	var out []providerView
	for _, z := range c.st.zones.rows {
		for _, name := range allProviders {
			v := z.provider(name)
			if z.removed || !matches(c, "physicalnetworkid", z) || c.has("name") && !strings.EqualFold(c.str("name"), name) ||
				c.has("state") && !strings.EqualFold(c.str("state"), v.State) || c.has("keyword") && !like(name, c.str("keyword")) {
				continue
			}
			out = append(out, v)
		}
	}
	return page(c, "networkserviceprovider", out, func(v providerView) providerView { return v })
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

func listSupportedNetworkServices(c *call) (any, error) {
	caps, err := providerCapabilities()
	if err != nil {
		return nil, err
	}
	if s := c.str("service"); s != "" && !serviceNames[s] {
		return nil, invalid("Invalid Network Service=%s", s)
	}
	if p := c.str("provider"); p != "" && !slices.Contains(allProviders, p) {
		return nil, invalid("Invalid Network Service Provider=%s", p)
	}
	var out []supportedService
	for _, name := range slices.Sorted(maps.Keys(serviceNames)) {
		v := supportedService{Name: name, Providers: []supportedBy{}, Capability: []supportedFeature{}}
		for _, p := range slices.Sorted(maps.Keys(caps)) {
			features, ok := caps[p][name]
			if !ok || c.has("provider") && c.str("provider") != p {
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
		if c.has("service") && c.str("service") != name || c.has("provider") && len(v.Providers) == 0 {
			continue
		}
		out = append(out, v)
	}
	return page(c, "networkservice", out, func(v supportedService) supportedService { return v })
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

	zone *zone
}

func listVLANIPRanges(c *call) (any, error) {
	var all []vlanRangeView
	for _, z := range c.st.zones.rows {
		if v, ok := c.st.publicRange(z); ok {
			all = append(all, v)
		}
	}
	for _, n := range c.st.networks.rows {
		if n.typ == typeShared && !n.removed && n.cidr.IsValid() {
			all = append(all, n.rangeView())
		}
	}
	var out []vlanRangeView
	for _, v := range all {
		switch {
		case c.given("id") && (arg[*zone](c, "id") != v.zone || !v.ForVirtual), !matches(c, "zoneid", v.zone), !matches(c, "physicalnetworkid", v.zone):
		case c.has("networkid") && !strings.EqualFold(c.str("networkid"), v.NetworkID), c.given("podid"), c.has("account"), c.given("projectid"):
		case c.has("forvirtualnetwork") && c.boolean("forvirtualnetwork") != v.ForVirtual:
		case c.has("vlan") && c.str("vlan") != v.VLAN && "vlan://"+c.str("vlan") != v.VLAN:
		case c.has("keyword") && !like(v.VLAN, c.str("keyword")) && !like(v.StartIP+"-"+v.EndIP, c.str("keyword")):
		default:
			out = append(out, v)
		}
	}
	return page(c, "vlaniprange", out, func(v vlanRangeView) vlanRangeView { return v })
}

// publicGateway returns the /24 that contains a public address, and its first address.
func publicGateway(a netip.Addr) (netip.Prefix, netip.Addr) {
	p := netip.PrefixFrom(a, 24).Masked()
	return p, p.Addr().Next()
}

// publicRange returns the public addresses of a zone as one range.
func (st *state) publicRange(z *zone) (vlanRangeView, bool) {
	var first, last netip.Addr
	for _, ip := range st.ips.rows {
		if ip.zone != z {
			continue
		}
		if !first.IsValid() || ip.addr.Less(first) {
			first = ip.addr
		}
		if !last.IsValid() || last.Less(ip.addr) {
			last = ip.addr
		}
	}
	if !first.IsValid() {
		return vlanRangeView{}, false
	}
	p, gw := publicGateway(first)
	return vlanRangeView{
		ID: z.vlanID(), ForVirtual: true, ZoneID: z.uuid, VLAN: fmt.Sprintf("vlan://%d", publicVLAN), Gateway: gw.String(), Netmask: netmask(24), CIDR: p.String(),
		StartIP: first.String(), EndIP: last.String(), NetworkID: z.publicNetID, PhysicalID: z.physicalNetID, zone: z,
	}, true
}

// rangeView returns the address range of a shared network.
func (n *network) rangeView() vlanRangeView {
	first, last := n.guestRange()
	return vlanRangeView{
		ID: stableID("vlan", n.uuid), ZoneID: n.zone.uuid, VLAN: "vlan://" + n.vlanText(), DomainID: n.domain.uuid, Domain: n.domain.name, Gateway: n.gateway,
		Netmask: netmask(n.cidr.Bits()), CIDR: n.cidr.String(), StartIP: first.String(), EndIP: last.String(), NetworkID: n.uuid,
		PhysicalID: n.zone.physicalNetID, zone: n.zone,
	}
}
