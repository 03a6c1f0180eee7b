// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	cloudnodeutil "k8s.io/cloud-provider/node/helpers"
	"k8s.io/klog/v2"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/evidence"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// InstanceMetadata describes the Node's VM. The framework initialises a Node with it, and asks again every few minutes
// for the addresses.
func (m *Nodes) InstanceMetadata(ctx context.Context, n *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	vm, err := m.own(ctx, n)
	if err != nil {
		return nil, err
	}
	m.events.ended(n.UID, ReasonWithoutVM)
	m.removeUnspecified(ctx, n)
	meta := Metadata(&vm, n, m.Metadata)
	m.warnAddresses(n, &vm, meta.NodeAddresses)
	if kubeletOwnsAddresses(n, &vm) || unchanged(n, meta.NodeAddresses) {
		meta.NodeAddresses = nil
	}
	return meta, nil
}

// removeUnspecified removes the annotation with the kubelet's --node-ip if it holds only unspecified addresses such as
// 0.0.0.0. With it, the framework would look for 0.0.0.0 among the VM's addresses and never initialise the Node. The
// framework retries soon.
func (m *Nodes) removeUnspecified(ctx context.Context, n *corev1.Node) {
	const name = cloudproviderapi.AnnotationAlphaProvidedIPAddr
	value := n.Annotations[name]
	provided := parseIPs(strings.Split(value, ",")...)
	if m.kube == nil || len(provided) == 0 || len(providedIPs(n)) > 0 {
		return
	}
	patch := fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{%q:null}}}`, n.UID, name)
	if _, err := m.kube.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{}); err != nil {
		klog.ErrorS(err, "The annotation of a node's --node-ip that names no address could not be removed", "node",
			n.Name)
	}
}

// own returns the Node's VM, or an error if another Node has it (see Unshared). On an error it also writes an Event on
// the Node.
func (m *Nodes) own(ctx context.Context, n *corev1.Node) (cloudstack.VirtualMachine, error) {
	vm, err := m.find(ctx, n)
	if err == nil {
		nodes, _ := m.List() // n comes from this list
		err = Unshared(&vm, n, nodes)
	}
	if err != nil {
		m.report(n, err)
	}
	return vm, err
}

// kubeletOwnsAddresses reports whether the controller must leave the Node's addresses to the kubelet. A kubelet without
// --cloud-provider=external overwrites addresses that differ from its own. This applies to an adopted Node while its
// addresses are the VM's, and to a Node that joined without the taint and is not initialised, because the VM with its
// name may be another machine.
func kubeletOwnsAddresses(n *corev1.Node, vm *cloudstack.VirtualMachine) bool {
	return KubeletWritesAddresses(n) &&
		(!HasTaint(n) && n.Spec.ProviderID == "" || n.Annotations[AnnotationAdoptedAt] != "" && sameAddresses(vm, n))
}

// unchanged reports whether an initialised Node already has these addresses. The framework patches a Node with several
// addresses of one type in every round; given no addresses, it leaves the Node as it is.
func unchanged(n *corev1.Node, addresses []corev1.NodeAddress) bool {
	if HasTaint(n) {
		return false
	}
	if ip, ok := n.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr]; ok {
		var err error
		if addresses, err = cloudnodeutil.GetNodeAddressesFromNodeIP(ip, addresses); err != nil {
			return false
		}
	}
	return slices.Equal(n.Status.Addresses, addresses)
}

// warnAddresses writes Events about ignored address annotations and about a --node-ip that the VM does not have. The
// framework reports these in its log at most.
func (m *Nodes) warnAddresses(n *corev1.Node, vm *cloudstack.VirtualMachine, addresses []corev1.NodeAddress) {
	if _, err := m.Metadata.Addresses.Of(n, vm); err != nil {
		m.events.warn(n, plan.ReasonInvalidAnnotation, err.Error()+"; it is ignored")
	}
	if ips := UnlistedNodeIPs(n, addresses); len(ips) > 0 {
		var have []string
		for _, a := range addresses {
			if a.Type != corev1.NodeHostName {
				have = append(have, a.Address)
			}
		}
		m.events.warn(n, ReasonIPNotOnVM, fmt.Sprintf(
			"the kubelet was started with --node-ip=%s, which is not among the addresses of VM %s (%s): Kubernetes "+
				"leaves the addresses of the Node as they are, and does not initialise a new Node; correct --node-ip, "+
				"the VM's NICs or --node-internal-cidrs",
			strings.Join(ips, ","), vm.Name, strings.Join(have, ", ")))
	}
}

// find returns the Node's VM, from the shared list where possible.
func (m *Nodes) find(ctx context.Context, n *corev1.Node) (vm cloudstack.VirtualMachine, err error) {
	s, err := m.VMs.VMs(ctx, VMAge)
	if err != nil {
		return vm, fmt.Errorf("node %q: %w", n.Name, err)
	}

	vm, err = Match(s, n)
	missing, ok := errors.AsType[*NotFoundError](err)
	if !ok {
		return vm, err
	}

	// The VM may be newer than the list. Looking up one VM by its ID is cheaper than listing several pages, until as
	// many VMs were looked up as the list has pages.
	if missing.ID != "" && s.Pages() > 1 && s.Added() < s.Pages() {
		vm, found, err := m.VMs.VM(ctx, missing.ID)
		switch {
		case err != nil:
			return vm, fmt.Errorf("node %q: %w", n.Name, err)
		case found && !IsGone(vm.State):
			return bind(s, &vm, n)
		}
		return vm, missing
	}

	if s, err = m.VMs.VMs(ctx, MissAge); err != nil {
		return vm, fmt.Errorf("node %q: %w", n.Name, err)
	}

	return Match(s, n)
}

// InstanceShutdown reports whether the Node's VM is shut down. The framework asks for Nodes that are not ready.
func (m *Nodes) InstanceShutdown(ctx context.Context, n *corev1.Node) (bool, error) {
	vm, err := m.find(ctx, n)
	if err == nil {
		return Off(vm.State), nil
	}
	if n.Spec.ProviderID != "" && !HasVMID(n) && ReasonOf(err) == ReasonWithoutVM {
		return false, nil // another provider's Node
	}
	return false, err
}

// InstanceExists reports whether the Node's VM exists. The framework asks for Nodes that are not ready, every 5 s, and
// deletes the Node at once when the answer is no. The answer is no only when all of this holds:
//
//   - the Node has a CloudStack ID,
//   - a complete list of the project's VMs, in all zones and a few seconds old at most, does not hold it,
//   - the server does not find the VM by its ID either,
//   - not too many Nodes lost their VMs (see guard).
//
// In any other case it returns an error, and the framework keeps the Node.
func (m *Nodes) InstanceExists(ctx context.Context, n *corev1.Node) (bool, error) {
	id, err := ParseProviderID(n.Spec.ProviderID)
	switch {
	case err != nil:
		err = fmt.Errorf("node %q: %w", n.Name, err)
		m.report(n, err)
		return false, err
	case id == "" && n.Spec.ProviderID != "":
		return true, nil // another provider decides
	case id == "":
		if _, err := m.find(ctx, n); err != nil {
			return false, fmt.Errorf("existence cannot be judged without a provider id: %w", err)
		}
		return true, nil
	}

	exists := m.exists(ctx, n, id)
	if err := exists.Err(); err != nil {
		m.report(n, err)
		return false, err
	}

	if exists.Present() || m.outOfService.hold(n) {
		return true, nil
	}

	m.guard.deleting(n)
	klog.InfoS("The VM of a node is gone for good", "node", n.Name, "vm", id, "proof", exists.Proof())
	return false, nil
}

// exists returns what is known about the existence of a Node's VM.
func (m *Nodes) exists(ctx context.Context, n *corev1.Node, id string) evidence.Evidence {
	for _, age := range []time.Duration{VMAge, MissAge} {
		s, err := m.VMs.VMs(ctx, age)
		if err != nil {
			return evidence.Unknown(fmt.Errorf("node %q: %w", n.Name, err))
		}
		if vm, ok := s.ByID(id); ok && !IsGone(vm.State) {
			return evidence.Present()
		}
		// Check the older list first: while deletions stay refused, no new list is requested.
		if err := m.guard.check(s); err != nil {
			return evidence.Unknown(err)
		}
		if age == MissAge && s.Missing(id) {
			return evidence.Absent("CloudStack did not find it by its id a moment ago")
		}
	}

	vm, found, err := m.VMs.VM(ctx, id)
	switch {
	case err != nil:
		return evidence.Unknown(fmt.Errorf("node %q: %w", n.Name, err))
	case !found:
		return evidence.Absent("CloudStack shows it neither in the list of VMs nor by its id")
	case IsGone(vm.State):
		return evidence.Absent("it is " + string(vm.State))
	}
	return evidence.Present()
}

// down returns the state of a Node's VM that is stopped or gone; otherwise it is empty. It needs two proofs: the
// server's answer for the VM's ID, and a complete list that was read after it. A VM that is missing from both is down
// only while the guard allows Nodes to be deleted.
func (m *Nodes) down(ctx context.Context, n *corev1.Node) (state string, err error) {
	id, err := ParseProviderID(n.Spec.ProviderID)
	if err != nil || id == "" {
		return "", err
	}

	vm, found, err := m.VMs.VM(ctx, id)
	if err != nil || found && !Off(vm.State) && !IsGone(vm.State) {
		return "", err
	}

	s, err := m.VMs.VMs(ctx, 0)
	if err != nil {
		return "", err
	}

	listed, ok := s.ByID(id)
	switch {
	case ok && Off(listed.State):
		return string(listed.State), nil
	case ok && !IsGone(listed.State):
		return "", nil
	}
	return "gone", m.guard.check(s)
}

// report writes an Event that says what is wrong with the Node. The framework logs errors of CloudStack; they get no
// Event, which would be repeated on every Node.
func (m *Nodes) report(n *corev1.Node, err error) {
	reason, text := ReasonOf(err), err.Error()
	switch {
	case reason == "":
		return
	case reason == ReasonWithoutVM && !HasTaint(n):
		m.events.warnOnce(n, reason, text+"; until it is found, no load balancer sends traffic to the node")
		return
	case reason == ReasonInvalidProviderID:
		text += "; " + RemedyProviderID
	case reason == ReasonDeletionRefused:
		m.refused.Inc()
	}
	m.events.warn(n, reason, text)
}
