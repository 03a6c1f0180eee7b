// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/netip"
	"slices"
	"time"
)

// listedNIC is a NIC as listNics shows it.
type listedNIC struct {
	nicView
	SecondaryIPs []secondaryView `json:"secondaryip,omitempty"` // omitted if there is none, unlike in a VM
	VMID         string          `json:"virtualmachineid"`
}

func listNics(c *call) (any, error) {
	v := arg[*vm](c, "virtualmachineid")
	switch {
	case v == nil || v.removed || v.hidden && c.caller.account.normal():
		return nil, invalid("Virtual machine id does not exist")
	case !c.access(v.owner):
		return nil, denied()
	}
	var out []*nic
	for _, n := range v.nics {
		if c.given("nicid") && !matches(c, "nicid", n) || c.given("networkid") && !matches(c, "networkid", n.network) {
			continue
		}
		if k := c.str("keyword"); k != "" && !slices.ContainsFunc(n.addresses(), func(ip string) bool { return like(ip, k) }) {
			continue
		}
		out = append(out, n)
	}
	return whole("nic", out, func(n *nic) listedNIC {
		view := viewNIC(n, v.placed())
		return listedNIC{nicView: view, SecondaryIPs: view.SecondaryIPs, VMID: v.uuid}
	}), nil
}

// nicVM returns the VM of a NIC command. The check runs before the job starts.
func (c *call) nicVM() (*vm, error) {
	v := arg[*vm](c, "virtualmachineid")
	switch {
	case v == nil:
		return nil, c.badRef("virtualmachineid", c.str("virtualmachineid"))
	case !c.access(v.owner):
		return nil, denied()
	}
	return v, nil
}

func addNic(c *call) (*jobSpec, error) {
	v, err := c.nicVM()
	if err != nil {
		return nil, err
	}
	n := arg[*network](c, "networkid")
	spec := c.powerJob(v, func(now time.Time) (any, error) {
		if err := c.mayConnect(v, n); err != nil {
			return nil, err
		}
		row, ok := c.st.connect(v, nicRequest{network: n, ip: c.str("ipaddress"), mac: validMAC(c.str("macaddress"))}, now)
		if !ok {
			return nil, errf(codeInternal, csRuntime, "Insufficient capacity when adding NIC to %s: com.cloud.exception.InsufficientVirtualNetworkCapacityException: "+
				"Unable to acquire Guest IP address for network %sScope=interface com.cloud.dc.DataCenter; id=%d", v.text(), n.text(), n.zone.id)
		}
		row.prepared = false
		if v.state == vmRunning {
			c.st.implement(n, now)
		}
		return c.nicAnswer(v), nil
	})
	return spec, nil
}

// nicAnswer is the result of NIC commands: the VM with its NICs and few other details.
func (c *call) nicAnswer(v *vm) vmAnswer {
	return vmAnswer{c.viewVM(v, vmDetails{"nics": true})}
}

// validMAC returns s if it is a valid MAC address, or else "": CloudStack then generates one.
func validMAC(s string) string {
	if checkMAC(s) != nil {
		return ""
	}
	return s
}

// mayConnect runs the checks that addNicToVirtualMachine makes in its job.
func (c *call) mayConnect(v *vm, n *network) error {
	switch {
	case v.removed:
		return invalid("unable to find a virtual machine with id %d", v.id)
	case n == nil || n.removed:
		return invalid("unable to find a network with id %d", c.refs["networkid"].id)
	}
	if err := networkPermission(v.owner, n); err != nil {
		return err
	}
	if v.nicIn(n) != nil {
		return errf(codeInternal, csRuntime, "A NIC already exists for VM:%s in network: %s", v.instanceName(), n.uuid)
	}
	if mac := validMAC(c.str("macaddress")); mac != "" && slices.ContainsFunc(n.used, func(o *nic) bool { return o.mac == mac }) {
		return errf(codeInternal, csRuntime, "A NIC with this MAC address exists for network: %s", n.uuid)
	}
	if ip := c.str("ipaddress"); ip != "" {
		if _, err := netip.ParseAddr(ip); err != nil {
			return invalid("Invalid format for IP address parameter: %s", ip)
		}
	}
	if n.zone != v.zone {
		return errf(codeInternal, csRuntime, "%s is in zone:%d but %s is in zone:%d", v.text(), v.zone.id, n.text(), n.zone.id)
	}
	if slices.ContainsFunc(n.used, func(o *nic) bool { return o.vm != v && o.vm != nil && o.vm.name == v.name }) {
		return errf(codeInternal, csRuntime, "Network %s already has a vm with host name: %s", n.name, v.name)
	}
	if v.state != vmRunning && v.state != vmStopped {
		return errf(codeInternal, csRuntime, "Unable to add NIC to %s: com.cloud.exception.ResourceUnavailableException: Resource [DataCenter:%d] is unreachable: "+
			"Unable to add vm %s to network, is not in the right state", v.text(), v.zone.id, v.instanceName())
	}
	return nil
}

func removeNic(c *call) (*jobSpec, error) {
	v, err := c.nicVM()
	if err != nil {
		return nil, err
	}
	n := arg[*nic](c, "nicid")
	spec := c.powerJob(v, func(time.Time) (any, error) {
		switch {
		case v.removed:
			return nil, invalid("Unable to find a virtual machine with id %d", v.id)
		case n == nil || n.removed:
			return nil, invalid("Unable to find a nic with id %d", c.refs["nicid"].id)
		case n.vm != v:
			return nil, invalid("Nic %s is not a nic on %s", n.uuid, v.text())
		case n.isDefault:
			return nil, invalid("Unable to remove nic from %s in %s, nic is default.", v.text(), n.network.text())
		case c.st.nicInUse(n):
			return nil, invalid("Unable to remove nic from %s in %s, nic has associated Port forwarding or Load balancer or Static NAT rules.", v.text(), n.network.text())
		}
		c.st.dropNIC(n)
		return c.nicAnswer(v), nil
	})
	spec.instanceType, spec.instanceID = "", ""
	return spec, nil
}

// nicInUse reports whether rules refer to the NIC.
func (st *state) nicInUse(n *nic) bool {
	if n.staticNAT != nil {
		return true
	}
	return slices.ContainsFunc(n.addresses(), func(ip string) bool { return st.addressInUse(n, ip) })
}

// addressInUse reports whether static NAT, a port forwarding rule or a load balancer rule refers to an address of a
// NIC.
func (st *state) addressInUse(n *nic, ip string) bool {
	for _, o := range st.ips.rows {
		if o.staticVM == n.vm && o.staticIP == ip && o.network == n.network {
			return true
		}
	}
	if slices.ContainsFunc(st.pfRules.rows, func(r *pfRule) bool { return r.vm == n.vm && r.guestIP == ip && r.network == n.network }) {
		return true
	}
	return slices.ContainsFunc(st.lbRules.rows, func(r *lbRule) bool {
		return r.network == n.network && slices.ContainsFunc(r.members, func(m *lbMember) bool { return m.vm == n.vm && m.ip == ip })
	})
}

func updateDefaultNic(c *call) (*jobSpec, error) {
	v, err := c.nicVM()
	if err != nil {
		return nil, err
	}
	n := arg[*nic](c, "nicid")
	spec := c.powerJob(v, func(time.Time) (any, error) {
		switch {
		case v.removed:
			return nil, invalid("unable to find a virtual machine with id %d", v.id)
		case n == nil || n.removed:
			return nil, invalid("unable to find a nic with id %d", c.refs["nicid"].id)
		case n.vm != v:
			return nil, invalid("Nic %s is not a nic on  %s", n.uuid, v.text())
		case n.isDefault:
			return nil, errf(codeInternal, csRuntime, "refusing to set default nic because chosen nic is already the default")
		case v.state != vmRunning && v.state != vmStopped:
			return nil, errf(codeInternal, csRuntime, "refusing to set default %s is not Running or Stopped", v.text())
		}
		// The two NICs also swap their device numbers, because the default NIC is device 0.
		for _, o := range v.nics {
			if o.isDefault {
				o.isDefault = false
				o.device, n.device = n.device, o.device
			}
		}
		n.isDefault = true
		slices.SortFunc(v.nics, func(a, b *nic) int { return a.device - b.device })
		return c.nicAnswer(v), nil
	})
	spec.instanceType, spec.instanceID = "", ""
	return spec, nil
}
