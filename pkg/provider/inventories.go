// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

const (
	// inventoryIdle is how long the inventory of a project is kept that nobody asks for. What it holds is too old by
	// then; drift rounds ask for that of every living Service more often.
	inventoryIdle = 15 * time.Minute
	// networkAge is how old the description of a network may be: services of an offering hardly change.
	networkAge = 10 * time.Minute
)

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
