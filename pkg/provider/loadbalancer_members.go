// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/provider/event"
)

const (
	// lbVMAge is how old the list of VMs may be when it holds every node and nothing failed. The node
	// controller keeps it younger than that; what counts is that re-syncs need no list of their own.
	lbVMAge = 10 * time.Minute
	// freshVMAge is the same before a refusal.
	freshVMAge = 5 * time.Second
	// missingPause is how long a node without VM does not make the list be read again.
	missingPause = 30 * time.Second
	// missingAge is how long a node without VM is remembered.
	missingAge = time.Hour
	// inventoryIdle is how long the inventory of a project is kept that nobody asks for. What it holds is too old by
	// then; drift rounds ask for that of every living Service more often.
	inventoryIdle = 15 * time.Minute
	// namedNodes is how many nodes an Event names.
	namedNodes = 5
)

// members finds the nodes' VMs. Nodes without one are named in an Event and do
// not serve; that is no error as long as some node does. complete is false when any is missing. age is how old the list
// of VMs may be.
func (lb *loadBalancer) members(ctx context.Context, svc types.UID, spec annotation.Spec, nodes []*corev1.Node, events event.Service, age time.Duration) (members []plan.Member, complete bool, err error) {
	if len(nodes) == 0 {
		return nil, true, nil
	}
	inv := lb.inventory(spec.Project)
	lb.with(svc, func(s *serviceState) {
		if s.doubtful {
			age = time.Second // CloudStack may have refused a VM that is no longer there
		}
	})
	vms, err := inv.VMs(ctx, age)
	if err != nil {
		return nil, false, err
	}
	members, failed := lb.nodes.match(vms, nodes)
	if len(failed) > 0 && lb.worthAnother(failed, vms) {
		// The list may be older than the node.
		if vms, err = inv.VMs(ctx, time.Second); err != nil {
			return nil, false, err
		}
		members, failed = lb.nodes.match(vms, nodes)
		lb.noteMissing(failed)
	}
	var missing, ambiguous []string
	for _, f := range failed {
		if is[*node.AmbiguousError](f.err) {
			ambiguous = append(ambiguous, f.err.Error())
		} else {
			missing = append(missing, f.err.Error())
		}
	}
	tell := func(reason plan.Reason, problems []string) {
		if len(problems) == 0 {
			return
		}
		slices.Sort(problems)
		more := ""
		if n := len(problems) - namedNodes; n > 0 {
			problems, more = problems[:namedNodes], fmt.Sprintf("; and %d more", n)
		}
		events.Warn(reason, "not serving: "+strings.Join(problems, "; ")+more)
	}
	tell(event.NodeWithoutVM, missing)
	tell(event.AmbiguousNode, ambiguous)
	if spec.Zone != "" {
		if members = inZone(vms, members, spec.Zone); len(members) == 0 {
			return nil, false, &plan.RefusalError{
				Reason: plan.ReasonNoBackends, Message: fmt.Sprintf("none of the %d nodes is in zone %q", len(nodes), spec.Zone), Remedy: "correct " + annotation.Zone,
			}
		}
	}
	if len(members) == 0 {
		// Rather our view of CloudStack is wrong than the whole cluster gone: touch nothing.
		where, remedy := "", "check project-id and zone of the cloud-config and the nodes' names"
		if spec.Project != "" {
			where, remedy = fmt.Sprintf(" in project %q, which annotation %s names", spec.Project, annotation.Project), "correct or remove the annotation"
		}
		return nil, false, &plan.RefusalError{
			Reason:  plan.ReasonNoBackends,
			Message: fmt.Sprintf("none of the %d eligible nodes has a VM%s; the load balancer is left as it is", len(nodes), where),
			Remedy:  remedy,
		}
	}
	return members, len(failed) == 0, nil
}

// find finds the VMs of the chosen nodes, and those that tell in which network the Service is where these cannot.
func (lb *loadBalancer) find(ctx context.Context, svc *corev1.Service, spec annotation.Spec, nodes, chosen []*corev1.Node, events event.Service, age time.Duration) (
	members, reach []plan.Member, complete bool, err error,
) {
	members, complete, err = lb.members(ctx, svc.UID, spec, chosen, events, age)
	if err != nil {
		return nil, nil, false, err
	}
	if len(chosen) == 0 {
		// Nobody serves: the others tell in which network the address will be. A record may be forged, so that it alone does
		// not tell that; where there is one, what else is wrong with the nodes matters only to a sync that needs them.
		recorded := svc.Annotations[annotation.Addresses] != ""
		if recorded {
			events = event.Service{}
		}
		if reach, _, err = lb.members(ctx, svc.UID, spec, nodes, events, age); err != nil && !recorded {
			return nil, nil, false, err
		}
	}
	if vms := lb.inventory(spec.Project).LastVMs(); vms != nil && len(chosen) > 0 && len(chosen) < len(nodes) {
		// Pods that wander must not make the address move to another network.
		all, _ := lb.nodes.match(vms, selected(spec, nodes))
		reach = inZone(vms, all, spec.Zone)
	}
	return members, reach, complete, nil
}

// inZone are the members whose VMs are in the zone of that name or id; all of them for none.
func inZone(vms *inventory.VMSnapshot, members []plan.Member, zone string) []plan.Member {
	return slices.DeleteFunc(members, func(m plan.Member) bool {
		vm, _ := vms.ByID(m.VMID)
		return !inventory.InZone(&vm, zone)
	})
}

// worthAnother reports whether a newer list could know more.
func (lb *loadBalancer) worthAnother(failed []unmatched, vms *inventory.VMSnapshot) bool {
	now := lb.deps.Clock.Now()
	return slices.ContainsFunc(failed, func(f unmatched) bool {
		at, known := lb.missing.Get(f.node.UID)
		found, _ := at.(time.Time)
		return !known || (now.Sub(found) >= missingPause && now.Sub(vms.Taken) >= missingPause)
	})
}

func (lb *loadBalancer) noteMissing(failed []unmatched) {
	for _, f := range failed {
		lb.missing.Set(f.node.UID, lb.deps.Clock.Now(), missingAge)
	}
}

// otherInventory is the inventory of a project that Services name.
type otherInventory struct {
	*inventory.Inventory
	used time.Time
}

// inventory is that of a project by name or id; the configured one for none.
func (lb *loadBalancer) inventory(project string) *inventory.Inventory {
	if project == "" {
		return lb.deps.Inventory
	}
	lb.mu.Lock()
	defer lb.mu.Unlock()
	now := lb.deps.Clock.Now()
	maps.DeleteFunc(lb.others, func(_ string, o *otherInventory) bool { return now.Sub(o.used) > inventoryIdle })
	other, ok := lb.others[project]
	if !ok {
		other = &otherInventory{Inventory: lb.deps.InventoryOf(project)}
		lb.others[project] = other
	}
	other.used = now
	return other.Inventory
}

// inventoryByID is inventory for a resolved project.
func (lb *loadBalancer) inventoryByID(ctx context.Context, project string) *inventory.Inventory {
	if id, err := lb.deps.Inventory.ProjectID(ctx); err == nil && id == project {
		return lb.deps.Inventory
	}
	return lb.inventory(project)
}

func (lb *loadBalancer) network(ctx context.Context, project, id string, maxAge time.Duration) (plan.Network, error) {
	if maxAge == 0 || maxAge > networkAge {
		maxAge = networkAge
	}
	n, err := lb.inventoryByID(ctx, project).Network(ctx, id, maxAge)
	if err != nil {
		return plan.Network{}, err
	}
	return loadbalancer.NetworkOf(&n), nil
}

// vmsOf are the ids of the VMs in a network.
func (lb *loadBalancer) vmsOf(ctx context.Context, project, network string) ([]string, error) {
	vms, err := lb.inventoryByID(ctx, project).VMs(ctx, lbVMAge)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, vm := range vms.All() {
		if slices.ContainsFunc(vm.NICs, func(n cloudstack.NIC) bool { return n.NetworkID == network }) {
			out = append(out, vm.ID)
		}
	}
	return out, nil
}

// status is what the Service shows. A hostname stands in place of the address,
// so that kube-proxy does not take a short cut. With the PROXY protocol the
// mode Proxy says the same of the address.
func status(svc *corev1.Service, spec annotation.Spec, ip string) *corev1.LoadBalancerStatus {
	ingress := corev1.LoadBalancerIngress{Hostname: spec.Hostname}
	if spec.Hostname == "" {
		if ip == "" {
			return &corev1.LoadBalancerStatus{}
		}
		mode := corev1.LoadBalancerIPModeVIP
		if spec.ProxyProtocol.Any() {
			mode = corev1.LoadBalancerIPModeProxy
		}
		ingress.IP, ingress.IPMode = ip, &mode
	}
	for _, p := range svc.Spec.Ports {
		ingress.Ports = append(ingress.Ports, corev1.PortStatus{Port: p.Port, Protocol: cmp.Or(p.Protocol, corev1.ProtocolTCP)})
	}
	return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{ingress}}
}
