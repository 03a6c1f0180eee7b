// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"time"
)

// powerJob returns a job on a VM. Jobs on the same VM run one after the other.
func (c *call) powerJob(v *vm, run func(now time.Time) (any, error)) *jobSpec {
	spec := &jobSpec{instanceType: "VirtualMachine", instanceID: v.uuid, subject: v, run: run}
	if j := c.st.lastJobOn(v); j != nil {
		spec.after = j.ends.Add(c.server.latency.job(c.api.Name))
	}
	return spec
}

// lastJobOn returns the pending job on the subject that ends last.
func (st *state) lastJobOn(subject any) *job {
	var last *job
	for _, j := range st.due {
		if j.subject == subject && (last == nil || !j.ends.Before(last.ends)) {
			last = j
		}
	}
	return last
}

// reservedFlag is a detail that CloudStack sets when a VM stops; only root admins see it.
const reservedFlag = "Message.ReservedCapacityFreed.Flag"

func (v *vm) markStopped() {
	v.setDetail(reservedFlag, "false")
}

func (v *vm) setDetail(key, value string) {
	if v.details == nil {
		v.details = map[string]string{}
	}
	v.details[key] = value
}

// starting and stopping set the state that lists show while such a job runs.
func (st *state) starting(v *vm) func(time.Time) {
	return func(now time.Time) {
		if v.state == vmStopped {
			v.state, v.updated = vmStarting, now
			v.host, _ = st.placeVM(v)
		}
	}
}

func (v *vm) stopping(now time.Time) {
	if v.state == vmRunning {
		v.keepStats(now)
		v.state, v.updated = vmStopping, now
	}
}

// keepStats records that the VM has run long enough for statistics, which remain visible after the VM stops.
func (v *vm) keepStats(now time.Time) {
	v.sampled = v.sampled || v.state == vmRunning && now.Sub(v.updated) >= statsInterval
}

// stopped sets the state of a VM when it has stopped.
func (v *vm) stopped(now time.Time) {
	v.keepStats(now)
	v.state, v.updated, v.bootKnown, v.host = vmStopped, now, false, nil
	v.markStopped()
	for _, n := range v.nics {
		n.prepared = false
	}
}

func startVirtualMachine(c *call) (*jobSpec, error) {
	v, err := c.targetVM()
	if err != nil {
		return nil, err
	}
	// CloudStack makes the first checks when the job starts, which is immediately.
	running := v.state == vmRunning
	spec := c.powerJob(v, func(now time.Time) (any, error) {
		switch {
		case running:
			return nil, invalid("The virtual machine %s (%s) is already running", v.uuid, v.display)
		case v.owner.state == stateDisabled:
			return nil, errf(codeAccount, csPermission, "The owner of %s is disabled: %d", v.text(), v.owner.id)
		}
		if err := c.placeOn(v); err != nil {
			return nil, err
		}
		return c.finishStart(v, now)
	})
	spec.begin = c.st.starting(v)
	spec.undo = func() { v.failStart(vmStopped, c.server.clock.Now()) }
	return spec, nil
}

// placeOn places the VM on the host that an admin chose.
func (c *call) placeOn(v *vm) error {
	h := arg[*host](c, "hostid")
	for _, p := range []string{"podid", "clusterid", "hostid"} {
		if c.given(p) && !c.caller.rootAdmin() {
			return errf(codeAccount, csPermission, "Parameter %s can only be specified by a Root Admin, permission denied", p)
		}
	}
	if h != nil && (v.state == vmStarting || v.state == vmStopped) {
		v.host = h
	}
	return nil
}

// finishStart ends a start.
func (c *call) finishStart(v *vm, now time.Time) (any, error) {
	switch v.state {
	case vmRunning:
	case vmStopped, vmStarting:
		if !c.st.boot(v, now) {
			return nil, noHost(v)
		}
	default:
		return nil, errf(codeInternal, csRuntime, `Unable to orchestrate the start of VM instance {"instanceName":"%s","uuid":"%s"}.`, v.instanceName(), v.uuid)
	}
	return vmAnswer{c.viewVM(v, nil)}, nil
}

// boot starts a VM on its host, or on a host that it chooses, and implements its networks. It reports whether a host
// was found.
func (st *state) boot(v *vm, now time.Time) bool {
	if v.host == nil {
		h, ok := st.placeVM(v)
		if !ok {
			return false
		}
		v.host = h
	}
	v.state, v.updated, v.unplaced = vmRunning, now, false
	delete(v.details, deployFlag)
	for _, n := range v.nics {
		st.implement(n.network, now)
		n.prepared = true
	}
	return true
}

// failStart sets the state of a VM whose start failed.
func (v *vm) failStart(state string, now time.Time) {
	if v.state != vmStarting && v.state != vmStopped {
		return
	}
	v.state, v.updated, v.host, v.unplaced = state, now, nil, false
	for _, n := range v.nics {
		n.prepared = false
	}
}

func stopVirtualMachine(c *call) (*jobSpec, error) {
	v, err := c.targetVM()
	if err != nil {
		return nil, err
	}
	spec := c.powerJob(v, func(now time.Time) (any, error) {
		switch v.state {
		case vmRunning, vmStopping, vmStarting, vmUnknown, vmShutdown:
			v.stopped(now)
		case vmStopped, vmDestroyed, vmExpunging, vmError: // nothing to stop
		default:
			return nil, errf(codeInternal, csGeneric, "Failed to stop vm")
		}
		return vmAnswer{c.viewVM(v, nil)}, nil
	})
	spec.begin = v.stopping
	spec.undo = func() {
		if v.state == vmStopping {
			v.state = vmRunning
		}
	}
	return spec, nil
}

func rebootVirtualMachine(c *call) (*jobSpec, error) {
	v, err := c.targetVM()
	if err != nil {
		return nil, err
	}
	running := v.state == vmRunning
	return c.powerJob(v, func(now time.Time) (any, error) {
		switch {
		case !running:
			return nil, invalid("The VM %s (%s) is not running, unable to reboot it", v.uuid, v.display)
		case c.boolean("bootintosetup"):
			return nil, invalid("Booting into a hardware setup menu is not implemented on %s", v.hypervisor)
		case v.state != vmRunning:
			return nil, errf(codeInternal, csRuntime, "Unable to retrieve host with id null")
		}
		if c.boolean("forced") { // stop and start
			v.keepStats(now)
			v.markStopped()
			v.updated, v.bootKnown = now, false
		}
		return vmAnswer{c.viewVM(v, nil)}, nil
	}), nil
}

// mayExpunge reports whether the caller may expunge and recover VMs.
func (c *call) mayExpunge() bool {
	return !c.caller.account.normal() || c.st.settings.UserExpungeRecover
}

func destroyVirtualMachine(c *call) (*jobSpec, error) {
	v, err := c.targetVM()
	if err != nil {
		return nil, err
	}
	spec := c.powerJob(v, func(now time.Time) (any, error) {
		expunge := c.boolean("expunge")
		switch {
		case expunge && !c.mayExpunge():
			return nil, errf(codeInternal, csRuntime, "Account does not have permission for expunging.")
		case v.removed:
			return nil, invalid("unable to find a virtual machine with id %d", v.id)
		case v.protected:
			return nil, invalid("Instance [id = %s, name = %s] has delete protection enabled and cannot be deleted.", v.uuid, v.name)
		}
		if err := c.st.checkNodeDestroy(v); err != nil {
			return nil, err
		}
		if !v.gone() {
			c.st.destroy(v, now)
		}
		if expunge {
			c.st.expunge(v)
			return success{true}, nil
		}
		return vmAnswer{c.viewVM(v, nil)}, nil
	})
	if !v.protected && (c.mayExpunge() || !c.boolean("expunge")) && c.st.clusterOf(v) == nil {
		spec.begin = v.stopping
	}
	return spec, nil
}

// destroy stops a VM and marks it as destroyed; its addresses stay allocated until it is expunged.
func (st *state) destroy(v *vm, now time.Time) {
	failed := v.state == vmError
	if v.state != vmStopped && !failed {
		v.stopped(now)
	}
	v.state, v.updated, v.host = vmDestroyed, now, nil
	if failed {
		v.state = vmExpunging
	}
	st.leaveRules(v)
}

func recoverVirtualMachine(c *call) (any, error) {
	v, err := c.targetVM()
	if err != nil {
		return nil, err
	}
	if !c.mayExpunge() {
		return nil, errf(codeAccount, csPermission, "Recovering a vm can only be done by an Admin. Or when the allow.user.expunge.recover.vm key is set.")
	}
	if v.state != vmDestroyed {
		return nil, invalid("Vm with id %s is not in the right state", v.uuid)
	}
	if err := c.checkDemand(v.owner, vmDemand(v.offering)); err != nil {
		return nil, err
	}
	v.state, v.updated = vmStopped, c.now
	return vmAnswer{c.viewVM(v, nil)}, nil
}

func expungeVirtualMachine(c *call) (*jobSpec, error) {
	v, err := c.targetVM()
	if err != nil {
		return nil, err
	}
	return c.powerJob(v, func(time.Time) (any, error) {
		switch {
		case v.removed:
			return success{true}, nil
		case !v.gone() && v.state != vmError:
			return nil, errf(codeInternal, csRuntime, "Please destroy vm with specified vmId before expunge")
		case !c.mayExpunge():
			return nil, errf(codeInternal, csRuntime, "Expunging a vm can only be done by an Admin. Or when the allow.user.expunge.recover.vm key is set.")
		}
		c.st.expunge(v)
		return success{true}, nil
	}), nil
}

// migrateVirtualMachine moves a running VM to another host; with autoselect, to any other host.
func migrateVirtualMachine(c *call) (*jobSpec, error) {
	v := arg[*vm](c, "virtualmachineid")
	h := arg[*host](c, "hostid")
	switch {
	case v == nil:
		return nil, c.badRef("virtualmachineid", c.str("virtualmachineid"))
	case v.removed:
		return nil, invalid("Unable to find the VM by id=%s", c.str("virtualmachineid"))
	case h != nil && c.given("storageid"):
		return nil, invalid("Only one of hostId and storageId can be specified")
	case h == nil && !c.given("storageid") && !c.boolOr("autoselect", true):
		return nil, invalid("Either hostId or storageId must be specified")
	}
	return c.powerJob(v, func(time.Time) (any, error) {
		switch {
		case c.given("storageid") && v.state != vmStopped:
			return nil, invalid("VM is not Stopped, unable to migrate the vm having the specified id")
		case c.given("storageid"):
			return vmAnswer{c.viewVM(v, nil)}, nil
		case v.state != vmRunning:
			return nil, invalid("VM is not Running, unable to migrate the vm with specified id")
		}
		to := h
		if to == nil {
			to = c.st.otherHost(v)
		}
		switch {
		case to == nil:
			return nil, errf(codeInternal, csRuntime, "Unable to find suitable destination to migrate VM %s", v.uuid)
		case to == v.host:
			return nil, invalid("Cannot migrate VM, VM is already present on this host, please specify valid destination host to migrate the VM")
		case to.zone != v.zone:
			return nil, invalid("Cannot migrate VM, destination host is not in the zone of the VM")
		}
		v.host = to
		return vmAnswer{c.viewVM(v, nil)}, nil
	}), nil
}
