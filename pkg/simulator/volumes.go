// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"strconv"
	"time"
)

// rootSize is the size of a root volume in bytes: that of the template.
const rootSize = 2 * gib

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

// diskOffering is the size of a volume.
type diskOffering struct {
	entity
	name, display string
	gib           int  // 0: the call names the size
	compute       bool // belongs to a service offering: not listed
}

// addRootVolume gives a VM its root volume.
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

// dataVolume is the VM's first data disk; nil if it has none.
func (v *vm) dataVolume() *volume {
	for _, d := range v.volumes {
		if d.typ == volumeData {
			return d
		}
	}
	return nil
}

// state follows that of the VM.
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

// gibibytes turns a number of GiB into bytes; 0 when it is none.
func gibibytes(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 0 {
		return 0
	}
	return n * gib
}

// addDiskOfferings makes those of a fresh installation.
func (st *state) addDiskOfferings(base func(kind, name string) entity) {
	for _, o := range []struct {
		name, display string
		gib           int
	}{{"Small", "Small Disk, 5 GB", 5}, {"Medium", "Medium Disk, 20 GB", 20}, {"Large", "Large Disk, 100 GB", 100}, {"Custom", "Custom Disk", 0}} {
		st.diskOffs.add(&diskOffering{entity: base("diskoffering-data", o.name), name: o.name, display: o.display, gib: o.gib})
	}
}
