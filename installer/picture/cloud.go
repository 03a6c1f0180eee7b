// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/csccm/csccm/pkg/cloudstack"
	lbplan "github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/ui/model"
)

var yes = map[bool]string{true: "yes"}

// addresses shows the addresses of Services and those that Services left behind. Others are nobody's business here.
func (b *builder) addresses() {
	users := map[string]map[string]bool{} // ids of Services by id of the address
	use := func(address, service string) {
		if users[address] == nil {
			users[address] = map[string]bool{}
		}
		if service != "" {
			users[address][service] = true
		}
	}
	ids := map[string]string{}
	for i := range b.Addresses {
		a := &b.Addresses[i]
		ids[a.Address] = a.ID
		if uid := a.Tags[lbplan.TagServiceUID]; uid != "" && b.owners[uid] != "" {
			use(a.ID, b.owners[uid])
		}
		if b.orphans[a.ID] != "" {
			use(a.ID, "")
		}
	}
	for i := range b.Rules {
		r := &b.Rules[i]
		if owner := b.owner(r); owner != "" {
			use(r.PublicIPID, owner)
		} else if b.orphanRule(r) != "" {
			use(r.PublicIPID, "")
		}
	}
	for i := range b.Forwards {
		if owner := b.forwardOwner(&b.Forwards[i]); owner != "" {
			use(b.Forwards[i].PublicIPID, owner)
		}
	}
	for _, svc := range b.handled {
		for _, in := range svc.Status.LoadBalancer.Ingress {
			if id := ids[in.IP]; id != "" {
				use(id, serviceID(svc.Namespace+"/"+svc.Name))
			}
		}
	}
	for i := range b.Addresses {
		a := &b.Addresses[i]
		services, shown := users[a.ID]
		if !shown {
			continue
		}
		o := b.add(model.Object{ID: cloudID(model.KindAddress, a.ID), Kind: model.KindAddress, Name: a.Address})
		b.byName["PublicIpAddress "+a.Address] = o.ID
		o.Facts = model.Facts("Address", a.Address, "CloudStack id", a.ID, "State", a.State, "Network", a.AssociatedNetworkID, "VPC", a.VPCID,
			"Acquired", a.Allocated, "Source NAT", yes[a.SourceNAT], "Static NAT", yes[a.StaticNAT],
			"Cluster", a.Tags[lbplan.TagCluster], "Tagged for Service", a.Tags[lbplan.TagService])
		o.Commands = []string{"cmk list publicipaddresses id=" + a.ID}
		switch {
		case b.orphans[a.ID] != "":
			worsen(o, model.HealthOrphan, b.orphans[a.ID])
		case a.State != "" && a.State != "Allocated":
			worsen(o, model.HealthPending, "its state is "+a.State)
		}
		if len(services) > 1 {
			o.Label = "shared by " + english.Plural(len(services), "Service", "")
		}
		b.diagnose(o, "PublicIpAddress "+a.Address)
		for service := range services {
			b.link(service, o.ID, "")
		}
	}
}

// orphanRule is why a rule is an orphan; "" if it is none, as far as is known.
func (b *builder) orphanRule(r *cloudstack.LoadBalancerRule) string {
	if why := b.orphans[r.ID]; why != "" {
		return why
	}
	for _, f := range b.found["LoadBalancerRule "+r.Name] {
		if strings.HasPrefix(f.text, "LB-003") {
			return f.text
		}
	}
	return ""
}

// maxMemberLinks bounds the links of rules to nodes: a thousand rules on a thousand nodes are a million lines that
// nobody can read. Beyond it a rule leads to the network of its members.
const maxMemberLinks = 4000

func (b *builder) rules() {
	all, poolOf, size := 0, map[string]string{}, map[string]int{}
	for _, members := range b.Members {
		all += len(members)
	}
	for i := range b.Nodes {
		poolOf[b.vmOfNode[b.Nodes[i].Name].ID] = pool(&b.Nodes[i])
		size[pool(&b.Nodes[i])]++
	}
	for i := range b.Rules {
		r := &b.Rules[i]
		address := cloudID(model.KindAddress, r.PublicIPID)
		if b.objects[address] == nil {
			continue
		}
		port := portText(r.PublicPort, cmp.Or(r.Protocol, "tcp"))
		o := b.add(model.Object{ID: cloudID(model.KindRule, r.ID), Kind: model.KindRule, Name: model.Ports(fmt.Sprint(r.PublicPort), r.Protocol, fmt.Sprint(r.PrivatePort))})
		b.byName["LoadBalancerRule "+r.Name] = o.ID
		members := b.Members[r.ID]
		owner, count := b.owner(r), ""
		if members != nil {
			count = english.Plural(len(members), "VM", "")
		}
		o.Label = strings.TrimPrefix(owner, "service/")
		if owner == "" {
			o.Label = r.Name
		}
		if from := strings.Join(r.CIDRs, ", "); from != "" && from != "0.0.0.0/0" { // not open to all
			o.Label += " from " + from
		}
		o.Facts = model.Facts("Rule", r.Name, "CloudStack id", r.ID, "Service", strings.TrimPrefix(owner, "service/"), "Public port", port,
			"Node port", fmt.Sprint(r.PrivatePort), "Algorithm", r.Algorithm, "State", r.State, "Source ranges", strings.Join(r.CIDRs, ", "),
			"Network", r.NetworkID, "Members", count, "Cluster", r.Tags[lbplan.TagCluster])
		o.Commands = []string{"cmk list loadbalancerrules id=" + r.ID, "cmk list loadbalancerruleinstances id=" + r.ID}
		change := b.changes[r.ID]
		switch {
		case owner != "" && change != "":
			worsen(o, b.changing(owner), "planned: "+change)
		case owner != "" && r.State != "" && r.State != "Active":
			worsen(o, model.HealthPending, "its state is "+r.State)
		case owner != "":
		case b.orphanRule(r) != "":
			worsen(o, model.HealthOrphan, b.orphanRule(r))
		default:
			worsen(o, model.HealthForeign, "not made for a Service of this cluster")
		}
		if owner != "" {
			o.Group = b.objects[owner].Group
			b.diagnose(o, "LoadBalancerRule "+r.Name)
		}
		b.link(address, o.ID, port)
		if all > maxMemberLinks {
			in := map[string]int{}
			for _, vm := range members {
				in[poolOf[vm]]++
			}
			for name, n := range in {
				if n == size[name] {
					b.link(o.ID, model.GroupID(model.KindNode, name), "")
				} else if r.NetworkID != "" {
					b.link(o.ID, b.network(r.NetworkID).ID, count)
				}
			}
			continue
		}
		for _, vm := range members {
			b.toMachine(o.ID, vm)
		}
	}
}

// toMachine links to the node of a VM, or to the VM if it is no node.
func (b *builder) toMachine(from, vm string) {
	if n := b.nodeOfVM[vm]; n != "" {
		b.link(from, n, "")
		return
	}
	b.usedVMs[vm] = true
	b.link(from, cloudID(model.KindVM, vm), "")
}

// forwards shows port forwarding rules on addresses that are shown.
func (b *builder) forwards() {
	for i := range b.Forwards {
		f := &b.Forwards[i]
		address := cloudID(model.KindAddress, f.PublicIPID)
		if b.objects[address] == nil {
			continue
		}
		ports := fmt.Sprint(f.StartPort)
		if f.EndPort > f.StartPort {
			ports += fmt.Sprintf("-%d", f.EndPort)
		}
		port := ports + "/" + strings.ToLower(f.Protocol)
		o := b.add(model.Object{
			ID: cloudID(model.KindForward, f.ID), Kind: model.KindForward, Name: model.Ports(ports, f.Protocol, fmt.Sprint(f.PrivatePort)), Label: "to " + f.VMName,
			Commands: []string{"cmk list portforwardingrules id=" + f.ID},
		})
		owner := b.forwardOwner(f)
		o.Facts = model.Facts("Port forwarding", port, "CloudStack id", f.ID, "Service", strings.TrimPrefix(owner, "service/"), "Node port", fmt.Sprint(f.PrivatePort),
			"State", f.State, "Source ranges", strings.Join(f.CIDRs, ", "), "VM", f.VMName, "VM id", f.VMID)
		if owner == "" {
			worsen(o, model.HealthForeign, "not made for a Service of this cluster")
		} else if o.Group = b.objects[owner].Group; b.changes[f.ID] != "" {
			worsen(o, b.changing(owner), "planned: "+b.changes[f.ID])
		}
		b.link(address, o.ID, port)
		if f.VMID != "" {
			b.toMachine(o.ID, f.VMID)
		}
	}
}

// changing is the health of what the plan of a Service changes.
func (b *builder) changing(service string) model.Health {
	if p := b.plansOf[strings.TrimPrefix(service, "service/")]; p != nil && (b.objects[service].Health == model.HealthPending || onlyChanges(p)) {
		return model.HealthPending
	}
	return model.HealthWarning
}

// planned shows the rules and port forwardings that the plans would make, where they will be.
func (b *builder) planned() {
	for _, p := range b.Plans {
		service := b.objects[serviceID(p.Service)]
		if service == nil {
			continue
		}
		for i := range p.Actions {
			kind, act := model.KindRule, p.Actions[i].Step
			if act.OnForward() {
				kind = model.KindForward
			}
			if act.Port == 0 || act.ItemID != "" || act.Sign() != lbplan.Creates {
				continue
			}
			ip, port, label := act.IP, act.Port, act.Label()
			o := b.add(model.Object{
				ID: fmt.Sprintf("%s/planned/%s/%s/%d", kind, p.Service, ip, port), Kind: kind, Label: p.Service, Group: service.Group,
				Name:   model.Ports(fmt.Sprint(port), cmp.Or(act.Rule.Protocol, act.Protocol), fmt.Sprint(cmp.Or(act.Rule.PrivatePort, act.PrivatePort))),
				Health: model.HealthPlanned, Why: []string{"not there; planned: " + label}, Commands: []string{b.csccm("plan " + p.Service)},
			})
			b.link(cmp.Or(b.byName["PublicIpAddress "+ip], service.ID), o.ID, "")
		}
	}
}

// machines shows the VMs of nodes, those that rules lead to, and their networks.
func (b *builder) machines() {
	if b.VMs == nil {
		return
	}
	for _, vm := range b.VMs.All() {
		nodeOf := b.nodeOfVM[vm.ID]
		if nodeOf == "" && !b.usedVMs[vm.ID] {
			continue
		}
		o := b.add(model.Object{ID: cloudID(model.KindVM, vm.ID), Kind: model.KindVM, Name: vm.Name, Label: string(vm.State)})
		o.Facts = model.Facts("VM", vm.Name, "CloudStack id", vm.ID, "State", string(vm.State), "Zone", vm.ZoneName, "Offering", vm.ServiceOfferingName,
			"Host", vm.HostName, "Addresses", strings.Join(vmAddresses(&vm), ", "))
		o.Commands = []string{"cmk list virtualmachines id=" + vm.ID}
		if nodeOf != "" {
			o.Group = b.objects[nodeOf].Group
		} else {
			worsen(o, model.HealthForeign, "no node of this cluster")
		}
		switch vm.State {
		case cloudstack.VMRunning, "":
		case cloudstack.VMStarting, cloudstack.VMMigrating:
			worsen(o, model.HealthPending, "its state is "+string(vm.State))
		default:
			worsen(o, model.HealthError, "its state is "+string(vm.State))
		}
		for _, nic := range vm.NICs {
			if nic.NetworkID != "" {
				b.network(nic.NetworkID).Name = cmp.Or(nic.NetworkName, nic.NetworkID)
				b.link(o.ID, cloudID(model.KindNetwork, nic.NetworkID), cmp.Or(nic.IPv4, nic.IPv6))
			}
		}
	}
}

func (b *builder) network(id string) *model.Object {
	o := b.add(model.Object{ID: cloudID(model.KindNetwork, id), Kind: model.KindNetwork, Name: id})
	if o.Facts != nil {
		return o
	}
	o.Facts, o.Commands = model.Facts("CloudStack id", id), []string{"cmk list networks id=" + id}
	if i := slices.IndexFunc(b.Networks, func(n cloudstack.Network) bool { return n.ID == id }); i >= 0 {
		n := &b.Networks[i]
		o.Name, o.Label = cmp.Or(n.Name, id), n.Type
		o.Facts = append(o.Facts, model.Facts("Network", n.Name, "Type", n.Type, "State", n.State, "VPC", n.VPCID, "Offering", n.OfferingName)...)
	}
	return o
}

func vmAddresses(vm *cloudstack.VirtualMachine) []string {
	var out []string
	for _, nic := range vm.NICs {
		for _, a := range append([]string{nic.IPv4, nic.IPv6, nic.PublicIP}, nic.SecondaryIP...) {
			if a != "" && !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	return out
}
