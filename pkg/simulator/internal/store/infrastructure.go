// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import "fmt"

// SystemVM is a VM of CloudStack itself, with a public address: secondary storage VM or console proxy.
type SystemVM struct {
	UUID, Name, Type string
	Zone             *Zone
}

// AddSystemVMs creates the system VMs of a zone.
func (st *State) AddSystemVMs(z *Zone) {
	for _, v := range []struct{ name, typ string }{{"v-%d-VM", "ConsoleProxy"}, {"s-%d-VM", "SecondaryStorageVm"}} {
		name := fmt.Sprintf(v.name, len(st.SystemVMs)+1)
		st.SystemVMs = append(st.SystemVMs, &SystemVM{UUID: StableID("systemvm", z.Name+name), Name: name, Type: v.typ, Zone: z})
	}
}

// GuestOSID returns the id of a guest operating system.
func GuestOSID(name string) string { return StableID("guestos", name) }
