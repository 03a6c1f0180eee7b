// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simpage

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/pkg/ui/model"
)

// state is what the page knows of the simulator at one moment.
type state struct {
	now     time.Time
	objects simulator.Objects
	calls   []simulator.Call // newest first: those of the last minute, and enough for the time line
	armed   []simulator.ArmedFault
	own     map[string]int
	speed   float64
}

// manyMembers is the number of members from which a rule for all VMs of an owner gets one link instead of a link to
// each VM.
const manyMembers = 20

// snapshot returns what the page shows. It has no side effects.
func snapshot(s state) model.Snapshot {
	m := &mapping{ids: map[string]string{}, vms: map[string]*simulator.VMInfo{}, owned: map[string]int{}}
	for i := range s.objects.VMs {
		vm := &s.objects.VMs[i]
		m.vms[vm.ID] = vm
		m.owned[vm.Owner]++
	}

	for i := range s.objects.Networks {
		m.network(&s.objects.Networks[i])
	}

	for i := range s.objects.VMs {
		m.vm(&s.objects.VMs[i])
	}

	for i := range s.objects.Addresses {
		m.address(&s.objects.Addresses[i])
	}

	for i := range s.objects.Rules {
		m.rule(&s.objects.Rules[i])
	}

	for i := range s.objects.Forwards {
		m.forward(&s.objects.Forwards[i])
	}

	title := "Simulated CloudStack " + s.objects.Version
	if s.speed != 1 {
		title += fmt.Sprintf(", at %g of its speed", s.speed)
	}

	return model.Snapshot{
		SchemaVersion: model.SchemaVersion,
		At:            s.now.UTC(),
		Title:         title,
		Objects:       m.objects,
		Links:         m.linked(),
		Timeline:      timeline(s.calls, m.ids),
		Calls:         perMinute(s.calls, s.now),
		Faults:        faults(s.armed, s.own),
		Speed:         s.speed,
		Views:         []string{"timeline"},
	}.Sorted()
}

// mapping collects objects and links.
type mapping struct {
	ids     map[string]string // the page's object IDs by CloudStack's ids
	vms     map[string]*simulator.VMInfo
	owned   map[string]int // number of VMs by owner
	objects []model.Object
	links   []model.Link
}

// add adds an object of CloudStack.
func (m *mapping) add(id string, o model.Object) {
	o.ID = string(o.Kind) + "/" + id
	o.Deeds = deedsOf(&o)
	m.ids[id], m.objects = o.ID, append(m.objects, o)
}

// link links two objects of CloudStack by their ids. linked drops the link if one of them does not exist.
func (m *mapping) link(from, to, label string, health model.Health) {
	m.links = append(m.links, model.Link{From: from, To: to, Label: label, Health: health})
}

// linked returns the links whose ends exist.
func (m *mapping) linked() (out []model.Link) {
	for _, l := range m.links {
		if l.From, l.To = m.ids[l.From], m.ids[l.To]; l.From != "" && l.To != "" {
			out = append(out, l)
		}
	}
	return out
}

func cmk(command, id string) []string { return []string{"cmk " + command + " listall=true id=" + id} }

func (m *mapping) network(n *simulator.NetworkInfo) {
	o := model.Object{
		Kind: model.KindNetwork, Name: n.Name, Group: n.Owner, Health: model.HealthOK, Label: n.CIDR,
		Facts: model.Facts("id", n.ID, "owner", n.Owner, "type", n.Type, "state", n.State, "CIDR", n.CIDR,
			"offering", n.Offering, "VPC", n.VPC, "ACL list", n.ACL),
		Commands: cmk("list networks", n.ID),
	}
	if n.VPC != "" {
		o.Label += " in VPC " + n.VPC
	}
	if n.State != "Implemented" && n.State != "Setup" {
		o.Health, o.Why = model.HealthPending, []string{"the network is in state " + n.State}
	}
	m.add(n.ID, o)
}

func (m *mapping) vm(vm *simulator.VMInfo) {
	o := model.Object{
		Kind: model.KindVM, Name: vm.Name, Group: vm.Owner,
		Facts: model.Facts("id", vm.ID, "owner", vm.Owner, "state", vm.State, "offering", vm.Offering,
			"template", vm.Template, "zone", vm.Zone, "host", vm.Host, "tags", strings.Join(vm.Tags, ", ")),
		Commands: cmk("list virtualmachines", vm.ID),
	}

	o.Health = vmHealth(vm.State)
	if o.Health != model.HealthOK {
		o.Why = []string{"the VM is in state " + vm.State}
	}

	var addresses []string
	for _, n := range vm.NICs {
		if n.Address != "" {
			addresses = append(addresses, n.Address)
		}
		m.link(vm.ID, n.Network, n.Address, "")
	}

	o.Label = strings.Join(addresses, " ")
	m.add(vm.ID, o)
}

func vmHealth(state string) model.Health {
	switch state {
	case "Running":
		return model.HealthOK
	case "Starting", "Stopping", "Migrating":
		return model.HealthPending
	case "Stopped":
		return model.HealthWarning
	}
	return model.HealthError
}

func (m *mapping) address(a *simulator.AddressInfo) {
	o := model.Object{
		Kind: model.KindAddress, Name: a.Address, Group: a.Owner, Health: model.HealthOK,
		Facts: append(
			model.Facts("id", a.ID, "owner", a.Owner, "state", a.State, "VPC", a.VPC,
				"tags", strings.Join(a.Tags, ", ")),
			model.Facts("firewall", strings.Join(a.Open, "; "))...),
		Commands: cmk("list publicipaddresses", a.ID),
	}

	if a.State != "Allocated" {
		o.Health, o.Why = model.HealthPending, []string{"the address is in state " + a.State}
	}

	switch {
	case a.SourceNAT:
		o.Label = "source NAT"
		m.link(a.ID, a.Network, "source NAT", "")
	case a.StaticNAT != "":
		o.Label = "static NAT"
		m.link(a.ID, a.StaticNAT, "static NAT", "")
	case len(a.Open) > 0:
		o.Label = "open: " + strings.Join(a.Open, "; ")
	}

	m.add(a.ID, o)
}

func (m *mapping) rule(r *simulator.RuleInfo) {
	o := model.Object{
		Kind:   model.KindRule,
		Name:   model.Ports(fmt.Sprint(r.Port), r.Protocol, fmt.Sprint(r.PrivatePort)),
		Group:  r.Owner,
		Health: model.HealthOK,
		Label:  r.Name,
		Facts: model.Facts("Rule", r.Name, "id", r.ID, "owner", r.Owner, "state", r.State, "protocol", r.Protocol,
			"algorithm", r.Algorithm, "sources", cmp.Or(r.Sources, "all"), "internal address", r.Internal,
			"tags", strings.Join(r.Tags, ", ")),
		Commands: cmk("list loadbalancerrules", r.ID),
	}

	m.link(r.Address, r.ID, fmt.Sprint(r.Port), "")
	running := 0
	for _, id := range r.Members {
		if vm := m.vms[id]; vm != nil && vm.State == "Running" {
			running++
		}
	}

	switch {
	case r.State == "Deleting":
		o.Health, o.Why = model.HealthPending, []string{"the rule is being deleted"}
	case len(r.Members) == 0:
		o.Health, o.Why = model.HealthWarning, []string{"the rule has no members, and is not on the router"}
	case running == 0:
		o.Health, o.Why = model.HealthError, []string{"no member runs"}
	case r.State == "Add":
		o.Health, o.Why = model.HealthPending, []string{"the rule is not on the router yet"}
	case running < len(r.Members):
		o.Health, o.Why = model.HealthWarning, []string{fmt.Sprintf("%d of %s run", running,
			english.Plural(len(r.Members), "member", ""))}
	}

	m.add(r.ID, o)
	m.members(r)
}

// members links a rule with its members, or with one group if they are all VMs of an owner.
func (m *mapping) members(r *simulator.RuleInfo) {
	owner := ""
	all := len(r.Members) >= manyMembers
	for i, id := range r.Members {
		vm := m.vms[id]
		all = all && vm != nil && (i == 0 || vm.Owner == owner)
		if vm != nil {
			owner = vm.Owner
		}
	}

	if all && m.owned[owner] == len(r.Members) {
		group := model.GroupID(model.KindVM, owner)
		m.ids[group] = group
		m.link(r.ID, group, fmt.Sprint(r.PrivatePort), "")
		return
	}

	for _, id := range r.Members {
		health := model.Health("")
		if vm := m.vms[id]; vm != nil && vm.State != "Running" {
			health = vmHealth(vm.State)
		}
		m.link(r.ID, id, fmt.Sprint(r.PrivatePort), health)
	}
}

func (m *mapping) forward(f *simulator.ForwardInfo) {
	o := model.Object{
		Kind:   model.KindForward,
		Name:   model.Ports(f.PublicPorts, f.Protocol, f.VMPorts),
		Group:  f.Owner,
		Health: model.HealthOK,
		Label:  "to " + f.Target,
		Facts: model.Facts("id", f.ID, "owner", f.Owner, "state", f.State, "protocol", f.Protocol, "to", f.Target,
			"sources", cmp.Or(strings.Join(f.Sources, ","), "all")),
		Commands: cmk("list portforwardingrules", f.ID),
	}

	if f.State != "Active" {
		o.Health, o.Why = model.HealthPending, []string{"the rule is in state " + f.State}
	}

	if vm := m.vms[f.VM]; f.State == "Active" && (vm == nil || vm.State != "Running") {
		o.Health, o.Why = model.HealthError, []string{"the VM does not run"}
	}

	m.add(f.ID, o)
	m.link(f.Address, f.ID, f.PublicPorts, "")
	m.link(f.ID, f.VM, f.VMPorts, "")
}
