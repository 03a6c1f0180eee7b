// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"strconv"
	"time"
)

// rootSize is the size of a template, and thus the default size of a root volume, in bytes.
const rootSize = 2 * gib

// rootBytes returns the size of a root volume in bytes: that in the VM's details, or else that of the template.
func rootBytes(details map[string]string) int64 {
	if n := gibibytes(details["rootdisksize"]); n > 0 {
		return n
	}
	return rootSize
}

const (
	volumeRoot = "ROOT"
	volumeData = "DATADISK"
)

// volume is a disk of a VM.
type volume struct {
	entity
	tagged
	name, typ    string
	vm           *vm
	device       int
	size         int64 // bytes
	diskOffering *diskOffering
}

// diskOffering is a disk offering: the size of volumes.
type diskOffering struct {
	entity
	name, display string
	gib           int  // 0: the call specifies the size
	compute       bool // belongs to a service offering, so it is not listed
}

// addRootVolume creates the root volume of a VM.
func (st *state) addRootVolume(v *vm, e entity) *volume {
	if e.created.IsZero() {
		e.created = v.created
	}
	d := st.volumes.add(&volume{entity: e, name: fmt.Sprintf("ROOT-%d", v.id), typ: volumeRoot, vm: v, size: rootSize})
	v.volumes = append(v.volumes, d)
	return d
}

func (st *state) addDataVolume(v *vm, o *diskOffering, size int, now time.Time) {
	d := st.volumes.add(&volume{
		entity: entity{created: now}, name: fmt.Sprintf("DATA-%d", v.id), typ: volumeData, vm: v, device: len(v.volumes), size: int64(size) * gib, diskOffering: o,
	})
	v.volumes = append(v.volumes, d)
}

// dataVolume returns the VM's first data disk, or nil.
func (v *vm) dataVolume() *volume {
	for _, d := range v.volumes {
		if d.typ == volumeData {
			return d
		}
	}
	return nil
}

// state returns the volume's state, which depends on the VM.
func (d *volume) state() string {
	switch {
	case d.vm.gone():
		return "Destroy"
	case d.vm.unplaced:
		return "Allocated"
	}
	return "Ready"
}

func (d *volume) expunge() {
	d.removed, d.tags = true, nil
}

// gibibytes converts a number of GiB to bytes. It returns 0 if s is not a valid number.
func gibibytes(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 0 {
		return 0
	}
	return n * gib
}

// addDiskOfferings creates the disk offerings of a fresh installation.
func (st *state) addDiskOfferings(base func(kind, name string) entity) {
	for _, o := range []struct {
		name, display string
		gib           int
	}{{"Small", "Small Disk, 5 GB", 5}, {"Medium", "Medium Disk, 20 GB", 20}, {"Large", "Large Disk, 100 GB", 100}, {"Custom", "Custom Disk", 0}} {
		st.diskOffs.add(&diskOffering{entity: base("diskoffering-data", o.name), name: o.name, display: o.display, gib: o.gib})
	}
}
