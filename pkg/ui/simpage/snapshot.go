// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simpage

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/plural"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/pkg/ui/model"
)

// state is what the page knows of the simulator at one moment.
type state struct {
	now     time.Time
	objects simulator.Objects
	calls   []simulator.Call // of the last minute, and enough for the time line; the newest first
	armed   []simulator.ArmedFault
	own     map[string]int
	speed   float64
}

// manyMembers is from how many members on a rule that leads to all VMs of an owner has one link for all of them.
const manyMembers = 20

// snapshot maps the simulator to what the page shows. It is pure.
func snapshot(s state) model.Snapshot {
	m := &mapping{ids: map[string]string{}, vms: map[string]*simulator.VMInfo{}, owned: map[string]int{}}
	for i := range s.objects.VMs {
		vm := &s.objects.VMs[i]
		m.vms[vm.ID] = vm
		m.owned[vm.Owner]++
	}
	m.name(&s.objects)
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
	for i := range m.objects {
		m.objects[i].Deeds = deedsOf(&m.objects[i])
	}
	slices.SortFunc(m.objects, func(a, b model.Object) int { return strings.Compare(a.ID, b.ID) })
	slices.SortFunc(m.links, func(a, b model.Link) int {
		return cmp.Or(strings.Compare(a.From, b.From), strings.Compare(a.To, b.To), strings.Compare(a.Label, b.Label))
	})
	title := "Simulated CloudStack " + s.objects.Version
	if s.speed != 1 {
		title += fmt.Sprintf(", at %g of its speed", s.speed)
	}
	return model.Snapshot{
		SchemaVersion: model.SchemaVersion, At: s.now.UTC(), Title: title, Objects: m.objects, Links: m.links,
		Timeline: timeline(s.calls, m.ids), Calls: perMinute(s.calls, s.now), Faults: faults(s.armed, s.own), Speed: s.speed,
		Views: []string{"timeline"},
	}
}

// mapping collects objects and links.
type mapping struct {
	ids     map[string]string // of the page by those of CloudStack
	vms     map[string]*simulator.VMInfo
	owned   map[string]int // number of VMs by owner
	objects []model.Object
	links   []model.Link
}

// name gives all objects their IDs, so that links can be checked.
func (m *mapping) name(o *simulator.Objects) {
	add := func(kind model.Kind, id string) { m.ids[id] = string(kind) + "/" + id }
	for i := range o.Networks {
		add(model.KindNetwork, o.Networks[i].ID)
	}
	for i := range o.VMs {
		add(model.KindVM, o.VMs[i].ID)
	}
	for i := range o.Addresses {
		add(model.KindAddress, o.Addresses[i].ID)
	}
	for i := range o.Rules {
		add(model.KindRule, o.Rules[i].ID)
	}
	for i := range o.Forwards {
		add(model.KindForward, o.Forwards[i].ID)
	}
}

// link links two objects of CloudStack that both exist.
func (m *mapping) link(from, to, label string, health model.Health) {
	if m.ids[from] != "" && m.ids[to] != "" {
		m.links = append(m.links, model.Link{From: m.ids[from], To: m.ids[to], Label: label, Health: health})
	}
}

// facts builds a list of facts from names and values; empty values are left out.
func facts(pairs ...string) (out []model.Fact) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			out = append(out, model.Fact{Name: pairs[i], Value: pairs[i+1]})
		}
	}
	return out
}

func cmk(command, id string) []string { return []string{"cmk " + command + " listall=true id=" + id} }

func (m *mapping) network(n *simulator.NetworkInfo) {
	o := model.Object{
		ID: m.ids[n.ID], Kind: model.KindNetwork, Name: n.Name, Group: n.Owner, Health: model.HealthOK, Label: n.CIDR,
		Facts:    facts("id", n.ID, "owner", n.Owner, "type", n.Type, "state", n.State, "CIDR", n.CIDR, "offering", n.Offering, "VPC", n.VPC, "ACL list", n.ACL),
		Commands: cmk("list networks", n.ID),
	}
	if n.VPC != "" {
		o.Label += " in VPC " + n.VPC
	}
	if n.State != "Implemented" && n.State != "Setup" {
		o.Health, o.Why = model.HealthPending, []string{"the network is in state " + n.State}
	}
	m.objects = append(m.objects, o)
}

func (m *mapping) vm(vm *simulator.VMInfo) {
	o := model.Object{
		ID: m.ids[vm.ID], Kind: model.KindVM, Name: vm.Name, Group: vm.Owner,
		Facts: facts("id", vm.ID, "owner", vm.Owner, "state", vm.State, "offering", vm.Offering, "template", vm.Template, "zone", vm.Zone,
			"host", vm.Host, "tags", strings.Join(vm.Tags, ", ")),
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
	m.objects = append(m.objects, o)
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
		ID: m.ids[a.ID], Kind: model.KindAddress, Name: a.Address, Group: a.Owner, Health: model.HealthOK,
		Facts: append(facts("id", a.ID, "owner", a.Owner, "state", a.State, "VPC", a.VPC, "tags", strings.Join(a.Tags, ", ")),
			facts("firewall", strings.Join(a.Open, "; "))...),
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
	m.objects = append(m.objects, o)
}

func (m *mapping) rule(r *simulator.RuleInfo) {
	ports := fmt.Sprintf("%d -> %d", r.Port, r.PrivatePort)
	o := model.Object{
		ID: m.ids[r.ID], Kind: model.KindRule, Name: r.Name, Group: r.Owner, Health: model.HealthOK, Label: strings.TrimSpace(ports + " " + r.Protocol),
		Facts: facts("id", r.ID, "owner", r.Owner, "state", r.State, "ports", ports, "protocol", r.Protocol, "algorithm", r.Algorithm,
			"sources", cmp.Or(r.Sources, "all"), "internal address", r.Internal, "tags", strings.Join(r.Tags, ", ")),
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
		o.Health, o.Why = model.HealthWarning, []string{fmt.Sprintf("%d of %s run", running, plural.Count(len(r.Members), "member"))}
	}
	m.objects = append(m.objects, o)
	m.members(r)
}

// members links a rule with its members, or with all VMs of an owner at once.
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
		m.links = append(m.links, model.Link{From: m.ids[r.ID], To: model.GroupID(model.KindVM, owner), Label: fmt.Sprint(r.PrivatePort)})
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
	ports := f.PublicPorts + " -> " + f.VMPorts
	o := model.Object{
		ID: m.ids[f.ID], Kind: model.KindForward, Name: "port " + f.PublicPorts + " " + f.Protocol, Group: f.Owner, Health: model.HealthOK, Label: ports,
		Facts: facts("id", f.ID, "owner", f.Owner, "state", f.State, "ports", ports, "protocol", f.Protocol, "to", f.Target,
			"sources", cmp.Or(strings.Join(f.Sources, ","), "all")),
		Commands: cmk("list portforwardingrules", f.ID),
	}
	if f.State != "Active" {
		o.Health, o.Why = model.HealthPending, []string{"the rule is in state " + f.State}
	}
	if vm := m.vms[f.VM]; f.State == "Active" && (vm == nil || vm.State != "Running") {
		o.Health, o.Why = model.HealthError, []string{"the VM does not run"}
	}
	m.objects = append(m.objects, o)
	m.link(f.Address, f.ID, f.PublicPorts, "")
	m.link(f.ID, f.VM, f.VMPorts, "")
}
