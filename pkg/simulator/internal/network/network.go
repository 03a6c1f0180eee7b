// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

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
	Type            string `json:"type"`
	VLAN            string `json:"vlan,omitempty"`
	ACLType         string `json:"acltype"`
	SubDomains      *bool  `json:"subdomainaccess,omitempty"`
	wire.OwnerView
	Services        []store.ServiceOfNetwork `json:"service"`
	NetworkDomain   string                   `json:"networkdomain,omitempty"`
	PhysicalNetwork string                   `json:"physicalnetworkid"`
	RestartRequired bool                     `json:"restartrequired"`
	SpecifyVLAN     bool                     `json:"specifyvlan"`
	SpecifyRanges   bool                     `json:"specifyipranges"`
	VPCID           string                   `json:"vpcid,omitempty"`
	VPCName         string                   `json:"vpcname,omitempty"`
	CanDeploy       bool                     `json:"canusefordeploy"`
	Persistent      bool                     `json:"ispersistent"`
	Tags            []wire.TagView           `json:"tags"`
	DisplayNetwork  *bool                    `json:"displaynetwork,omitempty"`
	Details         map[string]string        `json:"details,omitzero"`
	ACLID           string                   `json:"aclid,omitempty"`
	ACLName         string                   `json:"aclname,omitempty"`
	Stretched       bool                     `json:"strechedl2subnet"`
	Redundant       bool                     `json:"redundantrouter"`
	AutoScaling     bool                     `json:"supportsvmautoscaling"`
	Created         *wire.Timestamp          `json:"created"`
	Received        int                      `json:"receivedbytes"`
	Sent            int                      `json:"sentbytes"`
	Egress          *bool                    `json:"egressdefaultpolicy,omitempty"`
	PublicMTU       int                      `json:"publicmtu"`
	PrivateMTU      int                      `json:"privatemtu"`
	HasAnnotations  bool                     `json:"hasannotations"`
}

// networkFilters are the valid values of networkfilter.
var networkFilters = []string{"account", "domain", "accountdomain", "shared", "all"}

func listNetworks(c *wire.Call) (any, error) {
	filter := strings.ToLower(c.Str("networkfilter"))
	if filter != "" && !slices.Contains(networkFilters, filter) {
		return nil, wire.Invalid("Invalid value of networkfilter: %s", c.Str("networkfilter"))
	}

	if a := c.Str("acltype"); a != "" && !strings.EqualFold(a, "Account") && !strings.EqualFold(a, "Domain") {
		return nil, wire.Invalid("Invalid ACL type %s", a)
	}

	// Unlike in other list commands, an id does not extend what an admin sees, and domain admins always see their
	// whole domain.
	in, err := c.OwnerScope(c.Caller.Account.DomainAdmin() && !c.Given("projectid"))
	if err != nil {
		return nil, err
	}

	wide := c.Boolean("listall") && !c.Caller.Account.Normal()
	ownOnly := c.Str("account") != "" && !c.Caller.Account.Normal()
	return wire.List(c, "network", wire.Newest(c.St.Networks.Rows), func(n *store.Network) bool {
		if n.Owner == nil { // a domain's shared network
			return (wide || domainNetwork(c, n)) && !ownOnly && filter != "account" && networkMatches(c, n)
		}
		shown := in(n.Owner) && (n.Owner.Project == nil || c.Given("projectid") && filter != "account")
		return shown && filter != "domain" && filter != "shared" && networkMatches(c, n)
	}, func(n *store.Network) networkView { return viewNetwork(c, n) })
}

// domainNetwork reports whether the caller (or the requested project) has access to a domain's network.
func domainNetwork(c *wire.Call, n *store.Network) bool {
	d := c.Caller.Account.Domain
	if p := wire.Arg[*store.Project](c, "projectid"); p != nil {
		d = p.Domain
	} else if c.Caller.Account.RootAdmin() {
		return n.Domain == d
	}
	return d == n.Domain || n.Subdomains && d.Within(n.Domain)
}

func networkMatches(c *wire.Call, n *store.Network) bool {
	return c.Is("name", n.Name) &&
		c.Like("keyword", n.Name, n.Display) &&
		wire.Matches(c, "zoneid", n.Zone) &&
		wire.MatchesIn(c, "vpcid", n.VPC) &&
		c.Flag("forvpc", n.VPC != nil) &&
		c.Is("type", n.Typ) &&
		c.Is("traffictype", "Guest") &&
		c.Is("acltype", aclType(n)) &&
		!c.Given("associatednetworkid") &&
		n.Offering.HasAll(c.List("supportedservices")) &&
		n.HasTags(c.TagFilter())
}

func aclType(n *store.Network) string {
	if n.Owner == nil {
		return "Domain"
	}
	return "Account"
}

func viewNetwork(c *wire.Call, n *store.Network) networkView {
	o := &n.Offering.Spec
	v := networkView{
		ID:              n.UUID,
		Name:            n.Name,
		DisplayText:     n.Display,
		BroadcastDomain: "Vlan",
		TrafficType:     "Guest",
		ZoneID:          n.Zone.UUID,
		ZoneName:        n.Zone.Name,
		OfferingID:      n.Offering.UUID,
		OfferingName:    o.Name,
		OfferingText:    o.DisplayText,
		Conserve:        o.Conserve,
		Availability:    o.Availability,
		State:           n.State,
		Related:         n.UUID,
		DNS1:            n.Zone.DNS1,
		Type:            n.Typ,
		ACLType:         aclType(n),
		Services:        n.Offering.NetworkServices(),
		NetworkDomain:   n.DomainName,
		PhysicalNetwork: n.Zone.PhysicalNetID,
		SpecifyVLAN:     o.SpecifyVlan,
		SpecifyRanges:   o.SpecifyIPs,
		CanDeploy:       true,
		Persistent:      o.Persistent,
		Tags:            wire.ViewTags(&n.Tagged),
		AutoScaling:     n.Offering.AutoScaling(),
		Created:         wire.Stamp(n.Created),
		PublicMTU:       1500,
		PrivateMTU:      1500,
	}

	if n.Typ != store.TypeL2 {
		v.Gateway, v.Netmask, v.CIDR = n.Gateway, wire.Netmask(n.CIDR.Bits()), n.CIDR.String()
	}

	if n.Owner != nil {
		v.OwnerView = wire.ViewOwner(n.Owner)
	} else {
		v.SubDomains = wire.Ptr(n.Subdomains)
		v.OwnerView = wire.OwnerView{DomainID: n.Domain.UUID, Domain: n.Domain.Name, DomainPath: n.Domain.Display()}
	}

	if n.VPC != nil {
		v.VPCName = n.VPC.Name
		if c.Access(n.VPC.Owner) {
			v.VPCID = n.VPC.UUID
		}
		if n.ACL != nil {
			v.ACLID, v.ACLName = n.ACL.UUID, n.ACL.Name
		}
	} else if n.Typ == store.TypeIsolated {
		v.Egress = wire.Ptr(o.Egress)
	}

	if c.Caller.RootAdmin() {
		v.DisplayNetwork, v.Details = wire.Ptr(true), map[string]string{}
		if n.State != store.NetAllocated {
			v.BroadcastURI, v.VLAN = "vlan://"+vlanText(n), vlanText(n)
		}
	}

	return v
}

// vlanText returns the network's VLAN as answers show it, or "" if it has none yet.
func vlanText(n *store.Network) string {
	switch {
	case n.VLAN != 0:
		return fmt.Sprint(n.VLAN)
	case n.GivenVLAN:
		return "untagged"
	}
	return ""
}

// targetNetwork returns the network of a command. Networks of other owners are refused before a job starts.
func targetNetwork(c *wire.Call) (*store.Network, error) {
	n := wire.Arg[*store.Network](c, "id")
	if n == nil {
		return nil, c.BadRef("id", c.Str("id"))
	}
	if !n.Removed && !operates(c, n) {
		return nil, wire.Denied()
	}
	return n, nil
}

// operates reports whether the caller may change the network. A domain's network is owned by the system account.
func operates(c *wire.Call, n *store.Network) bool {
	if n.Owner == nil {
		return c.Caller.RootAdmin() || c.Caller.Account.DomainAdmin() && n.Domain.Within(c.Caller.Account.Domain)
	}
	return c.Access(n.Owner)
}

func networkJob(c *wire.Call, n *store.Network, run func(now time.Time) (any, error)) *wire.JobSpec {
	return &wire.JobSpec{InstanceType: "Network", InstanceID: n.UUID, Run: run}
}

// restartNetwork restarts the router with its complete configuration. Calls succeed meanwhile, and no state changes
// visibly (recorded with cleanup). That a restart without cleanup does the same is an assumption. Only a restart with
// cleanup brings back what the router has lost.
func restartNetwork(c *wire.Call) (*wire.JobSpec, error) {
	n, err := targetNetwork(c)
	if err != nil {
		return nil, err
	}
	return networkJob(c, n, func(time.Time) (any, error) {
		if n.Removed {
			return nil, wire.Invalid("Unable to find a network with the specified ID.")
		}
		if c.Boolean("cleanup") {
			c.St.CleanRouter(n)
		}
		c.St.TellRouter(n)
		return wire.Success{Success: true}, nil
	}), nil
}

func deleteNetwork(c *wire.Call) (*wire.JobSpec, error) {
	n, err := targetNetwork(c)
	if err != nil {
		return nil, err
	}

	if n.Removed {
		return nil, wire.Invalid("Network ID=%d doesn't exist", n.ID)
	}

	return networkJob(c, n, func(time.Time) (any, error) {
		switch {
		case n.Removed:
			return nil, wire.Invalid("Unable to find a network with the specified ID.")
		case c.Boolean("forced") && !c.Caller.RootAdmin():
			return nil, wire.Invalid("Delete network with 'forced' option can only be called by root admins")
		case c.St.InUse(n):
			return nil, wire.Errf(wire.CodeInternal, wire.CSRuntime, "Failed to delete network")
		}
		c.St.DestroyNetwork(n)
		return wire.Success{Success: true}, nil
	}), nil
}
