// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// specOf is what the Service asks for; nil when it does not parse.
func (lb *loadBalancer) specOf(svc *corev1.Service) *annotation.Spec {
	spec, err := annotation.Parse(svc)
	if err != nil {
		return nil
	}
	return &spec
}

// inventory is that of a project by name or id; the configured one for none.
func (lb *loadBalancer) inventory(project string) *inventory.Inventory {
	if project == "" || lb.deps.InventoryOf == nil {
		return lb.deps.Inventory
	}
	lb.mu.Lock()
	defer lb.mu.Unlock()
	other, ok := lb.others[project]
	if !ok {
		lb.pruneLocked()
		other = &otherInventory{Inventory: lb.deps.InventoryOf(project)}
		lb.others[project] = other
	}
	other.used = lb.deps.Clock.Now()
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
	all := vms.All()
	for i := range all {
		if slices.ContainsFunc(all[i].NICs, func(n cloudstack.NIC) bool { return n.NetworkID == network }) {
			out = append(out, all[i].ID)
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
		protocol := p.Protocol
		if protocol == "" {
			protocol = corev1.ProtocolTCP
		}
		ingress.Ports = append(ingress.Ports, corev1.PortStatus{Port: p.Port, Protocol: protocol})
	}
	return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{ingress}}
}
