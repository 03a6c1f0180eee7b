// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/fault"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// ipView is the API object publicipaddress (ipaddress in job results).
type ipView struct {
	ID        string          `json:"id"`
	IPAddress string          `json:"ipaddress"`
	Allocated *wire.Timestamp `json:"allocated,omitempty"`
	ZoneID    string          `json:"zoneid"`
	ZoneName  string          `json:"zonename"`
	SourceNAT bool            `json:"issourcenat"`
	*wire.OwnerView
	VirtualNet    bool           `json:"forvirtualnetwork"`
	VLANID        string         `json:"vlanid,omitempty"`
	VLANName      string         `json:"vlanname,omitempty"`
	StaticNAT     bool           `json:"isstaticnat"`
	System        bool           `json:"issystem"`
	VMID          string         `json:"virtualmachineid,omitempty"`
	VMIPAddress   string         `json:"vmipaddress,omitempty"`
	VMName        string         `json:"virtualmachinename,omitempty"`
	VMDisplayName string         `json:"virtualmachinedisplayname,omitempty"`
	VMType        string         `json:"virtualmachinetype,omitempty"`
	AssocNetID    string         `json:"associatednetworkid,omitempty"`
	AssocNetName  string         `json:"associatednetworkname,omitempty"`
	NetworkID     string         `json:"networkid"`
	State         string         `json:"state"`
	PhysicalNet   string         `json:"physicalnetworkid"`
	VPCID         string         `json:"vpcid,omitempty"`
	VPCName       string         `json:"vpcname,omitempty"`
	Purpose       string         `json:"purpose,omitempty"`
	Tags          []wire.TagView `json:"tags"`
	Portable      bool           `json:"isportable"`
	ForDisplay    *bool          `json:"fordisplay,omitempty"`
	HasRules      bool           `json:"hasrules"`
	ForSystemVMs  bool           `json:"forsystemvms"`
	ForProvider   bool           `json:"forprovider"`
	wire.JobRef
	HasAnnotations bool `json:"hasannotations"`
}

func viewIP(c *wire.Call, ip *store.PublicIP) ipView {
	v := ipView{
		ID:          ip.UUID,
		IPAddress:   ip.Addr.String(),
		Allocated:   wire.Stamp(ip.Allocated),
		ZoneID:      ip.Zone.UUID,
		ZoneName:    ip.Zone.Name,
		SourceNAT:   ip.SourceNAT,
		VirtualNet:  true,
		StaticNAT:   ip.StaticVM != nil,
		System:      ip.System,
		NetworkID:   ip.Zone.PublicNetID,
		State:       ip.State,
		PhysicalNet: ip.Zone.PhysicalNetID,
		Tags:        wire.ViewTags(&ip.Tagged),
		HasRules:    ip.HasRules(),
		JobRef:      wire.ViewJobRef(c.St, ip),
	}

	if ip.Owner != nil {
		o := wire.ViewOwner(ip.Owner)
		v.OwnerView = &o
	}

	if ip.Network != nil {
		v.AssocNetID, v.AssocNetName = ip.Network.UUID, ip.Network.Name
	}

	if ip.VPC != nil {
		v.VPCID, v.VPCName = ip.VPC.UUID, ip.VPC.Name
	}

	if m := ip.StaticVM; m != nil {
		v.VMID, v.VMIPAddress, v.VMName, v.VMDisplayName, v.VMType = m.UUID, ip.StaticIP, m.Name, m.Display, "User"
	}

	if m := ip.SystemVM; m != nil {
		v.VMID, v.VMName, v.VMType, v.Purpose = m.UUID, m.Name, m.Type, "Lb"
	}

	if c.Caller.RootAdmin() {
		v.ForDisplay = wire.Ptr(!ip.Hidden)
		v.VLANID, v.VLANName = ip.Zone.VLANID(), fmt.Sprintf("vlan://%d", store.PublicVLAN)
	}

	return v
}

func listPublicIPAddresses(c *wire.Call) (any, error) {
	state := c.Str("state")
	freeState := strings.EqualFold(state, store.IPFree) || strings.EqualFold(state, store.IPReserved)
	allocatedOnly := c.BoolOr("allocatedonly", !freeState)
	if freeState && allocatedOnly {
		return nil, wire.Invalid("Conflict: allocatedonly is true but state is %s", state)
	}

	in, err := c.OwnerScope(c.ByID())
	if err != nil {
		return nil, err
	}

	rows := slices.SortedStableFunc(slices.Values(c.St.IPs.Rows),
		func(a, b *store.PublicIP) int { return a.Addr.Compare(b.Addr) })
	return wire.List(c, "publicipaddress", rows, func(ip *store.PublicIP) bool {
		owned := ip.Owner == nil && !allocatedOnly || ip.Owner != nil && in(ip.Owner)
		return owned &&
			(!allocatedOnly || ip.State == store.IPAllocated) &&
			(state == "" || c.Is("state", ip.State)) &&
			ipMatches(c, ip) &&
			c.Visible("fordisplay", ip.Hidden)
	}, func(ip *store.PublicIP) ipView { return viewIP(c, ip) })
}

func ipMatches(c *wire.Call, ip *store.PublicIP) bool {
	addr := ip.Addr.String()
	return c.Is("ipaddress", addr) &&
		c.Like("keyword", addr) &&
		c.Flag("issourcenat", ip.SourceNAT) &&
		c.Flag("isstaticnat", ip.StaticVM != nil) &&
		wire.Matches(c, "zoneid", ip.Zone) &&
		wire.Matches(c, "networkid", ip.Zone) && // the public network of the zone
		wire.MatchesIn(c, "associatednetworkid", ip.Network) &&
		wire.MatchesIn(c, "vpcid", ip.VPC) &&
		(!c.Boolean("forloadbalancing") || ip.HasRules()) &&
		c.BoolOr("forvirtualnetwork", true) &&
		!c.Boolean("forsystemvms") &&
		ip.HasTags(c.TagFilter())
}

// addressOwnerKey returns the id of the account whose row associateIpAddress locks.
func addressOwnerKey(c *wire.Call) string {
	if o, err := c.AddressOwner(); err == nil {
		return o.UUID
	}
	return c.Caller.Account.UUID
}

func associateIPAddress(c *wire.Call) (*wire.JobSpec, error) {
	n, v, z := wire.Arg[*store.Network](c, "networkid"), wire.Arg[*store.VPC](c, "vpcid"),
		wire.Arg[*store.Zone](c, "zoneid")
	if v != nil && v.Removed {
		v = nil
	}

	if n != nil && n.Removed {
		return nil, wire.Invalid("Invalid network id is given")
	}

	owner, err := c.AddressOwner()
	if err != nil {
		return nil, err
	}

	if !c.Access(owner) { // CloudStack checks this first for every command that creates an object
		return nil, wire.Denied()
	}

	switch {
	case z != nil:
	case v != nil:
		z = v.Zone
	case n != nil:
		z = n.Zone
	default:
		return nil, wire.Invalid("Unable to figure out zone to assign IP to. Please specify either zoneId, or " +
			"networkId, or vpcId in the call")
	}

	if n == nil && v == nil {
		if n, err = c.OnlyNetwork(owner, z); err != nil {
			return nil, err
		}
	}

	switch {
	case n != nil && n.Typ == store.TypeShared && !n.Offering.AddressServices():
		return nil, wire.Invalid("Associate IP address can only be called on the shared networks in the advanced " +
			"zone with Firewall/Source Nat/Static Nat/Port Forwarding/Load balancing services enabled")
	case n != nil && n.Typ == store.TypeL2:
		return nil, wire.Invalid("Can't acquire IP address for the network of type %s", n.Typ)
	}

	if !z.Enabled && !c.Caller.RootAdmin() {
		return nil, wire.Errf(wire.CodeAccount, wire.CSPermission,
			"Cannot perform this operation, Zone is currently disabled")
	}

	ip, err := takeAddress(c, owner, z)
	if err != nil {
		return nil, err
	}

	stuckAllocating := false
	return &wire.JobSpec{
		ObjectID: ip.UUID, InstanceType: "IpAddress", InstanceID: ip.UUID,
		Run: func(time.Time) (any, error) {
			pending := ip.State == store.IPAllocating || ip.State == store.IPReserved
			if ip.Owner != owner || !pending { // released while the job was pending
				return nil, wire.Errf(wire.CodeInternal, wire.CSRuntime, "Failed to assign ip address")
			}
			if v == nil && n.VPC == nil && n.Owner != owner {
				// The address stays in state Allocating, and list commands do not show it by default.
				stuckAllocating = true
				return nil, wire.Errf(wire.CodeInternal, wire.CSPermission,
					"Unable to use network with id= %s, permission denied", n.UUID)
			}
			return attachAddress(c, ip, n, v)
		},
		Undo: func() {
			if !stuckAllocating && ip.Owner == owner && ip.State == store.IPAllocating {
				c.St.Release(ip)
			}
		},
	}, nil
}

// takeAddress is the create phase: it allocates an address to the owner. An address that the owner has reserved stays
// in state Reserved until the job ends.
func takeAddress(c *wire.Call, owner *store.Account, z *store.Zone) (*store.PublicIP, error) {
	full := wire.Errf(wire.CodeCapacity, wire.CSGeneric, "Insufficient address capacity")
	if c.Boolean("isportable") {
		return nil, full // no region has portable addresses
	}

	ip := c.St.FreeIP(z)
	if want, ok := c.Args["ipaddress"]; ok {
		ip, _ = c.St.AddressNamed(z, want)
	}

	mine := ip != nil && ip.State == store.IPReserved && ip.Owner == owner // already counted
	if ip == nil || ip.State != store.IPFree && !mine || fault.Pick(c.Faults, fault.Capacity) != nil {
		return nil, full
	}

	if !mine { // CloudStack checks the limit after it has found an address
		if err := c.CheckLimit(owner, "publicIPs", 1); err != nil {
			return nil, err
		}
		c.St.TakeIP(ip, owner, c.Now)
	}

	ip.Hidden = c.Has("fordisplay") && !c.Boolean("fordisplay")
	return ip, nil
}

// attachAddress is the job of associateIpAddress. If it fails, the address is released.
func attachAddress(c *wire.Call, ip *store.PublicIP, n *store.Network, v *store.VPC) (any, error) {
	switch {
	case n != nil && n.VPC != nil && v == nil:
		return nil, wire.Invalid("Can't assign ip to the network directly when network belongs to VPC.Specify vpcId " +
			"to associate ip address to VPC")
	case v != nil:
		if v.Removed {
			return nil, wire.Invalid("Invalid VPC id provided")
		}
		ip.SourceNAT = v.Offering.NeedsSourceNAT() && v.SourceNATIP(c.St) == nil
		ip.State, ip.VPC = store.IPAllocated, v
		return wire.Object("ipaddress", viewIP(c, ip)), nil
	case n.Removed:
		return nil, wire.Invalid("Invalid network id is given")
	case !n.Provides("SourceNat"):
		return nil, wire.Invalid("The network id=%d doesn't provide the service SourceNat", n.ID)
	}

	ip.Network = n
	ip.SourceNAT = n.SourceNATIP(c.St) == nil
	ans := wire.Object("ipaddress", viewIP(c, ip)) // before the final state is set, so it shows Allocating
	ip.State = store.IPAllocated
	return ans, nil
}
