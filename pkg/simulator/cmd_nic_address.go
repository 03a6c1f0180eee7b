// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/netip"
	"slices"
	"time"
)

// maxSecondary is vm.network.nic.max.secondary.ipaddresses, the maximum number of secondary addresses of a NIC.
const maxSecondary = 10

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
func addIPToNic(c *call) (*jobSpec, error) {
	n := arg[*nic](c, "nicid")
	want := c.str("ipaddress")
	if want != "" {
		if _, err := netip.ParseAddr(want); err != nil {
			return nil, invalid("Invalid ip address %s", want)
		}
	}
	switch {
	case n == nil || n.removed || n.vm == nil:
		return nil, invalid("There is no NIC with the ID:  %d", c.refs["nicid"].id)
	case n.vm.removed:
		return nil, invalid("There is no VM with the NIC [%s]", n.uuid)
	case !c.access(n.vm.owner):
		return nil, denied()
	case len(n.secondary) >= maxSecondary:
		return nil, invalid("Allocating guest ip for nic failed : Maximum Number of Ips per Nic has been crossed.")
	case n.network.typ == typeL2:
		return nil, errf(codeInternal, csGeneric, "Failed to assign secondary ip to nic")
	}
	ip, ok := c.st.guestIP(n.network, want)
	if !ok {
		return nil, errf(codeInternal, csGeneric, "Failed to assign secondary ip to nic")
	}
	s := &secondaryIP{entity: entity{created: c.now}, ip: ip}
	c.st.addSecondary(n, s)
	spec := &jobSpec{objectID: s.uuid, instanceType: "IpAddress", run: func(time.Time) (any, error) {
		var a secondaryAnswer
		a.IP.ID, a.IP.IPAddress, a.IP.NICID, a.IP.NetworkID = s.uuid, s.ip, n.uuid, n.network.uuid
		return a, nil
	}}
	// CloudStack mistakes the internal id for that of a public address.
	if o, ok := c.st.ips.byID(s.id); ok {
		spec.instanceID = o.uuid
	}
	return spec, nil
}

func removeIPFromNic(c *call) (*jobSpec, error) {
	s := arg[*secondaryIP](c, "id")
	if s == nil {
		return nil, c.badRef("id", c.str("id"))
	}
	return &jobSpec{run: func(time.Time) (any, error) {
		n := s.nic
		switch {
		case s.removed:
			return nil, errf(codeInternal, csGeneric, "Invalid IP id is passed")
		case !c.access(n.vm.owner):
			return nil, denied()
		case n.vm.removed, n.network.typ == typeL2, n.network.typ == typeIsolated && c.st.addressInUse(n, s.ip):
			return nil, invalid("Removing guest ip from nic failed") // CloudStack answers the same text for each of these reasons
		}
		c.st.secondary.drop(s)
		n.secondary = slices.DeleteFunc(n.secondary, func(o *secondaryIP) bool { return o == s })
		return success{true}, nil
	}}, nil
}

// updateVMNicIP changes the address of a stopped VM's NIC; rules that refer to the old address are changed too.
func updateVMNicIP(c *call) (*jobSpec, error) {
	n := arg[*nic](c, "nicid")
	if n == nil {
		return nil, c.badRef("nicid", c.str("nicid"))
	}
	return &jobSpec{run: func(time.Time) (any, error) {
		want := c.str("ipaddress")
		if a, err := netip.ParseAddr(want); want != "" && (err != nil || !a.Is4()) {
			return nil, errf(codeInternal, csGeneric, "Invalid ip address %s", want)
		}
		switch {
		case n.removed || n.vm == nil:
			return nil, invalid("There is no nic for the %d", n.id)
		case n.vm.removed:
			return nil, invalid("There is no vm with the nic")
		case len(n.network.offering.services) > 0 && n.vm.state != vmStopped:
			return nil, invalid("VM is not Stopped, unable to update the vm nic having the specified id")
		case !c.access(n.vm.owner):
			return nil, denied()
		case n.network.typ == typeL2:
			return nil, invalid("UpdateVmNicIpCmd is not supported in L2 network")
		}
		ip, ok := c.st.guestIP(n.network, want)
		if !ok {
			return nil, invalid("Allocating ip to guest nic %s failed, please choose another ip", n.uuid)
		}
		for _, o := range c.st.ips.rows {
			if o.staticVM == n.vm && o.staticIP == n.ip && o.network == n.network {
				o.staticIP = ip
			}
		}
		for _, r := range c.st.pfRules.rows {
			if r.vm == n.vm && r.guestIP == n.ip && r.network == n.network {
				r.guestIP = ip
			}
		}
		for _, r := range c.st.lbRules.rows {
			for _, m := range r.members {
				if m.vm == n.vm && m.ip == n.ip && r.network == n.network {
					m.ip = ip
				}
			}
		}
		n.ip = ip
		return c.nicAnswer(n.vm), nil
	}}, nil
}
