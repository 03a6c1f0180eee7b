// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Text formats a VM like CloudStack's exceptions.
func (v *VM) Text() string {
	return fmt.Sprintf(`VM instance {"id":%d,"instanceName":"%s","state":"%s","type":"User","uuid":"%s"}`, v.ID,
		v.InstanceName(), v.State, v.UUID)
}

// leaveRules removes a VM from all load balancer rules. The rules stay Active, as in CloudStack.
func (st *State) leaveRules(v *VM) {
	for _, r := range st.LBRules.Rows {
		r.Members = slices.DeleteFunc(r.Members, func(m *LBMember) bool { return m.VM == v })
	}
}

// Expunge expunges a VM: its row remains, marked as removed, and its addresses become free.
func (st *State) Expunge(v *VM) {
	st.leaveRules(v)
	st.leaveForwards(v)
	v.Removed, v.State, v.Host = true, VMExpunging, nil
	for _, n := range v.NICs {
		n.Network.Used = slices.DeleteFunc(n.Network.Used, func(o *NIC) bool { return o == n })
		st.freeNIC(n)
	}
	v.Tags = nil
}

// DeployFlag is a detail of VMs that have never been started.
const DeployFlag = "deployvm"

// Enter stores a new, never started VM with its NICs. If a network has no free address, Enter returns that network and
// false.
func (st *State) Enter(v *VM, nics []NICRequest, now time.Time) (full *Network, ok bool) {
	for _, r := range nics {
		if _, ok := st.Connect(v, r, now); !ok {
			for _, n := range slices.Clone(v.NICs) {
				st.DeleteNIC(n)
			}
			return r.Network, false
		}
	}
	v.Unplaced = true
	v.setDetail(DeployFlag, "true")
	st.VMs.Add(v)
	return nil, true
}

// ReservedFlag is a detail that CloudStack sets when a VM stops; only root admins see it.
const ReservedFlag = "Message.ReservedCapacityFreed.Flag"

// MarkStopped adds the detail that CloudStack leaves on a stopped VM.
func (v *VM) MarkStopped() {
	v.setDetail(ReservedFlag, "false")
}

func (v *VM) setDetail(key, value string) {
	if v.Details == nil {
		v.Details = map[string]string{}
	}
	v.Details[key] = value
}

// Stopping sets the state while the job of a stop runs.
func (v *VM) Stopping(now time.Time) {
	if v.State == VMRunning {
		v.SaveStats(now)
		v.State, v.Updated = VMStopping, now
	}
}

// SaveStats records that the VM has run long enough for statistics, which remain visible after the VM stops.
func (v *VM) SaveStats(now time.Time) {
	v.Sampled = v.Sampled || v.State == VMRunning && now.Sub(v.Updated) >= StatsInterval
}

// Stopped sets the state of a VM when it has stopped.
func (v *VM) Stopped(now time.Time) {
	v.SaveStats(now)
	v.State, v.Updated, v.BootKnown, v.Host = VMStopped, now, false, nil
	v.MarkStopped()
	for _, n := range v.NICs {
		n.Prepared = false
	}
}

// Boot starts a VM on its host, or on a host that it chooses, and implements its networks. It reports whether a host
// was found.
func (st *State) Boot(v *VM, now time.Time) bool {
	if v.Host == nil {
		h, ok := st.PlaceVM(v)
		if !ok {
			return false
		}
		v.Host = h
	}
	v.State, v.Updated, v.Unplaced = VMRunning, now, false
	delete(v.Details, DeployFlag)
	for _, n := range v.NICs {
		st.Implement(n.Network, now)
		n.Prepared = true
	}
	return true
}

// FailStart sets the state of a VM whose start failed.
func (v *VM) FailStart(state string, now time.Time) {
	if v.State != VMStarting && v.State != VMStopped {
		return
	}
	v.State, v.Updated, v.Host, v.Unplaced = state, now, nil, false
	for _, n := range v.NICs {
		n.Prepared = false
	}
}

// Destroy stops a VM and marks it as destroyed; its addresses stay allocated until it is expunged.
func (st *State) Destroy(v *VM, now time.Time) {
	failed := v.State == VMError
	if v.State != VMStopped && !failed {
		v.Stopped(now)
	}
	v.State, v.Updated, v.Host = VMDestroyed, now, nil
	if failed {
		v.State = VMExpunging
	}
	st.leaveRules(v)
}

// StopInterruptedVMs sets VMs whose start or stop was interrupted to Stopped, like CloudStack. A VM that was being
// deployed keeps its detail deployvm.
func (st *State) StopInterruptedVMs(now time.Time) {
	for _, v := range st.VMs.Rows {
		switch {
		case v.Removed:
		case v.State == VMStarting:
			v.FailStart(VMStopped, now)
		case v.State == VMStopping:
			v.Stopped(now)
		}
	}
}

// StatsInterval is vm.stats.interval. A VM has statistics once it has run for this time, and keeps them while it is
// stopped.
const StatsInterval = time.Minute

// InstanceName returns the VM's name on its host.
func (v *VM) InstanceName() string { return fmt.Sprintf("i-%d-%d-VM", v.Owner.ID, v.ID) }

// RootGiB returns the size of a root volume in GiB, from the VM's details or otherwise from the template.
func RootGiB(details map[string]string) int64 {
	n, err := strconv.ParseInt(details["rootdisksize"], 10, 32)
	if err != nil || n <= 0 {
		return TemplateGiB
	}
	return n
}

// TemplateGiB is the size of every template.
const TemplateGiB = 2

// PlaceVM chooses the host of a VM in its zone. The simulator does not check the capacity of hosts.
func (st *State) PlaceVM(v *VM) (*Host, bool) {
	h := st.HostFor(v.Zone, int(v.ID))
	return h, h != nil
}

// HostFor returns the host for the n-th VM of a zone; it distributes VMs over all hosts.
func (st *State) HostFor(z *Zone, n int) *Host {
	var hosts []*Host
	for _, h := range st.Hosts.Rows {
		if h.Zone == z {
			hosts = append(hosts, h)
		}
	}
	if len(hosts) == 0 {
		return nil
	}
	return hosts[n%len(hosts)]
}

// routed reports whether a virtual router provides a service of the offering.
func (o *NetworkOffering) routed() bool {
	return slices.ContainsFunc(o.Services,
		func(s serviceView) bool { return slices.Contains(s.Provider, NameView{"VirtualRouter"}) })
}

// SystemVM is a VM of CloudStack itself, with a public address: secondary storage VM or console proxy.
type SystemVM struct {
	UUID, Name, Type string
	Zone             *Zone
}

// AddSystemVMs creates the system VMs of a zone.
func (st *State) AddSystemVMs(z *Zone) {
	for _, v := range []struct{ name, typ string }{{"v-%d-VM", "ConsoleProxy"}, {"s-%d-VM", "SecondaryStorageVm"}} {
		name := fmt.Sprintf(v.name, len(st.SystemVMs)+1)
		st.SystemVMs = append(st.SystemVMs,
			&SystemVM{UUID: StableID("systemvm", z.Name+name), Name: name, Type: v.typ, Zone: z})
	}
}

// GuestOSID returns the id of a guest operating system.
func GuestOSID(name string) string { return StableID("guestos", name) }
