// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"net/netip"
	"slices"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/view"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// nicVM returns the VM of a NIC command. The check runs before the job starts.
func nicVM(c *wire.Call) (*store.VM, error) {
	v := wire.Arg[*store.VM](c, "virtualmachineid")
	switch {
	case v == nil:
		return nil, c.BadRef("virtualmachineid", c.Str("virtualmachineid"))
	case !c.Access(v.Owner):
		return nil, wire.Denied()
	}
	return v, nil
}

func addNic(c *wire.Call) (*wire.JobSpec, error) {
	v, err := nicVM(c)
	if err != nil {
		return nil, err
	}

	n := wire.Arg[*store.Network](c, "networkid")
	spec := powerJob(c, v, func(now time.Time) (any, error) {
		if err := mayConnect(c, v, n); err != nil {
			return nil, err
		}
		row, ok := c.St.Connect(v,
			store.NICRequest{Network: n, IP: c.Str("ipaddress"), MAC: validMAC(c.Str("macaddress"))}, now)
		if !ok {
			return nil, wire.Errf(wire.CodeInternal, wire.CSRuntime, "Insufficient capacity when adding NIC to %s: "+
				"com.cloud.exception.InsufficientVirtualNetworkCapacityException: Unable to acquire Guest IP "+
				"address for network %sScope=interface com.cloud.dc.DataCenter; id=%d", v.Text(), n.Text(),
				n.Zone.ID)
		}
		row.Prepared = false
		if v.State == store.VMRunning {
			c.St.Implement(n, now)
		}
		return nicAnswer(c, v), nil
	})

	return spec, nil
}

// nicAnswer is the result of NIC commands: the VM with its NICs and few other details.
func nicAnswer(c *wire.Call, v *store.VM) any {
	return wire.Object("virtualmachine", view.ViewVM(c, v, view.VMDetails{"nics": true}))
}

// validMAC returns s if it is a valid MAC address, or else "": CloudStack then generates one.
func validMAC(s string) string {
	if checkMAC(s) != nil {
		return ""
	}
	return s
}

// mayConnect runs the checks that addNicToVirtualMachine makes in its job, not before it.
func mayConnect(c *wire.Call, v *store.VM, n *store.Network) error {
	switch {
	case v.Removed:
		return wire.Invalid("unable to find a virtual machine with id %d", v.ID)
	case n == nil || n.Removed:
		return wire.Invalid("unable to find a network with id %d", c.Refs["networkid"].ID)
	}

	if err := networkPermission(v.Owner, n); err != nil {
		return err
	}

	if v.NICIn(n) != nil {
		return wire.Errf(wire.CodeInternal, wire.CSRuntime, "A NIC already exists for VM:%s in network: %s",
			v.InstanceName(), n.UUID)
	}

	if mac := validMAC(c.Str("macaddress")); mac != "" &&
		slices.ContainsFunc(n.Used, func(o *store.NIC) bool { return o.MAC == mac }) {
		return wire.Errf(wire.CodeInternal, wire.CSRuntime, "A NIC with this MAC address exists for network: %s",
			n.UUID)
	}

	if ip := c.Str("ipaddress"); ip != "" {
		if _, err := netip.ParseAddr(ip); err != nil {
			return wire.Invalid("Invalid format for IP address parameter: %s", ip)
		}
	}

	if n.Zone != v.Zone {
		return wire.Errf(wire.CodeInternal, wire.CSRuntime, "%s is in zone:%d but %s is in zone:%d", v.Text(),
			v.Zone.ID, n.Text(), n.Zone.ID)
	}

	if slices.ContainsFunc(n.Used, func(o *store.NIC) bool { return o.VM != v && o.VM != nil && o.VM.Name == v.Name }) {
		return wire.Errf(wire.CodeInternal, wire.CSRuntime, "Network %s already has a vm with host name: %s", n.Name,
			v.Name)
	}

	if v.State != store.VMRunning && v.State != store.VMStopped {
		return wire.Errf(wire.CodeInternal, wire.CSRuntime,
			"Unable to add NIC to %s: com.cloud.exception.ResourceUnavailableException: Resource [DataCenter:%d] is "+
				"unreachable: Unable to add vm %s to network, is not in the right state",
			v.Text(), v.Zone.ID, v.InstanceName())
	}

	return nil
}

func removeNic(c *wire.Call) (*wire.JobSpec, error) {
	v, err := nicVM(c)
	if err != nil {
		return nil, err
	}

	n := wire.Arg[*store.NIC](c, "nicid")
	spec := powerJob(c, v, func(time.Time) (any, error) {
		switch {
		case v.Removed:
			return nil, wire.Invalid("Unable to find a virtual machine with id %d", v.ID)
		case n == nil || n.Removed:
			return nil, wire.Invalid("Unable to find a nic with id %d", c.Refs["nicid"].ID)
		case n.VM != v:
			return nil, wire.Invalid("Nic %s is not a nic on %s", n.UUID, v.Text())
		case n.IsDefault:
			return nil, wire.Invalid("Unable to remove nic from %s in %s, nic is default.", v.Text(), n.Network.Text())
		case nicInUse(c.St, n):
			return nil, wire.Invalid("Unable to remove nic from %s in %s, nic has associated Port forwarding or Load "+
				"balancer or Static NAT rules.", v.Text(), n.Network.Text())
		}
		c.St.DeleteNIC(n)
		return nicAnswer(c, v), nil
	})

	spec.InstanceType, spec.InstanceID = "", ""
	return spec, nil
}

// nicInUse reports whether rules refer to the NIC.
func nicInUse(st *store.State, n *store.NIC) bool {
	if n.StaticNAT != nil {
		return true
	}
	return slices.ContainsFunc(n.Addresses(), func(ip string) bool { return addressInUse(st, n, ip) })
}

// addressInUse reports whether static NAT, a port forwarding rule or a load balancer rule refers to an address of a
// NIC.
func addressInUse(st *store.State, n *store.NIC, ip string) bool {
	for _, o := range st.IPs.Rows {
		if o.StaticVM == n.VM && o.StaticIP == ip && o.Network == n.Network {
			return true
		}
	}
	if slices.ContainsFunc(st.PFRules.Rows, func(r *store.PFRule) bool {
		return r.VM == n.VM && r.GuestIP == ip && r.Network == n.Network
	}) {
		return true
	}
	return slices.ContainsFunc(st.LBRules.Rows, func(r *store.LBRule) bool {
		return r.Network == n.Network &&
			slices.ContainsFunc(r.Members, func(m *store.LBMember) bool { return m.VM == n.VM && m.IP == ip })
	})
}
