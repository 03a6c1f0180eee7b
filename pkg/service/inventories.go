// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"time"

	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer/observe"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

const (
	// inventoryIdle is how long an unused inventory of a project is kept. Drift rounds use the inventory of every
	// existing Service more often than that.
	inventoryIdle = 15 * time.Minute
	// mostInventories limits the number of inventories: a tenant who may set the project annotation can name many
	// projects.
	mostInventories = 1000
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

// locate determines the project with the Service's load balancer.
func (c *Controller) locate(ctx context.Context, w *work) error {
	in := &w.request
	err := in.Locate(ctx, c.Inventory, c.inventory(w.project))
	in.Inventory = c.inventoryByID(ctx, in.Project)
	if err == nil && w.absent {
		in.NodeVMs = c.nodeVMs(ctx, in.Inventory)
	}
	return err
}

// nodeVMs returns the VMs of all Nodes; none if the VMs cannot be listed. Something else then has to prove that a
// project is the right one.
func (c *Controller) nodeVMs(ctx context.Context, inv *inventory.Inventory) []plan.Member {
	vms, err := inv.VMs(ctx, observe.VMAge)
	if err != nil {
		return nil
	}
	nodes, _ := c.Nodes() // none while the cache is not filled
	members, _ := c.members.Match(vms, nodes)
	return members
}
