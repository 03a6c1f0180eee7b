// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
)

// capabilitiesJSON maps a provider and a service to the capabilities that listNetworks shows.
//
//go:embed capabilities.json
var capabilitiesJSON []byte

var providerCapabilities = sync.OnceValues(func() (map[string]map[string][]capabilityView, error) {
	var m map[string]map[string][]capabilityView
	if err := json.Unmarshal(capabilitiesJSON, &m); err != nil {
		return nil, fmt.Errorf("decode the embedded capabilities: %w", err)
	}
	return m, nil
})

// serviceOfNetwork is a service with the capabilities of its providers.
type serviceOfNetwork struct {
	Name         string           `json:"name"`
	Provider     []nameView       `json:"provider"`
	Capabilities []capabilityView `json:"capability"`
}

// networkServices builds the services of an offering once; all networks of the offering share the result.
func (o *networkOffering) networkServices() []serviceOfNetwork {
	o.once.Do(func() {
		caps, err := providerCapabilities()
		if err != nil {
			return // cannot happen: a test decodes the embedded file
		}
		o.rendered = []serviceOfNetwork{}
		for _, s := range o.services {
			v := serviceOfNetwork{Name: s.Name, Provider: s.Provider, Capabilities: []capabilityView{}}
			for _, p := range s.Provider {
				v.Capabilities = append(v.Capabilities, caps[p.Name][s.Name]...)
			}
			o.rendered = append(o.rendered, v)
		}
	})
	return o.rendered
}

// networkView is the API object network.
type networkView struct {
	ID              string `json:"id"`
	Name            string `json:"name"`
	DisplayText     string `json:"displaytext"`
	BroadcastDomain string `json:"broadcastdomaintype"`
	TrafficType     string `json:"traffictype"`
	Gateway         string `json:"gateway,omitempty"`
	Netmask         string `json:"netmask,omitempty"`
	CIDR            string `json:"cidr,omitempty"`
	NetworkCIDR     string `json:"networkcidr,omitempty"`
	ReservedRange   string `json:"reservediprange,omitempty"`
	ZoneID          string `json:"zoneid"`
	ZoneName        string `json:"zonename"`
	OfferingID      string `json:"networkofferingid"`
	OfferingName    string `json:"networkofferingname"`
	OfferingText    string `json:"networkofferingdisplaytext"`
	Conserve        bool   `json:"networkofferingconservemode"`
	Availability    string `json:"networkofferingavailability"`
	System          bool   `json:"issystem"`
	State           string `json:"state"`
	Related         string `json:"related"`
	BroadcastURI    string `json:"broadcasturi,omitempty"`
	DNS1            string `json:"dns1"`
	DNS2            string `json:"dns2,omitempty"`
	Type            string `json:"type"`
	VLAN            string `json:"vlan,omitempty"`
	ACLType         string `json:"acltype"`
	SubDomains      *bool  `json:"subdomainaccess,omitempty"`
	ownerView
	Services        []serviceOfNetwork `json:"service"`
	NetworkDomain   string             `json:"networkdomain,omitempty"`
	PhysicalNetwork string             `json:"physicalnetworkid"`
	RestartRequired bool               `json:"restartrequired"`
	SpecifyVLAN     bool               `json:"specifyvlan"`
	SpecifyRanges   bool               `json:"specifyipranges"`
	VPCID           string             `json:"vpcid,omitempty"`
	VPCName         string             `json:"vpcname,omitempty"`
	CanDeploy       bool               `json:"canusefordeploy"`
	Persistent      bool               `json:"ispersistent"`
	Tags            []tagView          `json:"tags"`
	DisplayNetwork  *bool              `json:"displaynetwork,omitempty"`
	Details         map[string]string  `json:"details,omitzero"`
	ACLID           string             `json:"aclid,omitempty"`
	ACLName         string             `json:"aclname,omitempty"`
	Stretched       bool               `json:"strechedl2subnet"`
	Redundant       bool               `json:"redundantrouter"`
	AutoScaling     bool               `json:"supportsvmautoscaling"`
	Created         *timestamp         `json:"created"`
	Received        int                `json:"receivedbytes"`
	Sent            int                `json:"sentbytes"`
	Egress          *bool              `json:"egressdefaultpolicy,omitempty"`
	PublicMTU       int                `json:"publicmtu"`
	PrivateMTU      int                `json:"privatemtu"`
	BaseID          string             `json:"associatednetworkid,omitempty"`
	BaseName        string             `json:"associatednetwork,omitempty"`
	ExternalID      string             `json:"externalid,omitempty"`
	HasAnnotations  bool               `json:"hasannotations"`
}

// networkFilters are the valid values of networkfilter.
var networkFilters = []string{"account", "domain", "accountdomain", "shared", "all"}

func listNetworks(c *call) (any, error) {
	filter := strings.ToLower(c.str("networkfilter"))
	if filter != "" && !slices.Contains(networkFilters, filter) {
		return nil, invalid("Invalid value of networkfilter: %s", c.str("networkfilter"))
	}
	if a := c.str("acltype"); a != "" && !strings.EqualFold(a, "Account") && !strings.EqualFold(a, "Domain") {
		return nil, invalid("Invalid ACL type %s", a)
	}
	// Unlike in other list commands, an id does not extend what an admin sees, and domain admins always see their
	// whole domain.
	in, err := c.ownerScope(c.caller.account.domainAdmin() && !c.given("projectid"))
	if err != nil {
		return nil, err
	}
	wide := c.boolean("listall") && !c.caller.account.normal()
	ownOnly := c.str("account") != "" && !c.caller.account.normal()
	var out []*network
	for _, n := range slices.Backward(c.st.networks.rows) {
		visible := n.owner != nil && in(n.owner) && (n.owner.project == nil || c.given("projectid"))
		if n.owner == nil { // a domain's shared network
			visible = (wide || c.domainNetwork(n)) && !ownOnly
		}
		if n.removed || !visible || !matches(c, "id", n) || !c.networkMatches(n) {
			continue
		}
		switch filter {
		case "account":
			visible = n.owner != nil && n.owner.project == nil
		case "domain", "shared":
			visible = n.owner == nil
		}
		if visible {
			out = append(out, n)
		}
	}
	return page(c, "network", out, c.viewNetwork)
}

// domainNetwork reports whether the caller (or the requested project) has access to a domain's network.
func (c *call) domainNetwork(n *network) bool {
	d := c.caller.account.domain
	if p := arg[*project](c, "projectid"); p != nil {
		d = p.domain
	} else if c.caller.account.rootAdmin() {
		return n.domain == d
	}
	return d == n.domain || n.subdomains && d.within(n.domain)
}

func (c *call) networkMatches(n *network) bool {
	switch {
	case c.has("name") && !strings.EqualFold(c.str("name"), n.name),
		c.has("keyword") && !like(n.name, c.str("keyword")) && !like(n.display, c.str("keyword")),
		!matches(c, "zoneid", n.zone), !matches(c, "networkofferingid", n.offering),
		c.given("vpcid") && (n.vpc == nil || !matches(c, "vpcid", n.vpc)),
		c.has("forvpc") && c.boolean("forvpc") != (n.vpc != nil),
		c.has("type") && !strings.EqualFold(c.str("type"), n.typ),
		c.has("traffictype") && !strings.EqualFold(c.str("traffictype"), "Guest"),
		c.has("acltype") && !strings.EqualFold(c.str("acltype"), n.aclType()),
		c.has("issystem") && c.boolean("issystem"), c.has("restartrequired") && c.boolean("restartrequired") != n.restart,
		c.has("specifyipranges") && c.boolean("specifyipranges") != n.offering.spec.SpecifyIPs,
		c.has("canusefordeploy") && !c.boolean("canusefordeploy"),
		c.given("associatednetworkid") && (n.base == nil || !matches(c, "associatednetworkid", n.base)),
		!matches(c, "physicalnetworkid", n.zone), c.has("vlan") && c.caller.rootAdmin() && c.str("vlan") != n.vlanText(), !c.visible("displaynetwork", n.hidden),
		!n.offering.hasAll(c.list("supportedservices")), !n.hasTags(c.tagFilter()):
		return false
	}
	return true
}

func (n *network) aclType() string {
	if n.owner == nil {
		return "Domain"
	}
	return "Account"
}

func (c *call) viewNetwork(n *network) networkView {
	o := &n.offering.spec
	v := networkView{
		ID: n.uuid, Name: n.name, DisplayText: n.display, BroadcastDomain: "Vlan", TrafficType: "Guest", ZoneID: n.zone.uuid, ZoneName: n.zone.name,
		OfferingID: n.offering.uuid, OfferingName: o.Name, OfferingText: o.DisplayText, Conserve: o.Conserve, Availability: o.Availability,
		State: n.state, Related: n.uuid, DNS1: cmp.Or(n.dns1, n.zone.dns1), DNS2: cmp.Or(n.dns2, n.zone.dns2), Type: n.typ, ACLType: n.aclType(), Services: n.offering.networkServices(),
		NetworkDomain: n.domainName, PhysicalNetwork: n.zone.physicalNetID, SpecifyVLAN: o.SpecifyVlan, SpecifyRanges: o.SpecifyIPs,
		CanDeploy: true, Persistent: o.Persistent, Tags: viewTags(&n.tagged), AutoScaling: n.offering.autoScaling(),
		Created: stamp(n.created), PublicMTU: 1500, PrivateMTU: 1500, RestartRequired: n.restart, Redundant: n.redundant, ExternalID: n.externalID,
		NetworkCIDR: n.wholeCIDR,
	}
	if n.base != nil {
		v.BaseID, v.BaseName = n.base.uuid, n.base.name
	}
	if n.dns1 != "" {
		v.DNS2 = n.dns2
	}
	if n.wholeCIDR != "" {
		v.ReservedRange = reservedRange(n.wholeCIDR, n.cidr)
	}
	if n.typ != typeL2 {
		v.Gateway, v.Netmask, v.CIDR = n.gateway, netmask(n.cidr.Bits()), n.cidr.String()
	}
	if n.owner != nil {
		v.ownerView = viewOwner(n.owner)
	} else {
		v.SubDomains = ptr(n.subdomains)
		v.ownerView = ownerView{DomainID: n.domain.uuid, Domain: n.domain.name, DomainPath: n.domain.display()}
	}
	if n.vpc != nil {
		v.VPCName = n.vpc.name
		if c.access(n.vpc.owner) {
			v.VPCID = n.vpc.uuid
		}
		if n.acl != nil {
			v.ACLID, v.ACLName = n.acl.uuid, n.acl.name
		}
	} else if n.typ == typeIsolated {
		v.Egress = ptr(o.Egress)
	}
	if c.caller.rootAdmin() {
		v.DisplayNetwork, v.Details = ptr(!n.hidden), map[string]string{}
		if n.hideUsage != "" {
			v.Details["hideIpAddressUsage"] = n.hideUsage
		}
		if n.state != netAllocated {
			v.BroadcastURI, v.VLAN = "vlan://"+n.vlanText(), n.vlanText()
		}
	}
	return v
}

// autoScaling reports whether the load balancer of the offering supports autoscaling VM groups.
func (o *networkOffering) autoScaling() bool {
	return o.providedBy("Lb", "VirtualRouter", "VpcVirtualRouter")
}

// vlanText returns the network's VLAN as answers show it, or "" if it has none yet.
func (n *network) vlanText() string {
	switch {
	case n.vlan != 0:
		return fmt.Sprint(n.vlan)
	case n.givenVLAN:
		return "untagged"
	}
	return ""
}

// reservedRange returns the part of the network's CIDR that is not available to VMs.
func reservedRange(whole string, guests netip.Prefix) string {
	p, err := netip.ParsePrefix(whole)
	if err != nil {
		return ""
	}
	var parts []string
	if first := p.Addr().Next(); first != guests.Addr().Next() {
		parts = append(parts, first.String()+"-"+guests.Addr().Prev().String())
	}
	if last := lastAddr(p); last != lastAddr(guests) {
		parts = append(parts, lastAddr(guests).Next().String()+"-"+last.Prev().String())
	}
	return strings.Join(parts, " , ")
}
