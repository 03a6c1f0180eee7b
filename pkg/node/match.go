// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
)

// NotFoundError means that no VM was found for a Node.
type NotFoundError struct {
	Node  string
	ID    string   // VM ID from the provider ID; empty when searched by name
	Names []string // names that were searched
	Scope string   // where it was searched
	// State is the state of a matching VM that is destroyed or expunging; empty when no VM matched at all.
	State cloudstack.VMState
	Near  []string // descriptions of VMs that are probably meant
}

func (e *NotFoundError) Error() string {
	what := `the name "` + strings.Join(e.Names, `" or "`) + `"`
	if e.ID != "" {
		what = "the id " + e.ID + " (its provider id)"
	}
	text := fmt.Sprintf("node %q has no VM: no VM with %s in %s", e.Node, what, e.Scope)
	if e.State != "" {
		text = fmt.Sprintf("node %q has no VM: the VM with %s in %s is %s", e.Node, what, e.Scope, e.State)
	}
	return strings.Join(append([]string{text}, e.Near...), "; ")
}

// Match finds a Node's VM. If the provider ID contains a CloudStack ID, only that ID counts: a new VM with the old name
// is not the Node's VM. Otherwise Match searches by name, in the order of Names. The first name that some VM has
// decides, and two VMs with that name are an error.
//
// Each error has a reason, see ReasonOf.
func Match(vms *inventory.VMSnapshot, n *corev1.Node) (cloudstack.VirtualMachine, error) {
	id, err := ParseProviderID(n.Spec.ProviderID)
	if err != nil {
		return cloudstack.VirtualMachine{}, fmt.Errorf("node %q: %w", n.Name, err)
	}

	if id != "" {
		vm, ok := vms.ByID(id)
		if !ok || IsGone(vm.State) {
			missing := &NotFoundError{Node: n.Name, ID: id, Scope: vms.Scope(), State: vm.State}
			for _, other := range vms.ByName(n.Name) {
				if !IsGone(other.State) {
					missing.Near = append(missing.Near, "VM "+other.ID+" has the node's name: if it replaces the old one, "+
						"delete the Node with kubectl and restart its kubelet, which registers it again")
				}
			}
			return cloudstack.VirtualMachine{}, missing
		}
		return bind(vms, &vm, n)
	}

	notFound := &NotFoundError{Node: n.Name, Names: Names(n), Scope: vms.Scope()}
	for _, name := range notFound.Names {
		var found []cloudstack.VirtualMachine
		for _, vm := range vms.ByName(name) {
			// Admins still see destroyed VMs; a new VM may already have the name.
			if IsGone(vm.State) {
				notFound.State = vm.State
				continue
			}
			if vm.ID != "" { // everything else about a VM needs its ID
				found = append(found, vm)
			}
		}

		switch len(found) {
		case 0:
		case 1:
			return bind(vms, &found[0], n)
		default:
			slices.SortFunc(found, func(a, b cloudstack.VirtualMachine) int { return strings.Compare(a.ID, b.ID) })
			var list []string
			for _, vm := range found {
				list = append(list, fmt.Sprintf("%s (id %s, zone %s, %s)", vm.Name, vm.ID, vm.ZoneName, vm.State))
			}
			return cloudstack.VirtualMachine{}, &eventError{ReasonAmbiguousVM, fmt.Errorf(
				"node %q is ambiguous: %d VMs are named %q in %s: %s; rename one, set the zone in the cloud-config, "+
					"or start the kubelet with --provider-id=%s",
				n.Name, len(found), name, notFound.Scope, strings.Join(list, ", "), ProviderID(FormUpstream, "VM-ID"))}
		}
	}

	for _, name := range notFound.Names {
		notFound.Near = append(notFound.Near, vms.Near(name)...)
	}

	return cloudstack.VirtualMachine{}, notFound
}

// bind returns vm if the Node may have it, and an error with ReasonVMRefused otherwise. A kubelet can choose everything
// that identifies a VM except the Node's name. A VM with another name must therefore have the kubelet's addresses, or
// match node-vms. An initialised Node keeps its VM when the VM is renamed.
func bind(vms *inventory.VMSnapshot, vm *cloudstack.VirtualMachine, n *corev1.Node) (cloudstack.VirtualMachine, error) {
	pattern := vms.NodeVMs()
	switch {
	case pattern != "" && !mayBeNode(pattern, vm):
		return cloudstack.VirtualMachine{}, &eventError{ReasonVMRefused, fmt.Errorf(
			"node %q is refused: VM %s (id %s) is not one of the VMs that may be nodes (node-vms = %s in the "+
				"cloud-config)", n.Name, vm.Name, vm.ID, pattern)}
	case named(n, vm), HasVMID(n) && (pattern != "" || !HasTaint(n)), sameAddresses(vm, n):
		return *vm, nil
	}
	return cloudstack.VirtualMachine{}, &eventError{ReasonVMRefused, fmt.Errorf(
		"node %q is refused: only its kubelet says that VM %s (id %s) is its VM, and the VM has neither the node's "+
			"name nor its addresses; give VM and node the same name, start the kubelet with --node-ip, or set "+
			"node-vms in the cloud-config",
		n.Name, vm.Name, vm.ID)}
}

// mayBeNode reports whether a VM matches node-vms of the cloud-config: a pattern of names, or a tag as key=value.
func mayBeNode(pattern string, vm *cloudstack.VirtualMachine) bool {
	if key, value, tag := strings.Cut(pattern, "="); tag {
		has, ok := vm.Tags[strings.TrimSpace(key)]
		return ok && has == strings.TrimSpace(value)
	}
	ok, err := path.Match(strings.ToLower(pattern), strings.ToLower(vm.Name))
	return ok && err == nil
}

// sameAddresses reports whether the kubelet gives at least one address, and all that it gives are the VM's.
func sameAddresses(vm *cloudstack.VirtualMachine, n *corev1.Node) bool {
	ips := append(providedIPs(n), parseIPs(internalIPs(n.Status.Addresses)...)...)
	has, _ := ownAddresses(vm)
	return len(ips) > 0 && !slices.ContainsFunc(ips, func(ip netip.Addr) bool { return !slices.Contains(has, ip) })
}

// older reports whether a Node was created before another one. If two Nodes match one VM, the older Node has it.
func older(a, b *corev1.Node) bool {
	if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
		return c < 0
	}
	return cmp.Or(strings.Compare(string(a.UID), string(b.UID)), strings.Compare(a.Name, b.Name)) < 0
}

func taken(n, by *corev1.Node, vm string) error {
	return &eventError{
		ReasonVMRefused,
		fmt.Errorf("node %q is refused: VM %s belongs to node %q, which is older; if that one is no longer in use, "+
			"delete it with kubectl", n.Name, vm, by.Name),
	}
}

// Unshared returns an error if an older Node has the VM. If VM web fits both Nodes web.a and web.b, and they have no
// provider ID, neither gets it.
func Unshared(vm *cloudstack.VirtualMachine, n *corev1.Node, nodes []*corev1.Node) error {
	for _, other := range nodes {
		id := other.Spec.ProviderID
		byID := len(id) >= len(vm.ID) && strings.EqualFold(id[len(id)-len(vm.ID):], vm.ID)
		if other == n || other.Name == n.Name || !byID && (!named(other, vm) || HasVMID(other)) {
			continue
		}
		switch {
		case !byID && !HasVMID(n) && !strings.EqualFold(vm.Name, n.Name):
			return &eventError{ReasonAmbiguousVM, fmt.Errorf("node %q is ambiguous: VM %s (id %s), found by the "+
				"node's name, matches node %q as well; start the kubelets with --provider-id=%s, or give nodes and VMs "+
				"names that differ before the first dot",
				n.Name, vm.Name, vm.ID, other.Name, ProviderID(FormUpstream, "VM-ID"))}
		case older(other, n):
			return taken(n, other, fmt.Sprintf("%s (id %s)", vm.Name, vm.ID))
		}
	}
	return nil
}

// named reports whether a VM's name is the Node's name, or the part of it before a dot. A kubelet cannot choose its
// Node's name.
func named(n *corev1.Node, vm *cloudstack.VirtualMachine) bool {
	end := len(vm.Name)
	return len(n.Name) >= end && (len(n.Name) == end || n.Name[end] == '.') && strings.EqualFold(n.Name[:end], vm.Name)
}

// Names returns the names that a Node's VM may have, in lower case and in order of preference: the Node's name, its
// host name (label, then status), and then the first label of each of these that is an FQDN.
func Names(n *corev1.Node) []string {
	full := []string{n.Name, n.Labels[corev1.LabelHostname]}
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeHostName {
			full = append(full, a.Address)
		}
	}

	var names []string
	add := func(s string) {
		if s = strings.ToLower(s); s != "" && !slices.Contains(names, s) {
			names = append(names, s)
		}
	}

	for _, s := range full {
		add(s)
	}

	for _, s := range full {
		// The first octet of an IPv4 address is not a host name.
		if first, _, fqdn := strings.Cut(s, "."); fqdn && strings.Trim(first, "0123456789") != "" {
			add(first)
		}
	}

	return names
}

// IsGone reports whether a VM in this state no longer exists for its cluster.
func IsGone(s cloudstack.VMState) bool {
	return s == cloudstack.VMDestroyed || s == cloudstack.VMExpunging
}

// Off reports whether a VM in this state is shut down: it does not run, and its volumes can be detached.
func Off(s cloudstack.VMState) bool {
	return s == cloudstack.VMStopped || s == cloudstack.VMShutdown
}
