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
	// inventoryIdle is how long the inventory of a project is kept that nobody asks for. What it holds is too old by
	// then; drift rounds ask for that of every living Service more often.
	inventoryIdle = 15 * time.Minute
	// mostInventories is how many other projects' are kept: whoever may name a project may name many.
	mostInventories = 1000
	// networkAge is how old the description of a network may be: services of an offering hardly change.
	networkAge = 10 * time.Minute
)

// inventory is that of a project by name or id; the configured one for none.
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

// inventoryByID is inventory for a resolved project.
func (c *Controller) inventoryByID(ctx context.Context, id string) *inventory.Inventory {
	if own, err := c.Inventory.ProjectID(ctx); err == nil && own == id {
		return c.Inventory
	}
	return c.inventory(id)
}

func (c *Controller) network(ctx context.Context, project, id string, maxAge time.Duration) (plan.Network, error) {
	n, err := c.inventoryByID(ctx, project).Network(ctx, id, min(cmp.Or(maxAge, networkAge), networkAge))
	if err != nil {
		return plan.Network{}, err
	}
	return loadbalancer.NetworkOf(&n), nil
}

// vmsOf are the ids of the VMs in a network; those of Nodes, wherever they are, for none.
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
