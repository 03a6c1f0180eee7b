// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"net/netip"
	"slices"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// MaxSecondary is vm.network.nic.max.secondary.ipaddresses, the maximum number of secondary addresses of a NIC.
const MaxSecondary = 10

// secondaryAnswer is the result of addIpToNic.
type secondaryAnswer struct {
	IP struct {
		ID        string `json:"id"`
		IPAddress string `json:"ipaddress"`
		NICID     string `json:"nicid"`
		NetworkID string `json:"networkid"`
		VMID      string `json:"virtualmachineid,omitempty"`
	} `json:"nicsecondaryip"`
}

// addIPToNic allocates the address in the create phase; the job only returns it.
func addIPToNic(c *wire.Call) (*wire.JobSpec, error) {
	n := wire.Arg[*store.NIC](c, "nicid")
	want := c.Str("ipaddress")
	if want != "" {
		if _, err := netip.ParseAddr(want); err != nil {
			return nil, wire.Invalid("Invalid ip address %s", want)
		}
	}
	switch {
	case n == nil || n.Removed || n.VM == nil:
		return nil, wire.Invalid("There is no NIC with the ID:  %d", c.Refs["nicid"].ID)
	case n.VM.Removed:
		return nil, wire.Invalid("There is no VM with the NIC [%s]", n.UUID)
	case !c.Access(n.VM.Owner):
		return nil, wire.Denied()
	case len(n.Secondary) >= MaxSecondary:
		return nil, wire.Invalid("Allocating guest ip for nic failed : Maximum Number of Ips per Nic has been crossed.")
	case n.Network.Typ == store.TypeL2:
		return nil, wire.Errf(wire.CodeInternal, wire.CSGeneric, "Failed to assign secondary ip to nic")
	}
	ip, ok := c.St.GuestIP(n.Network, want)
	if !ok {
		return nil, wire.Errf(wire.CodeInternal, wire.CSGeneric, "Failed to assign secondary ip to nic")
	}
	s := &store.SecondaryIP{Entity: store.Entity{Created: c.Now}, IP: ip}
	c.St.AddSecondary(n, s)
	spec := &wire.JobSpec{ObjectID: s.UUID, InstanceType: "IpAddress", Run: func(time.Time) (any, error) {
		var a secondaryAnswer
		a.IP.ID, a.IP.IPAddress, a.IP.NICID, a.IP.NetworkID = s.UUID, s.IP, n.UUID, n.Network.UUID
		return a, nil
	}}
	// CloudStack mistakes the internal id for that of a public address.
	if o, ok := c.St.IPs.ByID(s.ID); ok {
		spec.InstanceID = o.UUID
	}
	return spec, nil
}

func removeIPFromNic(c *wire.Call) (*wire.JobSpec, error) {
	s := wire.Arg[*store.SecondaryIP](c, "id")
	if s == nil {
		return nil, c.BadRef("id", c.Str("id"))
	}
	return &wire.JobSpec{Run: func(time.Time) (any, error) {
		n := s.NIC
		switch {
		case s.Removed:
			return nil, wire.Errf(wire.CodeInternal, wire.CSGeneric, "Invalid IP id is passed")
		case !c.Access(n.VM.Owner):
			return nil, wire.Denied()
		case n.VM.Removed, n.Network.Typ == store.TypeL2, n.Network.Typ == store.TypeIsolated && addressInUse(c.St, n, s.IP):
			return nil, wire.Invalid("Removing guest ip from nic failed") // CloudStack answers the same text for each of these reasons
		}
		c.St.Secondary.Drop(s)
		n.Secondary = slices.DeleteFunc(n.Secondary, func(o *store.SecondaryIP) bool { return o == s })
		return wire.Success{Success: true}, nil
	}}, nil
}
