// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// Lookup finds VMs of one project, for example in an inventory snapshot.
type Lookup interface {
	// ByID searches all zones: IDs are unique.
	ByID(id string) (cloudstack.VirtualMachine, bool)
	// ByName ignores letter case and searches only the configured zone, if there is one.
	ByName(name string) []cloudstack.VirtualMachine
}

// explainer is a Lookup that helps with error messages.
type explainer interface {
	// Scope describes where the Lookup searches: "project p, zone z (12 VMs)".
	Scope() string
	// Near suggests VMs that do not match a name but are probably meant. Each suggestion is a clause for an error
	// message: "VM w1 of zone-2 is outside of the configured zone".
	Near(name string) []string
}

// NotFoundError means that no VM was found for a Node.
type NotFoundError struct {
	Node  string
	ID    string   // VM ID from the provider ID; empty when searched by name
	Names []string // names that were searched
	Scope string   // where it was searched, see explainer
	// State is the state of a matching VM that is destroyed or expunging; empty when no VM matched at all.
	State cloudstack.VMState
	Near  []string // suggestions, see explainer
}

func (e *NotFoundError) Error() string {
	what := `the name "` + strings.Join(e.Names, `" or "`) + `"`
	if e.ID != "" {
		what = "the id " + e.ID + " (its provider id)"
	}
	where := ""
	if e.Scope != "" {
		where = " in " + e.Scope
	}
	if e.State != "" {
		return fmt.Sprintf("node %q has no VM: the VM with %s%s is %s", e.Node, what, where, e.State)
	}
	near := ""
	if len(e.Near) > 0 {
		near = "; " + strings.Join(e.Near, "; ")
	}
	return fmt.Sprintf("node %q has no VM: no VM with %s%s%s", e.Node, what, where, near)
}

// AmbiguousError means that several VMs have a Node's name.
type AmbiguousError struct {
	Node  string
	Name  string
	Scope string
	VMs   []cloudstack.VirtualMachine
}

func (e *AmbiguousError) Error() string {
	list := make([]string, 0, len(e.VMs))
	for i := range e.VMs {
		vm := &e.VMs[i]
		list = append(list, fmt.Sprintf("%s (id %s, zone %s, %s)", vm.Name, vm.ID, vm.ZoneName, vm.State))
	}
	where := ""
	if e.Scope != "" {
		where = " in " + e.Scope
	}
	return fmt.Sprintf("node %q is ambiguous: %d VMs are named %q%s: %s; rename one, set the zone in the cloud-config, or start the kubelet with --provider-id=%s",
		e.Node, len(e.VMs), e.Name, where, strings.Join(list, ", "), ProviderID(FormUpstream, "VM-ID"))
}

// Match finds a Node's VM. If the provider ID contains a CloudStack ID, only that ID counts: a new VM with the old
// name is not the Node's VM. Otherwise Match searches by name, in the order of Names; the first name with a match
// decides, and two VMs with that name are an error.
//
// Errors are *NotFoundError, *AmbiguousError and *ProviderIDError.
func Match(lookup Lookup, n *corev1.Node) (cloudstack.VirtualMachine, error) {
	id, kind, err := ParseProviderID(n.Spec.ProviderID)
	if err != nil {
		return cloudstack.VirtualMachine{}, fmt.Errorf("node %q: %w", n.Name, err)
	}
	if kind.IsCloudStack() {
		vm, ok := lookup.ByID(id)
		if !ok || Gone(vm.State) {
			return cloudstack.VirtualMachine{}, &NotFoundError{Node: n.Name, ID: id, Scope: scopeOf(lookup), State: vm.State}
		}
		return vm, nil
	}
	return matchByName(lookup, n)
}

func matchByName(lookup Lookup, n *corev1.Node) (cloudstack.VirtualMachine, error) {
	notFound := &NotFoundError{Node: n.Name, Names: Names(n), Scope: scopeOf(lookup)}
	for _, name := range notFound.Names {
		var found []cloudstack.VirtualMachine
		for _, vm := range lookup.ByName(name) {
			// Admins still see destroyed VMs; a new VM may already have the name.
			if Gone(vm.State) {
				notFound.State = vm.State
				continue
			}
			found = append(found, vm)
		}
		switch len(found) {
		case 0:
		case 1:
			return found[0], nil
		default:
			slices.SortFunc(found, func(a, b cloudstack.VirtualMachine) int { return strings.Compare(a.ID, b.ID) })
			return cloudstack.VirtualMachine{}, &AmbiguousError{Node: n.Name, Name: name, Scope: notFound.Scope, VMs: found}
		}
	}
	if l, ok := lookup.(explainer); ok {
		for _, name := range notFound.Names {
			notFound.Near = append(notFound.Near, l.Near(name)...)
		}
	}
	return cloudstack.VirtualMachine{}, notFound
}

// SharedVMError means that a VM found by a Node's name also belongs to, or also matches, another Node.
type SharedVMError struct {
	Node, Other string
	VM          cloudstack.VirtualMachine
}

func (e *SharedVMError) Error() string {
	return fmt.Sprintf("node %q is ambiguous: VM %s (id %s), found by the node's name, fits node %q as well; start the kubelets with --provider-id=%s, or give nodes and VMs names that differ before the first dot",
		e.Node, e.VM.Name, e.VM.ID, e.Other, ProviderID(FormUpstream, "VM-ID"))
}

// Unshared returns a *SharedVMError if another Node has the VM as its provider ID or matches it by name too. It
// matters when the VM was found only by the first label of n's name: web.a and web.b cannot both be the VM web.
func Unshared(vm *cloudstack.VirtualMachine, n *corev1.Node, nodes []*corev1.Node) error {
	if strings.EqualFold(vm.Name, n.Name) {
		return nil // Node names are unique
	}
	id := strings.ToLower(vm.ID)
	for _, other := range nodes {
		if other.Name == n.Name {
			continue
		}
		host, _, _ := strings.Cut(other.Name, ".")
		claims := other.Spec.ProviderID == "" && strings.EqualFold(host, vm.Name)
		if claims || strings.HasSuffix(strings.ToLower(other.Spec.ProviderID), id) {
			return &SharedVMError{Node: n.Name, Other: other.Name, VM: *vm}
		}
	}
	return nil
}

// Names returns the names that a Node's VM may have, in lower case and in order of preference: the Node's name,
// its host name (label, then status), and then the first label of each of these that is an FQDN.
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
		if first, _, fqdn := strings.Cut(s, "."); fqdn && !numeric(first) {
			add(first)
		}
	}
	return names
}

// numeric reports whether s consists of digits, as the first octet of an IPv4 address does, which is not a host name.
func numeric(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// Gone reports whether a VM in this state no longer exists for its cluster.
func Gone(s cloudstack.VMState) bool {
	return s == cloudstack.VMDestroyed || s == cloudstack.VMExpunging
}

// Off reports whether a VM in this state is shut down: it does not run, and its volumes can be detached.
func Off(s cloudstack.VMState) bool {
	return s == cloudstack.VMStopped || s == cloudstack.VMShutdown
}

func scopeOf(l Lookup) string {
	if s, ok := l.(explainer); ok {
		return s.Scope()
	}
	return ""
}
