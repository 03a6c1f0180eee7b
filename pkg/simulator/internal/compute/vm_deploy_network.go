// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"cmp"
	"net"
	"net/netip"
	"strings"

	"github.com/google/uuid"

	"github.com/csccm/csccm/pkg/simulator/internal/network"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// deployNetworks reads the networks of the VM. The default is the owner's only network, which is created if there is
// none.
func deployNetworks(c *wire.Call, d *deployment) error {
	if !c.Access(d.owner) {
		return wire.Denied()
	}

	list := c.Maps["iptonetworklist"]
	if len(list) > 0 && (c.Str("networkids") != "" || c.Has("ipaddress")) {
		return wire.Invalid("ipToNetworkMap can't be specified along with networkIds or ipAddress")
	}

	for _, e := range list {
		n, ok := networkByAnyID(c, e["networkid"])
		if !ok {
			return wire.Invalid("Unable to translate and find entity with networkId: %s", e["networkid"])
		}
		if err := checkMAC(e["mac"]); err != nil {
			return err
		}
		d.nics = append(d.nics, store.NICRequest{Network: n, IP: e["ip"], IP6: e["ipv6"], MAC: e["mac"]})
	}

	for _, r := range c.Lists["networkids"] {
		n, ok := r.Obj.(*store.Network)
		if !ok || n.Removed {
			return wire.Invalid("Unable to find network by id %d", c.Lists["networkids"][0].ID)
		}
		d.nics = append(d.nics, store.NICRequest{Network: n})
	}

	if len(d.nics) == 0 {
		n, err := defaultNetwork(c, d.owner, d.zone)
		if err != nil {
			return err
		}
		d.nics = append(d.nics, store.NICRequest{Network: n})
	}

	for _, r := range d.nics {
		if err := networkPermission(d.owner, r.Network); err != nil {
			return err
		}
	}

	if len(list) == 0 {
		d.nics[0].IP = c.Str("ipaddress")
	}

	return nil
}

func networkByAnyID(c *wire.Call, id string) (*store.Network, bool) {
	n, ok := c.St.Networks.Get(id)
	return n, ok && !n.Removed
}

func checkMAC(mac string) error {
	if mac == "" {
		return nil
	}
	hw, err := net.ParseMAC(mac)
	switch {
	case err != nil || len(hw) != 6:
		return wire.Invalid("Mac address is not valid: %s", mac)
	case hw[0]&1 != 0:
		return wire.Invalid("Mac address is not unicast: %s", mac)
	}
	return nil
}

// networkPermission refuses accounts that may not connect VMs to the network.
func networkPermission(owner *store.Account, n *store.Network) error {
	switch {
	case n.Owner == nil && (n.Domain == owner.Domain || n.Subdomains && owner.Domain.Within(n.Domain)):
		return nil
	case n.Owner == nil:
		return wire.Errf(wire.CodeAccount, wire.CSPermission, "Shared network id=%s is not available in domain id=%s",
			n.UUID, owner.Domain.UUID)
	case n.Owner == owner, n.Owner.Project != nil && owner.Project == nil && n.Owner.Project.Find(owner, nil) != nil:
		return nil
	}
	return wire.Errf(wire.CodeAccount, wire.CSPermission, "Unable to use network with id= %s, permission denied",
		n.UUID)
}

func deployAddresses(c *wire.Call, d *deployment) error {
	for _, r := range d.nics {
		if r.Network.Zone != d.zone {
			return wire.Invalid("Network id=%d doesn't belong to zone %d", r.Network.ID, d.zone.ID)
		}
		if r.IP != "" {
			if a, err := netip.ParseAddr(r.IP); err != nil || !a.Is4() {
				return wire.Invalid("Invalid specified IPv4 address %s", r.IP)
			}
		}
	}
	return nil
}

// deployName sets the host name. The default contains the new id.
func deployName(c *wire.Call, d *deployment) error {
	d.uuid = uuid.NewString()
	d.name = cmp.Or(c.Str("name"), "VM-"+d.uuid)
	var nets []*store.Network
	for _, r := range d.nics {
		nets = append(nets, r.Network)
	}
	return uniqueHostName(c.St, d.name, nets)
}

// uniqueHostName refuses a host name that a VM in one of the networks, or in another tier of the same VPC, already
// has.
func uniqueHostName(st *store.State, name string, nets []*store.Network) error {
	for _, n := range nets {
		group := []*store.Network{n}
		if n.VPC != nil {
			for _, o := range st.Networks.Rows {
				if o != n && o.VPC == n.VPC && !o.Removed {
					group = append(group, o)
				}
			}
		}
		for _, o := range group {
			for _, used := range o.Used {
				if used.VM != nil && strings.EqualFold(used.VM.Name, name) {
					return wire.Invalid("The vm with hostName %s already exists in the network domain: %s; network=%s",
						name, o.DomainName, o.Name)
				}
			}
		}
	}

	return nil
}

// defaultNetwork returns the network of a VM for which the call specifies none.
func defaultNetwork(c *wire.Call, owner *store.Account, z *store.Zone) (*store.Network, error) {
	var own []*store.Network
	for _, n := range c.St.Networks.Rows {
		if n.Owner == owner && n.Zone == z && n.Typ == store.TypeIsolated && !n.Removed {
			own = append(own, n)
		}
	}
	switch len(own) {
	case 0:
		return makeDefaultNetwork(c, owner, z)
	case 1:
		return own[0], nil
	}
	return nil, wire.Invalid("More than 1 default Isolated networks are found for account %s; please specify "+
		"networkIds", store.AccountText(owner))
}

// makeDefaultNetwork creates the network of an account that has none, from the offering with availability Required.
func makeDefaultNetwork(c *wire.Call, owner *store.Account, z *store.Zone) (*store.Network, error) {
	o, ok := c.St.NetOffs.Find(func(o *store.NetworkOffering) bool {
		return o.Spec.Availability == "Required" && o.Spec.State == "Enabled"
	})
	if !ok {
		return nil, wire.Invalid("Unable to find network offering with availability=Required to automatically create " +
			"the network as a part of vm creation")
	}
	name := owner.Name + "-network"
	return network.CreateIsolated(c, owner, z, o, name, name)
}
