// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"time"

	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer/observe"
)

const (
	// inventoryIdle is how long an unused inventory of a project is kept. Drift rounds use the inventory of every
	// existing Service more often than that.
	inventoryIdle = 15 * time.Minute
	// mostInventories limits the number of inventories: a tenant who may set the project annotation can name many
	// projects.
	mostInventories = 1000
)

// inventory returns the inventory of a project, given by name or id; that of the configured project if name is empty.
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

// locate determines the project with the Service's load balancer.
func (c *Controller) locate(ctx context.Context, w *work) error {
	in := &w.request
	err := in.Locate(ctx, c.Inventory, c.inventory(w.project))
	in.Inventory = c.Inventory
	if in.Project != c.Inventory.KnownProjectID() {
		in.Inventory = c.inventory(in.Project)
	}
	if err == nil && w.absent {
		// If the VMs cannot be listed, something else has to prove that the project is the right one.
		if vms, err := in.Inventory.VMs(ctx, observe.VMAge); err == nil {
			in.NodeVMs, _ = c.members.Match(vms, w.all)
		}
	}
	return err
}
