// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"slices"
	"time"
)

// enableStaticNAT enables static NAT from an address to a VM. The checks run in CloudStack's order.
func enableStaticNAT(c *call) (any, error) {
	ip, v := arg[*publicIP](c, "ipaddressid"), arg[*vm](c, "virtualmachineid")
	if ip == nil {
		return nil, c.badRef("ipaddressid", c.str("ipaddressid"))
	}
	n := ip.network
	if n == nil {
		n = arg[*network](c, "networkid")
	}
	if n == nil {
		return nil, invalid("Unable to enable static NAT for the ipAddress id=%d as IP is not associated with any network and no networkId is passed in", ip.id)
	}
	guest, err := c.staticTarget(ip, v, n)
	if err != nil {
		return nil, err
	}
	sourceNAT := ip.sourceNAT && ip.network != nil // bind ends this role of a VPC address
	if err := c.staticReady(ip, v, guest, sourceNAT); err != nil {
		return nil, err
	}
	ip.bind(n)
	ip.staticVM, ip.staticIP = v, guest
	v.nicIn(n).staticNAT = ip
	return success{true}, nil
}

// staticTarget checks the VM and the network. It returns the guest address to which the public address is mapped.
func (c *call) staticTarget(ip *publicIP, v *vm, n *network) (string, error) {
	var card *nic
	if v != nil && !v.removed {
		card = v.nicIn(n)
	}
	switch {
	case card == nil:
		return "", invalid("Vm doesn't belong to the network with specified id")
	case !n.provides("StaticNat"):
		return "", invalid("Unable to create static nat rule; StaticNat service is not supported in network with specified id")
	case ip.network == nil && (ip.vpc == nil || ip.vpc != n.vpc):
		return "", invalid("Ip address %s is not assigned to the network %s", ip.text(), n.text())
	case ip.owner == nil || ip.state != ipAllocated:
		return "", invalid("Unable to create ip forwarding rule on address %s, invalid IP address specified.", ip.text())
	case v.gone():
		return "", invalid("Invalid user vm: %d", v.id)
	case !c.access(ip.owner) || !c.access(v.owner):
		return "", denied()
	case ip.owner != v.owner:
		return "", invalid("Unable to create ip forwarding rule, IP address %s owner is not the same as owner of virtual machine %s", ip.text(), v.text())
	}
	if err := c.usable(ip, n, "StaticNat"); err != nil {
		return "", err
	}
	want := c.str("vmguestip")
	if want == "" || want == card.ip {
		return card.ip, nil
	}
	if !slices.ContainsFunc(card.secondary, func(s *secondaryIP) bool { return s.ip == want }) {
		return "", invalid("VM ip %s address not belongs to the vm", want)
	}
	return want, nil
}

// text formats a VM like CloudStack's exceptions.
func (v *vm) text() string {
	return fmt.Sprintf(`VM instance {"id":%d,"instanceName":"%s","state":"%s","type":"User","uuid":"%s"}`, v.id, v.instanceName(), v.state, v.uuid)
}

// staticReady checks that neither the public address nor the VM's address is in use.
func (c *call) staticReady(ip *publicIP, v *vm, guest string, sourceNAT bool) error {
	conflict := func(format string, args ...any) error { return errf(codeConflict, csGeneric, format, args...) }
	switch {
	case sourceNAT:
		return invalid("Can't enable static, ip address %s is a sourceNat ip address", ip.text())
	case ip.staticVM == nil && len(ip.pfRules) > 0:
		return conflict("Failed to enable static nat for the ip address %s as it already has PortForwarding rules assigned", ip.text())
	case ip.staticVM == nil && len(ip.lbRules) > 0:
		return conflict("Failed to enable static nat for the ip address %s as it already has LoadBalancing rules assigned", ip.text())
	case ip.staticVM != nil && ip.staticVM != v:
		return conflict("Failed to enable static for the ip address %s and vm id=%d as it's already assigned to antoher vm", ip.text(), v.id)
	}
	old, taken := c.st.ips.find(func(o *publicIP) bool { return o.staticVM == v && o.staticIP == guest })
	if taken {
		return invalid("Failed to enable static nat on the  ip %s with Id %s as the vm %s with Id %s is already associated with another public ip %s with id %s",
			ip.addr, ip.uuid, v.instanceName(), v.uuid, old.addr, old.uuid)
	}
	return nil
}

func disableStaticNAT(c *call) (*jobSpec, error) {
	ip := arg[*publicIP](c, "ipaddressid")
	if ip == nil {
		return nil, c.badRef("ipaddressid", c.str("ipaddressid"))
	}
	if ip.owner == nil {
		return nil, c.internal(csRuntime, ownerlessText)
	}
	return &jobSpec{run: func(time.Time) (any, error) {
		switch {
		case ip.owner == nil:
			return nil, invalid("Unable to create ip forwarding rule on address %s, invalid IP address specified.", ip.text())
		case !c.access(ip.owner):
			return nil, denied()
		case ip.system:
			return nil, invalid("Can't disable static nat for system IP address with specified id")
		case ip.staticVM == nil:
			return nil, invalid("Specified IP address id is not associated with any vm Id")
		}
		for _, r := range slices.Clone(ip.fwRules) {
			c.st.dropFWRule(r)
		}
		c.st.endStaticNAT(ip)
		return success{true}, nil
	}}, nil
}
