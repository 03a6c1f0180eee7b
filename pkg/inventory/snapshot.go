// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// pageSize is the server's largest page (default.page.size); it determines the number of calls for a complete list.
const pageSize = 500

// Scope is the project and zone in which VMs are searched.
type Scope struct {
	Project   string // as in the cloud-config: name or ID; empty means the account's own VMs
	ProjectID string // resolved from Project
	Zone      string // name or ID; empty means all zones
	NodeVMs   string // as in Options
}

// VMSnapshot is a complete list of the VMs of one project, or of one account, at one time. It is immutable and may
// be shared; callers must not change what its methods return.
type VMSnapshot struct {
	// Taken is when the list was requested.
	Taken time.Time

	scope   Scope
	vms     []cloudstack.VirtualMachine
	byID    map[string]int
	byName  map[string][]int // in scope.Zone only
	inZone  int
	added   int             // VMs that were requested by ID after the list was taken
	missing map[string]bool // IDs that were requested after the list was taken, and not found
}

// NewVMSnapshot returns a snapshot of a complete list.
func NewVMSnapshot(taken time.Time, scope Scope, vms []cloudstack.VirtualMachine) *VMSnapshot {
	s := &VMSnapshot{
		Taken:  taken,
		scope:  scope,
		vms:    vms,
		byID:   make(map[string]int, len(vms)),
		byName: make(map[string][]int, len(vms)),
	}
	for i := range vms {
		s.byID[strings.ToLower(vms[i].ID)] = i
		if InZone(&vms[i], scope.Zone) {
			s.inZone++
			key := strings.ToLower(vms[i].Name)
			s.byName[key] = append(s.byName[key], i)
		}
	}
	return s
}

// with returns a copy of the snapshot with one VM replaced or added.
func (s *VMSnapshot) with(vm cloudstack.VirtualMachine) *VMSnapshot {
	vms := slices.Clone(s.vms)
	if i, ok := s.byID[strings.ToLower(vm.ID)]; ok {
		vms[i] = vm
	} else {
		vms = append(vms, vm)
	}
	n := NewVMSnapshot(s.Taken, s.scope, vms)
	n.added, n.missing = s.added+1, maps.Clone(s.missing)
	delete(n.missing, strings.ToLower(vm.ID))
	return n
}

// without returns a copy of the snapshot which records that the server did not find an ID.
func (s *VMSnapshot) without(id string) *VMSnapshot {
	n := *s
	n.missing = map[string]bool{strings.ToLower(id): true}
	maps.Copy(n.missing, s.missing)
	return &n
}

// Missing reports whether the server was asked for this ID after the list was taken and did not find it. The next
// list starts without such records.
func (s *VMSnapshot) Missing(id string) bool { return s.missing[strings.ToLower(id)] }

// All returns every VM of the project, in all zones.
func (s *VMSnapshot) All() []cloudstack.VirtualMachine { return s.vms }

// NodeVMs returns which VMs may be Nodes, as in Options.
func (s *VMSnapshot) NodeVMs() string { return s.scope.NodeVMs }

// Len returns the number of VMs.
func (s *VMSnapshot) Len() int { return len(s.vms) }

// Pages returns the number of API calls that a new snapshot of this size needs.
func (s *VMSnapshot) Pages() int { return max(1, (len(s.vms)+pageSize-1)/pageSize) }

// Added returns the number of VMs that were requested by ID since the list was taken.
func (s *VMSnapshot) Added() int { return s.added }

// ByID returns the VM with the ID in any zone; it ignores letter case.
func (s *VMSnapshot) ByID(id string) (cloudstack.VirtualMachine, bool) {
	i, ok := s.byID[strings.ToLower(id)]
	if !ok {
		return cloudstack.VirtualMachine{}, false
	}
	return s.vms[i], true
}

// ByName returns the VMs with the host name in the configured zone; it ignores letter case. Display names do
// not count: they are free text and need not be unique.
func (s *VMSnapshot) ByName(name string) []cloudstack.VirtualMachine {
	var out []cloudstack.VirtualMachine
	for _, i := range s.byName[strings.ToLower(name)] {
		out = append(out, s.vms[i])
	}
	return out
}

// maxSuggestions is the maximum number of VMs that Near suggests.
const maxSuggestions = 3

// Near suggests VMs that ByName does not find and that are probably meant by the name: VMs with that name in another
// zone, and VMs that have it only as their display name.
func (s *VMSnapshot) Near(name string) []string {
	var out []string
	for i := range s.vms {
		vm := &s.vms[i]
		inZone := InZone(vm, s.scope.Zone)
		switch {
		case strings.EqualFold(vm.Name, name) && !inZone:
			out = append(out,
				fmt.Sprintf("VM %s (%s) is in zone %s, outside of the configured one", vm.Name, vm.ID, vm.ZoneName))
		case strings.EqualFold(vm.DisplayName, name) && !strings.EqualFold(vm.Name, name) && inZone:
			out = append(out,
				fmt.Sprintf("VM %s (%s) has %s as its display name only, and its host name counts", vm.Name, vm.ID,
					vm.DisplayName))
		}
		if len(out) == maxSuggestions {
			break
		}
	}

	return out
}

// Scope describes, for error messages, the project and zone of the snapshot and its number of VMs.
func (s *VMSnapshot) Scope() string {
	where := s.scope.String()
	if s.scope.Zone == "" || s.inZone == len(s.vms) {
		return fmt.Sprintf("%s (%d VMs)", where, len(s.vms))
	}
	return fmt.Sprintf("%s (%d of %d VMs; zones with VMs: %s)", where, s.inZone, len(s.vms),
		strings.Join(s.zones(), ", "))
}

func (s *VMSnapshot) zones() []string {
	names := map[string]bool{}
	for i := range s.vms {
		names[s.vms[i].ZoneName] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// String returns project and zone as text for messages.
func (s Scope) String() string {
	where := "the API key's own account"
	switch {
	case s.Project != "" && s.ProjectID != "" && s.Project != s.ProjectID:
		where = fmt.Sprintf("project %q (%s)", s.Project, s.ProjectID)
	case s.Project != "":
		where = fmt.Sprintf("project %q", s.Project)
	}
	if s.Zone == "" {
		return where + ", all zones"
	}
	return fmt.Sprintf("%s, zone %q", where, s.Zone)
}

// InZone reports whether a VM is in the zone with that name or ID; an empty zone matches every VM.
func InZone(vm *cloudstack.VirtualMachine, zone string) bool {
	return zone == "" || strings.EqualFold(vm.ZoneName, zone) || strings.EqualFold(vm.ZoneID, zone)
}

// In returns the ids of the VMs that have a NIC in a network.
func (s *VMSnapshot) In(network string) (ids []string) {
	for _, vm := range s.All() {
		if slices.ContainsFunc(vm.NICs, func(n cloudstack.NIC) bool { return n.NetworkID == network }) {
			ids = append(ids, vm.ID)
		}
	}
	return ids
}
