// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import "context"

// ListZones lists the zones the caller may use. Disabled ones are not among them.
func (c *Client) ListZones(ctx context.Context) ([]Zone, error) {
	return listAll(ctx, c, "listZones", "zone", nil, func(z *Zone) string { return z.ID })
}

// ListProjects lists the projects the caller belongs to; for admins, all they may see.
func (c *Client) ListProjects(ctx context.Context) ([]Project, error) {
	// Without listall an admin sees only projects of the own account; for users it changes nothing.
	f := filter{"listall": "true"}
	return listAll(ctx, c, "listProjects", "project", f, func(p *Project) string { return p.ID })
}
