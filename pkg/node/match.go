// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// Lookup finds VMs of one project: an inventory snapshot, or a test's own list.
type Lookup interface {
	// ByID looks in all zones: an id is unique.
	ByID(id string) (cloudstack.VirtualMachine, bool)
	// ByName compares without case and looks in the configured zone, if there is one.
	ByName(name string) []cloudstack.VirtualMachine
}

// Scoped is a Lookup that can say where it looks, for errors: "project p, zone z (12 VMs)".
type Scoped interface {
	Scope() string
}

// Nearby is a Lookup that knows of VMs which a name does not fit and somebody may have meant, each as a part
// of a sentence: "VM w1 of zone-2 is outside of the configured zone".
type Nearby interface {
	Near(name string) []string
}

// NotFoundError says that a Node has no VM.
type NotFoundError struct {
	Node  string
	ID    string   // searched by provider ID; empty when searched by name
	Names []string // searched by these names
	Scope string   // where
	// State is the state of the only VM found when that VM is destroyed; empty when there was none.
	State cloudstack.VMState
	Near  []string // what else was seen, see Nearby
}

func (e *NotFoundError) Error() string {
	what := "the name " + strings.Join(quoteAll(e.Names), " or ")
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

// AmbiguousError says that several VMs bear a Node's name.
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

// Match finds a Node's VM: by its provider ID when that holds a CloudStack id, and then by nothing else,
// since a new VM of the old name is not the Node's; otherwise by name. Names are tried in the order of
// Names; the first with a match decides, and two VMs of that name are an error.
//
// Errors are *NotFoundError, *AmbiguousError and *ProviderIDError.
func Match(lookup Lookup, n *corev1.Node) (cloudstack.VirtualMachine, error) {
	id, kind, err := ParseProviderID(n.Spec.ProviderID)
	if err != nil {
		return cloudstack.VirtualMachine{}, fmt.Errorf("node %q: %w", n.Name, err)
	}
	if kind.IsCloudStack() {
		vm, ok := lookup.ByID(id)
		if !ok {
			return cloudstack.VirtualMachine{}, &NotFoundError{Node: n.Name, ID: id, Scope: scopeOf(lookup)}
		}
		if Gone(vm.State) {
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
			// Admins still see destroyed VMs; a new VM may bear the name by now.
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
			sort.Slice(found, func(i, j int) bool { return found[i].ID < found[j].ID })
			return cloudstack.VirtualMachine{}, &AmbiguousError{Node: n.Name, Name: name, Scope: notFound.Scope, VMs: found}
		}
	}
	if l, ok := lookup.(Nearby); ok {
		for _, name := range notFound.Names {
			notFound.Near = append(notFound.Near, l.Near(name)...)
		}
	}
	return cloudstack.VirtualMachine{}, notFound
}

// SharedVMError says that a VM found by a Node's name is another Node's.
type SharedVMError struct {
	Node, Other string
	VM          cloudstack.VirtualMachine
}

func (e *SharedVMError) Error() string {
	return fmt.Sprintf("node %q is ambiguous: VM %s (id %s), found by the node's name, fits node %q as well; start the kubelets with --provider-id=%s, or give nodes and VMs names that differ before the first dot",
		e.Node, e.VM.Name, e.VM.ID, e.Other, ProviderID(FormUpstream, "VM-ID"))
}

// Unshared tells that no other Node has or could claim the VM, which was found for n by a part of its name
// alone: web.a and web.b are not both the VM web. The error is a *SharedVMError.
func Unshared(vm *cloudstack.VirtualMachine, n *corev1.Node, nodes []*corev1.Node) error {
	if strings.EqualFold(vm.Name, n.Name) {
		return nil // names of Nodes are unique
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

// Names are the names under which a Node's VM may be known, in lower case and in the order of trust: the
// Node's name, its host name (label, then status), and then the first label of each that is an FQDN.
func Names(n *corev1.Node) []string {
	full := []string{n.Name, n.Labels[corev1.LabelHostname]}
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeHostName {
			full = append(full, a.Address)
		}
	}
	var names []string
	seen := make(map[string]bool, len(full))
	add := func(s string) {
		if s = strings.ToLower(s); s != "" && !seen[s] {
			seen[s] = true
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

// numeric keeps the first octet of an IPv4 address from becoming a name.
func numeric(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// Gone tells whether a VM in this state no longer exists for its cluster.
func Gone(s cloudstack.VMState) bool {
	return s == cloudstack.VMDestroyed || s == cloudstack.VMExpunging
}

// Off tells whether a VM in this state is shut down: nothing of it runs and its volumes can be detached.
func Off(s cloudstack.VMState) bool {
	return s == cloudstack.VMStopped || s == cloudstack.VMShutdown
}

func scopeOf(l Lookup) string {
	if s, ok := l.(Scoped); ok {
		return s.Scope()
	}
	return ""
}

func quoteAll(in []string) []string {
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = fmt.Sprintf("%q", s)
	}
	return out
}
