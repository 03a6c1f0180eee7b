// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"net"
	"net/netip"
	"strings"

	"github.com/google/uuid"
)

// deployNetworks reads the networks of the VM. The default is the owner's only network, which is created if there is
// none.
func (c *call) deployNetworks(d *deployment) error {
	if c.has("securitygroupids") && c.str("securitygroupids") != "" {
		return invalid("Can't create vm with security groups; security group feature is not enabled per zone")
	}
	if !c.access(d.owner) {
		return denied()
	}
	list := c.maps["iptonetworklist"]
	if len(list) > 0 && (c.str("networkids") != "" || c.has("ipaddress") || c.has("ip6address")) {
		return invalid("ipToNetworkMap can't be specified along with networkIds or ipAddress")
	}
	for _, e := range list {
		n, ok := c.networkByAnyID(e["networkid"])
		if !ok {
			return invalid("Unable to translate and find entity with networkId: %s", e["networkid"])
		}
		if err := checkMAC(e["mac"]); err != nil {
			return err
		}
		d.nics = append(d.nics, nicRequest{network: n, ip: e["ip"], ip6: e["ipv6"], mac: e["mac"]})
	}
	for _, r := range c.lists["networkids"] {
		n, ok := r.obj.(*network)
		if !ok || n.removed {
			return invalid("Unable to find network by id %d", c.lists["networkids"][0].id)
		}
		d.nics = append(d.nics, nicRequest{network: n})
	}
	if len(d.nics) == 0 {
		n, err := c.defaultNetwork(d.owner, d.zone, d.createNetwork)
		if err != nil {
			return err
		}
		d.nics = append(d.nics, nicRequest{network: n})
	}
	for _, r := range d.nics {
		if err := networkPermission(d.owner, r.network); err != nil {
			return err
		}
	}
	if len(list) == 0 {
		if err := checkMAC(c.str("macaddress")); err != nil {
			return err
		}
		d.nics[0].ip, d.nics[0].ip6, d.nics[0].mac = c.str("ipaddress"), c.str("ip6address"), c.str("macaddress")
	}
	return nil
}

func (c *call) networkByAnyID(id string) (*network, bool) {
	n, ok := c.st.networks.get(id)
	return n, ok && !n.removed
}

func checkMAC(mac string) error {
	if mac == "" {
		return nil
	}
	hw, err := net.ParseMAC(mac)
	switch {
	case err != nil || len(hw) != 6:
		return invalid("Mac address is not valid: %s", mac)
	case hw[0]&1 != 0:
		return invalid("Mac address is not unicast: %s", mac)
	}
	return nil
}

// networkPermission refuses accounts that may not connect VMs to the network.
func networkPermission(owner *account, n *network) error {
	switch {
	case n.owner == nil && (n.domain == owner.domain || n.subdomains && owner.domain.within(n.domain)):
		return nil
	case n.owner == nil:
		return errf(codeAccount, csPermission, "Shared network id=%s is not available in domain id=%s", n.uuid, owner.domain.uuid)
	case n.owner == owner, n.owner.project != nil && owner.project == nil && n.owner.project.find(owner, nil) != nil:
		return nil
	}
	return errf(codeAccount, csPermission, "Unable to use network with id= %s, permission denied", n.uuid)
}

func (c *call) deployAddresses(d *deployment) error {
	for _, r := range d.nics {
		if r.network.zone != d.zone {
			return invalid("Network id=%d doesn't belong to zone %d", r.network.id, d.zone.id)
		}
		if r.ip != "" {
			if a, err := netip.ParseAddr(r.ip); err != nil || !a.Is4() {
				return invalid("Invalid specified IPv4 address %s", r.ip)
			}
		}
	}
	first := d.nics[0].network
	if first.provides("UserData") {
		return nil
	}
	switch {
	case d.userdata != "":
		return invalid("Unable to deploy VM as UserData is provided while deploying the VM, but there is no support for UserData service in the default network %s/%s.", first.name, first.uuid)
	case len(d.keypairs) > 0:
		return invalid("Unable to deploy VM as SSH keypair is provided while deploying the VM, but there is no support for UserData service in the default network %s/%s", first.name, first.uuid)
	}
	return nil
}

// deployName sets the host name. The default contains the new id.
func (c *call) deployName(d *deployment) error {
	d.uuid = uuid.NewString()
	if id := c.str("customid"); id != "" && c.caller.rootAdmin() {
		parsed, err := uuid.Parse(id)
		if err != nil || len(id) != 36 {
			return invalid("UUID: %s doesn't follow the UUID format", id)
		}
		if _, taken := c.st.vms.get(id); taken {
			return c.internal(csRuntime, "UUID: %s already exists so can't create with custom id", id)
		}
		d.uuid = parsed.String()
	}
	d.name = cmp.Or(c.str("name"), "VM-"+d.uuid)
	var nets []*network
	for _, r := range d.nics {
		nets = append(nets, r.network)
	}
	return c.st.uniqueHostName(d.name, nets, nil)
}

// uniqueHostName refuses a host name that a VM in one of the networks, or in another tier of the same VPC, already
// has.
func (st *state) uniqueHostName(name string, nets []*network, self *vm) error {
	for _, n := range nets {
		group := []*network{n}
		if n.vpc != nil {
			for _, o := range st.networks.rows {
				if o != n && o.vpc == n.vpc && !o.removed {
					group = append(group, o)
				}
			}
		}
		for _, o := range group {
			for _, used := range o.used {
				if used.vm != nil && used.vm != self && strings.EqualFold(used.vm.name, name) {
					return invalid("The vm with hostName %s already exists in the network domain: %s; network=%s", name, o.domainName, o.name)
				}
			}
		}
	}
	return nil
}

// defaultNetwork returns the network of a VM for which the call specifies none.
func (c *call) defaultNetwork(owner *account, z *zone, create networkCreator) (*network, error) {
	var own []*network
	for _, n := range c.st.networks.rows {
		if n.owner == owner && n.zone == z && n.typ == typeIsolated && !n.removed {
			own = append(own, n)
		}
	}
	switch len(own) {
	case 0:
		return c.makeDefaultNetwork(owner, z, create)
	case 1:
		return own[0], nil
	}
	return nil, invalid("More than 1 default Isolated networks are found for account %s; please specify networkIds", accountText(owner))
}

// makeDefaultNetwork creates the network of an account that has none, from the offering with availability Required.
func (c *call) makeDefaultNetwork(owner *account, z *zone, create networkCreator) (*network, error) {
	o, ok := c.st.netOffs.find(func(o *networkOffering) bool { return o.spec.Availability == "Required" && o.spec.State == "Enabled" })
	if !ok {
		return nil, invalid("Unable to find network offering with availability=Required to automatically create the network as a part of vm creation")
	}
	name := owner.name + "-network"
	return create(c, owner, z, o, name, name)
}
