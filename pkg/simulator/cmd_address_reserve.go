// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import "time"

// updateIPAddress changes what only root admins can change: the visibility of the address to users, and its id.
func updateIPAddress(c *call) (*jobSpec, error) {
	ip := arg[*publicIP](c, "id")
	if ip == nil {
		return nil, c.badRef("id", c.str("id"))
	}
	return &jobSpec{instanceType: "IpAddress", instanceID: ip.uuid, run: func(time.Time) (any, error) {
		switch {
		case ip.owner != nil && !c.access(ip.owner):
			return nil, denied()
		case ip.owner == nil && !c.caller.rootAdmin():
			return nil, errf(codeAccount, csPermission, "Only Root admin can update non-allocated ip addresses")
		}
		setDisplay(c, c.st.ips, ip, &ip.hidden)
		return ipAnswer{c.viewIP(ip)}, nil
	}}, nil
}

// reserveIPAddress reserves a free address for an owner, who allocates it later.
func reserveIPAddress(c *call) (any, error) {
	ip := arg[*publicIP](c, "id")
	if ip == nil {
		return nil, c.badRef("id", c.str("id"))
	}
	owner, err := c.ownerToUse()
	switch {
	case err != nil:
		return nil, err
	case ip.state == ipReserved && ip.owner == owner:
		return ipAnswer{c.viewIP(ip)}, nil
	case ip.state == ipReserved:
		return nil, invalid("Unable to reserve a IP because it has already been reserved for another account.")
	case ip.state != ipFree:
		return nil, invalid("Unable to reserve a IP in %s state.", ip.state)
	}
	if err := c.checkLimit(owner, "publicIPs", 1); err != nil {
		return nil, err
	}
	c.st.takeIP(ip, owner, c.now)
	ip.state = ipReserved
	if b := c.optBool("fordisplay"); b != nil {
		ip.hidden = !*b
	}
	return ipAnswer{c.viewIP(ip)}, nil
}

// releaseIPAddress releases a reserved address. Only disassociateIpAddress releases an address that is in use.
func releaseIPAddress(c *call) (any, error) {
	ip := arg[*publicIP](c, "id")
	switch {
	case ip == nil:
		return nil, c.badRef("id", c.str("id"))
	case ip.state == ipAllocated:
		return nil, invalid("Unable to release a public IP in Allocated state, please use disassociateIpAddress instead")
	case ip.owner == nil: // nothing to do
		return success{true}, nil
	case !c.access(ip.owner):
		return nil, denied()
	}
	c.st.release(ip)
	return success{true}, nil
}
