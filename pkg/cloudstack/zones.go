// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import "context"

// ListZones lists the zones the caller may use. Disabled ones are not among them.
func (c *Client) ListZones(ctx context.Context) ([]Zone, error) {
	type zoneJSON struct {
		ID              string `json:"id"`
		Name            string `json:"name"`
		NetworkType     string `json:"networktype"`
		AllocationState string `json:"allocationstate"`
	}
	raw, err := listAll(ctx, c, "listZones", "zone", nil, callOptions{}, func(z *zoneJSON) string { return z.ID })
	if err != nil {
		return nil, err
	}
	return convert(raw, func(z *zoneJSON) Zone {
		return Zone{ID: z.ID, Name: z.Name, NetworkType: z.NetworkType, AllocationState: z.AllocationState}
	}), nil
}

// ListProjects lists the projects the caller belongs to; for admins, all they may see.
func (c *Client) ListProjects(ctx context.Context) ([]Project, error) {
	type projectJSON struct {
		ID       string `json:"id"`
		Name     string `json:"name"`
		State    string `json:"state"`
		DomainID string `json:"domainid"`
	}
	// Without listall an admin sees only projects of the own account; for users it changes nothing.
	f := filter{"listall": "true"}
	raw, err := listAll(ctx, c, "listProjects", "project", f, callOptions{}, func(p *projectJSON) string { return p.ID })
	if err != nil {
		return nil, err
	}
	return convert(raw, func(p *projectJSON) Project { return Project{ID: p.ID, Name: p.Name, State: p.State, DomainID: p.DomainID} }), nil
}
