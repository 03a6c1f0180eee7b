// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	lbplan "github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/ui/model"
)

var yes = map[bool]string{true: "yes"}

// addresses adds the addresses of Services, and those that deleted Services left behind. It omits all other addresses.
func (b *builder) addresses() {
	users := map[string]sets.Set[string]{} // ids of Services, by the address's id
	use := func(address, service, key string) {
		if service != "" || b.orphaned(key) {
			users[address] = users[address].Union(sets.New(service).Delete(""))
		}
	}

	ids := map[string]string{}
	for _, a := range b.Addresses {
		ids[a.Address] = a.ID
		use(a.ID, b.owners[a.Tags[lbplan.TagServiceUID]], "PublicIpAddress "+a.Address)
	}

	for _, r := range b.AllRules {
		use(r.PublicIPID, b.owner(&r), "LoadBalancerRule "+r.Name)
	}

	for _, fw := range b.Forwards {
		use(fw.PublicIPID, b.forwardOwner(&fw), "")
	}

	for _, svc := range b.handled {
		for _, ip := range check.Ingress(svc) {
			use(ids[ip], serviceID(svc.Namespace+"/"+svc.Name), "")
		}
	}

	for _, a := range b.Addresses {
		services, shown := users[a.ID]
		if !shown {
			continue
		}

		o := b.add(model.Object{ID: cloudID(model.KindAddress, a.ID), Kind: model.KindAddress, Name: a.Address})
		o.Facts = model.Facts("Address", a.Address, "CloudStack id", a.ID, "State", a.State,
			"Network", a.AssociatedNetworkID, "VPC", a.VPCID,
			"Acquired", a.Allocated, "Source NAT", yes[a.SourceNAT], "Static NAT", yes[a.StaticNAT],
			"Cluster", a.Tags[lbplan.TagCluster], "Tagged for Service", a.Tags[lbplan.TagService])

		o.Commands = []string{"cmk list publicipaddresses id=" + a.ID}
		if a.State != "" && a.State != "Allocated" {
			worsen(o, model.HealthPending, "its state is "+a.State)
		}

		if len(services) > 1 {
			o.Label = "shared by " + report.Count(len(services), "Service")
		}

		b.diagnose(o, "PublicIpAddress "+a.Address)
		for service := range services {
			b.link(service, o.ID, "")
		}
	}
}

// maxMemberLinks limits the links from rules to nodes: a thousand rules on a thousand nodes would be a million lines.
// With more links, a rule is linked to the pools of its members.
const maxMemberLinks = 4000

func (b *builder) rules() {
	all := 0
	for _, members := range b.members {
		all += len(members)
	}

	for _, r := range b.AllRules {
		owner, count, members := b.owner(&r), "", b.members[r.ID]
		if members != nil {
			count = report.Count(len(members), "VM")
		}

		service, port := strings.TrimPrefix(owner, "service/"), portText(r.PublicPort, cmp.Or(r.Protocol, "tcp"))
		o := b.served(owner, r.PublicIPID, r.State, port, model.Object{
			ID:    cloudID(model.KindRule, r.ID),
			Kind:  model.KindRule,
			Name:  model.Ports(fmt.Sprint(r.PublicPort), r.Protocol, fmt.Sprint(r.PrivatePort)),
			Label: cmp.Or(service, r.Name),
			Commands: []string{
				"cmk list loadbalancerrules id=" + r.ID,
				"cmk list loadbalancerruleinstances id=" + r.ID,
			},
		}, r.ID, "LoadBalancerRule "+r.Name)
		if o == nil {
			continue
		}

		if from := strings.Join(r.CIDRs, ", "); from != "" && from != "0.0.0.0/0" { // not open to all
			o.Label += " from " + from
		}

		o.Facts = model.Facts("Rule", r.Name, "CloudStack id", r.ID, "Service", service, "Public port", port,
			"Node port", fmt.Sprint(r.PrivatePort), "Algorithm", r.Algorithm, "State", r.State,
			"Source ranges", strings.Join(r.CIDRs, ", "), "Network", r.NetworkID,
			"Members", count, "Cluster", r.Tags[lbplan.TagCluster])

		pools := map[string]bool{}
		for _, vm := range members {
			if n := b.objects[b.nodeOfVM[vm]]; all <= maxMemberLinks || n == nil {
				b.toMachine(o.ID, vm)
			} else if !pools[n.Group] {
				pools[n.Group] = true
				b.link(o.ID, model.GroupID(model.KindNode, n.Group), "")
			}
		}
	}
}

// toMachine adds a link to the node of a VM, or to the VM if no node runs on it.
func (b *builder) toMachine(from, vm string) {
	if n := b.nodeOfVM[vm]; n != "" {
		b.link(from, n, "")
		return
	}
	b.usedVMs[vm] = true
	b.link(from, cloudID(model.KindVM, vm), "")
}

// forwards adds port forwarding rules on addresses that are shown.
func (b *builder) forwards() {
	for _, f := range b.Forwards {
		ports := fmt.Sprint(f.StartPort)
		if f.EndPort > f.StartPort {
			ports += fmt.Sprintf("-%d", f.EndPort)
		}

		owner, port := b.forwardOwner(&f), ports+"/"+strings.ToLower(f.Protocol)
		o := b.served(owner, f.PublicIPID, f.State, port, model.Object{
			ID:    cloudID(model.KindForward, f.ID),
			Kind:  model.KindForward,
			Name:  model.Ports(ports, f.Protocol, fmt.Sprint(f.PrivatePort)),
			Label: "to " + f.VMName,
			Facts: model.Facts("Port forwarding", port, "CloudStack id", f.ID,
				"Service", strings.TrimPrefix(owner, "service/"), "Node port", fmt.Sprint(f.PrivatePort),
				"State", f.State, "Source ranges", strings.Join(f.CIDRs, ", "), "VM", f.VMName, "VM id", f.VMID),
			Commands: []string{"cmk list portforwardingrules id=" + f.ID},
		}, f.ID, "")
		if o != nil && f.VMID != "" {
			b.toMachine(o.ID, f.VMID)
		}
	}
}

// served adds a rule or port forwarding if its address is shown. key is doctor's name for it.
func (b *builder) served(owner, addressID, state, port string, of model.Object, id, key string) *model.Object {
	address := cloudID(model.KindAddress, addressID)
	if b.objects[address] == nil {
		return nil
	}

	o := b.add(of)
	b.link(address, o.ID, port)
	switch change := b.changes[id]; {
	case owner == "" && !b.orphaned(key):
		worsen(o, model.HealthForeign, "not made for a Service of this cluster")
	case change != "":
		worsen(o, b.changing(owner), "planned: "+change)
	case state != "" && state != "Active":
		worsen(o, model.HealthPending, "its state is "+state)
	}

	if owner != "" {
		o.Group = b.objects[owner].Group
	}

	b.diagnose(o, key)
	return o
}

// changing returns the health of an object that the plan of a Service changes.
func (b *builder) changing(service string) model.Health {
	if p := b.Planned[strings.TrimPrefix(service, "service/")]; p != nil &&
		(b.objects[service].Health == model.HealthPending || onlyChanges(p)) {
		return model.HealthPending
	}
	return model.HealthWarning
}

// ghosts adds the rules and port forwardings that the plans would create.
func (b *builder) ghosts() {
	for _, svc := range b.handled {
		name := rules.Key(svc)
		p := b.Planned[name]
		for i := 0; p != nil && i < len(p.Actions); i++ {
			kind, act := model.KindRule, &p.Actions[i]
			if act.OnForward() {
				kind = model.KindForward
			}
			if act.Port == 0 || act.ItemID != "" || act.Sign() != lbplan.Creates {
				continue
			}

			o := b.add(model.Object{
				ID:    fmt.Sprintf("%s/planned/%s/%s/%d", kind, name, act.IP, act.Port),
				Kind:  kind,
				Label: name,
				Group: svc.Namespace,
				Name: model.Ports(fmt.Sprint(act.Port), cmp.Or(act.Rule.Protocol, act.Protocol),
					fmt.Sprint(cmp.Or(act.Rule.PrivatePort, act.PrivatePort))),
				Health:   model.HealthPlanned,
				Why:      []string{"not there; planned: " + act.Label()},
				Commands: []string{b.csccm("plan " + name)},
			})

			b.link(cmp.Or(b.byName["PublicIpAddress "+act.IP], serviceID(name)), o.ID, "")
		}
	}
}

// machines adds the VMs of nodes, other VMs that are members of rules, and their networks.
func (b *builder) machines() {
	if b.VMs == nil {
		return
	}

	for _, vm := range b.VMs.All() {
		nodeOf := b.nodeOfVM[vm.ID]
		if nodeOf == "" && !b.usedVMs[vm.ID] {
			continue
		}

		o := b.add(model.Object{
			ID:    cloudID(model.KindVM, vm.ID),
			Kind:  model.KindVM,
			Name:  vm.Name,
			Label: string(vm.State),
		})

		o.Facts = model.Facts("VM", vm.Name, "CloudStack id", vm.ID, "State", string(vm.State), "Zone", vm.ZoneName,
			"Offering", vm.ServiceOfferingName, "Host", vm.HostName,
			"Addresses", strings.Join(vmAddresses(&vm), ", "))
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
				b.network(&nic)
				b.link(o.ID, cloudID(model.KindNetwork, nic.NetworkID), cmp.Or(nic.IPv4, nic.IPv6))
			}
		}
	}
}

// network adds a network, with the details that were read.
func (b *builder) network(nic *cloudstack.NIC) {
	id, n := nic.NetworkID, cloudstack.Network{}
	if i := slices.IndexFunc(b.Networks, func(n cloudstack.Network) bool { return n.ID == id }); i >= 0 {
		n = b.Networks[i]
	}
	b.add(model.Object{
		ID:       cloudID(model.KindNetwork, id),
		Kind:     model.KindNetwork,
		Name:     cmp.Or(nic.NetworkName, n.Name, id),
		Label:    n.Type,
		Commands: []string{"cmk list networks id=" + id},
		Facts: model.Facts("CloudStack id", id, "Network", n.Name, "Type", n.Type, "State", n.State, "VPC", n.VPCID,
			"Offering", n.OfferingName),
	})
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
