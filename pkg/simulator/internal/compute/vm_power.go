// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/view"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// powerJob returns a job on a VM. Jobs on the same VM run one after the other.
func powerJob(c *wire.Call, v *store.VM, run func(now time.Time) (any, error)) *wire.JobSpec {
	spec := &wire.JobSpec{InstanceType: "VirtualMachine", InstanceID: v.UUID, Subject: v, Run: run}
	if j := c.St.LastJobOn(v); j != nil {
		spec.After = j.Ends.Add(c.Server.Profile().JobTime(c.API.Name))
	}
	return spec
}

// starting returns a function that sets the state that lists show while a start job runs.
func starting(st *store.State, v *store.VM) func(time.Time) {
	return func(now time.Time) {
		if v.State == store.VMStopped {
			v.State, v.Updated = store.VMStarting, now
			v.Host, _ = st.PlaceVM(v)
		}
	}
}

func startVirtualMachine(c *wire.Call) (*wire.JobSpec, error) {
	v, err := targetVM(c)
	if err != nil {
		return nil, err
	}

	// CloudStack makes the first checks when the job starts, which is immediately.
	running := v.State == store.VMRunning
	spec := powerJob(c, v, func(now time.Time) (any, error) {
		switch {
		case running:
			return nil, wire.Invalid("The virtual machine %s (%s) is already running", v.UUID, v.Display)
		case v.Owner.State == store.StateDisabled:
			return nil, wire.Errf(wire.CodeAccount, wire.CSPermission, "The owner of %s is disabled: %d", v.Text(),
				v.Owner.ID)
		}
		return finishStart(c, v, now)
	})

	spec.Begin = starting(c.St, v)
	spec.Undo = func() { v.FailStart(store.VMStopped, c.Server.Clock.Now()) }
	return spec, nil
}

// finishStart completes the start of a VM.
func finishStart(c *wire.Call, v *store.VM, now time.Time) (any, error) {
	switch v.State {
	case store.VMRunning:
	case store.VMStopped, store.VMStarting:
		if !c.St.Boot(v, now) {
			return nil, wire.NoHost(v)
		}
	default:
		return nil, wire.Errf(wire.CodeInternal, wire.CSRuntime,
			`Unable to orchestrate the start of VM instance {"instanceName":"%s","uuid":"%s"}.`, v.InstanceName(),
			v.UUID)
	}
	return wire.Object("virtualmachine", view.ViewVM(c, v, nil)), nil
}

func stopVirtualMachine(c *wire.Call) (*wire.JobSpec, error) {
	v, err := targetVM(c)
	if err != nil {
		return nil, err
	}

	spec := powerJob(c, v, func(now time.Time) (any, error) {
		switch v.State {
		case store.VMRunning, store.VMStopping, store.VMStarting, store.VMUnknown, store.VMShutdown:
			v.Stopped(now)
		case store.VMStopped, store.VMDestroyed, store.VMExpunging, store.VMError: // nothing to stop
		default:
			return nil, wire.Errf(wire.CodeInternal, wire.CSGeneric, "Failed to stop vm")
		}
		return wire.Object("virtualmachine", view.ViewVM(c, v, nil)), nil
	})

	spec.Begin = v.Stopping
	spec.Undo = func() {
		if v.State == store.VMStopping {
			v.State = store.VMRunning
		}
	}

	return spec, nil
}

func rebootVirtualMachine(c *wire.Call) (*wire.JobSpec, error) {
	v, err := targetVM(c)
	if err != nil {
		return nil, err
	}

	running := v.State == store.VMRunning
	return powerJob(c, v, func(now time.Time) (any, error) {
		switch {
		case !running:
			return nil, wire.Invalid("The VM %s (%s) is not running, unable to reboot it", v.UUID, v.Display)
		case v.State != store.VMRunning:
			return nil, wire.Errf(wire.CodeInternal, wire.CSRuntime, "Unable to retrieve host with id null")
		}
		if c.Boolean("forced") { // stop and start
			v.SaveStats(now)
			v.MarkStopped()
			v.Updated, v.BootKnown = now, false
		}
		return wire.Object("virtualmachine", view.ViewVM(c, v, nil)), nil
	}), nil
}

// mayExpunge reports whether the caller may expunge and recover VMs.
func mayExpunge(c *wire.Call) bool {
	return !c.Caller.Account.Normal() || c.St.BoolSetting("allow.user.expunge.recover.vm")
}

func destroyVirtualMachine(c *wire.Call) (*wire.JobSpec, error) {
	v, err := targetVM(c)
	if err != nil {
		return nil, err
	}

	spec := powerJob(c, v, func(now time.Time) (any, error) {
		expunge := c.Boolean("expunge")
		switch {
		case expunge && !mayExpunge(c):
			return nil, wire.Errf(wire.CodeInternal, wire.CSRuntime, "Account does not have permission for expunging.")
		case v.Removed:
			return nil, wire.Invalid("unable to find a virtual machine with id %d", v.ID)
		}
		if err := checkNodeDestroy(c.St, v); err != nil {
			return nil, err
		}
		if !v.Gone() {
			c.St.Destroy(v, now)
		}
		if expunge {
			c.St.Expunge(v)
			return wire.Success{Success: true}, nil
		}
		return wire.Object("virtualmachine", view.ViewVM(c, v, nil)), nil
	})

	if (mayExpunge(c) || !c.Boolean("expunge")) && c.St.ClusterOf(v) == nil {
		spec.Begin = v.Stopping
	}

	return spec, nil
}

func expungeVirtualMachine(c *wire.Call) (*wire.JobSpec, error) {
	v, err := targetVM(c)
	if err != nil {
		return nil, err
	}

	return powerJob(c, v, func(time.Time) (any, error) {
		switch {
		case v.Removed:
			return wire.Success{Success: true}, nil
		case !v.Gone() && v.State != store.VMError:
			return nil, wire.Errf(wire.CodeInternal, wire.CSRuntime,
				"Please destroy vm with specified vmId before expunge")
		case !mayExpunge(c):
			return nil, wire.Errf(wire.CodeInternal, wire.CSRuntime,
				"Expunging a vm can only be done by an Admin. Or when the allow.user.expunge.recover.vm key is set.")
		}
		c.St.Expunge(v)
		return wire.Success{Success: true}, nil
	}), nil
}

// checkNodeDestroy refuses to destroy a single node of a CloudManaged cluster.
func checkNodeDestroy(st *store.State, v *store.VM) error {
	k := st.ClusterOf(v)
	if k == nil {
		return nil
	}
	return wire.Errf(wire.CodeInternal, wire.CSRuntime,
		"Instance is a part of a Kubernetes cluster: %s. Use Instance delete option from Kubernetes cluster details "+
			"or scale API for Kubernetes clusters with 'nodeids' to destroy the instance.", k.Name)
}

// targetVM returns the VM of a command, if the caller has access to it.
func targetVM(c *wire.Call) (*store.VM, error) {
	v := wire.Arg[*store.VM](c, "id")
	if v == nil {
		return nil, c.BadRef("id", c.Str("id"))
	}
	if !c.Access(v.Owner) {
		return nil, wire.Denied()
	}
	if v.Removed {
		return nil, wire.Invalid("Unable to find a virtual machine with id %s", v.UUID)
	}
	return v, nil
}
