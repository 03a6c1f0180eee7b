// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	cloudnodeutil "k8s.io/cloud-provider/node/helpers"
	"k8s.io/klog/v2"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/provider/deletion"
	"github.com/csccm/csccm/pkg/provider/event"
	"github.com/csccm/csccm/pkg/provider/outofservice"
)

// How old a list of VMs may be. All callers share one list for its age: M Nodes cost what one does.
const (
	// vmAge serves what is found in the list.
	vmAge = 30 * time.Second
	// missAge serves what is not found: the VM may be newer than the list. It also is the shortest time
	// between two lists that unknown Nodes can cause.
	missAge = 3 * time.Second
)

// instances implements cloudprovider.InstancesV2.
type instances struct {
	vms      *inventory.Inventory
	metadata node.Options // but for the Node
	nodes    func() ([]*corev1.Node, error)
	guard    *deletion.Guard
	events   func() *event.Nodes // nil before Initialize
	metrics  *nodeMetrics
	holds    atomic.Pointer[outofservice.Controller] // nil where no Node gets the taint
}

var _ cloudprovider.InstancesV2 = (*instances)(nil)

var errNoNodes = errors.New("the list of Nodes is not loaded yet")

// InstanceMetadata describes the Node's VM. The framework initialises a Node with it, and asks again every
// few minutes for the addresses.
func (i *instances) InstanceMetadata(ctx context.Context, n *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	vm, err := i.own(ctx, n)
	if err != nil {
		return nil, err
	}
	i.events().Ended(n.UID, event.NodeWithoutVM)
	o := i.metadata
	o.Node = n
	m, err := node.Metadata(vm, o)
	if err != nil {
		return nil, fmt.Errorf("node %q: %w", n.Name, err)
	}
	i.remark(n, &vm, m)
	if kubeletOwnsAddresses(n) || unchanged(n, m.NodeAddresses) {
		m.NodeAddresses = nil
	}
	return m, nil
}

// own returns the VM that is the Node's and no other Node's. An Event on the Node says what is wrong.
func (i *instances) own(ctx context.Context, n *corev1.Node) (cloudstack.VirtualMachine, error) {
	vm, err := i.find(ctx, n)
	if err == nil {
		err = i.unshared(n, &vm)
	}
	if err != nil {
		i.report(n, err)
	}
	return vm, err
}

// unshared looks for another Node of the VM when it was found by name.
func (i *instances) unshared(n *corev1.Node, vm *cloudstack.VirtualMachine) error {
	if _, kind, err := node.ParseProviderID(n.Spec.ProviderID); err != nil || kind.IsCloudStack() {
		return nil //nolint:nilerr // find has told what is wrong with a provider ID
	}
	nodes, err := i.nodes()
	if err != nil {
		return nil //nolint:nilerr // no Node was found before the list was there
	}
	return node.Unshared(vm, n, nodes)
}

// kubeletOwnsAddresses reports whether the addresses are left to a kubelet that is not external, which would change others
// back: on a Node that was adopted, and on one that joined without the taint and was not initialised. The VM of that name
// is perhaps another machine.
func kubeletOwnsAddresses(n *corev1.Node) bool {
	if !node.KubeletWritesAddresses(n) {
		return false
	}
	return n.Annotations[node.AnnotationAdoptedAt] != "" || !node.HasTaint(n) && n.Spec.ProviderID == ""
}

// unchanged reports whether an initialised Node already has these addresses. The framework takes a Node with
// several addresses of one type for changed in every round, and patches it; without addresses it leaves the
// Node as it is.
func unchanged(n *corev1.Node, addresses []corev1.NodeAddress) bool {
	if node.HasTaint(n) {
		return false
	}
	if ip, told := n.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr]; told {
		var err error
		if addresses, err = cloudnodeutil.GetNodeAddressesFromNodeIP(ip, addresses); err != nil {
			return false
		}
	}
	return slices.Equal(n.Status.Addresses, addresses)
}

// remark writes Events on what the framework, given this description, does not do and does not tell.
func (i *instances) remark(n *corev1.Node, vm *cloudstack.VirtualMachine, m *cloudprovider.InstanceMetadata) {
	e := i.events()
	if _, err := i.metadata.Addresses.Of(n); err != nil {
		e.Warn(n, event.InvalidAnnotation, err.Error()+"; it is as if it were not there")
	}
	if ips := node.UnlistedNodeIPs(n, m.NodeAddresses); len(ips) > 0 {
		var have []string
		for _, a := range m.NodeAddresses {
			if a.Type != corev1.NodeHostName {
				have = append(have, a.Address)
			}
		}
		e.Warn(n, event.NodeIPNotOnVM, fmt.Sprintf(
			"the kubelet was started with --node-ip=%s, which is not among the addresses of VM %s (%s): Kubernetes does not take over any address of the node, and does not initialise a new one; correct --node-ip, the VM's NICs or --node-internal-cidrs",
			strings.Join(ips, ","), vm.Name, strings.Join(have, ", ")))
	}
}

// find returns the Node's VM, from the shared list where possible.
func (i *instances) find(ctx context.Context, n *corev1.Node) (cloudstack.VirtualMachine, error) {
	s, err := i.vms.VMs(ctx, vmAge)
	if err != nil {
		return cloudstack.VirtualMachine{}, fmt.Errorf("node %q: %w", n.Name, err)
	}
	vm, err := node.Match(s, n)
	missing, ok := errors.AsType[*node.NotFoundError](err)
	if !ok {
		return vm, err
	}
	// The VM may be newer than the list. One VM by its id is cheaper than a list of several pages, unless
	// so many are asked for that the list would have been cheaper.
	if missing.ID != "" && s.Pages() > 1 && s.Added() < s.Pages() {
		vm, found, err := i.vms.VM(ctx, missing.ID)
		if err != nil {
			return vm, fmt.Errorf("node %q: %w", n.Name, err)
		}
		if found && !node.Gone(vm.State) {
			return vm, nil
		}
		return vm, missing
	}
	if s, err = i.vms.VMs(ctx, missAge); err != nil {
		return cloudstack.VirtualMachine{}, fmt.Errorf("node %q: %w", n.Name, err)
	}
	return node.Match(s, n)
}

// InstanceShutdown reports whether the Node's VM is shut down. The framework asks for Nodes that are not ready.
func (i *instances) InstanceShutdown(ctx context.Context, n *corev1.Node) (bool, error) {
	vm, err := i.find(ctx, n)
	if err == nil {
		return node.Off(vm.State), nil
	}
	if _, kind, idErr := node.ParseProviderID(n.Spec.ProviderID); idErr == nil && foreign(kind) && is[*node.NotFoundError](err) {
		return false, nil // another provider's Node
	}
	return false, err
}

// InstanceExists reports whether the Node's VM exists. The framework asks for Nodes that are not ready, every
// 5 s, and deletes the Node at once when the answer is no. So the answer is no only when all of this holds:
//
//   - the Node has a CloudStack ID,
//   - a complete list of the project's VMs, in all zones and a few seconds old at most, does not hold it,
//   - the server, asked for the id alone, does not show it either,
//   - not too many Nodes lost their VMs (see deletion.Guard).
//
// Whatever else is in doubt is an error, which leaves the Node alone.
func (i *instances) InstanceExists(ctx context.Context, n *corev1.Node) (bool, error) {
	id, kind, err := node.ParseProviderID(n.Spec.ProviderID)
	switch {
	case err != nil:
		err = fmt.Errorf("node %q: %w", n.Name, err)
		i.report(n, err)
		return false, err
	case foreign(kind):
		return true, nil // not ours to judge
	case !kind.IsCloudStack():
		if _, err := i.find(ctx, n); err != nil {
			return false, fmt.Errorf("existence cannot be judged without a provider id: %w", err)
		}
		return true, nil
	}
	exists, err := i.existsByID(ctx, n, id)
	if err != nil {
		i.report(n, err)
		return false, err
	}
	if c := i.holds.Load(); !exists && c != nil && c.Holds(n) {
		return true, nil
	}
	if !exists {
		i.guard.Deleting(n)
		klog.InfoS("The VM of a node is gone for good", "node", n.Name, "vm", id)
	}
	return exists, nil
}

func (i *instances) existsByID(ctx context.Context, n *corev1.Node, id string) (bool, error) {
	for _, age := range []time.Duration{vmAge, missAge} {
		s, err := i.vms.VMs(ctx, age)
		if err != nil {
			return false, fmt.Errorf("node %q: %w", n.Name, err)
		}
		if vm, ok := s.ByID(id); ok && !node.Gone(vm.State) {
			return true, nil
		}
		// Asked first with the older list, a standing refusal costs no call.
		if err := i.guard.Check(s, i.nodes); err != nil {
			return false, err
		}
		if age == missAge && s.Lacks(id) {
			return false, nil // the server was asked for it a moment ago
		}
	}
	vm, found, err := i.vms.VM(ctx, id)
	if err != nil {
		return false, fmt.Errorf("node %q: %w", n.Name, err)
	}
	return found && !node.Gone(vm.State), nil
}

// down reports whether the Node's VM is stopped or gone by two proofs: the server's answer for its id, and a complete list
// that was read after it. A VM that is missing from both counts only while the guard lets Nodes be deleted.
func (i *instances) down(ctx context.Context, n *corev1.Node) (state string, down bool, err error) {
	id, kind, err := node.ParseProviderID(n.Spec.ProviderID)
	if err != nil || !kind.IsCloudStack() {
		return "", false, err
	}
	vm, found, err := i.vms.VM(ctx, id)
	if err != nil || found && !node.Off(vm.State) && !node.Gone(vm.State) {
		return "", false, err
	}
	s, err := i.vms.VMs(ctx, 0)
	if err != nil {
		return "", false, err
	}
	listed, ok := s.ByID(id)
	switch {
	case ok && node.Off(listed.State):
		return string(listed.State), true, nil
	case ok && !node.Gone(listed.State):
		return "", false, nil
	}
	if err := i.guard.Check(s, i.nodes); err != nil {
		return "", false, err
	}
	return "gone", true, nil
}

// running reports whether the Node's VM runs.
func (i *instances) running(ctx context.Context, n *corev1.Node) (bool, error) {
	vm, err := i.find(ctx, n)
	return err == nil && vm.State == cloudstack.VMRunning, err
}

func foreign(k node.Kind) bool { return k != node.KindNone && !k.IsCloudStack() }

// report writes an Event that says what is wrong with the Node. What is wrong with CloudStack, the framework's
// log says; there is no need to write it on every Node.
func (i *instances) report(n *corev1.Node, err error) {
	var reason plan.Reason
	switch {
	case is[*node.NotFoundError](err):
		reason = event.NodeWithoutVM
	case is[*node.AmbiguousError](err), is[*node.SharedVMError](err):
		reason = event.AmbiguousVM
	case is[*node.ProviderIDError](err):
		reason = event.InvalidProviderID
	case is[*deletion.RefusedError](err):
		reason = event.NodeDeletionRefused
		i.metrics.deletionsRefused.Inc()
	default:
		return
	}
	if reason == event.NodeWithoutVM && !node.HasTaint(n) {
		i.events().WarnOnce(n, reason, err.Error()+"; the node is behind no load balancer while that lasts")
		return
	}
	i.events().Warn(n, reason, err.Error())
}

// is reports whether an error, or one that it wraps, is of a type.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// nodeMetrics say what the node half does and sees.
type nodeMetrics struct {
	outOfService     *outofservice.Metrics
	deletionsRefused prometheus.Counter
	deletionsBlocked prometheus.GaugeFunc
	withoutVM        prometheus.GaugeFunc
}

func newNodeMetrics(p *Provider) *nodeMetrics {
	return &nodeMetrics{
		outOfService: outofservice.NewMetrics(),
		deletionsRefused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "cloudstack_node_deletions_refused_total",
			Help: "Number of times a Node was not deleted because too many Nodes had lost their VMs at once.",
		}),
		deletionsBlocked: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "cloudstack_node_deletions_blocked",
			Help: "1 while Nodes are not deleted because too many have lost their VMs at once: look at the credentials and the project.",
		}, func() float64 {
			if p.instances.guard.Blocked() {
				return 1
			}
			return 0
		}),
		withoutVM: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "cloudstack_nodes_without_vm",
			Help: "Number of Nodes with a CloudStack provider ID whose VM is not in the last complete list of VMs.",
		}, p.nodesWithoutVM),
	}
}

// nodesWithoutVM counts from what is known already: a scrape makes no call.
func (p *Provider) nodesWithoutVM() float64 {
	s := p.inventory.LastVMs()
	nodes, err := p.instances.nodes()
	if s == nil || err != nil {
		return 0
	}
	missing, _ := deletion.WithoutVM(s, nodes)
	return float64(len(missing))
}

func (m *nodeMetrics) all() []prometheus.Collector {
	return append(m.outOfService.All(), m.deletionsRefused, m.deletionsBlocked, m.withoutVM)
}
