// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"strconv"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/settings"
)

// RootSize is the size of a template, and thus the default size of a root volume, in bytes.
const RootSize = 2 * settings.Gib

// RootBytes returns the size of a root volume in bytes: that in the VM's details, or else that of the template.
func RootBytes(details map[string]string) int64 {
	if n := Gibibytes(details["rootdisksize"]); n > 0 {
		return n
	}
	return RootSize
}

// Types of volumes.
const (
	VolumeRoot = "ROOT"
	volumeData = "DATADISK"
)

// Volume is a disk of a VM.
type Volume struct {
	Entity
	Tagged
	Name, Typ    string
	VM           *VM
	Device       int
	Size         int64 // bytes
	DiskOffering *DiskOffering
}

// DiskOffering is a disk offering: the size of volumes.
type DiskOffering struct {
	Entity
	Name, Display string
	Gib           int  // 0: the call specifies the size
	Compute       bool // belongs to a service offering, so it is not listed
}

// AddRootVolume creates the root volume of a VM.
func (st *State) AddRootVolume(v *VM, e Entity) *Volume {
	if e.Created.IsZero() {
		e.Created = v.Created
	}
	d := st.Volumes.Add(&Volume{Entity: e, Name: fmt.Sprintf("ROOT-%d", v.ID), Typ: VolumeRoot, VM: v, Size: RootSize})
	v.Volumes = append(v.Volumes, d)
	return d
}

// AddDataVolume adds the data disk of a new VM.
func (st *State) AddDataVolume(v *VM, o *DiskOffering, size int, now time.Time) {
	d := st.Volumes.Add(&Volume{
		Entity: Entity{Created: now}, Name: fmt.Sprintf("DATA-%d", v.ID), Typ: volumeData, VM: v, Device: len(v.Volumes), Size: int64(size) * settings.Gib, DiskOffering: o,
	})
	v.Volumes = append(v.Volumes, d)
}

// DataVolume returns the VM's first data disk, or nil.
func (v *VM) DataVolume() *Volume {
	for _, d := range v.Volumes {
		if d.Typ == volumeData {
			return d
		}
	}
	return nil
}

// State returns the volume's state, which depends on the VM.
func (d *Volume) State() string {
	switch {
	case d.VM.Gone():
		return "Destroy"
	case d.VM.Unplaced:
		return "Allocated"
	}
	return "Ready"
}

func (d *Volume) expunge() {
	d.Removed, d.Tags = true, nil
}

// Gibibytes converts a number of GiB to bytes. It returns 0 if s is not a valid number.
func Gibibytes(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 0 {
		return 0
	}
	return n * settings.Gib
}
