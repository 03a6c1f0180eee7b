// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"context"
	"time"

	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

const (
	// inventoryIdle is how long an unused inventory of a project is kept. After that its content is too old. Drift
	// rounds use the inventory of every existing Service more often.
	inventoryIdle = 15 * time.Minute
	// mostInventories limits the number of inventories: a tenant who may set the project annotation can name many
	// projects.
	mostInventories = 1000
	// networkAge is the maximum age of the description of a network: the services of an offering rarely change.
	networkAge = 10 * time.Minute
)

// inventory returns the inventory of a project, given by name or id; the configured project if name is empty.
func (c *Controller) inventory(name string) *inventory.Inventory {
	if name == "" {
		return c.Inventory
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known, _ := c.projects.Get(name)
	other, ok := known.(*inventory.Inventory)
	if !ok {
		other = c.InventoryOf(name)
	}
	c.projects.Add(name, other, inventoryIdle)
	return other
}

// inventoryByID is like inventory, for the id of a project.
func (c *Controller) inventoryByID(ctx context.Context, id string) *inventory.Inventory {
	if own, err := c.Inventory.ProjectID(ctx); err == nil && own == id {
		return c.Inventory
	}
	return c.inventory(id)
}

// network returns the description of a network, which is at most maxAge old; zero accepts networkAge.
func (c *Controller) network(ctx context.Context, project, id string, maxAge time.Duration) (plan.Network, error) {
	n, err := c.inventoryByID(ctx, project).Network(ctx, id, min(cmp.Or(maxAge, networkAge), networkAge))
	if err != nil {
		return plan.Network{}, err
	}
	return loadbalancer.NetworkOf(&n), nil
}

// vmsOf returns the ids of the VMs in a network, or those of the Nodes if network is empty.
func (c *Controller) vmsOf(ctx context.Context, project, network string) ([]string, error) {
	vms, err := c.inventoryByID(ctx, project).VMs(ctx, lbVMAge)
	if err != nil {
		return nil, err
	}
	if network != "" {
		return vms.In(network), nil
	}

	var out []string
	nodes, _ := c.Nodes() // none while the cache is not filled
	members, _ := c.members.Match(vms, nodes)
	for i := range members {
		out = append(out, members[i].VMID)
	}
	return out, nil
}
